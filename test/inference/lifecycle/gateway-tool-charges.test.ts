// Calls in which the gateway calls MCP tools, searches and fetches pages: what is held for them, what they cost if everything goes
// well, if the caller leaves, if the process is killed, and if the tools reply with anything at all.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import * as fc from "fast-check";
import type { FetchFile } from "../../../src/inference/media/fetch-file.ts";
import { call as callRoute } from "../../spec/api-client.ts";
import { eventually } from "../../support/eventually.ts";
import { startMcpServer } from "../../support/fakes/mcp-server.ts";
import { freePort } from "../../support/free-port.ts";
import { runs } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { TEST_SEED } from "../../support/random.ts";
import { migratedStoreLocation, openStoreAt, STORE_KINDS } from "../../support/stores/stores.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import {
  countOpenHolds,
  expectSettledLedger,
  grantCredits,
  type Json,
  PATHS,
  postCall,
  readWallet,
  usageRecordsOf,
  USD,
  waitUntil,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";
import { asksForStream, type ToolTurn, turnReply } from "../support/tool-turns.ts";

const SEARCH_FEE = 10_000_000n;
const PAGE_FEE = 2_000_000n;
const INPUT = 1_000n;
const OUTPUT = 2_000n;
const START_CREDITS = 50_000_000n;
const MODEL = "on-chat/echo";
const PAGE = "https://tides.example/page";

/** A model whose provider runs no tools. */
function settingsFor(provider: RawProvider): Readonly<Record<string, string>> {
  const model = {
    id: MODEL,
    name: "echo",
    wires: ["chat"],
    context_length: 128_000,
    max_output_tokens: 16_384,
    supported: ["tools"],
    pricing: { tokens: { input: "1", output: "2" } },
  };
  return {
    ...withModels([model], [{ id: "on-chat", base_url: `${provider.url}/v1`, wires: ["chat"] }]),
    POSTERN_SEARCH: "simulator",
    POSTERN_WEB_FETCH_USD: "0.002",
    POSTERN_FETCHED_FILES_PER_MINUTE: "100000",
  };
}

const mcp = startMcpServer();
afterAll(() => mcp.stop());
const TIDE = ["high_tide", { place: "Oslo" }] as const;
const SEARCH = ["web_search", { query: "tides" }] as const;
const FETCH = ["web_fetch", { url: PAGE }] as const;

interface Limits {
  readonly searches?: number;
  readonly pages?: number;
}

function messagesBody({ searches = 2, pages = 2 }: Limits = {}, more: Json = {}): Json {
  return {
    model: MODEL,
    max_tokens: 500,
    messages: [{ role: "user", content: `Read ${PAGE}. When is high tide?` }],
    mcp_servers: [{ type: "url", url: mcp.url, name: "sea" }],
    tools: [
      { type: "mcp_toolset", mcp_server_name: "sea" },
      { type: "web_search_20250305", name: "web_search", max_uses: searches },
      { type: "web_fetch_20250910", name: "web_fetch", max_uses: pages },
    ],
    ...more,
  };
}

const MCP_TOOL = {
  type: "mcp",
  server_label: "sea",
  server_url: mcp.url,
  require_approval: "never",
};

function responsesBody(more: Json = {}): Json {
  const tools = [MCP_TOOL, { type: "web_search" }];
  return { model: MODEL, max_output_tokens: 500, input: "When?", tools, ...more };
}

function tokensCost(turns: readonly ToolTurn[]): bigint {
  return turns.reduce(
    (sum, { input, output }) => sum + BigInt(input) * INPUT + BigInt(output) * OUTPUT,
    0n,
  );
}

const toolCalls = (): number =>
  mcp.requests.filter(({ body }) => body.includes('"tools/call"')).length;

/** The turns of the provider, and what came of them. */
interface Setup {
  readonly gateway: Gateway;
  readonly provider: RawProvider;
  account: TestAccount;
  /** By the request's number in this test, and its body. */
  turnOf: (number: number, body: string) => ToolTurn | Promise<ToolTurn>;
  earlier: number;
  page: FetchFile;
}

const TEXT_PAGE: FetchFile = async ({ url, onRequest }) => {
  onRequest(url);
  const data = Buffer.from("High tide is at three. ".repeat(400)).toString("base64");
  return { mediaType: "text/plain", data };
};

