// Settings of OpenRouter, Ollama, Mistral and other servers that their clients send on: on the gateway's account and translated.

import { afterAll, describe, expect, test } from "bun:test";
import { isObject } from "../../src/base/json.ts";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { call, valueAt } from "../spec/api-client.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import type { Json } from "./support/harness.ts";

const PROVIDERS = ["openai", "anthropic", "google", "deepseek", "mistral", "ollama", "perplexity"];
const gateway = await startGateway({ providers: PROVIDERS, logLevel: "warn" });
afterAll(() => gateway.stop());
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 100n * USD);

const MESSAGES = [{ role: "user", content: "hi" }];
const PATHS = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
} as const;

async function send(api: keyof typeof PATHS, body: Json) {
  const answer = await call(gateway, `POST ${PATHS[api]}`, { key: account.key, body });
  const dropped = answer.headers.get("x-postern-dropped");
  return { ...answer, dropped: dropped === null ? [] : dropped.split(", ") };
}

const MODELS = [
  ["openai/gpt-5-mini", false],
  ["google/gemini-2.5-flash", false],
  ["deepseek/deepseek-v4-pro", false],
  ["mistral/mistral-large-latest", false],
  ["ollama/llama4", false],
  ["anthropic/claude-haiku-4-5", true],
] as const;

const SETTINGS: readonly Json[] = [
  { keep_alive: "5m" },
  { keep_alive: -1 },
  { options: { num_ctx: 8_192 } },
  { venice_parameters: { include_venice_system_prompt: false } },
  { cache_prompt: true },
  { chat_template_args: { enable_thinking: true } },
  { n_predict: 5 },
  { repeat_penalty: 1.1 },
  { transforms: ["middle-out"] },
];

describe.each(MODELS)("settings of other servers at %s", (model, isTranslated) => {
  test.each(SETTINGS.map((setting) => ({ setting })))("$setting", async ({ setting }) => {
    const answer = await send("chat", { model, messages: MESSAGES, ...setting });
    expect([answer.status, answer.text.slice(0, 200)]).toEqual([200, expect.any(String)]);
    expect(answer.dropped).toEqual(isTranslated ? Object.keys(setting) : []);
  });
});

test("the name of a document of Mistral's reaches the provider", async () => {
  const document = {
    type: "document_url",
    document_url: "https://files.example.com/a.pdf",
    document_name: "Report 2026 (final).pdf",
  };
  const messages = [{ role: "user", content: [document, { type: "text", text: "a" }] }];
  const answer = await send("chat", { model: "mistral/mistral-large-latest", messages });
  // The simulated provider does not have the part; the gateway does not refuse it.
  expect(valueAt(answer.body, "error.provider")).toBe("mistral");
});

test.each(["low", "high"])("a search context of %s has a price", async (search_context_size) => {
  for (const model of ["perplexity/sonar", "openai/gpt-5-mini"]) {
    const options = { web_search_options: { search_context_size } };
    const answer = await send("chat", { model, messages: MESSAGES, ...options });
    expect([model, answer.status]).toEqual([model, 200]);
  }
});

describe("a tool that the provider does not run", () => {
  test.each([
    ["responses", "mistral/mistral-large-latest", { type: "web_search" }],
    ["messages", "deepseek/deepseek-v4-pro", { type: "web_search_20250305", name: "web_search" }],
    ["responses", "mistral/mistral-large-latest", { type: "image_generation" }],
  ] as const)("is named, over %s at %s", async (api, model, tool) => {
    const fn =
      api === "messages"
        ? { name: "look", input_schema: { type: "object" } }
        : { type: "function", name: "look", parameters: { type: "object" } };
    const input = api === "messages" ? { messages: MESSAGES, max_tokens: 100 } : { input: "hi" };
    const answer = await send(api, { model, ...input, tools: [fn, tool] });
    expect([answer.status, valueAt(answer.body, "error.param")]).toEqual([400, "tools[1]"]);
    expect(valueAt(answer.body, "error.message")).toContain(`\`${tool.type}\` is a tool that`);
    expect(valueAt(answer.body, "error.message")).toContain("/docs/models");
  });
});

describe("the suffix `:online`", () => {
  const SEARCHED = [
    ["chat", { messages: MESSAGES }],
    ["responses", { input: "hi" }],
    ["messages", { messages: MESSAGES, max_tokens: 100 }],
  ] as const;

  test.each(SEARCHED)("searches the web over %s, at its price", async (api, body) => {
    for (const model of ["openai/gpt-5-mini", "anthropic/claude-haiku-4-5"]) {
      const costOf = async (named: string): Promise<number> => {
        const quoted = await call(gateway, `POST /v1/quote?api=${api}`, {
          key: account.key,
          body: { model: named, ...body },
        });
        expect([named, quoted.status]).toEqual([named, 200]);
        return Number(valueAt(quoted.body, "cost_usd_max"));
      };
      expect(await costOf(`${model}:online`)).toBeGreaterThan(await costOf(model));
      const answer = await send(api, { model: `${model}:online`, ...body });
      expect([model, answer.status]).toEqual([model, 200]);
    }
  });

  test("keeps the search that the request has", async () => {
    const tool = { type: "web_search", search_context_size: "low" };
    const body = { model: "openai/gpt-5-mini:online", input: "hi", tools: [tool] };
    const answer = await send("responses", body);
    const { tools } = isObject(answer.body) ? answer.body : {};
    expect([answer.status, tools]).toEqual([200, [expect.objectContaining(tool)]]);
  });

  test("is refused where the model cannot search", async () => {
    const body = { model: "deepseek/deepseek-v4-pro:online", messages: MESSAGES };
    const answer = await send("chat", body);
    expect([answer.status, valueAt(answer.body, "error.param")]).toEqual([
      400,
      "web_search_options",
    ]);
  });
});
