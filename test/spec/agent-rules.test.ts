// The documents for agents agree: how a key is kept, what a human is asked for, and which models are cheap.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { postModern } from "../mcp/raw-mcp.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { call, listAt, textAt } from "./api-client.ts";

const SKILL = "/.well-known/agent-skills/postern/SKILL.md";
const GUIDES = ["/auth.md", "/llms.txt", SKILL];

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.stop());

const read = async (path: string, accept = "text/markdown"): Promise<string> =>
  (await call(gateway, `GET ${path}`, { headers: { accept } })).text;
const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ");

describe.each(GUIDES)("%s", (path) => {
  test("writes the key to a private file, and has an idempotency key of 128 bits", async () => {
    const text = await read(path);
    const [register = ""] = /^```sh\numask 077\n[\s\S]*?^```$/m.exec(text) ?? [];
    expect(register).toContain("-N16 -tx1 /dev/urandom");
    expect(register).toMatch(/-H "idempotency-key: \$\(cat /);
    expect(register).toContain(" -o ~/.postern/");
    // No other command creates an account.
    expect(text.match(/-X POST \S+\/v1\/accounts/g)).toHaveLength(1);
    expect(oneLine(text)).toContain(
      "The response shows the key once; only the same request with the same `idempotency-key` shows it again, for ten minutes.",
    );
    expect(text).toMatch(/[Nn]ever print (it|the key)/);
  });

  test("asks the human before an email address is used and before money is spent, and opens no link of theirs", async () => {
    const text = oneLine(await read(path));
    expect(text).toMatch(/Ask your human before you use their email address/);
    expect(text).toMatch(/before you spend their money|Ask your human first: it is their money/);
    expect(text).toMatch(/never open these links yourself|Do not open the link yourself/);
  });
});

test("the MCP server has the same rules, in its instructions and in its tools", async () => {
  const { body } = await postModern(gateway, { method: "server/discover" });
  const instructions = textAt(body, "result.instructions");
  expect(instructions).toContain(
    "Ask your human before you use their email address or spend money",
  );
  expect(instructions).toContain("never open their links yourself");
  const listed = await postModern(gateway, { method: "tools/list" });
  const tools = new Map(
    listAt(listed.body, "result.tools").map((tool) => [tool["name"], JSON.stringify(tool)]),
  );
  expect(tools.get("create_account")).toContain("only if the user gave an email address");
  expect(tools.get("create_account")).toContain("mode 0600");
  expect(tools.get("create_invoice")).toContain("Ask your human first");
  expect(tools.get("start_claim")).toContain("Ask them for their email address first");
  expect(tools.get("start_claim")).toContain("never open the link yourself");
});

test("every entrance names the same cheap models, which work now", async () => {
  const { body } = await call(gateway, "GET /", { headers: { accept: "application/json" } });
  const named = listAt(body, "cheapest_models").map(({ id }) => String(id));
  expect(named).toHaveLength(2);
  const { body: models } = await call(gateway, "GET /v1/models?available=true");
  expect(listAt(models, "data").map(({ id }) => id)).toEqual(expect.arrayContaining(named));
  for (const path of ["/", ...GUIDES])
    for (const id of named)
      expect([path, await read(path)]).toEqual([path, expect.stringContaining(id)]);
});