async function setUp(store: "sqlite" | "postgres"): Promise<Setup> {
  const provider = await startRawProvider(async ({ body, path }) => {
    if (path.endsWith("/models")) return { body: '{"object":"list","data":[]}' };
    const turn = await setup.turnOf(provider.requests.length - setup.earlier, body);
    return turnReply(turn, asksForStream(body));
  });
  const gateway = await startGateway({
    store,
    providers: [],
    fetchFile: (request) => setup.page(request),
    env: {
      ...settingsFor(provider),
      MISTRAL_BASE_URL: `${provider.url}/v1`,
      MISTRAL_API_KEY: "sk-gateway-0123456789",
    },
  });
  const setup: Setup = {
    gateway,
    provider,
    account: await registerAccount(gateway),
    turnOf: () => ({ input: 1, output: 1 }),
    earlier: 0,
    page: TEXT_PAGE,
  };
  return setup;
}

async function begin(setup: Setup, credits = 0n): Promise<void> {
  mcp.override = undefined;
  mcp.requests.length = 0;
  setup.page = TEXT_PAGE;
  setup.earlier = setup.provider.requests.length;
  setup.account = await registerAccount(setup.gateway);
  if (credits > 0n) await grantCredits(setup.gateway, setup.account, credits);
  await saveServer(setup);
}

async function saveServer({ gateway, account }: Pick<Setup, "gateway" | "account">) {
  const saved = await callRoute(gateway, "POST /v1/mcp-servers/tides", {
    key: account.key,
    body: { url: mcp.url },
  });
  expect(saved.status).toBe(200);
}

/** The turns in order; the last one again and again. */
const inOrder =
  (turns: readonly ToolTurn[]) =>
  (number: number): ToolTurn =>
    turns[Math.min(number, turns.length) - 1] ?? { input: 1, output: 1 };

