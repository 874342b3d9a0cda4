// Usage that the request's text does not determine: provider tools, reasoning and advisors. It is covered by the hold if it
// has an upper bound, and charged if it is plausible.

import { afterEach, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  type Api,
  grantCredits,
  type Json,
  PATHS,
  usageRecordsOf,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { disconnectSeen, openSocketClient } from "../support/socket-client.ts";

type EnvPrefix =
  | "ANTHROPIC"
  | "OPENAI"
  | "DEEPSEEK"
  | "PERPLEXITY"
  | "GROQ"
  | "XAI"
  | "MOONSHOT"
  | "OPENROUTER";

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;

async function open(prefix: EnvPrefix, reply: RawReply, credits = 100n * USD): Promise<void> {
  provider = await startRawProvider(() => reply);
  const base = prefix === "ANTHROPIC" ? provider.url : `${provider.url}/v1`;
  const env = { [`${prefix}_BASE_URL`]: base, [`${prefix}_API_KEY`]: "test-key-0123456789" };
  gateway = await startGateway({ providers: [], env });
  account = await registerAccount(gateway);
  if (credits > 0n) await grantCredits(gateway, account, credits);
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

async function send(api: Api | "embeddings", body: Json): Promise<Response> {
  const path = api === "embeddings" ? "/v1/embeddings" : PATHS[api];
  const init = { method: "POST", headers: account.headers, body: JSON.stringify(body) };
  return fetch(gateway.url + path, init);
}

async function spent(): Promise<bigint> {
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  return 100n * USD + 50_000_000n - promo - paid;
}

const sentBody = (): Json => JSON.parse(provider.requests[0]?.body ?? "{}") as Json;
const MESSAGES = [{ role: "user", content: "What does it say on https://example.com/ ?" }];
const replyOf = (usage: Json, model = "claude-sonnet-4-6"): RawReply => ({
  body: JSON.stringify({ type: "message", model, content: [], stop_reason: "end_turn", usage }),
});
const sonnet = (more: Json): Json => ({
  model: "anthropic/claude-sonnet-4-6",
  max_tokens: 1_024,
  messages: MESSAGES,
  ...more,
});
const completion = (usage: Json): RawReply => ({
  body: JSON.stringify({
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }],
    usage,
  }),
});

