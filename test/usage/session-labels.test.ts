// Sessions and agents of calls as labels: which headers name them, and how usage is filtered and grouped by them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { isObject } from "../../src/base/json.ts";
import { readCallLabels } from "../../src/usage/session-labels.ts";
import { call, chat, expectError, listAt, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const labelsOf = (headers: Record<string, string>): readonly string[] =>
  readCallLabels(new Headers(headers)).labels;

describe("session headers", () => {
  test("name the session and the agents of Claude Code", () => {
    const headers = {
      "x-claude-code-session-id": "5b0c",
      "x-claude-code-agent-id": "search@team",
      "x-claude-code-parent-agent-id": "lead",
    };
    expect(labelsOf(headers)).toEqual(["agent=search@team", "parent_agent=lead", "session=5b0c"]);
  });

  test("name the session and the threads of Codex, whose main thread is the session", () => {
    expect(labelsOf({ "session-id": "s1", "thread-id": "s1" })).toEqual(["session=s1"]);
    const child = { "session-id": "s1", "thread-id": "t2", "x-codex-parent-thread-id": "s1" };
    expect(labelsOf(child)).toEqual(["agent=t2", "session=s1"]);
    expect(labelsOf({ session_id: "s1", conversation_id: "c1" })).toEqual(["session=s1"]);
    expect(labelsOf({ conversation_id: "c1" })).toEqual(["session=c1"]);
  });

  test("of the gateway take precedence over those of the agent", () => {
    const headers = { "x-postern-session": "mine", "x-claude-code-session-id": "theirs" };
    expect(readCallLabels(new Headers(headers))).toEqual({
      labels: ["session=mine"],
      sessionId: "mine",
    });
  });

  test("can be labels, and leave the other labels as they are", () => {
    const labels = "team=search, session=s1, agent=a1";
    expect(labelsOf({ "x-postern-labels": labels })).toEqual([
      "agent=a1",
      "session=s1",
      "team=search",
    ]);
  });

  test("of agents are ignored if they are too long or have other characters", () => {
    for (const value of ["a".repeat(65), "a,team=x", "a b", "-a", "é", "a/b", "%"])
      expect({ value, labels: labelsOf({ "x-claude-code-session-id": value }) }).toEqual({
        value,
        labels: [],
      });
  });

  test("of the gateway are refused if they are invalid or contradict a label", () => {
    for (const headers of [
      { "x-postern-session": "a".repeat(65) },
      { "x-postern-agent": "a,b" },
      { "x-postern-labels": "session=a/b" },
      { "x-postern-session": "a", "x-postern-labels": "session=b" },
      // Only the gateway says which batch a call belongs to.
      { "x-postern-labels": "batch=batch_01kvf2q8xn3m5r7t9w1y4z6b8d" },
    ])
      expect(() => labelsOf(headers)).toThrow();
  });
});

describe.each(STORE_KINDS)("usage by session on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  const read = async (path: string): Promise<unknown> =>
    (await call(gateway, `GET ${path}`, { key: account.key })).body;
  const callAs = async (headers: Record<string, string>): Promise<string> => {
    const reply = await chat(gateway, account.key, {}, headers);
    expect(reply.status).toBe(200);
    return reply.headers.get("x-request-id") ?? "";
  };

  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    const session = { "x-claude-code-session-id": "s1" };
    await callAs(session);
    await callAs({ ...session, "x-claude-code-agent-id": "a1" });
    await callAs({
      ...session,
      "x-claude-code-agent-id": "a2",
      "x-claude-code-parent-agent-id": "a1",
    });
    await callAs({ "x-postern-session": "s2", "x-postern-labels": "team=search" });
    await callAs({});
  });
  afterAll(() => gateway.stop());

  test("lists the calls of a session and of an agent", async () => {
    const found = async (query: string): Promise<number> =>
      listAt(await read(`/v1/usage?${query}`), "data").length;
    expect(await found("session=s1")).toBe(3);
    expect(await found("session=s1&agent=a2&parent_agent=a1")).toBe(1);
    expect(await found("session=s2&label=team=search")).toBe(1);
    expect(await found("session=s")).toBe(0);
    expect(await found("session=%25")).toBe(0);
    const [record] = listAt(await read("/v1/usage?agent=a2"), "data");
    expect(valueAt(record, "labels")).toEqual({ session: "s1", agent: "a2", parent_agent: "a1" });
  });

  test.each([
    ["session", { s1: 3, s2: 1 }],
    ["agent", { a1: 1, a2: 1 }],
    ["parent_agent", { a1: 1 }],
    ["label", { "team=search": 1 }],
  ])("sums calls by %s", async (grouping, expected) => {
    const body = await read(`/v1/usage/summary?group_by=${grouping}`);
    const sums = listAt(body, "data").filter(isObject);
    expect(Object.fromEntries(sums.map((sum) => [sum[grouping], sum["calls"]]))).toEqual(expected);
    expect(valueAt(valueAt(body, "totals"), "calls")).toBe(5);
  });

  test("sums the calls of one session by model, and refuses two labels at once", async () => {
    const body = await read("/v1/usage/summary?group_by=model&session=s1");
    expect(valueAt(listAt(body, "data")[0], "calls")).toBe(3);
    const { key } = account;
    for (const query of ["group_by=agent&session=s1", "session=s1&agent=a1"])
      expectError(await call(gateway, `GET /v1/usage/summary?${query}`, { key }), {
        status: 400,
        code: "invalid_request",
      });
  });

  test("exports the session and agents as columns of the CSV", async () => {
    const { key } = account;
    const headers = { accept: "text/csv" };
    const csv = (await call(gateway, "GET /v1/usage?agent=a2", { key, headers })).text;
    expect(csv.split("\r\n")[0]).toEndWith(",labels,session,agent,parent_agent,batch");
    expect(csv.split("\r\n")[1]).toEndWith(",s1,a2,a1,");
    const sums = await call(gateway, "GET /v1/usage/summary?group_by=session", { key, headers });
    expect(sums.text.split("\r\n")[0]).toStartWith("session,calls,");
  });

  test("refuses an invalid session header with its name", async () => {
    const reply = await chat(gateway, account.key, {}, { "x-postern-session": "a/b" });
    expect(reply.status).toBe(400);
    expect(textAt(valueAt(reply.body, "error"), "param")).toBe("x-postern-session");
  });
});