describe.each(STORE_KINDS)("tools that the gateway runs, on %s", (store) => {
  let setup: Setup;
  beforeAll(async () => {
    setup = await setUp(store);
  });
  beforeEach(() => begin(setup, 10n * USD));
  afterAll(async () => {
    await setup.gateway.stop();
    await setup.provider.stop();
  });

  const sent = (): number => setup.provider.requests.length - setup.earlier;
  const spent = async (start = START_CREDITS + 10n * USD): Promise<bigint> => {
    const { promo, paid } = await readWallet(setup.gateway.server.db, setup.account.id);
    return start - promo - paid;
  };
  const records = () => usageRecordsOf(setup.gateway.server.db, setup.account.id);
  const settled = () => expectSettledLedger(setup.gateway.server.db);
  const send = (body: Json, more: Partial<TestAccount> & { signal?: AbortSignal } = {}) =>
    postCall(setup.gateway, { ...setup.account, ...more }, "messages", body);

  test.each([false, true])(
    "charges each turn, search and page once (stream: %p)",
    async (stream) => {
      const turns: readonly ToolTurn[] = [
        { input: 100, output: 20, calls: [TIDE, TIDE] },
        { input: 400, output: 30, calls: [SEARCH, FETCH] },
        { input: 3_000, output: 40 },
      ];
      let heldLast = 0n;
      setup.turnOf = async (number) => {
        if (number === 3)
          heldLast = (await readWallet(setup.gateway.server.db, setup.account.id)).held;
        return inOrder(turns)(number);
      };
      expect(await (await send(messagesBody({}, { stream }))).text()).toContain("Done.");
      await settled();
      const cost = tokensCost(turns) + SEARCH_FEE + PAGE_FEE;
      expect(await spent()).toBe(cost);
      expect(heldLast).toBeGreaterThanOrEqual(cost);
      const [record, ...others] = await records();
      expect([record?.["outcome"], others]).toEqual(["completed", []]);
      expect(toolCalls()).toBe(2);
    },
  );

  test.each([false, true])(
    "charges the turns so far if the caller leaves while a tool runs (stream: %p)",
    async (stream) => {
      const entered = Promise.withResolvers<void>();
      const answer = Promise.withResolvers<void>();
      mcp.override = async (request) => {
        if (!(await request.text()).includes('"tools/call"')) return undefined;
        entered.resolve();
        await answer.promise;
        return undefined;
      };
      const turns: readonly ToolTurn[] = [{ input: 100, output: 20, calls: [TIDE, TIDE, SEARCH] }];
      setup.turnOf = inOrder(turns);
      const leave = new AbortController();
      const calling = send(messagesBody({}, { stream }), { signal: leave.signal })
        .then((response) => response.text())
        .catch(() => "left");
      await entered.promise;
      leave.abort();
      await calling;
      await settled();
      answer.resolve();
      expect([sent(), toolCalls()]).toEqual([1, 1]);
      expect(await spent()).toBe(tokensCost(turns));
      const [record, ...others] = await records();
      expect([record?.["outcome"], others]).toEqual(["client_aborted", []]);
    },
  );

  test("concurrent calls spend no more than the credits", async () => {
    const body = messagesBody({ searches: 1 });
    const tools = (body["tools"] as readonly Json[]).slice(0, 2);
    const quoted = await fetch(`${setup.gateway.url}/v1/quote?api=messages`, {
      method: "POST",
      headers: setup.account.headers,
      body: JSON.stringify({ ...body, tools }),
    });
    const held = Number(((await quoted.json()) as Json)["cost_usd_max"]) * 1e9;
    // For three calls at once.
    const credits = BigInt(Math.ceil(3.5 * held)) - START_CREDITS;
    await begin(setup, credits);
    setup.turnOf = (_, sentBody) =>
      sentBody.includes("high tide at")
        ? { input: 900, output: 20 }
        : { input: 300, output: 20, calls: [TIDE, SEARCH] };
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, index) => send({ ...body, tools, stream: index % 2 === 0 })),
    );
    const statuses = replies.map(({ status }) => status);
    expect(statuses).toContain(200);
    // The credits would pay them, one after another.
    expect(statuses).toContain(429);
    await Promise.all(replies.map((reply) => reply.text()));
    await settled();
    const paid = (await records()).reduce((sum, one) => sum + BigInt(String(one["cost_nano"])), 0n);
    const wallet = await readWallet(setup.gateway.server.db, setup.account.id);
    const left = wallet.promo + wallet.paid;
    expect([left >= 0n, paid > 0n, left]).toEqual([true, true, START_CREDITS + credits - paid]);
  });

  test("`max_tool_calls` limits all tools together", async () => {
    setup.turnOf = (number) => ({
      input: 100,
      output: 20,
      ...(number < 6 && { calls: number % 2 === 1 ? [TIDE] : [SEARCH] }),
    });
    const response = await postCall(
      setup.gateway,
      setup.account,
      "responses",
      responsesBody({ max_tool_calls: 3 }),
    );
    expect(response.status).toBe(200);
    await response.text();
    await settled();
    expect([sent(), toolCalls()]).toEqual([4, 2]);
    expect(await spent()).toBe(4n * tokensCost([{ input: 100, output: 20 }]) + SEARCH_FEE);
  });

  test("a search costs its fee beside a cost that the provider states for its turns", async () => {
    setup.turnOf = inOrder([
      { input: 100, output: 20, calls: [SEARCH], statedUsd: 0.001 },
      { input: 900, output: 20, statedUsd: 0.003 },
    ]);
    const model = "mistral/mistral-large-latest";
    const body = responsesBody({ model, tools: [{ type: "web_search" }] });
    const response = await postCall(setup.gateway, setup.account, "responses", body);
    expect(await response.text()).toContain("Done.");
    await settled();
    expect(await spent()).toBe(4_000_000n + SEARCH_FEE);
  });

  test("a call on the caller's own provider key goes on after a tool, and costs nothing", async () => {
    const added = await fetch(`${setup.gateway.url}/v1/provider-keys`, {
      method: "POST",
      headers: setup.account.headers,
      body: JSON.stringify({ provider: "mistral", api_key: "sk-caller-0123456789abcdefghij" }),
    });
    expect(added.status).toBe(201);
    setup.earlier = setup.provider.requests.length;
    setup.turnOf = inOrder([
      { input: 100, output: 20, calls: [TIDE] },
      { input: 200, output: 20 },
    ]);
    const body = responsesBody({ model: "mistral/mistral-large-latest", tools: [MCP_TOOL] });
    const response = await postCall(setup.gateway, setup.account, "responses", body);
    const text = await response.text();
    expect(text).toContain("Done.");
    await settled();
    expect([sent(), toolCalls(), await spent()]).toEqual([2, 1, 0n]);
  });
});

