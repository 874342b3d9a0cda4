// A call in which the gateway searches the web has one hold and one charge: the tokens of every turn that the provider has
// billed, and a fee for each search.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
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
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  readWallet,
  usageRecordsOf,
  USD,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { asksForStream, turnReply } from "../support/tool-turns.ts";

const FEE = 10_000_000n;
const INPUT = 1_000n;
const OUTPUT = 2_000n;
const ENV = { POSTERN_SEARCH: "simulator", SIM_API_KEY: "upstream-test-key" };

interface Turn {
  readonly input: number;
  readonly output: number;
  /** A search for this; otherwise the reply is a text. */
  readonly query?: string;
}

function replyOf({ query, ...turn }: Turn, stream: boolean): RawReply {
  return turnReply(
    { ...turn, ...(query !== undefined && { calls: [["web_search", { query }]] }) },
    stream,
  );
}

const BODY = {
  model: "sim/echo",
  messages: [{ role: "user", content: "When is high tide?" }],
  max_tokens: 500,
  web_search_options: {},
};

const limitedTool = (uses: number): Json => ({
  type: "openrouter:web_search",
  parameters: { max_uses: uses },
});

const TURNS: readonly Turn[] = [
  { input: 100, output: 20, query: "tides" },
  { input: 900, output: 30, query: "oslo" },
  { input: 1_700, output: 40 },
];

function costOf(turns: readonly Turn[], searches: number): bigint {
  return turns.reduce(
    (sum, { input, output }) => sum + BigInt(input) * INPUT + BigInt(output) * OUTPUT,
    BigInt(searches) * FEE,
  );
}

