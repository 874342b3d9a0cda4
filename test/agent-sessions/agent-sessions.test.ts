// Sessions of agents over HTTP: their limit, their agents, their end, and who may end them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ERASURES } from "../../src/account-data/erasure.ts";
import {
  SESSION_RETENTION_DAYS,
  SESSIONS_MAX,
  sweepAgentSessions,
} from "../../src/agent-sessions/agent-sessions.ts";
import { isObject } from "../../src/base/json.ts";
import { DAY_MS } from "../../src/base/time.ts";
import {
  call,
  chat,
  createFakeClock,
  expectError,
  listAt,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const START = Date.UTC(2026, 10, 20, 9);

describe.each(STORE_KINDS)("sessions of agents on %s", (store) => {
  const clock = createFakeClock(START);
  let gateway: Gateway;
  let account: TestAccount;

  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now, timeouts: { drainMs: 300 } });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  const callAs = (session: string, headers: Record<string, string> = {}, key = account.key) =>
    chat(gateway, key, {}, { "x-claude-code-session-id": session, ...headers });
  const get = async (path: string, key = account.key): Promise<unknown> =>
    (await call(gateway, `GET /v1/sessions${path}`, { key })).body;
  const stop = (id: string, key = account.key) =>
    call(gateway, `DELETE /v1/sessions/${id}`, { key });
  const mint = async (body: object): Promise<string> =>
    textAt((await call(gateway, "POST /v1/keys", { key: account.key, body })).body, "api_key");

  test("show what each agent spent, which sums to the spend of the session", async () => {
    await callAs("tree");
    await callAs("tree", { "x-claude-code-agent-id": "a1" });
    await callAs("tree", { "x-claude-code-agent-id": "a1" });
    const nested = { "x-claude-code-agent-id": "a2", "x-claude-code-parent-agent-id": "a1" };
    await callAs("tree", nested);
    const body = await get("/tree");
    const agents = listAt(body, "agents").filter(isObject);
    const shown = agents.map(({ agent, parent_agent, calls }) => ({ agent, parent_agent, calls }));
    expect(new Set(shown)).toEqual(
      new Set([
        { agent: null, parent_agent: null, calls: 1 },
        { agent: "a1", parent_agent: null, calls: 2 },
        { agent: "a2", parent_agent: "a1", calls: 1 },
      ]),
    );
    const sum = agents.reduce((total, { cost_usd: usd }) => total + Number(usd), 0);
    expect(valueAt(body, "spent_usd")).toBeCloseTo(sum, 9);
    expect(valueAt(body, "calls")).toBe(4);
    expect(valueAt(body, "status")).toBe("active");
    const { key } = account;
    const none = await call(gateway, "GET /v1/sessions/none", { key });
    expectStatus("getAgentSession", 404, none);
    expectError(none, { status: 404, code: "not_found" });
    const tree = await call(gateway, "GET /v1/sessions/tree", { key });
    expectStatus("getAgentSession", 200, tree);
    const long = await call(gateway, `GET /v1/sessions/${"a".repeat(65)}`, { key });
    expectStatus("getAgentSession", 400, long);
    expectStatus("stopAgentSession", 404, await stop("none"));
    expectStatus("stopAgentSession", 400, await stop("a".repeat(65)));
    const other = await registerAccount(gateway);
    expect((await call(gateway, "GET /v1/sessions/tree", { key: other.key })).status).toBe(404);
  });

  test("are listed newest first, in pages", async () => {
    for (const id of ["p1", "p2", "p3"]) {
      clock.advance(1_000);
      await callAs(id);
    }
    const first = await get("?limit=2");
    const ids = (body: unknown): unknown[] => listAt(body, "data").map((one) => valueAt(one, "id"));
    expect(ids(first)).toEqual(["p3", "p2"]);
    expect(valueAt(first, "has_more")).toBe(true);
    const rest = await get(`?limit=100&cursor=${encodeURIComponent(textAt(first, "next_cursor"))}`);
    expect(ids(rest)[0]).toBe("p1");
    expect(valueAt(rest, "has_more")).toBe(false);
    const { key } = account;
    expectStatus("listAgentSessions", 200, await call(gateway, "GET /v1/sessions", { key }));
    const invalid = await call(gateway, "GET /v1/sessions?cursor=x", { key });
    expectStatus("listAgentSessions", 400, invalid);
  });

  test("end their calls at the limit of the header, and keep it for calls without one", async () => {
    const limited = await callAs("capped", { "x-postern-session-limit-usd": "0.000001" });
    expectError(limited, { status: 403, code: "session_limit_reached" });
    expect(textAt(limited.body, "error.message")).toContain("session capped");
    expect(await callAs("capped", { "x-postern-session-limit-usd": "0.01" })).toMatchObject({
      status: 200,
    });
    const body = await get("/capped");
    expect(valueAt(body, "limit_usd")).toBe(0.01);
    const spent = Number(valueAt(body, "spent_usd"));
    expect(spent).toBeGreaterThan(0);
    await callAs("capped", { "x-postern-session-limit-usd": String(spent) });
    expectError(await callAs("capped", { "x-postern-session-limit-usd": String(spent) }), {
      status: 403,
      code: "session_limit_reached",
    });
  });

  test("of a key have the limit of its policy, which a header can only lower", async () => {
    const key = await mint({ name: "limited", session_limit_usd: 0.000002 });
    for (const headers of [{}, { "x-postern-session-limit-usd": "5" }])
      expectError(await callAs("policy", headers, key), {
        status: 403,
        code: "session_limit_reached",
      });
    // Calls without a session share one: leaving out the header does not lift the limit.
    expectError(await chat(gateway, key), { status: 403, code: "session_limit_reached" });
  });

  test("refuse a limit without a session, and one that is not an amount", async () => {
    for (const headers of [
      { "x-postern-session-limit-usd": "5" },
      { "x-postern-session": "s", "x-postern-session-limit-usd": "-1" },
      { "x-postern-session": "s", "x-postern-session-limit-usd": "much" },
    ])
      expectError(await chat(gateway, account.key, {}, headers), {
        status: 400,
        code: "invalid_request",
        param: "x-postern-session-limit-usd",
      });
  });

  test.each(["chat", "responses", "messages"] as const)(
    "that are stopped end open streams of %s with an error, and refuse later calls",
    async (api) => {
      const id = `stopped-${api}`;
      const prompt = "[[sim: hang=2]] one two three four five six";
      const bodies = {
        chat: { messages: [{ role: "user", content: prompt }], max_tokens: 100 },
        responses: { input: prompt, max_output_tokens: 100, store: false },
        messages: { messages: [{ role: "user", content: prompt }], max_tokens: 100 },
      };
      const path = api === "chat" ? "chat/completions" : api;
      const response = await fetch(`${gateway.url}/v1/${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${account.key}`,
          "content-type": "application/json",
          "x-postern-session": id,
        },
        body: JSON.stringify({ model: "sim/echo", stream: true, ...bodies[api] }),
      });
      expect(response.status).toBe(200);
      const stopped = await stop(id);
      expect(stopped.status).toBe(200);
      expect(valueAt(stopped.body, "status")).toBe("stopped");
      expect(await response.text()).toContain("session_stopped");
      const again = await callAs(id);
      expectError(again, { status: 403, code: "session_stopped" });
      expect(textAt(again.body, "error.message")).toContain(id);
      expect((await stop(id)).body).toMatchObject({
        stopped_at: valueAt(stopped.body, "stopped_at"),
      });
      await eventually(async () => {
        const usage = await call(gateway, `GET /v1/usage?session=${id}`, { key: account.key });
        expect(listAt(usage.body, "data").map((one) => valueAt(one, "outcome"))).toEqual([
          "client_aborted",
        ]);
        return valueAt(await get(`/${id}`), "held_usd") === 0;
      });
    },
  );

  test.each(["chat/completions", "messages"])(
    "that are stopped tell an open stream of %s only the step that its key can take",
    async (path) => {
      const key = await mint({ scopes: ["models:write"] });
      const id = `scoped-${path.length}`;
      const content = "[[sim: hang=2]] one two three four five six";
      const open = (raw: string): Promise<Response> =>
        fetch(`${gateway.url}/v1/${path}`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${raw}`,
            "content-type": "application/json",
            "x-postern-session": id,
          },
          body: JSON.stringify({
            model: "sim/echo",
            stream: true,
            max_tokens: 100,
            messages: [{ role: "user", content }],
          }),
        });
      const [scoped, whole] = [await open(key), await open(account.key)];
      expect((await stop(id)).status).toBe(200);
      const scopedText = await scoped.text();
      expect(scopedText).toContain('"/v1/keys/self"');
      expect(scopedText).not.toContain('"/v1/sessions');
      expect(await whole.text()).toContain('"/v1/sessions');
    },
  );

  test("are stopped by their own key, or by one that manages others", async () => {
    const one = await mint({ name: "one", scopes: ["models:write"] });
    const two = await mint({ name: "two", scopes: ["models:write"] });
    const reader = await mint({ name: "reader", scopes: ["usage:read"] });
    await callAs("owned", {}, one);
    expectStatus("stopAgentSession", 403, await stop("owned", two));
    expectError(await stop("owned", reader), { status: 403, code: "forbidden" });
    expectStatus("stopAgentSession", 200, await stop("owned", one));
    await callAs("owned2", {}, one);
    expect((await stop("owned2")).status).toBe(200);
    const log = await call(gateway, "GET /v1/audit?action=agent_session.stopped", {
      key: account.key,
    });
    expect(listAt(log.body, "data").map((entry) => valueAt(entry, "target"))).toContain("owned2");
  });

  test("are deleted 30 days after their last call, and those beyond the limit of an account", async () => {
    const { db } = gateway.server;
    const later = clock.now() + (SESSION_RETENTION_DAYS - 1) * DAY_MS;
    const count = async (table: string): Promise<number> =>
      Number((await db.get(`select count(*) as count from ${table}`))?.["count"]);
    const before = await count("agent_session");
    expect(await sweepAgentSessions(db, later)).toBe(0);
    const rows = Array.from({ length: SESSIONS_MAX + 20 }, (_, index) => [
      "acct_many",
      `s${index}`,
      "key",
      START + index,
      START + index,
      index < 5 ? 5 : null,
      0,
      index,
    ]);
    const columns = [
      "account_id:text",
      "id:text",
      "key_id:text",
      "created_at:bigint",
      "last_call_at:bigint",
      "limit_nano:bigint",
      "held:bigint",
      "spent:bigint",
    ] as const;
    await db.write((tx) => tx.insertMany("agent_session", columns, rows));
    // The one with a limit and without spend goes, the four that spent something stay.
    expect(await sweepAgentSessions(db, later)).toBe(16);
    expect(await count("agent_session")).toBe(before + SESSIONS_MAX + 4);
    await sweepAgentSessions(db, later + 3 * DAY_MS);
    expect([await count("agent_session"), await count("session_usage")]).toEqual([0, 0]);
  });

  test("refuse calls for 30 days after their stop, also if their last call is older", async () => {
    const { db } = gateway.server;
    const retention = SESSION_RETENTION_DAYS * DAY_MS;
    expect((await callAs("idle")).status).toBe(200);
    clock.advance(retention - 1);
    expect((await stop("idle")).status).toBe(200);
    await sweepAgentSessions(db, clock.now() + 2);
    expectError(await callAs("idle"), { status: 403, code: "session_stopped" });
    await sweepAgentSessions(db, clock.now() + retention + 1);
    expect(await db.get("select id from agent_session where id = 'idle'")).toBeUndefined();
  });

  test("are erased with the account", () => {
    const erased = ERASURES.filter(({ set }) => set === undefined).map(({ table }) => table);
    expect(erased).toContain("agent_session");
    expect(erased).toContain("session_usage");
  });
});