describe("whatever the model and its tools do", () => {
  let setup: Setup;
  beforeAll(async () => {
    setup = await setUp("sqlite");
  });
  beforeEach(() => begin(setup, 1_000n * USD));
  afterAll(async () => {
    await expectSettledLedger(setup.gateway.server.db);
    await setup.gateway.stop();
    await setup.provider.stop();
  });

  /** Sends the call after a quote of it. Returns what both say of its cost. */
  const quotedCall = async (api: "messages" | "responses", body: Json) => {
    setup.earlier = setup.provider.requests.length;
    const post = (path: string): Promise<Response> =>
      fetch(setup.gateway.url + path, {
        method: "POST",
        headers: setup.account.headers,
        body: JSON.stringify(body),
      });
    const quote = (await (await post(`/v1/quote?api=${api}`)).json()) as Json;
    const response = await post(PATHS[api]);
    const text = await response.text();
    const { db } = setup.gateway.server;
    await waitUntil(
      () => countOpenHolds(db),
      (count) => count === 0,
    );
    const [record] = (await usageRecordsOf(db, setup.account.id)).slice(-1);
    return {
      status: response.status,
      text,
      cost: Number(record?.["cost_nano"]) / 1e9,
      most: Number(quote["cost_usd_max"]),
    };
  };

  test("a call costs no more than was held", async () => {
    const tool = fc.constantFrom(TIDE, SEARCH, FETCH, ["long", {}] as const, ["fail", {}] as const);
    const turn = fc.record({
      // A provider counts at most a token for each byte.
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      output: fc.nat(600),
      calls: fc.array(tool, { maxLength: 4 }),
    });
    const limits = fc.record({
      searches: fc.integer({ min: 1, max: 3 }),
      pages: fc.integer({ min: 1, max: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(turn, { minLength: 1, maxLength: 12 }),
        fc.boolean(),
        fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }),
        limits,
        async (turns, stream, max_tool_calls, own) => {
          setup.turnOf = (number, body) => {
            const { share, output, calls } = turns[number - 1] ?? {
              share: 1,
              output: 1,
              calls: [],
            };
            const { max_tokens = 0, max_completion_tokens: left = max_tokens } = JSON.parse(
              body,
            ) as { max_tokens?: number; max_completion_tokens?: number };
            return {
              input: Math.floor(share * Buffer.byteLength(body)),
              output: Math.min(output, left),
              calls,
            };
          };
          const { status, cost, most } =
            max_tool_calls === undefined
              ? await quotedCall("messages", messagesBody(own, { stream }))
              : await quotedCall("responses", responsesBody({ stream, max_tool_calls }));
          expect(status).toBe(200);
          expect(cost).toBeLessThanOrEqual(most);
        },
      ),
      { seed: TEST_SEED, numRuns: runs(25) },
    );
  });

  test("long results of one tool leave the fees of another in the hold", async () => {
    // Ten calls of a tool, each turn with as many tokens as are held for, and then ten searches at once.
    const searches = Array.from({ length: 10 }, () => SEARCH);
    setup.turnOf = (number) => ({
      input: 17_000 + 8_000 * Math.min(number - 1, 10),
      output: 10,
      calls: number <= 10 ? [["long", {}]] : searches,
    });
    const { status, cost, most } = await quotedCall("responses", responsesBody());
    expect([status, cost <= most]).toEqual([200, true]);
  });

  test("more searches than are counted as plausible are not run", async () => {
    await grantCredits(setup.gateway, setup.account, 100_000n * USD);
    const calls = Array.from({ length: 1_500 }, () => SEARCH);
    setup.turnOf = (number) => ({ input: 100, output: 100, ...(number === 1 && { calls }) });
    const body = responsesBody({ tools: [{ type: "web_search" }], max_tool_calls: 100_000 });
    const { status, cost } = await quotedCall("responses", body);
    expect(status).toBe(200);
    expect(cost).toBeGreaterThan(10);
    expect(cost).toBeLessThan(10.1);
  });

  test("any reply of an MCP server becomes a result that the model reads", async () => {
    setup.turnOf = inOrder([
      { input: 10, output: 10, calls: [TIDE] },
      { input: 10, output: 10 },
    ]);
    const block = fc.oneof(
      fc.jsonValue(),
      fc.record({
        type: fc.constant("text"),
        text: fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue()),
      }),
      fc.record({ type: fc.string(), uri: fc.jsonValue(), resource: fc.jsonValue() }),
    );
    const result = fc.oneof(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.record({
        content: fc.array(block, { maxLength: 5 }),
        isError: fc.oneof(fc.boolean(), fc.jsonValue()),
        structuredContent: fc.jsonValue(),
      }),
    );
    const nested = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const reply = fc.oneof(
      {
        weight: 4,
        arbitrary: result.map((value) => ({ member: "result", value: JSON.stringify(value) })),
      },
      fc
        .record({
          code: fc.integer(),
          message: fc.string({ unit: "binary" }),
          data: fc.jsonValue(),
        })
        .map((value) => ({ member: "error", value: JSON.stringify(value) })),
      fc.constant({
        member: "result",
        value: `{"content":[],"structuredContent":{"a":${nested}}}`,
      }),
    );
    // A server that never sends a JSON-RPC reply is waited for, which other tests cover.
    const form = fc.oneof(
      fc.record({
        reply,
        status: fc.constantFrom(200, 200, 302, 401, 500),
        type: fc.constantFrom("application/json", "text/html", ""),
      }),
      fc.record({ reply, status: fc.constant(200), type: fc.constant("text/event-stream") }),
    );
    await fc.assert(
      fc.asyncProperty(
        form,
        fc.boolean(),
        async ({ reply: { member, value }, status, type }, stream) => {
          mcp.override = async (request) => {
            const text = await request.text();
            if (!text.includes('"tools/call"')) return undefined;
            const { id } = JSON.parse(text) as Json;
            const body = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"${member}":${value}}`;
            const framed = type === "text/event-stream" ? `data: ${body}\n\n` : body;
            return new Response(framed, { status, headers: { "content-type": type } });
          };
          const called = await quotedCall("messages", messagesBody({}, { stream }));
          expect([called.status, called.text.includes("Done.")]).toEqual([200, true]);
          expect(called.cost).toBe(0.000_06);
        },
      ),
      { seed: TEST_SEED, numRuns: runs(20) },
    );
  });

  test("any list of tools of an MCP server is offered, or is a 400", async () => {
    setup.turnOf = inOrder([{ input: 10, output: 10 }]);
    const depth = (levels: number): string =>
      `${'{"type":"object","properties":{"a":'.repeat(levels)}{}${"}}".repeat(levels)}`;
    const schema = fc.oneof(
      fc.constant('{"type":"object"}'),
      fc.jsonValue().map((value) => JSON.stringify(value)),
      fc.constantFrom(1, 60, 70, 400).map(depth),
      fc.constant('{"type":"object","$ref":"#"}'),
    );
    const tool = fc
      .record({
        name: fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("a", "web_search", "")),
        description: fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue()),
        inputSchema: schema,
      })
      .map(
        ({ inputSchema, ...rest }) =>
          `{"inputSchema":${inputSchema},${JSON.stringify(rest).slice(1)}`,
      );
    const list = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.array(tool, { maxLength: 6 }).map((all) => `{"tools":[${all.join()}]}`),
      },
      fc.jsonValue().map((value) => JSON.stringify(value)),
    );
    await fc.assert(
      fc.asyncProperty(list, async (result) => {
        // A change of the list of servers forgets their tools.
        await saveServer(setup);
        mcp.override = async (request) => {
          const text = await request.text();
          if (!text.includes('"tools/list"')) return undefined;
          const { id } = JSON.parse(text) as Json;
          return new Response(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`, {
            headers: { "content-type": "application/json" },
          });
        };
        const { status, text } = await quotedCall("messages", messagesBody());
        expect({ result, text, isExpected: status === 200 || status === 400 }).toEqual({
          result,
          text,
          isExpected: true,
        });
      }),
      { seed: TEST_SEED, numRuns: runs(40) },
    );
  });

  test("any page becomes a result that the model reads", async () => {
    setup.turnOf = inOrder([
      { input: 10, output: 10, calls: [FETCH] },
      { input: 10, output: 10 },
    ]);
    const page = fc.record({
      mediaType: fc.constantFrom(
        "text/html",
        "text/plain",
        "application/pdf",
        "image/png",
        "text/",
      ),
      data: fc.oneof(
        fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes).toString("base64")),
        fc
          .array(
            fc.constantFrom(
              "<a href='",
              "https://x.example/",
              "'>",
              "<p",
              "&#x1",
              "<!--",
              "]]>",
              "\u0000",
            ),
          )
          .map((pieces) => Buffer.from(pieces.join("")).toString("base64")),
      ),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(page, fc.constant(undefined)),
        fc.boolean(),
        async (file, stream) => {
          setup.page = async ({ url, onRequest }) => {
            onRequest(url);
            return file ?? { problem: "could not be fetched" };
          };
          const { status, text, cost } = await quotedCall("messages", messagesBody({}, { stream }));
          expect([status, text.includes("Done.")]).toEqual([200, true]);
          expect([0.000_06, 0.002_06]).toContain(cost);
        },
      ),
      { seed: TEST_SEED, numRuns: runs(30) },
    );
  });
});

