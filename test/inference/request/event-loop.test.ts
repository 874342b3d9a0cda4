// How long the largest accepted bodies hold the event loop: the CPU time of one iteration, compared with the time that the same
// machine takes to parse and write a megabyte of JSON.

import { afterAll, expect, test } from "bun:test";
import { cpuUnitMs } from "../../support/cpu-time.ts";
import { IS_FULL } from "../../support/full.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { grantCredits, USD } from "../support/harness.ts";

const CPU_UNITS_PER_MB = 25;
const BYTES_PER_MB = 1_000_000;
const ATTEMPTS_MAX = 4;

const provider = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  maxRequestBodySize: 64 * 1_048_576,
  fetch: async (request) => {
    await request.arrayBuffer();
    return new Response('{"error":{"message":"too long"}}', { status: 400 });
  },
});
const url = `http://127.0.0.1:${provider.port}`;
const key = "sk-gateway-0123456789abcdef";
const gateway = await startGateway({
  providers: [],
  env: {
    OPENAI_BASE_URL: url,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
  },
});
const account = await registerAccount(gateway);
await grantCredits(gateway, account, USD * 1_000n);
afterAll(async () => {
  await gateway.stop();
  await provider.stop(true);
});

const repeat = (count: number, value: unknown): readonly unknown[] =>
  Array.from({ length: count }, () => value);
const TEXT = { type: "text", text: "hello" };
const DOCUMENT = {
  type: "document",
  source: { type: "text", media_type: "text/plain", data: "a" },
};
const tool = (index: number) => ({
  name: `f${index}`,
  description: "x",
  schema: { type: "object", properties: {} },
});
const TOOLS = Array.from({ length: 4_999 }, (_, index) => tool(index));
const IMAGE = "A".repeat(20_000_000);
const user = (content: unknown) => ({ role: "user", content });

/** Pairs of a call and its result, with the last result first. */
function callsAndResults<Call, Result>(
  count: number,
  call: (id: string) => Call,
  result: (id: string) => Result,
): readonly [calls: readonly Call[], results: readonly Result[]] {
  const ids = Array.from({ length: count }, (_, index) => `call_${index}`);
  return [ids.map(call), ids.toReversed().map(result)];
}
const chatCall = (id: string) => ({
  id,
  type: "function",
  function: { name: "f", arguments: "{}" },
});
const chatResult = (id: string) => ({ role: "tool", tool_call_id: id, content: "a" });
const [CHAT_CALLS, CHAT_RESULTS] = callsAndResults(19_990, chatCall, chatResult);
const [CHAT_TURNS, TURN_RESULTS] = callsAndResults(
  9_990,
  (id) => ({ role: "assistant", tool_calls: [chatCall(id)] }),
  chatResult,
);
const [TOOL_USES, TOOL_RESULTS] = callsAndResults(
  9_990,
  (id) => ({ type: "tool_use", id, name: "f", input: {} }),
  (id) => ({ type: "tool_result", tool_use_id: id, content: "a" }),
);
const [CALL_ITEMS, OUTPUT_ITEMS] = callsAndResults(
  9_990,
  (id) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" }),
  (id) => ({ type: "function_call_output", call_id: id, output: "a" }),
);

