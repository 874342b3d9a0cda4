// What a provider counts beyond the text of a request is held as far as it can be known, and charged as far as it can be
// true: nobody reads, thinks or is advised at the house's expense.

import { afterEach, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { openSocketClient } from "../support/socket-client.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
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

type Stem =
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

async function open(stem: Stem, reply: RawReply, credits = 100n * USD): Promise<void> {
  provider = await startRawProvider(() => reply);
  const base = stem === "ANTHROPIC" ? provider.url : `${provider.url}/v1`;
  const env = { [`${stem}_BASE_URL`]: base, [`${stem}_API_KEY`]: "test-key-0123456789" };
  gateway = await startGateway({ providers: [], env });
  account = await registerAccount(gateway);
  if (credits > 0n) await grantCredits(gateway, account, credits);
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

async function ask(api: Api | "embeddings", body: Json): Promise<Response> {
  const path = api === "embeddings" ? "/v1/embeddings" : PATHS[api];
  const init = { method: "POST", headers: account.headers, body: JSON.stringify(body) };
  return fetch(gateway.url + path, init);
}

async function spent(): Promise<bigint> {
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  return 100n * USD + 50_000_000n - promo - paid;
}

const sent = (): Json => JSON.parse(provider.requests[0]?.body ?? "{}") as Json;
const MESSAGES = [{ role: "user", content: "What is said on https://example.com/ ?" }];
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
  ["says so", 'data: {"error":{"message":"overloaded","code":529}}\n\n'],
  ["just closes", ""],
])("a provider that fails after its reader has left is paid nothing: it %s", async (_, last) => {
  const chunk = (content: string): string =>
    `data: ${JSON.stringify({ model: "m", choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
  const [first, second] = [chunk("one "), chunk("two ")];
  await open("GROQ", {
    headers: { "content-type": "text/event-stream" },
    body: first + second + last,
    cuts: [first.length],
    pauseMs: 100,
  });
  const body = {
    model: "groq/openai/gpt-oss-20b",
    stream: true,
    max_tokens: 50,
    messages: MESSAGES,
  };
  const client = openSocketClient(gateway, account, "chat", body);
  await client.waitForText("one ");
  client.disconnect();
  const [record] = await waitUntil(
    () => usageRecordsOf(gateway.server.db, account.id),
    (records) => records.length === 1,
  );
  expect(record).toMatchObject({ outcome: "upstream_error", cost_nano: 0 });
  expect(await spent()).toBe(0n);
});

test.each([
  ["fetched", { tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] }],
  ["got from a server", { mcp_servers: [{ type: "url", url: "https://mcp.test", name: "m" }] }],
])(
  "what a provider's own tool has %s is charged, though the request did not hold it",
  async (_, more) => {
    await open("ANTHROPIC", replyOf({ input_tokens: 128_638, output_tokens: 365 }));
    expect((await ask("messages", sonnet(more))).status).toBe(200);
    expect(await spent()).toBe(128_638n * 3_000n + 365n * 15_000n);
    expect((await usageRecordsOf(gateway.server.db, account.id))[0]).toMatchObject({ exact: 1 });
  },
);

test("what a provider's own tool may bring is held: a balance that does not cover it makes no call", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  const tool = { type: "web_fetch_20250910", name: "web_fetch" };
  expect((await ask("messages", sonnet({ tools: [tool] }))).status).toBe(402);
  const bounded = { ...tool, max_uses: 1, max_content_tokens: 500 };
  expect((await ask("messages", sonnet({ tools: [bounded] }))).status).toBe(200);
});

test.each([
  [
    "old thoughts be left out",
    { context_management: { edits: [{ type: "clear_thinking_20251015" }] } },
  ],
  ["nothing be left out", { context_management: { edits: [] } }],
  ["its tools be searched", { tools: [{ type: "tool_search_tool_bm25_20251119", name: "t" }] }],
])("nothing is held for what a request does not bring when it asks that %s", async (_, more) => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  expect((await ask("messages", sonnet(more))).status).toBe(200);
});

test("a compaction, which reads all once more, is held", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  const edits = [{ type: "clear_thinking_20251015" }, { type: "compact_20260112" }];
  expect((await ask("messages", sonnet({ context_management: { edits } }))).status).toBe(402);
});

test("a count that nothing accounts for is charged no more than was held", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 128_638, output_tokens: 365 }));
  await ask("messages", sonnet({}));
  expect(await spent()).toBeLessThan(20_000_000n);
  expect((await usageRecordsOf(gateway.server.db, account.id))[0]).toMatchObject({ exact: 0 });
});

test.each([
  [
    "a further leg",
    {
      iterations: [
        { type: "message", input_tokens: 9, output_tokens: 1 },
        { type: "compaction", input_tokens: 900_000_000, output_tokens: 1 },
      ],
    },
  ],
  ["the uses of a tool", { server_tool_use: { web_search_requests: 1_000_000 } }],
])("what nothing accounts for in %s is charged no more than was held", async (_, more) => {
  await open("ANTHROPIC", replyOf({ input_tokens: 9, output_tokens: 1, ...more }));
  await ask("messages", sonnet({}));
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
] as const)("a search by %s's own name has no price, and is refused", async (stem, model, tool) => {
  await open(stem, completion({ prompt_tokens: 20, completion_tokens: 1 }));
  const refused = await ask("chat", { model, max_tokens: 8, messages: MESSAGES, tools: [tool] });
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("tools")]);
  expect(provider.requests).toEqual([]);
});

test("no lower limit is advised where what the model thinks alone is more than there is", async () => {
  await open("XAI", completion({ prompt_tokens: 20, completion_tokens: 1 }), 0n);
  const refused = await ask("chat", { model: "xai/grok-4.7", max_tokens: 64, messages: MESSAGES });
  expect(refused.status).toBe(402);
  const { error } = (await refused.json()) as { error: Json };
  expect(error).toMatchObject({ affordable_max_tokens: 0 });
  expect(error["message"]).not.toContain("Ask for at most");
});

test("where thoughts are not bounded by the limit, a lowered one leaves them 64,000 tokens", async () => {
  const details = { completion_tokens_details: { reasoning_tokens: 60_000 } };
  const usage = { prompt_tokens: 20, completion_tokens: 10, total_tokens: 60_030, ...details };
  await open("XAI", completion(usage), 0n);
  const body = { model: "xai/grok-4.7", messages: MESSAGES };
  const refused = await ask("chat", body);
  expect([refused.status, provider.requests.length]).toEqual([402, 0]);
  await grantCredits(gateway, account, USD / 2n);
  const answer = await ask("chat", body);
  const visible = Number(answer.headers.get("x-postern-max-tokens"));
  expect(sent()).toMatchObject({ max_tokens: visible });
  expect(visible).toBeGreaterThan(256);
  expect(BigInt(visible + 64_000) * 6_000n).toBeLessThan(550_000_000n);
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  expect(550_000_000n - promo - paid).toBe(20n * 2_000n + 60_010n * 6_000n);
});

test("the size of Perplexity's search is priced by its fee; a search in several steps, which is not, is refused", async () => {
  const usage = { prompt_tokens: 20, completion_tokens: 1, search_context_size: "high" };
  await open("PERPLEXITY", completion(usage));
  const asked = (web_search_options: Json): Promise<Response> =>
    ask("chat", {
      model: "perplexity/sonar-pro",
      max_tokens: 8,
      messages: MESSAGES,
      web_search_options,
    });
  expect((await asked({ search_context_size: "high", search_type: "fast" })).status).toBe(200);
  expect(await spent()).toBe(14_000_000n + 20n * 3_000n + 15_000n);
  for (const search_type of ["pro", "auto"]) {
    const refused = await asked({ search_type });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("web_search_options.search_type");
  }
});

test("every text of a batch of embeddings is held and charged, also where they are more than one context", async () => {
  const usage = { prompt_tokens: 128_000, total_tokens: 128_000 };
  await open("OPENAI", {
    body: JSON.stringify({ object: "list", model: "text-embedding-3-large", data: [], usage }),
  });
  const input = Array.from({ length: 64 }, () => "some word ".repeat(1_000));
  await ask("embeddings", { model: "openai/text-embedding-3-large", input });
  expect(await spent()).toBe(128_000n * 130n);
});

test("text that looks like media where no media can be is held as text", async () => {
  const text = `${"A".repeat(600)}${" the quick brown fox".repeat(20_000)}`;
  await open("ANTHROPIC", replyOf({ input_tokens: 100_000, output_tokens: 1 }));
  const input = { type: "image", data: text };
  const turn = { role: "assistant", content: [{ type: "tool_use", id: "t", name: "save", input }] };
  await ask("messages", sonnet({ messages: [...MESSAGES, turn] }));
  expect(await spent()).toBe(100_000n * 3_000n + 15_000n);
});

test.each([
  ["alone", {}, 1],
  ["beside another", { max_tokens: 8_000 }, 1],
])(
  "a server that knows max_tokens alone is told the newer limit by it, %s",
  async (_, beside, told) => {
    await open("DEEPSEEK", completion({ prompt_tokens: 20, completion_tokens: 1 }));
    const limit = { max_completion_tokens: 1, ...beside };
    await ask("chat", { model: "deepseek/deepseek-v4-pro", messages: MESSAGES, ...limit });
    expect(sent()).toMatchObject({ max_tokens: told });
    expect(sent()).not.toHaveProperty("max_completion_tokens");
  },
);

test("of two limits the greater is held where the provider chooses", async () => {
  await open("GROQ", completion({ prompt_tokens: 20, completion_tokens: 30_000 }));
  const limits = { max_completion_tokens: 1, max_tokens: 30_000 };
  await ask("chat", { model: "groq/openai/gpt-oss-120b", messages: MESSAGES, ...limits });
  const [record] = await usageRecordsOf(gateway.server.db, account.id);
  expect([sent()["max_tokens"], record?.["exact"]]).toEqual([30_000, 1]);
});

test("models that search in every call are held for it", async () => {
  const reply = completion({ prompt_tokens: 20, completion_tokens: 1 });
  await open("OPENAI", { ...reply, cuts: [10], pauseMs: 500 }, 0n);
  const body = { model: "openai/gpt-4o-search-preview", max_tokens: 16, messages: MESSAGES };
  const answers = await Promise.all([1, 2, 3].map(() => ask("chat", body)));
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 402, 402]);
});

test("a model that is asked for advice is held at its own price, and one without a price is refused", async () => {
  await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }), 0n);
  const advisor = (model: string): Json => ({
    model: "anthropic/claude-haiku-4-5",
    max_tokens: 16,
    messages: MESSAGES,
    tools: [{ type: "advisor_20260301", name: "advisor", model, max_uses: 1 }],
  });
  expect((await ask("messages", advisor("claude-opus-4-6"))).status).toBe(402);
  const unknown = await ask("messages", advisor("claude-nobody-knows"));
  expect([unknown.status, await unknown.text()]).toEqual([
    400,
    expect.stringContaining("tools[0].model"),
  ]);
});

test.each(["fallbacks", "plugins", "data_sources"])(
  "%s, which run at prices that the provider alone knows, are refused on the gateway's credentials",
  async (field) => {
    await open("ANTHROPIC", replyOf({ input_tokens: 1, output_tokens: 1 }));
    const refused = await ask("messages", sonnet({ [field]: [{ model: "claude-opus-4-6" }] }));
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining(field)]);
    expect(provider.requests).toEqual([]);
  },
);

const chunk = (more: Json): string =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "gpt-5", ...more })}\n\n`;
const delta = (content: string, finish_reason: string | null = null): string =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason }] });
const THOUGHT = {
  prompt_tokens: 20,
  completion_tokens: 10_010,
  completion_tokens_details: { reasoning_tokens: 10_000 },
};

test.each([
  ["all of the answer was said", '"finish_reason":"stop"'],
  ["the last word was said", "42."],
])("who leaves a model that thinks unseen when %s pays for its thoughts", async (_, words) => {
  const parts = [
    delta("It is "),
    delta("42."),
    delta("", "stop"),
    `${chunk({ choices: [], usage: THOUGHT })}data: [DONE]\n\n`,
  ];
  const cuts = parts.slice(1).map((_one, place) => parts.slice(0, place + 1).join("").length);
  const headers = { "content-type": "text/event-stream" };
  await open("OPENAI", { headers, body: parts.join(""), cuts, pauseMs: 60 });
  const body = { model: "openai/gpt-5", stream: true, max_completion_tokens: 20_000 };
  const client = openSocketClient(gateway, account, "chat", { ...body, messages: MESSAGES });
  await client.waitForText(words);
  client.disconnect();
  const [record] = await waitUntil(
    () => usageRecordsOf(gateway.server.db, account.id),
    (records) => records.length === 1,
  );
  expect(record).toMatchObject({ outcome: "client_aborted", output_tokens: 10_010, exact: 1 });
  expect(await spent()).toBe(20n * 1_250n + 10_010n * 10_000n);
});
