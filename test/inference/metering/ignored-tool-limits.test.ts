// A limit of tool calls in a field that the provider does not know limits nothing, so it does not lower the hold: with little
// credit, the caller's own server could otherwise have the model read its results for dollars.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { type Api, errorOf, grantCredits, type Json, postCall, USD } from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

const MCP = { type: "mcp", server_label: "m", server_url: "https://mcp.test" };
const responses = (model: string, more: Json): Json => ({
  model,
  input: "hi",
  max_output_tokens: 50,
  store: false,
  ...more,
});
const messages = (more: Json): Json => ({
  model: "anthropic/claude-sonnet-4-5",
  messages: [{ role: "user", content: "hi" }],
  max_tokens: 50,
  ...more,
});
const SERVERS = [{ type: "url", url: "https://mcp.test", name: "m" }];

const CALLS: readonly (readonly [name: string, api: Api, body: Json])[] = [
  [
    "`max_tool_calls` at xAI",
    "responses",
    responses("xai/grok-4.3", { tools: [MCP], max_tool_calls: 0 }),
  ],
  [
    "`max_uses` at xAI",
    "responses",
    responses("xai/grok-4.3", { tools: [{ ...MCP, max_uses: 0 }] }),
  ],
  [
    "`max_uses` of a tool of OpenAI",
    "responses",
    responses("openai/gpt-4.1", { tools: [{ ...MCP, max_uses: 0 }] }),
  ],
  [
    "`max_content_tokens` of a tool of OpenAI",
    "responses",
    responses("openai/gpt-4.1", { tools: [{ ...MCP, max_content_tokens: 1 }] }),
  ],
  [
    "`max_uses` of a tool among the items",
    "responses",
    responses("openai/gpt-4.1", {
      input: [
        { role: "user", content: "hi" },
        { type: "additional_tools", tools: [{ ...MCP, max_uses: 0 }] },
      ],
    }),
  ],
  [
    "`max_tool_calls` at Anthropic",
    "messages",
    messages({ mcp_servers: SERVERS, max_tool_calls: 0 }),
  ],
  [
    "`max_uses` of Anthropic's code execution",
    "messages",
    messages({ tools: [{ type: "code_execution_20250825", name: "code_execution", max_uses: 0 }] }),
  ],
];

describe.each(STORE_KINDS)("a limit that the provider ignores, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  beforeAll(async () => {
    provider = await startRawProvider(() => ({ body: "{}" }));
    const env = Object.fromEntries(
      ["OPENAI", "XAI", "ANTHROPIC"].flatMap((prefix) => [
        [`${prefix}_BASE_URL`, `${provider.url}/v1`],
        [`${prefix}_API_KEY`, "test-key-0123456789"],
      ]),
    );
    gateway = await startGateway({ store, providers: [], env });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  test.each(CALLS)("does not lower the hold: %s", async (_, api, body) => {
    const account = await registerAccount(gateway);
    // What xAI's models reason is held, too.
    const isXai = String(body["model"]).startsWith("xai/");
    await grantCredits(gateway, account, isXai ? 5n * USD : USD / 20n);
    const response = await postCall(gateway, account, api, body);
    expect([response.status, errorOf(await response.json())["code"]]).toEqual([
      402,
      "insufficient_credits",
    ]);
    expect(provider.requests).toHaveLength(0);
  });
});
