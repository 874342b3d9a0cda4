// Links for the person: a client that can open URLs shows the link of a claim or an invoice itself. All others get it in the result.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { listAt, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { MODERN, postModern } from "./raw-mcp.ts";

const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const CAN_OPEN = { [CAPABILITIES]: { elicitation: { url: {} } } };

let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  gateway = await startGateway();
  account = await registerAccount(gateway);
});
afterAll(() => gateway.stop());

async function countClaims(): Promise<number> {
  const row = await gateway.server.db.get("select count(*) as n from claim_attempt", []);
  return Number(row?.["n"]);
}

interface Opened {
  readonly url: string;
  readonly message: string;
}

async function withClient(
  action: "accept" | "decline",
  use: (
    call: (name: string, args: Record<string, unknown>) => Promise<unknown>,
    opened: readonly Opened[],
  ) => Promise<void>,
): Promise<void> {
  const opened: Opened[] = [];
  const client = new Client(
    { name: "test", version: "1" },
    {
      capabilities: { elicitation: { url: {} } },
      versionNegotiation: { mode: { pin: MODERN } },
    },
  );
  client.setRequestHandler("elicitation/create", ({ params }) => {
    expect(params.mode).toBe("url");
    opened.push({ url: textAt(params, "url"), message: params.message });
    return { action };
  });
  const headers = { authorization: `Bearer ${account.key}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), { requestInit: { headers } }),
  );
  await client.listTools();
  await use((name, args) => client.callTool({ name, arguments: args }), opened);
  await client.close();
}

const start = (meta: Record<string, unknown>, params: Record<string, unknown> = {}) =>
  postModern(gateway, {
    method: "tools/call",
    params: { name: "start_claim", arguments: { email: "human@example.com" }, ...params },
    key: account.key,
    meta,
  });

describe("a client that can open URLs", () => {
  test("shows the link and the code of a claim, which is started once", async () => {
    const before = await countClaims();
    await withClient("accept", async (call, opened) => {
      const result = await call("start_claim", { email: "human@example.com" });
      const attempt = valueAt(result, "structuredContent.claim_attempt");
      expect(opened).toEqual([
        {
          url: textAt(attempt, "verification_uri_complete"),
          message: expect.stringContaining(textAt(attempt, "user_code")),
        },
      ]);
      expect(valueAt(result, "structuredContent.link_opened")).toBe(true);
    });
    expect(await countClaims()).toBe(before + 1);
  });

  test("shows the page of an invoice, and says if the person did not open it", async () => {
    await withClient("decline", async (call, opened) => {
      const result = await call("create_invoice", { amount_usd: 10 });
      expect(opened.map(({ url }) => url)).toEqual([textAt(result, "structuredContent.pay_url")]);
      expect(valueAt(result, "structuredContent.link_opened")).toBe(false);
    });
  });

  test("gets errors and tools without links as they are", async () => {
    await withClient("accept", async (call, opened) => {
      expect(valueAt(await call("start_claim", { email: "wrong" }), "isError")).toBe(true);
      expect(valueAt(await call("get_balance", {}), "structuredContent.account.id")).toBe(
        account.id,
      );
      expect(opened).toEqual([]);
    });
  });
});

describe("the state that a client carries", () => {
  test("is refused if it was changed, and starts nothing", async () => {
    const { body } = await start(CAN_OPEN);
    expect(valueAt(body, "result.resultType")).toBe("input_required");
    const state = textAt(body, "result.requestState");
    const before = await countClaims();
    const [version, payload = "", mac] = state.split(".");
    const forged = { tool: "start_claim", result: { claim_attempt_id: "claim_forged" } };
    const other = Buffer.from(
      JSON.stringify({ ...JSON.parse(Buffer.from(payload, "base64url").toString()), p: forged }),
    ).toString("base64url");
    for (const wrong of [`${version}.${other}.${mac}`, "", "x", `${state}x`]) {
      const refused = await start(CAN_OPEN, { requestState: wrong });
      expect(valueAt(refused.body, "error.code")).toBe(-32_602);
      expect(refused.text).not.toContain("claim_forged");
    }
    expect(await countClaims()).toBe(before);
  });

  test("works for the tool that it was made for alone", async () => {
    const { body } = await start(CAN_OPEN);
    const params = {
      name: "get_balance",
      arguments: {},
      requestState: textAt(body, "result.requestState"),
    };
    const other = await postModern(gateway, { method: "tools/call", params, key: account.key });
    expect(valueAt(other.body, "result.structuredContent.account.id")).toBe(account.id);
  });
});

test("a client that cannot open URLs gets the link in the result", async () => {
  for (const meta of [
    {},
    { [CAPABILITIES]: { elicitation: {} } },
    { [CAPABILITIES]: { elicitation: { form: {} } } },
  ]) {
    const { body } = await start(meta);
    expect(
      textAt(body, "result.structuredContent.claim_attempt.verification_uri_complete"),
    ).toContain("/claim?");
  }
});

describe("prompts", () => {
  test("are tasks with the arguments that they need", async () => {
    const { body } = await postModern(gateway, { method: "prompts/list" });
    expect(listAt(body, "result.prompts").map(({ name }) => name)).toEqual([
      "start",
      "claim",
      "buy_credits",
    ]);
    const params = { name: "claim", arguments: { email: "human@example.com" } };
    const got = await postModern(gateway, { method: "prompts/get", params });
    const text = textAt(got.body, "result.messages.0.content.text");
    expect(text).toContain("start_claim with the email human@example.com");
    expect(text).toContain("Never open the link yourself");
  });

  test("name tools that exist", async () => {
    const tools = await postModern(gateway, { method: "tools/list" });
    const names = listAt(tools.body, "result.tools").map(({ name }) => name);
    for (const [name, args] of [
      ["start", {}],
      ["claim", { email: "a@example.com" }],
      ["buy_credits", { amount_usd: "10" }],
    ] as const) {
      const params = { name, arguments: args };
      const { body } = await postModern(gateway, { method: "prompts/get", params });
      const text = textAt(body, "result.messages.0.content.text");
      const named = text.match(/\b(?:get|list|create|start|poll|send)_[a-z]+/g) ?? [];
      expect(named).not.toBeEmpty();
      for (const tool of named) expect(names).toContain(tool);
    }
  });

  test.each([
    [{ name: "claim" }, "email"],
    [{ name: "claim", arguments: { email: "" } }, "email"],
    [{ name: "no-such" }, "prompts/list"],
    [{ name: "claim", arguments: { email: 5 } }, "arguments.email"],
  ] as const)("name what is wrong with %p", async (params, named) => {
    const { body } = await postModern(gateway, { method: "prompts/get", params });
    expect(valueAt(body, "error.code")).toBe(-32_602);
    expect(textAt(body, "error.message")).toContain(named);
  });
});