test.each([
  ["sends an error", 'data: {"error":{"message":"overloaded","code":529}}\n\n'],
  ["closes the connection", ""],
])(
  "charges nothing if the provider fails after the client disconnected: it %s",
  async (_, last) => {
    const chunk = (content: string): string =>
      `data: ${JSON.stringify({ model: "m", choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
    const [first, second] = [chunk("one "), chunk("two ")];
    const left = Promise.withResolvers<void>();
    await open("GROQ", {
      headers: { "content-type": "text/event-stream" },
      body: first + second + last,
      cuts: [first.length],
      beforeNext: (sentChunks) => (sentChunks === 1 ? left.promise : undefined),
    });
    const body = {
      model: "groq/openai/gpt-oss-20b",
      stream: true,
      max_tokens: 50,
      messages: MESSAGES,
    };
    const client = openSocketClient(gateway, account, "chat", body);
    await client.waitForText("one ");
    await disconnectSeen(client, gateway);
    left.resolve();
    const [record] = await waitUntil(
      () => usageRecordsOf(gateway.server.db, account.id),
      (records) => records.length === 1,
    );
    expect(record).toMatchObject({ outcome: "upstream_error", cost_nano: 0 });
    expect(await spent()).toBe(0n);
  },
);

test.each([
  ["fetched pages", { tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] }],
  [
    "an MCP server returned",
    { mcp_servers: [{ type: "url", url: "https://mcp.test", name: "m" }] },
  ],
])("charges input from provider tools beyond the hold: %s", async (_, more) => {
  await open("ANTHROPIC", replyOf({ input_tokens: 128_638, output_tokens: 365 }));
  expect((await send("messages", sonnet(more))).status).toBe(200);
  expect(await spent()).toBe(128_638n * 3_000n + 365n * 15_000n);
  expect((await usageRecordsOf(gateway.server.db, account.id))[0]).toMatchObject({ exact: 1 });
});

test("holds the maximum input of a provider tool, and rejects a call that the balance does not cover", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  const tool = { type: "web_fetch_20250910", name: "web_fetch" };
  expect((await send("messages", sonnet({ tools: [tool] }))).status).toBe(402);
  const bounded = { ...tool, max_uses: 1, max_content_tokens: 500 };
  expect((await send("messages", sonnet({ tools: [bounded] }))).status).toBe(200);
});

test.each([
  [
    "clearing old thinking",
    { context_management: { edits: [{ type: "clear_thinking_20251015" }] } },
  ],
  ["no context edits", { context_management: { edits: [] } }],
  ["a tool search", { tools: [{ type: "tool_search_tool_bm25_20251119", name: "t" }] }],
])("holds nothing extra for %s", async (_, more) => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  expect((await send("messages", sonnet(more))).status).toBe(200);
});

test("holds for a compaction, which reads the whole context again", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  const edits = [{ type: "clear_thinking_20251015" }, { type: "compact_20260112" }];
  expect((await send("messages", sonnet({ context_management: { edits } }))).status).toBe(402);
});

test.each([
  ["input", { input_tokens: 128_638, output_tokens: 365 }],
  ["output", { input_tokens: 9, output_tokens: 300_000 }],
])("charges an implausible count of %s tokens at most the hold", async (_, usage) => {
  await open("ANTHROPIC", replyOf(usage));
  await send("messages", sonnet({}));
  expect(await spent()).toBeLessThan(20_000_000n);
  expect((await usageRecordsOf(gateway.server.db, account.id))[0]).toMatchObject({ exact: 0 });
});

test.each([
  [
    "another iteration",
    {
      iterations: [
        { type: "message", input_tokens: 9, output_tokens: 1 },
        { type: "compaction", input_tokens: 900_000_000, output_tokens: 1 },
      ],
    },
  ],
  ["tool uses", { server_tool_use: { web_search_requests: 1_000_000 } }],
])("charges implausible counts of %s at most the hold", async (_, more) => {
  await open("ANTHROPIC", replyOf({ input_tokens: 9, output_tokens: 1, ...more }));
  await send("messages", sonnet({}));
  expect(await spent()).toBeLessThan(20_000_000n);
  expect((await usageRecordsOf(gateway.server.db, account.id))[0]).toMatchObject({ exact: 0 });
});

test.each([
  [
    "MOONSHOT",
    "moonshot/kimi-k2.6",
    { type: "builtin_function", function: { name: "$web_search" } },
  ],
  ["OPENROUTER", "openrouter/openai/gpt-4o", { type: "openrouter:web_search" }],
  ["GROQ", "groq/openai/gpt-oss-120b", { type: "browser_search" }],
] as const)(
  "rejects %s's own web search tool without a known price",
  async (prefix, model, tool) => {
    await open(prefix, completion({ prompt_tokens: 20, completion_tokens: 1 }));
    const response = await send("chat", {
      model,
      max_tokens: 8,
      messages: MESSAGES,
      tools: [tool],
    });
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining("tools"),
    ]);
    expect(provider.requests).toEqual([]);
  },
);

test.each([
  ["service_tier", "chat", { model: "groq/openai/gpt-oss-120b", service_tier: "turbo" }],
  ["speed", "messages", { model: "anthropic/claude-sonnet-4-6", speed: "fast" }],
] as const)(
  "rejects a `%s` without a known price on the gateway's account",
  async (param, api, more) => {
    await open(api === "chat" ? "GROQ" : "ANTHROPIC", completion({ prompt_tokens: 20 }));
    const response = await send(api, { max_tokens: 8, messages: MESSAGES, ...more });
    const { error } = (await response.json()) as { error: Json };
    expect([response.status, String(error["message"])]).toEqual([
      400,
      expect.stringContaining(`Remove \`${param}\``),
    ]);
    expect(provider.requests).toEqual([]);
  },
);

test("suggests no lower limit if the balance does not cover the reasoning alone", async () => {
  await open("XAI", completion({ prompt_tokens: 20, completion_tokens: 1 }), 0n);
  const response = await send("chat", {
    model: "xai/grok-4.7",
    max_tokens: 64,
    messages: MESSAGES,
  });
  expect(response.status).toBe(402);
  const { error } = (await response.json()) as { error: Json };
  expect(error).toMatchObject({ affordable_max_tokens: 0 });
  expect(error["message"]).not.toContain("Ask for at most");
});

test.each([64, undefined])(
  "a stream on little credit has an output limit, although no limit covers the reasoning (%p)",
  async (max_tokens) => {
    await open("XAI", completion({ prompt_tokens: 20, completion_tokens: 1 }), 0n);
    const body = { model: "xai/grok-4.7", stream: true, max_tokens, messages: MESSAGES };
    await (await send("chat", body)).text();
    expect(Number(sentBody()["max_tokens"])).toBeGreaterThanOrEqual(max_tokens ?? 256);
  },
);

