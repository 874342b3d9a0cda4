// Tools that the provider runs: each call lets it read the prompt again, with results that the caller may decide. The hold
// covers the calls, the gateway limits them to what the balance affords, and what comes beyond is a debt.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { DEFAULT_TIMEOUTS } from "../../../src/inference/lifecycle/timeouts.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  addPaidCredits,
  type Api,
  errorOf,
  grantCredits,
  type Json,
  postCall,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

const CENT = 10_000_000n;
const STARTING_CENTS = 5;
const MCP = { type: "mcp", server_label: "m", server_url: "https://mcp.test" };
const SERVERS = [{ type: "url", url: "https://mcp.test", name: "m" }];
const TURNS = [{ role: "user", content: "hi" }];
const GPT = { model: "openai/gpt-4.1", input: "hi", max_output_tokens: 100, store: false };
const CLAUDE = { model: "anthropic/claude-sonnet-4-5", messages: TURNS, max_tokens: 100 };
const SEARCH = { type: "web_search_20250305", name: "web_search" };
const FETCH = { type: "web_fetch_20250910", name: "web_fetch" };
const CODE = { type: "code_execution_20250825", name: "code_execution" };

describe.each(STORE_KINDS)("tools that the provider runs, on %s", (store) => {
  let provider: RawProvider;
  let gateway: Gateway;
  let inputTokens = 1_000;
  let hasUsage = true;
  beforeAll(async () => {
    provider = await startRawProvider(({ path, body }) => {
      const { stream } = JSON.parse(body) as Json;
      const usage = { input_tokens: inputTokens, output_tokens: 10 };
      const text = { type: "message", content: [{ type: "output_text", text: "a" }] };
      if (path.endsWith("/messages"))
        return {
          body: JSON.stringify({
            id: "msg_1",
            type: "message",
            role: "assistant",
            model: "claude-sonnet-4-5",
            content: [{ type: "text", text: "a" }],
            stop_reason: "end_turn",
            usage,
          }),
        };
      const response = {
        id: "resp_1",
        object: "response",
        status: "completed",
        model: "gpt-4.1",
        output: [text],
        ...(hasUsage && { usage: { ...usage, total_tokens: inputTokens + 10 } }),
      };
      if (stream !== true) return { body: JSON.stringify(response) };
      return {
        headers: { "content-type": "text/event-stream" },
        body: `event: response.completed\ndata: ${JSON.stringify({ type: "response.completed", sequence_number: 0, response })}\n\n`,
      };
    });
    const env = {
      OPENAI_BASE_URL: `${provider.url}/v1`,
      OPENAI_API_KEY: "test-key-0123456789",
      ANTHROPIC_BASE_URL: provider.url,
      ANTHROPIC_API_KEY: "test-key-0123456789",
    };
    gateway = await startGateway({ store, providers: [], env });
  });
  beforeEach(() => {
    provider.requests.length = 0;
    inputTokens = 1_000;
    hasUsage = true;
  });
  afterAll(async () => {
    expect((await verifyLedger(gateway.server.db)).problems).toEqual([]);
    await gateway.stop();
    await provider.stop();
  });

  const accountWith = async (cents: number): Promise<TestAccount> => {
    const account = await registerAccount(gateway);
    if (cents > STARTING_CENTS)
      await grantCredits(gateway, account, BigInt(cents - STARTING_CENTS) * CENT);
    return account;
  };
  const call = async (
    account: TestAccount,
    api: Api,
    body: Json,
  ): Promise<{ status: number; limit: string | null; held: string | null; error: Json }> => {
    const response = await postCall(gateway, account, api, body);
    const text = await response.text();
    const error = response.ok ? {} : errorOf(JSON.parse(text));
    return {
      status: response.status,
      limit: response.headers.get("x-postern-max-tool-calls"),
      held: response.headers.get("x-postern-held-tool-calls"),
      error,
    };
  };
  const sent = (): Json => JSON.parse(provider.requests.at(-1)?.body ?? "{}") as Json;
  const walletOf = async ({ id }: TestAccount) => {
    const row = await gateway.server.db.get("select * from wallet where account_id = ?", [id]);
    return {
      left: Number(row?.["promo"]) + Number(row?.["paid"]),
      held: Number(row?.["held"]),
      owed: Number(row?.["owed"]),
    };
  };

  test("an own MCP server cannot read for the hold of 200,000 tokens: the call is refused", async () => {
    inputTokens = 5_000_000;
    const account = await accountWith(40);
    const { status, error } = await call(account, "responses", { ...GPT, tools: [MCP] });
    expect([status, error["code"]]).toEqual([402, "insufficient_credits"]);
    expect(String(error["message"])).toMatch(/read up to 1\d{6} tokens: lower `max_tool_calls`/);
    expect(provider.requests).toEqual([]);
  });

  test("a refused call with one use of a tool is not told to lower it", async () => {
    const account = await accountWith(0);
    const tools = [{ ...SEARCH, max_uses: 1 }];
    const { status, error } = await call(account, "messages", { ...CLAUDE, tools });
    expect([status, error["code"]]).toEqual([402, "insufficient_credits"]);
    expect(String(error["message"])).toContain("may read up to 2");
    expect(String(error["message"])).not.toContain("max_uses");
  });

  test.each([false, true])(
    "the limit of calls is what the balance affords, and the excess of a provider that ignores it is owed (stream %p)",
    async (stream) => {
      inputTokens = 5_000_000;
      const account = await accountWith(300);
      const { status, limit } = await call(account, "responses", { ...GPT, tools: [MCP], stream });
      expect([status, limit, sent()["max_tool_calls"]]).toEqual([200, "1", 1]);
      const cost = 5_000_000 * 2_000 + 10 * 8_000;
      expect(await walletOf(account)).toEqual({ left: 0, held: 0, owed: cost - 3_000_000_000 });
      const [record] = await usageRecordsOf(gateway.server.db, account.id);
      expect(Number(record?.["cost_nano"])).toBe(cost);
      const { status: next } = await call(account, "responses", { ...GPT, tools: [MCP], stream });
      expect(next).toBe(402);
    },
  );

  test.each([false, true])(
    "a reply without usage costs the hold: nothing else tells what the tools let the model read (stream %p)",
    async (stream) => {
      hasUsage = false;
      const account = await accountWith(5_000);
      const body = { ...GPT, tools: [MCP], max_tool_calls: 2, stream };
      expect((await call(account, "responses", body)).status).toBe(200);
      const [record] = await usageRecordsOf(gateway.server.db, account.id);
      const contexts = 2;
      expect(Number(record?.["cost_nano"])).toBeGreaterThan(contexts * 1_047_576 * 2_000);
      expect(Number(record?.["exact"])).toBe(0);
    },
  );

  test.each([
    [10_000, 10, "10"],
    [1_200, 5, "5"],
    [700, 2, "2"],
  ])("with %p cents the limit is %p calls", async (cents, calls, limit) => {
    const account = await accountWith(cents);
    inputTokens = 2_000_000;
    expect(await call(account, "responses", { ...GPT, tools: [MCP] })).toMatchObject({
      status: 200,
      limit,
    });
    expect(sent()["max_tool_calls"]).toBe(calls);
    expect(await walletOf(account)).toMatchObject({ held: 0, owed: 0 });
  });

  test("the caller's own limit stays, and decides the hold", async () => {
    const body = { ...GPT, tools: [MCP], max_tool_calls: 3 };
    const poor = await accountWith(600);
    expect((await call(poor, "responses", body)).status).toBe(402);
    const account = await accountWith(650);
    expect(await call(account, "responses", body)).toMatchObject({ status: 200, limit: null });
    expect(sent()["max_tool_calls"]).toBe(3);
  });

  test("a key's limit bounds the calls like the balance, and an excess blocks the key", async () => {
    const account = await accountWith(5_000);
    const created = await fetch(`${gateway.url}/v1/keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ name: "small", limit_usd: 3 }),
    });
    const { api_key: key } = (await created.json()) as { api_key: string };
    const limited = {
      ...account,
      headers: { ...account.headers, authorization: `Bearer ${key}` },
    };
    inputTokens = 5_000_000;
    expect(await call(limited, "responses", { ...GPT, tools: [MCP] })).toMatchObject({
      status: 200,
      limit: "1",
    });
    expect(await walletOf(account)).toMatchObject({ held: 0, owed: 0 });
    const { status, error } = await call(limited, "responses", { ...GPT, tools: [] });
    expect([status, error["code"]]).toEqual([403, "key_limit_reached"]);
    expect((await call(account, "responses", { ...GPT, tools: [] })).status).toBe(200);
  });

  test.each([
    ["code execution", { tools: [CODE] }],
    ["MCP servers", { mcp_servers: SERVERS }],
  ])("holds ten contexts for %s, which no field limits", async (_, more) => {
    const poor = await accountWith(1_300);
    expect((await call(poor, "messages", { ...CLAUDE, ...more })).status).toBe(402);
    const account = await accountWith(1_400);
    inputTokens = 2_000_000;
    expect(await call(account, "messages", { ...CLAUDE, ...more })).toMatchObject({
      status: 200,
      limit: null,
    });
    expect(await walletOf(account)).toMatchObject({ held: 0, owed: 0 });
  });

  test.each([
    ["code execution", { tools: [CODE] }],
    ["MCP servers", { mcp_servers: SERVERS }],
  ])(
    "holds fewer contexts for %s if a paying account affords no more, and the rest is owed",
    async (_, more) => {
      const account = await accountWith(STARTING_CENTS);
      await addPaidCredits(gateway, account, 6n * USD);
      inputTokens = 5_000_000;
      const made = await call(account, "messages", { ...CLAUDE, ...more });
      expect(made).toMatchObject({ status: 200, limit: null, held: "2" });
      const [record] = await usageRecordsOf(gateway.server.db, account.id);
      const cost = Number(record?.["cost_nano"]);
      expect(cost).toBeGreaterThanOrEqual(5_000_000 * 3_000);
      expect(await walletOf(account)).toEqual({ left: 0, held: 0, owed: cost - 6_050_000_000 });
      expect((await call(account, "messages", CLAUDE)).status).toBe(402);
    },
  );

  test("holds no fewer contexts than one call needs, and none on credit that was given", async () => {
    const body = { ...CLAUDE, mcp_servers: SERVERS };
    const given = await accountWith(600);
    expect((await call(given, "messages", body)).status).toBe(402);
    const account = await accountWith(STARTING_CENTS);
    await addPaidCredits(gateway, account, 6n * USD);
    const limitedTo = async (limit_usd: number): Promise<TestAccount> => {
      const created = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ name: `k${limit_usd}`, limit_usd }),
      });
      const { api_key: key } = (await created.json()) as { api_key: string };
      return { ...account, headers: { ...account.headers, authorization: `Bearer ${key}` } };
    };
    expect((await call(await limitedTo(1), "messages", body)).status).toBe(403);
    expect(await call(await limitedTo(3), "messages", body)).toMatchObject({
      status: 200,
      held: "1",
    });
  });

  test.each([
    ["searches", SEARCH, 10, 800],
    ["fetched pages", FETCH, 1, 250],
  ])("limits %s with `max_uses`", async (_, tool, calls, cents) => {
    const account = await accountWith(cents);
    const body = { ...CLAUDE, tools: [tool, { name: "own", input_schema: { type: "object" } }] };
    expect(await call(account, "messages", body)).toMatchObject({
      status: 200,
      limit: String(calls),
    });
    expect(sent()["tools"]).toMatchObject([{ ...tool, max_uses: calls }, { name: "own" }]);
    const own = { ...CLAUDE, tools: [{ ...tool, max_uses: 1 }] };
    expect(await call(account, "messages", own)).toMatchObject({ status: 200, limit: null });
  });

  test("ten searches are held with the prompt that each of them reads again", async () => {
    inputTokens = 1_100_000;
    const account = await accountWith(800);
    expect((await call(account, "messages", { ...CLAUDE, tools: [SEARCH] })).status).toBe(200);
    expect(await walletOf(account)).toMatchObject({ owed: 0 });
  });

  test("a translated request gets the limit in the provider's field", async () => {
    const account = await accountWith(5_000);
    const search = { ...CLAUDE, model: GPT.model, tools: [SEARCH] };
    expect(await call(account, "messages", search)).toMatchObject({ status: 200, limit: "10" });
    expect(sent()).toMatchObject({ tools: [{ type: "web_search" }], max_tool_calls: 10 });
    const responses = { ...GPT, model: CLAUDE.model, tools: [{ type: "web_search" }] };
    expect(await call(account, "responses", responses)).toMatchObject({ status: 200, limit: "10" });
    expect(sent()["tools"]).toMatchObject([{ name: "web_search", max_uses: 10 }]);
    const chat = { model: GPT.model, messages: TURNS, max_tokens: 50, web_search_options: {} };
    expect(await call(account, "chat", chat)).toMatchObject({ status: 200, limit: "10" });
    expect(sent()["max_tool_calls"]).toBe(10);
  });

  test("a request without such tools gets no limit", async () => {
    const account = await accountWith(STARTING_CENTS);
    const tools = [{ type: "function", name: "f", parameters: { type: "object" } }];
    expect(await call(account, "responses", { ...GPT, tools })).toMatchObject({
      status: 200,
      limit: null,
    });
    expect(sent()).not.toHaveProperty("max_tool_calls");
  });
});

describe("an abandoned stream with tools that the provider runs", () => {
  const named = (type: string, more: Json): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
  const toolBlock = (index: number): string =>
    named("content_block_start", {
      index,
      content_block: { type: "mcp_tool_use", id: `t${index}`, name: "read", input: {} },
    });
  const claudeStart = named("message_start", {
    message: {
      model: "claude-sonnet-4-5",
      content: [],
      usage: { input_tokens: 100, output_tokens: 1 },
    },
  });
  const gptStart = named("response.created", {
    response: { id: "r", model: "gpt-4.1", status: "in_progress" },
  });
  const gptCall = (index: number): string =>
    named("response.output_item.added", {
      output_index: index,
      item: { type: "mcp_call", id: `t${index}`, name: "read", arguments: "" },
    });

  test.each<[api: Api, body: Json, begin: string, one: (index: number) => string]>([
    ["messages", { ...CLAUDE, mcp_servers: SERVERS }, claudeStart, toolBlock],
    ["responses", { ...GPT, tools: [MCP] }, gptStart, gptCall],
  ])("costs the calls that it has shown, and one more, over %s", async (api, body, begin, one) => {
    let shown = 0;
    const provider = await startRawProvider(() => ({
      headers: { "content-type": "text/event-stream" },
      body: begin + Array.from({ length: shown }, (_, index) => one(index)).join(""),
      ending: "silence",
    }));
    const gateway = await startGateway({
      providers: [],
      timeouts: { ...DEFAULT_TIMEOUTS, drainMs: 100 },
      env: {
        OPENAI_BASE_URL: `${provider.url}/v1`,
        OPENAI_API_KEY: "test-key-0123456789",
        ANTHROPIC_BASE_URL: provider.url,
        ANTHROPIC_API_KEY: "test-key-0123456789",
      },
    });
    const costs: number[] = [];
    for (shown of [0, 1, 9]) {
      const account = await registerAccount(gateway);
      await grantCredits(gateway, account, 100n * USD);
      const client = openSocketClient(gateway, account, api, { ...body, stream: true });
      await client.waitForText(shown === 0 ? "model" : `"t${shown - 1}"`);
      client.disconnect();
      const [record] = await waitUntil(
        () => usageRecordsOf(gateway.server.db, account.id),
        ({ length }) => length === 1,
      );
      costs.push(Number(record?.["cost_nano"]));
    }
    const [none = 0, first = 0, all = 0] = costs;
    // One call reads the prompt and a context of results, two calls two such contexts.
    expect(first / none).toBeGreaterThan(1.3);
    expect(all / none).toBeGreaterThan(5);
    expect(none).toBeGreaterThan(200_000 * 2_000);
    await gateway.stop();
    await provider.stop();
  });
});