const BODIES: readonly (readonly [path: string, kind: string, fields: Record<string, unknown>])[] =
  [
    ["chat/completions", "messages", { messages: repeat(19_999, user("hello")) }],
    ["chat/completions", "parts", { messages: [user(repeat(19_999, TEXT))] }],
    [
      "chat/completions",
      "parallel calls",
      { messages: [user("x"), { role: "assistant", tool_calls: CHAT_CALLS }, ...CHAT_RESULTS] },
    ],
    [
      "chat/completions",
      "calls in messages of their own",
      { messages: [user("x"), ...CHAT_TURNS, ...TURN_RESULTS] },
    ],
    ["chat/completions", "text", { messages: [user("words and ".repeat(2_000_000))] }],
    [
      "chat/completions",
      "image",
      {
        messages: [
          user([{ type: "image_url", image_url: { url: `data:image/png;base64,${IMAGE}` } }]),
        ],
      },
    ],
    [
      "chat/completions",
      "tools",
      {
        messages: [user("x")],
        tools: TOOLS.map(({ name, schema }) => ({
          type: "function",
          function: { name, parameters: schema },
        })),
      },
    ],
    ["chat/completions", "values", { messages: [user("x")], metadata: { a: repeat(490_000, 1) } }],
    ["messages", "messages", { messages: repeat(19_999, user("hello")) }],
    ["messages", "parts", { messages: [user(repeat(19_999, TEXT))] }],
    [
      "messages",
      "parallel calls",
      { messages: [user("x"), { role: "assistant", content: TOOL_USES }, user(TOOL_RESULTS)] },
    ],
    ["messages", "documents", { messages: [user(repeat(9_999, DOCUMENT))] }],
    [
      "messages",
      "tools",
      {
        messages: [user("x")],
        tools: TOOLS.map(({ name, schema }) => ({ name, input_schema: schema })),
      },
    ],
    ["messages/count_tokens", "parts", { messages: [user(repeat(19_999, TEXT))] }],
    ["responses", "items", { input: repeat(19_999, user("hello")) }],
    [
      "responses",
      "parts",
      { input: [user(repeat(19_999, { type: "input_text", text: "hello" }))] },
    ],
    [
      "responses",
      "tools",
      {
        input: "x",
        tools: TOOLS.map(({ name, schema }) => ({ type: "function", name, parameters: schema })),
      },
    ],
    ["responses", "parallel calls", { input: [user("x"), ...CALL_ITEMS, ...OUTPUT_ITEMS] }],
    [
      "responses",
      "outputs of OpenAI's tools",
      { input: [user("x"), ...repeat(19_998, { type: "computer_call_output", call_id: "a" })] },
    ],
    ["embeddings", "inputs", { input: repeat(19_999, "hello") }],
  ];

/** In the short form, only the longer way: translated to another API. */
const modelsOf = (path: string): readonly string[] =>
  ["openai/gpt-4.1", "anthropic/claude-haiku-4-5"].filter(
    (model) => IS_FULL || model.startsWith("anthropic/") !== /^(?:messages|embeddings)/.test(path),
  );

for (const [path, kind, fields] of BODIES)
  for (const model of modelsOf(path))
    test(`${path} with the most ${kind}, for ${model}`, async () => {
      const body = JSON.stringify({ model, max_tokens: 9, ...fields });
      const send = async (): Promise<void> => {
        const init = { method: "POST", headers: account.headers, body };
        const response = await fetch(`${gateway.url}/v1/${path}`, init);
        await response.arrayBuffer();
        expect(response.status).toBeLessThan(500);
      };
      const allowed = Math.max(1, body.length / BYTES_PER_MB) * CPU_UNITS_PER_MB;
      // The first attempt compiles the code, and another process on the same core makes one of them slower.
      let units = Infinity;
      for (let attempt = 0; attempt < ATTEMPTS_MAX && units > allowed; attempt++) {
        const before = cpuUnitMs();
        const longest = await longestIterationMs(send);
        units = Math.min(units, longest / Math.max(before, cpuUnitMs()));
      }
      expect([Math.round(units), units <= allowed]).toEqual([Math.round(units), true]);
    });

/** In CPU time, because other processes of the machine delay the event loop, too. */
async function longestIterationMs(work: () => Promise<void>): Promise<number> {
  let longest = 0;
  let isRunning = true;
  let last = process.cpuUsage();
  const sample = (): void => {
    const { user: userUs, system } = process.cpuUsage(last);
    last = process.cpuUsage();
    longest = Math.max(longest, (userUs + system) / 1_000);
    if (isRunning) setImmediate(sample);
  };
  setImmediate(sample);
  try {
    await work();
  } finally {
    isRunning = false;
  }
  return longest;
}
