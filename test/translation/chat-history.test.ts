// Conversations that continue at another provider, with fields that the previous provider added.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { bodyOf, grantCredits, type Json, postCall, USD } from "../inference/support/harness.ts";
import { type RawProvider, startRawProvider } from "../inference/support/raw-provider.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

const OK = JSON.stringify({
  id: "x",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
});
const CALL = { id: "c1", type: "function", function: { name: "look", arguments: "{}" } };
const REPLY = {
  role: "assistant",
  content: null,
  reasoning: "hm",
  reasoning_content: "hm",
  reasoning_details: [{ type: "reasoning.text", text: "hm", signature: "s" }],
  tool_calls: [{ ...CALL, extra_content: { google: { thought_signature: "t" } } }],
};
const MESSAGES = [
  { role: "user", content: "look", reasoning_content: "mine" },
  REPLY,
  { role: "tool", tool_call_id: "c1", content: "42" },
];

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;

beforeAll(async () => {
  provider = await startRawProvider(() => ({ body: OK }));
  const env: Record<string, string> = {};
  for (const envPrefix of ["MISTRAL", "GROQ", "CEREBRAS", "DEEPSEEK"]) {
    env[`${envPrefix}_API_KEY`] = "a-key-for-tests";
    env[`${envPrefix}_BASE_URL`] = provider.url;
  }
  gateway = await startGateway({ providers: ["anthropic"], env });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
});
afterAll(async () => {
  await gateway.stop();
  await provider.stop();
});

async function callModel(
  model: string,
  sent: readonly Json[] = MESSAGES,
): Promise<{ messages: unknown; dropped: string | null }> {
  const body = bodyOf("chat", "", { model, messages: sent });
  const response = await postCall(gateway, account, "chat", body);
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const { messages } = JSON.parse(provider.requests.at(-1)?.body ?? "{}") as Json;
  return { messages, dropped: response.headers.get("x-postern-dropped") };
}

for (const [model, keptFields] of [
  ["groq/llama-3.3-70b-versatile", { reasoning: "hm" }],
  ["cerebras/gpt-oss-120b", { reasoning: "hm" }],
  ["mistral/mistral-large-latest", {}],
] as const)
  test(`drops and lists reasoning fields that ${model} rejects`, async () => {
    const { messages, dropped } = await callModel(model);
    const reply = { role: "assistant", content: null, ...keptFields, tool_calls: [CALL] };
    expect(messages).toEqual([MESSAGES[0], reply, MESSAGES[2]]);
    expect(dropped).toContain("messages[1].reasoning_content, messages[1].reasoning_details");
    expect(dropped).toContain("messages[1].tool_calls[0].extra_content");
  });

test("keeps reasoning fields that the provider accepts", async () => {
  const { messages, dropped } = await callModel("deepseek/deepseek-v4-pro");
  expect([messages, dropped]).toEqual([MESSAGES, null]);
});

describe("reasoning in content parts, as Mistral returns it", () => {
  const thinking = { type: "thinking", thinking: [{ type: "text", text: "hm" }] };
  const text = { type: "text", text: "Wait for green." };
  const user = { role: "user", content: "How do I cross the street?" };
  const reply = { role: "assistant", content: [thinking, text] };
  const call = { role: "assistant", content: [thinking], tool_calls: [CALL] };
  const result = { role: "tool", tool_call_id: "c1", content: "42" };
  const empty = { role: "assistant", content: [thinking] };
  const messages = [user, reply, user, call, result, empty, user];

  test("stays at Mistral", async () => {
    const sent = await callModel("mistral/mistral-large-latest", messages);
    expect(sent).toEqual({ messages, dropped: null });
  });

  test("is dropped and listed elsewhere", async () => {
    const { messages: sent, dropped } = await callModel("deepseek/deepseek-v4-pro", messages);
    const kept = [
      { ...reply, content: [text] },
      { ...call, content: null },
    ];
    expect(sent).toEqual([user, kept[0], user, kept[1], result, user]);
    const paths = [1, 3, 5].map((index) => `messages[${index}].content[0]`);
    expect(dropped).toBe(paths.join(", "));
  });
});

test("bounds the x-postern-dropped header for a thousand losses", async () => {
  const turns = Array.from({ length: 1_000 }, (_, index) => [
    { role: "user", content: `turn ${index}` },
    { role: "assistant", content: "so", reasoning_content: "hm" },
  ]).flat();
  const messages = [...turns, { role: "user", content: "now" }];
  const body = bodyOf("chat", "", { model: "anthropic/claude-haiku-4-5", messages });
  const response = await postCall(gateway, account, "chat", body);
  const dropped = response.headers.get("x-postern-dropped") ?? "";
  expect([response.status, dropped.length < 5_000]).toEqual([200, true]);
  expect(dropped).toStartWith("messages[1].reasoning_content, messages[3].reasoning_content");
  expect(dropped).toMatch(/, and \d{3} more$/);
});
