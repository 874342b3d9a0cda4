import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  chat,
  createFakeClock,
  expectError,
  type Json,
  listAt,
  textAt,
} from "./api-client.ts";

const START = Date.UTC(2026, 10, 18, 9, 30);
const NANO = 1e9;
const FIELDS = [
  "id",
  "object",
  "created_at",
  "key_id",
  "model",
  "provider",
  "api",
  "stream",
  "outcome",
  "status",
  "usage",
  "exact",
  "price",
  "cost_usd",
  "cost_credits",
  "owed_usd",
  "byok",
  "attempts",
  "latency_ms",
  "first_token_ms",
  "labels",
  "dropped",
  "guardrails",
  "mcp_calls",
  "trace_id",
];

describe.each(STORE_KINDS)("usage records on %s", (store) => {
  const clock = createFakeClock(START);
  let gateway: Gateway;
  let account: TestAccount;
  let second: { readonly id: string; readonly key: string };
  /** All calls, oldest first. */
  const made: { readonly id: string; readonly cost: number }[] = [];

  async function make(sent: Promise<ApiResponse>): Promise<void> {
    const reply = await sent;
    expect({ status: reply.status, text: reply.status === 200 ? "" : reply.text }).toEqual({
      status: 200,
      text: "",
    });
    const stated =
      reply.headers.get("x-postern-cost-usd") ?? /"cost":([\d.e-]+)/.exec(reply.text)?.[1];
    made.push({
      id: reply.headers.get("x-request-id") ?? "",
      cost: Math.round(Number(stated) * NANO),
    });
    clock.advance(HOUR_MS);
  }

  const usage = (query = "", key = account.key, headers = {}): Promise<ApiResponse> =>
    call(gateway, `GET /v1/usage${query}`, { key, headers });

  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now });
    account = await registerAccount(gateway);
    const minted = await call(gateway, "POST /v1/keys", { key: account.key, body: { name: "b" } });
    second = { id: textAt(minted.body, "id"), key: textAt(minted.body, "api_key") };
    const { key } = account;
    const messages = [{ role: "user", content: "hello" }];
    await make(chat(gateway, key));
    await make(chat(gateway, key, { stream: true, stream_options: { include_usage: true } }));
    await make(
      call(gateway, "POST /v1/messages", {
        key,
        body: { model: "sim/echo", max_tokens: 40, messages },
        headers: { "anthropic-version": "2023-06-01" },
      }),
    );
    await make(
      call(gateway, "POST /v1/responses", {
        key,
        body: { model: "sim/reason", max_output_tokens: 90, input: "hello" },
      }),
    );
    clock.advance(DAY_MS);
    await make(chat(gateway, second.key, { model: "sim/tiny" }));
    await make(
      call(gateway, "POST /v1/embeddings", { key, body: { model: "sim/embed", input: "hello" } }),
    );
  });
  afterAll(() => gateway.stop());

  describe("GET /v1/usage", () => {
    test("lists one record per call, newest first, with the call's x-request-id", async () => {
      const response = await usage();
      expectStatus("listUsage", 200, response);
      expect(response.body).toMatchObject({ object: "list", has_more: false, next_cursor: null });
      expect(listAt(response.body, "data").map(({ id }) => id)).toEqual(
        made.map(({ id }) => id).toReversed(),
      );
    });

    test("returns the same fields in every record", async () => {
      for (const record of listAt((await usage()).body, "data"))
        expect(Object.keys(record)).toEqual(FIELDS);
    });

    test("returns the same cost as the call", async () => {
      const costs = listAt((await usage()).body, "data").map(({ id, cost_usd: cost }) => ({
        id: String(id),
        cost: Math.round(Number(cost) * NANO),
      }));
      expect(costs).toEqual(made.toReversed());
    });

    test("returns a cost that equals the sum of count × price, rounded up once", async () => {
      for (const record of listAt((await usage()).body, "data")) {
        const lines = listAt(record, "price");
        expect(lines.length).toBeGreaterThan(0);
        const pico = lines.reduce(
          (sum, { count, usd }) => sum + BigInt(Number(count)) * picoOf(String(usd)),
          0n,
        );
        expect(BigInt(Math.round(Number(record["cost_usd"]) * NANO))).toBe((pico + 999n) / 1_000n);
      }
    });

    test("sums up to the change of the balance", async () => {
      const { body } = await call(gateway, "GET /v1/account", { key: account.key });
      const spent = made.reduce((sum, { cost }) => sum + cost, 0);
      expect(valueAt(body, "balance.credits")).toBe(Math.floor((50_000_000 - spent) / 1_000));
    });

    test("returns key, model, provider, API, stream, outcome and latency", async () => {
      const [embeddings, tiny, responses, message, streamed, plain] = listAt(
        (await usage()).body,
        "data",
      );
      expect(plain).toMatchObject({
        object: "usage",
        model: "sim/echo",
        provider: "sim",
        api: "chat",
        stream: false,
        outcome: "completed",
        status: 200,
        exact: true,
        byok: false,
        created_at: "2026-11-18T09:30:00.000Z",
      });
      expect(streamed).toMatchObject({ api: "chat", stream: true });
      expect(message).toMatchObject({ api: "messages", stream: false });
      expect(responses).toMatchObject({ api: "responses", model: "sim/reason" });
      expect(tiny).toMatchObject({ key_id: second.id, model: "sim/tiny" });
      expect(embeddings).toMatchObject({ api: "embeddings", model: "sim/embed" });
    });

    test("counts reasoning tokens as output and cached tokens as input", async () => {
      for (const record of listAt((await usage()).body, "data")) {
        const tokens = record["usage"] as Readonly<Record<string, number>>;
        for (const count of Object.values(tokens)) expect(Number.isInteger(count)).toBe(true);
        expect(tokens["reasoning_tokens"]).toBeLessThanOrEqual(tokens["output_tokens"] ?? 0);
        expect(tokens["cache_read_tokens"]).toBeLessThanOrEqual(tokens["input_tokens"] ?? 0);
      }
      const reasoned = listAt((await usage("?model=sim/reason")).body, "data")[0];
      expect(Number(valueAt(reasoned, "usage.reasoning_tokens"))).toBeGreaterThan(0);
      const caller = await registerAccount(gateway);
      // The simulator's cache is shared by the gateways of a process.
      const content = `The rule of ${caller.id} stays in the cache of the provider. `.repeat(120);
      const costs: number[] = [];
      for (let repetition = 0; repetition < 2; repetition++) {
        const reply = await chat(gateway, caller.key, { messages: [{ role: "user", content }] });
        costs.push(Number(reply.headers.get("x-postern-cost-usd")));
      }
      const tokensOf = (record: unknown, name: string): number =>
        Number(valueAt(record, `usage.${name}`));
      // Both can have been made in the same millisecond, so their order says nothing.
      const [first, cached] = listAt((await usage("", caller.key)).body, "data").toSorted(
        (left, right) => tokensOf(left, "cache_read_tokens") - tokensOf(right, "cache_read_tokens"),
      );
      expect(tokensOf(first, "cache_read_tokens")).toBe(0);
      expect(tokensOf(cached, "cache_read_tokens")).toBeGreaterThan(1_000);
      // The cached tokens are a part of the input, which is as large as without a cache.
      expect(tokensOf(cached, "input_tokens")).toBe(tokensOf(first, "input_tokens"));
      expect(costs[1]).toBeLessThan(costs[0] ?? 0);
      expect(Number(valueAt(cached, "cost_usd"))).toBe(costs[1] ?? 0);
    });

    test("has no record of calls rejected before the provider", async () => {
      const before = listAt((await usage()).body, "data").length;
      await chat(gateway, account.key, { model: "no/such" });
      await chat(gateway, account.key, { messages: "wrong" });
      expect(listAt((await usage()).body, "data").length).toBe(before);
    });

    test("lists the calls of all keys of the account only", async () => {
      expect((await usage("", second.key)).body).toEqual((await usage()).body);
      const otherAccount = await registerAccount(gateway);
      expect(listAt((await usage("", otherAccount.key)).body, "data")).toEqual([]);
    });

    describe("filters", () => {
      const count = async (query: string): Promise<number> =>
        listAt((await usage(query)).body, "data").length;

      test("model and key_id", async () => {
        expect(await count("?model=sim/echo")).toBe(3);
        expect(await count("?model=sim%2Ftiny")).toBe(1);
        expect(await count("?model=no/such")).toBe(0);
        expect(await count(`?key_id=${second.id}`)).toBe(1);
        expect(await count(`?model=sim/echo&key_id=${second.id}`)).toBe(0);
      });

      test("include from and exclude to", async () => {
        expect(await count("?from=2026-11-18T10:30:00Z")).toBe(5);
        expect(await count("?from=2026-11-18T10:30:00.001Z")).toBe(4);
        expect(await count("?to=2026-11-18T10:30:00Z")).toBe(1);
        expect(await count("?from=2026-11-18T10:30:00Z&to=2026-11-18T12:30:00Z")).toBe(2);
        expect(await count("?from=2026-11-18T11:30:00%2B01:00&to=2026-11-18T12:30:00Z")).toBe(2);
        expect(await count("?from=2027-01-01T00:00:00Z")).toBe(0);
        expect(await count("?from=2026-11-20T00:00:00Z&to=2026-11-19T00:00:00Z")).toBe(0);
      });

      test("reject unknown and invalid filters and name them", async () => {
        for (const [query, param] of [
          ["?from=yesterday", "from"],
          ["?to=2026-11-18", "to"],
          ["?from=2026-02-30T00:00:00Z", "from"],
          [`?model=${"m".repeat(201)}`, "model"],
          [`?key_id=${"k".repeat(65)}`, "key_id"],
          ["?model=a&model=b", "model"],
          ["?account_id=acct_x", "account_id"],
          ["?__proto__=x", "__proto__"],
          ["?model=a%00b", null],
        ] as const) {
          const response = await usage(query);
          expectError(response, { status: 400, code: "invalid_request", param });
          expectStatus("listUsage", 400, response);
        }
      });
    });

    describe("as CSV", () => {
      test("returns a line per record", async () => {
        const response = await usage("", account.key, { accept: "text/csv" });
        expect(response.headers.get("content-type")).toBe("text/csv; charset=utf-8");
        const lines = response.text.split("\r\n");
        expect(lines[0]).toStartWith("id,created_at,key_id,model,provider,api,stream,outcome");
        expect(lines.at(-1)).toBe("");
        expect(lines.slice(1, -1).map((line) => line.split(",")[0])).toEqual(
          made.map(({ id }) => id).toReversed(),
        );
      });

      test("accepts the same filters and returns errors as JSON", async () => {
        const response = await usage(`?key_id=${second.id}`, account.key, { accept: "text/csv" });
        expect(response.text.split("\r\n").length).toBe(3);
        const bad = await usage("?from=never", account.key, { accept: "text/csv" });
        expectError(bad, { status: 400, code: "invalid_request", param: "from" });
      });
    });
  });

  describe("GET /v1/usage/{id}", () => {
    test("returns the record of a call", async () => {
      const response = await call(gateway, `GET /v1/usage/${made[0]?.id}`, { key: account.key });
      expectStatus("getUsage", 200, response);
      const [oldest] = listAt((await usage()).body, "data").toReversed();
      expect(response.body).toEqual(oldest ?? {});
    });

    test("returns the same 404 for a record of another account as for an unknown one", async () => {
      const otherAccount = await registerAccount(gateway);
      const theirs = await call(gateway, `GET /v1/usage/${made[0]?.id}`, { key: otherAccount.key });
      expectStatus("getUsage", 404, theirs);
      expectError(theirs, { status: 404, code: "not_found", param: "id" });
      const nobodys = await call(gateway, "GET /v1/usage/req_x", { key: otherAccount.key });
      expect(valueAt(nobodys.body, "error.message")).toBe(valueAt(theirs.body, "error.message"));
      const nul = await call(gateway, "GET /v1/usage/%00", { key: otherAccount.key });
      expectStatus("getUsage", 400, nul);
    });
  });

  describe("labels, filters and traces", () => {
    const labeled = (labels: string, headers = {}) =>
      call(gateway, "POST /v1/chat/completions", {
        key: labelKey,
        body: { model: "sim/echo", messages: [{ role: "user", content: "hello" }] },
        headers: { "x-postern-labels": labels, ...headers },
      });
    let labelKey = "";
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";

    beforeAll(async () => {
      labelKey = (await registerAccount(gateway)).key;
      const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;
      for (const response of [
        await labeled("team=search, job=nightly", { traceparent }),
        await labeled("team=ads"),
        await labeled(""),
      ])
        expect(response.status).toBe(200);
      const failed = await call(gateway, "POST /v1/chat/completions", {
        key: labelKey,
        body: {
          model: "sim/echo",
          messages: [{ role: "user", content: "hello [[sim: status=500]]" }],
        },
      });
      expect(failed.status).toBeGreaterThan(499);
    });

    test("records labels and the trace id of a call", async () => {
      const response = await usage("?label=job=nightly", labelKey);
      const [record, ...others] = listAt(response.body, "data");
      expect(others).toEqual([]);
      expect(record).toMatchObject({
        labels: { job: "nightly", team: "search" },
        trace_id: traceId,
        dropped: [],
      });
    });

    test("filters by outcome, status, provider, API and request id", async () => {
      const count = async (query: string): Promise<number> =>
        listAt((await usage(query, labelKey)).body, "data").length;
      expect(await count("")).toBe(4);
      expect(await count("?outcome=failed")).toBe(1);
      expect(await count("?status=200")).toBe(3);
      expect(await count("?provider=sim&api=chat")).toBe(4);
      expect(await count("?api=messages")).toBe(0);
      const [first] = listAt((await usage("", labelKey)).body, "data");
      expect(await count(`?request_id=${String(first?.["id"])}`)).toBe(1);
      expectError(await usage("?outcome=lost", labelKey), { status: 400, code: "invalid_request" });
    });

    test("sums by label, with totals, errors and the period before", async () => {
      const { body } = await call(gateway, "GET /v1/usage/summary?group_by=label", {
        key: labelKey,
      });
      expect(listAt(body, "data").map(({ label, calls }) => [label, calls])).toEqual([
        ["team=search", 1],
        ["team=ads", 1],
        ["job=nightly", 1],
      ]);
      expect(body).toMatchObject({ totals: { calls: 4, errors: 1 }, previous_totals: null });
      const from = new Date(clock.now() - HOUR_MS).toISOString();
      const recent = await call(gateway, `GET /v1/usage/summary?from=${from}`, { key: labelKey });
      expect(recent.body).toMatchObject({ previous_totals: { calls: 0, latency_ms: null } });
    });

    test("exports sums as CSV", async () => {
      const response = await call(gateway, "GET /v1/usage/summary?group_by=model", {
        key: labelKey,
        headers: { accept: "text/csv" },
      });
      const [head, ...lines] = response.text.trim().split("\r\n");
      expect(head).toStartWith("model,calls,errors,client_aborted,input_tokens");
      expect(lines.map((line) => line.split(",").slice(0, 3))).toContainEqual([
        "sim/echo",
        "4",
        "1",
      ]);
    });

    test.each([
      ["a=1,b=2,c=3,d=4,e=5,f=6", "more than 5 labels"],
      ["team", "invalid label"],
      ["Team=search", "invalid label"],
      ["team=", "invalid label"],
      ["team=a b", "invalid label"],
      [`team=${"x".repeat(65)}`, "invalid label"],
      ["team=a,team=b", "twice"],
      ["team=a,", "invalid label"],
      ["a=1,".repeat(200), "longer than"],
    ])("rejects the labels %s", async (labels, problem) => {
      const response = await labeled(labels);
      expectError(response, { status: 400, code: "invalid_request", param: "x-postern-labels" });
      expect(response.text).toContain(problem);
    });
  });

  describe("GET /v1/usage/summary", () => {
    const summary = (query: string): Promise<ApiResponse> =>
      call(gateway, `GET /v1/usage/summary${query}`, { key: account.key });

    test("sums calls, tokens and costs by day, newest first, by default", async () => {
      const response = await summary("");
      expectStatus("summarizeUsage", 200, response);
      const days = listAt(response.body, "data");
      expect(days.map(({ day, calls }) => [day, calls])).toEqual([
        ["2026-11-19", 2],
        ["2026-11-18", 4],
      ]);
      expect(await summary("?group_by=day")).toMatchObject({ body: response.body });
    });

    test.each(["day", "model", "key"])("adds up to the list when grouped by %s", async (by) => {
      const records = listAt((await usage()).body, "data");
      const name = by === "key" ? "key_id" : by;
      for (const group of listAt((await summary(`?group_by=${by}`)).body, "data")) {
        const members = records.filter((record) => groupOf(record, by) === group[name]);
        expect(group["calls"]).toBe(members.length);
        expect(Math.round(Number(group["cost_usd"]) * NANO)).toBe(
          members.reduce((sum, { cost_usd: cost }) => sum + Math.round(Number(cost) * NANO), 0),
        );
        for (const counted of ["input_tokens", "output_tokens", "reasoning_tokens"])
          expect(valueAt(group, `usage.${counted}`)).toBe(
            members.reduce((sum, record) => sum + Number(valueAt(record, `usage.${counted}`)), 0),
          );
      }
    });

    test("accepts the filters of the list", async () => {
      const { body } = await summary(`?group_by=model&key_id=${second.id}`);
      expect(listAt(body, "data").map(({ model, calls }) => [model, calls])).toEqual([
        ["sim/tiny", 1],
      ]);
    });

    test.each(["day", "model", "key"])(
      "grouped by %s it is paged like the other lists",
      async (by) => {
        const all = (await summary(`?group_by=${by}`)).body;
        expect(all).toMatchObject({ has_more: false, next_cursor: null });
        const found: Json[] = [];
        let cursor = "";
        for (;;) {
          const { body } = await summary(`?group_by=${by}&limit=1${cursor}`);
          found.push(...listAt(body, "data"));
          const next = valueAt(body, "next_cursor");
          expect(valueAt(body, "has_more")).toBe(next !== null);
          if (typeof next !== "string") break;
          cursor = `&cursor=${encodeURIComponent(next)}`;
        }
        expect(found.length).toBeGreaterThan(1);
        expect(found).toEqual([...listAt(all, "data")]);
      },
    );

    test("pages more than 1,000 groups", async () => {
      const many = await registerAccount(gateway);
      const records = Array.from({ length: 1_001 }, (_, place) => ({
        ...usageRecord({
          id: `req_many${String(place).padStart(4, "0")}`,
          accountId: many.id,
          keyId: "key_of_many",
          cost: 1n,
          createdAt: Date.UTC(2026, 10, 18),
        }),
        model: `sim/model-${String(place).padStart(4, "0")}`,
      }));
      await gateway.server.db.write((tx) => insertUsage(tx, records));
      const read = (query: string): Promise<ApiResponse> =>
        call(gateway, `GET /v1/usage/summary?group_by=model${query}`, { key: many.key });
      const first = await read("");
      expect(listAt(first.body, "data").length).toBe(1_000);
      expect(first.body).toMatchObject({ has_more: true, next_cursor: "model:sim/model-0001" });
      const rest = await read(`&cursor=${textAt(first.body, "next_cursor")}`);
      expect(listAt(rest.body, "data").map(({ model }) => model)).toEqual(["sim/model-0000"]);
      expect(rest.body).toMatchObject({ has_more: false, next_cursor: null });
    });

    test("rejects an unknown group_by and a cursor of another grouping", async () => {
      for (const query of [
        "?group_by=week",
        "?group_by=day&time_zone=Mars/Olympus",
        "?group_by=",
        "?limit=0",
        "?limit=1001",
        "?cursor=",
        "?cursor=2026-11-18",
        "?group_by=model&cursor=day:2026-11-18",
        "?cursor=day:",
        "?group_by=day&group_by=key",
      ]) {
        const response = await summary(query);
        expectError(response, { status: 400, code: "invalid_request" });
        expectStatus("summarizeUsage", 400, response);
      }
    });
  });
});

function groupOf(record: Json, by: string): unknown {
  if (by === "day") return String(record["created_at"]).slice(0, 10);
  return by === "key" ? record["key_id"] : record["model"];
}

/** US dollars in pico-USD. */
function picoOf(usd: string): bigint {
  const [integer = "0", fraction = ""] = usd.split(".");
  return BigInt(integer + fraction.padEnd(12, "0"));
}