describe.each(STORE_KINDS)("searches by the gateway on %s", (store) => {
  let provider: RawProvider;
  let gateway: Gateway;
  let account: TestAccount;
  /** Replies to the request of this number instead of the usual turn. */
  let override: (number: number) => RawReply | undefined = () => undefined;
  let turns = TURNS;
  let onRequest = (_number: number): void => {};

  let earlier = 0;
  /** The requests of this test. */
  const sent = (): number => provider.requests.length - earlier;

  beforeAll(async () => {
    provider = await startRawProvider(({ body }) => {
      const number = sent();
      onRequest(number);
      const turn = turns[Math.min(number, turns.length) - 1] ?? { input: 1, output: 1 };
      return override(number) ?? replyOf(turn, asksForStream(body));
    });
    gateway = await startGateway({
      store,
      providers: [],
      env: { ...ENV, SIM_BASE_URL: provider.url },
    });
  });
  beforeEach(async () => {
    override = () => undefined;
    turns = TURNS;
    onRequest = () => {};
    earlier = provider.requests.length;
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  const call = (more: Json = {}, headers: Json = {}, signal?: AbortSignal): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...account.headers, ...(headers as Record<string, string>) },
      body: JSON.stringify({ ...BODY, ...more }),
      ...(signal === undefined ? {} : { signal }),
    });
  const start = 50_000_000n + 10n * USD;
  const spent = async (): Promise<bigint> => {
    const { promo, paid } = await readWallet(gateway.server.db, account.id);
    return start - promo - paid;
  };

  test.each([false, true])("charges every turn and search once (stream: %p)", async (stream) => {
    let heldLast = 0n;
    onRequest = (number) => {
      if (number === 3)
        void readWallet(gateway.server.db, account.id).then(({ held }) => {
          heldLast = held;
        });
    };
    const response = await call({ stream });
    const text = await response.text();
    expect(text).toContain("Done.");
    await expectSettledLedger(gateway.server.db);
    expect(await spent()).toBe(costOf(TURNS, 2));
    expect(heldLast).toBeGreaterThanOrEqual(costOf(TURNS, 2));
    const [record, ...others] = await usageRecordsOf(gateway.server.db, account.id);
    expect(others).toEqual([]);
    expect(record?.["outcome"]).toBe("completed");
    expect(Number(record?.["input_tokens"])).toBe(2_700);
    expect(Number(record?.["output_tokens"])).toBe(90);
    const detail = JSON.parse(String(record?.["detail"])) as Json;
    expect(detail["price"]).toContainEqual({ meter: "web_search", count: 2, usd: "0.01" });
    expect(detail["attempts"]).toHaveLength(3);
  });

  test.each([false, true])(
    "charges the turns before one that the provider refuses (stream: %p)",
    async (stream) => {
      override = (number) =>
        number === 3 ? { status: 400, body: '{"error":{"message":"no"}}' } : undefined;
      const response = await call({ stream });
      const text = await response.text();
      expect(response.status).toBe(stream ? 200 : 400);
      expect(text).toContain('"error"');
      await expectSettledLedger(gateway.server.db);
      expect(await spent()).toBe(costOf(TURNS.slice(0, 2), 2));
      const [record] = await usageRecordsOf(gateway.server.db, account.id);
      expect(record?.["outcome"]).toBe("upstream_error");
    },
  );

  test("charges the turns before one whose connection is lost", async () => {
    override = (number) =>
      number === 3
        ? {
            ...replyOf({ input: 1, output: 1 }, true),
            ending: "cut",
            body: 'data: {"id":"c","choices":[]}\n\n',
          }
        : undefined;
    const response = await call({ stream: true });
    expect(await response.text()).toContain('"error"');
    await expectSettledLedger(gateway.server.db);
    expect(await spent()).toBe(costOf(TURNS.slice(0, 2), 2));
  });

  test.each([false, true])(
    "counts a turn whose usage the provider does not report (stream: %p)",
    async (stream) => {
      override = (number) => {
        const reply = replyOf(TURNS[number - 1] ?? { input: 0, output: 0 }, stream);
        const body = String(reply.body).replaceAll(/"usage":\{[^}]*\}/g, '"usage":null');
        return number === 1 ? { ...reply, body } : undefined;
      };
      const response = await call({ stream });
      expect(await response.text()).toContain("Done.");
      await expectSettledLedger(gateway.server.db);
      const known = costOf(TURNS.slice(1), 2);
      expect(await spent()).toBeGreaterThan(known);
      expect(await spent()).toBeLessThan(known + 1_000n * INPUT);
      const [record] = await usageRecordsOf(gateway.server.db, account.id);
      expect(Number(record?.["exact"])).toBe(0);
    },
  );

  test("ends after the turn in which the caller leaves, and charges it", async () => {
    const leave = new AbortController();
    let resume = (): void => {};
    const left = new Promise<void>((resolve) => {
      resume = resolve;
    });
    override = (number) => {
      if (number !== 2) return undefined;
      const reply = replyOf(TURNS[1] ?? { input: 0, output: 0 }, true);
      const half = String(reply.body).indexOf("\n\n") + 2;
      return { ...reply, cuts: [half], beforeNext: () => left };
    };
    const response = await call({ stream: true }, {}, leave.signal);
    await waitUntil(sent, (count) => count === 2);
    leave.abort();
    await response.text().catch(() => {});
    // The gateway, in this process, sees the closed connection before it has answered these.
    for (let requests = 0; requests < 5; requests++) await fetch(`${gateway.url}/healthz`);
    resume();
    await expectSettledLedger(gateway.server.db);
    expect(sent()).toBe(2);
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    expect(record?.["outcome"]).toBe("client_aborted");
    expect(await spent()).toBe(costOf(TURNS.slice(0, 2), 1));
  });

  test("a repetition with the same Idempotency-Key neither searches nor pays again", async () => {
    const headers = { "idempotency-key": "once" };
    const first = await (await call({}, headers)).text();
    const again = await (await call({}, headers)).text();
    expect(again).toBe(first);
    expect(sent()).toBe(3);
    expect(await spent()).toBe(costOf(TURNS, 2));
  });

  test("stays within `max_cost_usd`", async () => {
    const more = { web_search_options: undefined, tools: [limitedTool(1)] };
    const response = await call({ ...more, postern: { max_cost_usd: 0.06 } });
    expect(response.status).toBe(200);
    await expectSettledLedger(gateway.server.db);
    // The second turn may not search any more.
    expect(await spent()).toBe(costOf(TURNS.slice(0, 2), 1));
  });

  test("ends before a turn that the hold does not cover", async () => {
    turns = [
      { input: 48_000, output: 20, query: "tides" },
      { input: 500, output: 20 },
    ];
    const more = { web_search_options: undefined, tools: [limitedTool(1)] };
    const response = await call({ ...more, postern: { max_cost_usd: 0.06 } });
    expect(await response.text()).toContain('"finish_reason":"length"');
    expect(sent()).toBe(1);
  });

  test("searches less often with little credit", async () => {
    account = await registerAccount(gateway);
    const response = await call();
    expect(response.headers.get("x-postern-max-tool-calls")).toBe("1");
    await expectSettledLedger(gateway.server.db);
    const { promo } = await readWallet(gateway.server.db, account.id);
    expect(promo).toBe(50_000_000n - costOf(TURNS.slice(0, 2), 1));
  });

  test("concurrent calls spend no more than the credits", async () => {
    account = await registerAccount(gateway);
    turns = [{ input: 300, output: 20, query: "tides" }];
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, index) => call({ stream: index % 2 === 0 })),
    );
    const statuses = replies.map(({ status }) => status);
    await Promise.all(replies.map((reply) => reply.text()));
    expect(statuses).toContain(200);
    await expectSettledLedger(gateway.server.db);
    const records = await usageRecordsOf(gateway.server.db, account.id);
    const paid = records.reduce((sum, { cost_nano: cost }) => sum + BigInt(String(cost)), 0n);
    const { promo } = await readWallet(gateway.server.db, account.id);
    expect(promo).toBeGreaterThanOrEqual(0n);
    expect(promo).toBe(50_000_000n - paid);
  });

  test("refuses a call whose least hold is not covered, before anything is sent", async () => {
    const response = await call({ postern: { max_cost_usd: 0.000_1 } });
    expect(response.status).toBe(400);
    expect(errorOf(await response.json())["message"]).toContain("max_cost_usd");
    expect(sent()).toBe(0);
  });

  test("refuses a call with a data policy, because the search API has none that is known", async () => {
    const response = await call({ provider: { zdr: true } });
    expect(response.status).toBe(400);
    expect(errorOf(await response.json())["message"]).toContain("whose policy is not known here");
    expect(sent()).toBe(0);
  });

  test("lists the fee with the model, and quotes it", async () => {
    const models = (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: Json[] };
    const model = models.data.find(({ id }) => id === "sim/echo");
    expect(JSON.stringify(model?.["pricing"])).toContain("0.01");
    const response = await fetch(`${gateway.url}/v1/quote`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify(BODY),
    });
    const quote = (await response.json()) as Json;
    expect(Number(quote["cost_usd_max"])).toBeGreaterThan(0.1);
  });
});