test("a reduced output limit leaves 64,000 tokens for reasoning that the limit does not cover", async () => {
  const details = { completion_tokens_details: { reasoning_tokens: 60_000 } };
  const usage = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 60_030, ...details };
  await open("XAI", completion(usage), 0n);
  const body = { model: "xai/grok-4.7", messages: MESSAGES };
  const response = await send("chat", body);
  expect([response.status, provider.requests.length]).toEqual([402, 0]);
  await grantCredits(gateway, account, USD / 2n);
  const accepted = await send("chat", body);
  const visible = Number(accepted.headers.get("x-postern-max-tokens"));
  expect(sentBody()).toMatchObject({ max_tokens: visible });
  expect(visible).toBeGreaterThan(256);
  expect(BigInt(visible + 64_000) * 6_000n).toBeLessThan(550_000_000n);
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  expect(550_000_000n - promo - paid).toBe(20n * 2_000n + 60_010n * 6_000n);
});

test.each(["chat", "messages", "responses"] as const)(
  "charges reasoning that is longer than the completion once where the total says that it is inside: over %s",
  async (api) => {
    const details = { completion_tokens_details: { reasoning_tokens: 61 } };
    await open(
      "OPENROUTER",
      completion({ prompt_tokens: 43, completion_tokens: 10, total_tokens: 53, ...details }),
    );
    const turns = api === "responses" ? { input: "Hello." } : { messages: MESSAGES };
    const limit = api === "responses" ? "max_output_tokens" : "max_tokens";
    const response = await send(api, {
      model: "openrouter/deepseek/deepseek-v3.2",
      [limit]: 64,
      ...turns,
    });
    expect(response.status).toBe(200);
    const { usage } = (await response.json()) as { usage: Json };
    expect(usage).toMatchObject(
      api === "chat"
        ? { prompt_tokens: 43, completion_tokens: 10, total_tokens: 53 }
        : { input_tokens: 43, output_tokens: 10 },
    );
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    expect(record).toMatchObject({ input_tokens: 43, output_tokens: 10, reasoning_tokens: 10 });
    const cost = Number(await spent()) / 1e9;
    expect(Number(usage["cost"])).toBeCloseTo(cost, 9);
  },
);

test("charges Perplexity's request fee by search size, and rejects multi-step searches, which have no known price", async () => {
  const usage = { prompt_tokens: 20, completion_tokens: 1, search_context_size: "high" };
  await open("PERPLEXITY", completion(usage));
  const search = (web_search_options: Json): Promise<Response> =>
    send("chat", {
      model: "perplexity/sonar-pro",
      max_tokens: 8,
      messages: MESSAGES,
      web_search_options,
    });
  expect((await search({ search_context_size: "high", search_type: "fast" })).status).toBe(200);
  expect(await spent()).toBe(14_000_000n + 20n * 3_000n + 15_000n);
  for (const search_type of ["pro", "auto"]) {
    const response = await search({ search_type });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("web_search_options.search_type");
  }
});

test("holds and charges every text of an embeddings batch, also beyond one context", async () => {
  const usage = { prompt_tokens: 128_000, total_tokens: 128_000 };
  await open("OPENAI", {
    body: JSON.stringify({ object: "list", model: "text-embedding-3-large", data: [], usage }),
  });
  const input = Array.from({ length: 64 }, () => "some word ".repeat(1_000));
  await send("embeddings", { model: "openai/text-embedding-3-large", input });
  expect(await spent()).toBe(128_000n * 130n);
});

test("counts text that looks like media outside of content fields as text", async () => {
  const text = `${"A".repeat(600)}${" the quick brown fox".repeat(20_000)}`;
  await open("ANTHROPIC", replyOf({ input_tokens: 100_000, output_tokens: 1 }));
  const input = { type: "image", data: text };
  const turn = { role: "assistant", content: [{ type: "tool_use", id: "t", name: "save", input }] };
  await send("messages", sonnet({ messages: [...MESSAGES, turn] }));
  expect(await spent()).toBe(100_000n * 3_000n + 15_000n);
});

