// The pages of agents' sessions: the tree of agents, and who may stop a session.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { agentTree } from "../../src/console/agent-sessions/agent-sessions-page.tsx";
import type { AgentUsage } from "../../src/usage/session-usage.ts";
import { type PageResponse, type TestUser, textOf, visitPage } from "../billing/console-user.ts";
import { chat } from "../spec/api-client.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

const usage = (agent: string, parentAgent: string, cost: bigint): AgentUsage => ({
  accountId: "acct",
  sessionId: "s",
  agent,
  parentAgent,
  calls: 1,
  errors: 0,
  inputTokens: 1,
  outputTokens: 1,
  cost,
  firstAt: 0,
  lastAt: 0,
});

const shapeOf = (...agents: AgentUsage[]): unknown =>
  agentTree(agents).map(({ usage: { agent }, depth, total }) => [agent, depth, total]);

describe("the tree of agents", () => {
  test("has each agent below its parent, the most expensive branch first", () => {
    const agents = [
      usage("a", "", 5n),
      usage("b", "a", 9n),
      usage("c", "", 20n),
      usage("", "", 1n),
    ];
    expect(shapeOf(...agents)).toEqual([
      ["", 0, 35n],
      ["c", 1, 20n],
      ["a", 1, 14n],
      ["b", 2, 9n],
    ]);
  });

  test("lists agents of unknown parents, and those that name each other, once", () => {
    expect(shapeOf(usage("a", "gone", 2n))).toEqual([["a", 0, 2n]]);
    const circle = [usage("a", "b", 2n), usage("b", "a", 3n), usage("c", "c", 1n)];
    expect(
      agentTree(circle)
        .map(({ usage: { agent } }) => agent)
        .toSorted(),
    ).toEqual(["a", "b", "c"]);
  });
});

describe("the pages of agents' sessions", () => {
  let fixture: ConsoleFixture;
  beforeAll(async () => {
    fixture = await createConsoleFixture("sqlite");
    const session = { "x-postern-session": "s1" };
    const { gateway, account } = fixture;
    await chat(gateway, account.key, {}, session);
    await chat(gateway, account.key, {}, { ...session, "x-postern-agent": "sub" });
  });
  afterAll(() => fixture.gateway.stop());

  const path = (page = ""): string => `/console/${fixture.account.id}/agent-sessions${page}`;
  const open = (
    user: TestUser,
    page = "",
    form?: Readonly<Record<string, string>>,
  ): Promise<PageResponse> => visitPage(fixture.gateway, path(page), user, form);

  test("show the session and its agents", async () => {
    const { owner, otherOwner } = fixture;
    expect((await open(owner)).text).toContain("/agent-sessions/s1");
    const page = textOf(await open(owner, "/s1"));
    for (const text of ["Main agent", "sub", "With subagents"]) expect(page).toContain(text);
    expect((await open(owner, "/none")).status).toBe(404);
    expect((await open(otherOwner, "/s1")).status).toBe(404);
  });

  test("let owners and admins stop a session, and no developer", async () => {
    const { owner, developer, gateway, account } = fixture;
    expect((await open(developer, "/s1")).text).not.toContain("ask=stop");
    expect((await open(developer, "/s1", {})).status).toBe(403);
    expect((await open(owner, "/s1?ask=stop")).text).toContain("Stop session");
    const stopped = await open(owner, "/s1", {});
    expect(stopped.location).toBe(`${path("/s1")}?done=stopped`);
    expect(textOf(await open(owner, "/s1"))).toContain("Stopped");
    const refused = await chat(gateway, account.key, {}, { "x-postern-session": "s1" });
    expect(refused.status).toBe(403);
  });
});