test.each(STORE_KINDS)(
  "a kill while an MCP tool runs leaves no hold and no charge, and a repetition is paid once, on %s",
  async (store) => {
    const turns: readonly ToolTurn[] = [
      { input: 100, output: 20, calls: [TIDE] },
      { input: 300, output: 30 },
    ];
    let earlier = 0;
    const provider = await startRawProvider(({ body }) =>
      turnReply(inOrder(turns)(provider.requests.length - earlier), asksForStream(body)),
    );
    const location = await migratedStoreLocation(store);
    const settings = {
      ...settingsFor(provider),
      POSTERN_SECRET: "a secret of these tests, and of nothing else",
      POSTERN_PROCESS_NAME: "killed",
      ...(store === "postgres"
        ? { DATABASE_URL: location.address }
        : { POSTERN_DATA_DIR: location.address }),
    };
    const port = await freePort();
    const first = await startGatewayProcess(port, settings);
    const account = await registerAccount(first);
    mcp.requests.length = 0;
    const saved = await fetch(`${first.url}/v1/mcp-servers/tides`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ url: mcp.url }),
    });
    expect(saved.status).toBe(200);
    const send = async (url: string): Promise<string> => {
      const response = await fetch(`${url}/v1/responses`, {
        method: "POST",
        headers: { ...account.headers, "idempotency-key": "tide" },
        body: JSON.stringify(responsesBody({ tools: [MCP_TOOL], max_tool_calls: 1 })),
      });
      return `${response.status} ${await response.text()}`;
    };
    const isKilled = Promise.withResolvers<void>();
    mcp.override = async (request) => {
      if ((await request.text()).includes('"tools/call"')) await isKilled.promise;
      return undefined;
    };
    const lost = send(first.url).catch(() => "lost");
    await eventually(() => toolCalls() === 1);
    const db = openStoreAt(location);
    // On SQLite, holds are written when they are a second old.
    await eventually(async () => (await countOpenHolds(db)) === 1);
    await first.kill();
    isKilled.resolve();
    expect(await lost).toBe("lost");
    mcp.override = undefined;

    const second = await startGatewayProcess(port, settings);
    await eventually(async () => (await countOpenHolds(db)) === 0);
    expect(await readWallet(db, account.id)).toEqual({ promo: START_CREDITS, paid: 0n, held: 0n });
    earlier = provider.requests.length;
    const paid = await send(second.url);
    expect(paid).toStartWith("200 ");
    expect(paid).toContain("Done.");
    expect(await send(second.url)).toBe(paid);
    await expectSettledLedger(db);
    const records = await usageRecordsOf(db, account.id);
    expect(records.map((record) => BigInt(String(record["cost_nano"])))).toEqual([
      tokensCost(turns),
    ]);
    expect((await readWallet(db, account.id)).promo).toBe(START_CREDITS - tokensCost(turns));
    expect(toolCalls()).toBe(2);
    await second.stop();
    await db.close();
    await provider.stop();
    if (store === "sqlite") rmSync(location.address, { recursive: true, force: true });
  },
);