test.each([
  ["alone", {}, 1],
  ["with `max_tokens`", { max_tokens: 8_000 }, 1],
])(
  "sends `max_completion_tokens` as `max_tokens` to a provider that only knows that: %s",
  async (_, more, expected) => {
    await open("DEEPSEEK", completion({ prompt_tokens: 20, completion_tokens: 1 }));
    const limit = { max_completion_tokens: 1, ...more };
    await send("chat", { model: "deepseek/deepseek-v4-pro", messages: MESSAGES, ...limit });
    expect(sentBody()).toMatchObject({ max_tokens: expected });
    expect(sentBody()).not.toHaveProperty("max_completion_tokens");
  },
);

test("holds for the larger of two output limits if the provider chooses", async () => {
  await open("GROQ", completion({ prompt_tokens: 20, completion_tokens: 30_000 }));
  const limits = { max_completion_tokens: 1, max_tokens: 30_000 };
  await send("chat", { model: "groq/openai/gpt-oss-120b", messages: MESSAGES, ...limits });
  const [record] = await usageRecordsOf(gateway.server.db, account.id);
  expect([sentBody()["max_tokens"], record?.["exact"]]).toEqual([30_000, 1]);
});

test("holds the search fee of models that search in every call", async () => {
  const reply = completion({ prompt_tokens: 20, completion_tokens: 1 });
  await open("OPENAI", { ...reply, ending: "silence" }, 0n);
  const body = { model: "openai/gpt-5-search-api", max_tokens: 1_000, messages: MESSAGES };
  const client = openSocketClient(gateway, account, "chat", body);
  const { held } = await waitUntil(
    () => readWallet(gateway.server.db, account.id),
    (wallet) => wallet.held > 0n,
  );
  // More than half of the balance of $0.05, so a second call waits for it in vain.
  expect(held).toBeGreaterThan(25_000_000n);
  expect((await send("chat", body)).status).toBe(429);
  client.disconnect();
  await provider.stop();
});

test("holds for an advisor model at its own price, and rejects one without a known price", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  const advisor = (model: string): Json => ({
    model: "anthropic/claude-haiku-4-5",
    max_tokens: 16,
    messages: MESSAGES,
    tools: [{ type: "advisor_20260301", name: "advisor", model, max_uses: 1 }],
  });
  expect((await send("messages", advisor("claude-opus-4-6"))).status).toBe(402);
  const unknown = await send("messages", advisor("claude-unknown"));
  expect([unknown.status, await unknown.text()]).toEqual([
    400,
    expect.stringContaining("tools[0].model"),
  ]);
});

test.each(["fallbacks", "plugins", "data_sources"])(
  "rejects `%s` on the gateway's own account: its price is unknown",
  async (field) => {
    await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }));
    const response = await send("messages", sonnet({ [field]: [{ model: "claude-opus-4-6" }] }));
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(field)]);
    expect(provider.requests).toEqual([]);
  },
);

const chunk = (more: Json): string =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "gpt-5", ...more })}\n\n`;
const delta = (content: string, finish_reason: string | null = null): string =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason }] });
const REASONING_USAGE = {
  prompt_tokens: 20,
  completion_tokens: 10_010,
  completion_tokens_details: { reasoning_tokens: 10_000 },
};

test.each([
  ["the stop reason", '"finish_reason":"stop"', 3],
  ["the last text", "42.", 2],
])("charges hidden reasoning if the client disconnects after %s", async (_, lastText, received) => {
  const parts = [
    delta("It is "),
    delta("42."),
    delta("", "stop"),
    `${chunk({ choices: [], usage: REASONING_USAGE })}data: [DONE]\n\n`,
  ];
  const cuts = parts.slice(1).map((_part, index) => parts.slice(0, index + 1).join("").length);
  const headers = { "content-type": "text/event-stream" };
  const left = Promise.withResolvers<void>();
  const beforeNext: RawReply["beforeNext"] = (sent) =>
    sent === received ? left.promise : undefined;
  await open("OPENAI", { headers, body: parts.join(""), cuts, beforeNext });
  const body = { model: "openai/gpt-5", stream: true, max_completion_tokens: 20_000 };
  const client = openSocketClient(gateway, account, "chat", { ...body, messages: MESSAGES });
  await client.waitForText(lastText);
  await disconnectSeen(client, gateway);
  left.resolve();
  const [record] = await waitUntil(
    () => usageRecordsOf(gateway.server.db, account.id),
    (records) => records.length === 1,
  );
  expect(record).toMatchObject({ outcome: "client_aborted", output_tokens: 10_010, exact: 1 });
  expect(await spent()).toBe(20n * 1_250n + 10_010n * 10_000n);
});