test("a loop never costs more than its hold", async () => {
  const provider = await startRawProvider(({ body }) => {
    const turn = turns[Math.min(provider.requests.length - offset, turns.length) - 1];
    return replyOf(turn ?? { input: 1, output: 1 }, asksForStream(body));
  });
  let turns: readonly Turn[] = [];
  let offset = 0;
  const gateway = await startGateway({
    providers: [],
    env: { ...ENV, SIM_BASE_URL: provider.url },
  });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 1_000n * USD);
  const turn = fc.record({
    // What a provider can count: at most a token for each byte of the request.
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    output: fc.nat(500),
    query: fc.string({ minLength: 1, maxLength: 40 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(turn, { minLength: 1, maxLength: 14 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 5 }),
      async (generated, stream, uses) => {
        offset = provider.requests.length;
        turns = generated.map(({ share, output, query }, index) => ({
          input: Math.floor(share * (200 + 8_000 * index)),
          output,
          ...(index === generated.length - 1 ? {} : { query }),
        }));
        const tools = [limitedTool(uses)];
        const body = JSON.stringify({ ...BODY, web_search_options: undefined, tools, stream });
        const post = (path: string): Promise<Response> =>
          fetch(gateway.url + path, { method: "POST", headers: account.headers, body });
        const quote = (await (await post("/v1/quote")).json()) as Json;
        const response = await post("/v1/chat/completions");
        expect(response.status).toBe(200);
        await response.text();
        await waitUntil(
          () => countOpenHolds(gateway.server.db),
          (count) => count === 0,
        );
        const [record] = (await usageRecordsOf(gateway.server.db, account.id)).slice(-1);
        const cost = Number(record?.["cost_nano"]) / 1e9;
        expect(cost).toBeLessThanOrEqual(Number(quote["cost_usd_max"]));
      },
    ),
    { seed: TEST_SEED, numRuns: runs(30) },
  );
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

test.each(STORE_KINDS)(
  "a kill between two turns charges nothing, and nothing twice, on %s",
  async (store) => {
    const provider = await startRawProvider(({ body }) =>
      provider.requests.length === 2
        ? { ...replyOf({ input: 1, output: 1 }, asksForStream(body)), body: "", ending: "silence" }
        : replyOf(TURNS[0] ?? { input: 0, output: 0 }, asksForStream(body)),
    );
    const location = await migratedStoreLocation(store);
    const settings = {
      ...ENV,
      SIM_BASE_URL: provider.url,
      POSTERN_SECRET: "a secret of these tests, and of nothing else",
      ...(store === "postgres"
        ? { DATABASE_URL: location.address }
        : { POSTERN_DATA_DIR: location.address }),
    };
    const port = await freePort();
    const first = await startGatewayProcess(port, settings);
    const account = await registerAccount(first);
    const pending = fetch(`${first.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ ...BODY, stream: true }),
    })
      .then((response) => response.text())
      .catch(() => "");
    await waitUntil(
      () => provider.requests.length,
      (count) => count === 2,
    );
    await first.kill();
    await pending;
    const second = await startGatewayProcess(port, settings);
    const db = openStoreAt(location);
    await waitUntil(
      () => countOpenHolds(db),
      (count) => count === 0,
    );
    expect(await readWallet(db, account.id)).toEqual({ promo: 50_000_000n, paid: 0n, held: 0n });
    expect(await usageRecordsOf(db, account.id)).toEqual([]);
    await db.close();
    await second.stop();
    await provider.stop();
  },
);
