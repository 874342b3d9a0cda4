// How many calls each goal of an agent takes that knows only the base URL: by the commands of auth.md, by following links,
// and over MCP. Compares the counts with docs/site/agent-quick-start.md; with POSTERN_WRITE_DOCS=1 it writes them there.

import { afterAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { postModern } from "../mcp/raw-mcp.ts";
import { startGateway } from "../support/gateway.ts";
import { type ApiResponse, call, type Json, listAt, textAt, valueAt } from "./api-client.ts";
import { curlCommand } from "./curl-command.ts";

const FILE = path.join(import.meta.dir, "..", "..", "docs", "site", "agent-quick-start.md");
const HUMAN = "human@example.com";
/** More than the starting credits of an account. */
const TOO_EXPENSIVE = { max_tokens: 16_000, n: 8 };

const gateway = await startGateway();
afterAll(() => gateway.stop());

interface Session {
  readonly createAccount: () => Promise<void>;
  readonly callModel: () => Promise<Json>;
  readonly balance: () => Promise<Json>;
  readonly usage: () => Promise<Json>;
  readonly limitedKey: () => Promise<Json>;
  readonly invoice: () => Promise<Json>;
  readonly claim: () => Promise<Json>;
  readonly invoiceAfterError: () => Promise<Json>;
}

/** Each goal with what proves that it is reached. */
const GOALS: readonly (readonly [
  name: string,
  reach: (session: Session) => Promise<unknown>,
  proof: RegExp,
])[] = [
  ["Create an account and a key", (session) => session.createAccount(), /undefined/],
  ["Call a model", (session) => session.callModel(), /You said/],
  ["Read the balance", (session) => session.balance(), /"credits":50000/],
  ["Read what calls cost", (session) => session.usage(), /"data":\[\]/],
  ["Create a key with a limit", (session) => session.limitedKey(), /"limit_usd":[1-9]/],
  [
    "Create an invoice, which a person or a wallet can pay",
    (session) => session.invoice(),
    /"pay_url"/,
  ],
  [
    "Buy credits after `402 insufficient_credits`",
    (session) => session.invoiceAfterError(),
    /"pay_url"/,
  ],
  ["Start a claim and ask for the decision", (session) => session.claim(), /authorization_pending/],
];

/** Counts the calls of a session. */
interface Counter {
  calls: number;
}

async function curlSession(counter: Counter): Promise<Session> {
  const send = async (line: string, request = {}): Promise<ApiResponse> => {
    counter.calls += 1;
    return await call(gateway, line, request);
  };
  const guide = (await send("GET /auth.md")).text;
  let key = "";
  const run = async (method: string, target: string, changes: Json = {}): Promise<Json> => {
    const { body, headers } = curlCommand(guide, method, target);
    const isJson = headers["content-type"] === "application/json";
    const raw = isJson
      ? JSON.stringify({ ...(JSON.parse(body ?? "{}") as Json), ...changes })
      : body;
    const sent = { headers, ...(raw === undefined ? {} : { raw }), ...(key === "" ? {} : { key }) };
    return (await send(`${method} ${target}`, sent)).body;
  };
  const createAccount = async (): Promise<void> => {
    key = textAt(await run("POST", "/v1/accounts"), "api_key");
  };
  const withKey = (work: () => Promise<Json>) => async (): Promise<Json> => {
    await createAccount();
    return await work();
  };
  const chat = "/v1/chat/completions";
  return {
    createAccount,
    callModel: withKey(() => run("POST", chat)),
    balance: withKey(() => run("GET", "/v1/account")),
    usage: withKey(() => run("GET", "/v1/usage")),
    limitedKey: withKey(() => run("POST", "/v1/keys", { limit_usd: 5 })),
    invoice: withKey(() => run("POST", "/v1/billing/invoice")),
    claim: withKey(async () => {
      await run("POST", "/agent/identity/claim");
      return await run("POST", "/oauth2/token");
    }),
    invoiceAfterError: withKey(async () => {
      const refused = await run("POST", chat, TOO_EXPENSIVE);
      const step = valueAt(refused, "error.next.0");
      return (await send(`POST ${textAt(step, "url")}`, { key, body: valueAt(step, "body") })).body;
    }),
  };
}

/** Knows no path but `/`. */
async function linkSession(counter: Counter): Promise<Session> {
  let key: string | undefined;
  const send = async (method: string, url: string, sent: Json = {}): Promise<ApiResponse> => {
    counter.calls += 1;
    const { pathname, search } = new URL(url, gateway.url);
    const headers = { accept: "application/json" };
    return await call(gateway, `${method} ${pathname}${search}`, {
      headers,
      ...(key === undefined ? {} : { key }),
      ...sent,
    });
  };
  const follow = async (step: unknown, changes: Json = {}): Promise<Json> => {
    const body = { ...(valueAt(step, "body") as Json | undefined), ...changes };
    const type = valueAt(step, "content_type");
    const form = new URLSearchParams(body as Record<string, string>).toString();
    const sent =
      typeof type === "string" ? { raw: form, headers: { "content-type": type } } : { body };
    return (await send(textAt(step, "method"), textAt(step, "url"), sent)).body;
  };
  const home = (await send("GET", "/")).body;
  let account: Json = {};
  const createAccount = async (): Promise<void> => {
    account = await follow(valueAt(home, "next.0"));
    key = textAt(account, "api_key");
  };
  const read = async (link: string): Promise<Json> => {
    await createAccount();
    return (await send("GET", textAt(home, `links.${link}`))).body;
  };
  /** Sends the example of an operation of the OpenAPI description. */
  const operate = async (operationId: string, changes: Json = {}): Promise<Json> => {
    const spec = Bun.YAML.parse((await send("GET", textAt(home, "openapi"))).text) as Json;
    const operations = Object.entries(valueAt(spec, "paths") as Json).flatMap(([url, methods]) =>
      Object.entries(methods as Json).map(([method, operation]) => ({ url, method, operation })),
    );
    const found = operations.find(
      ({ operation }) => valueAt(operation, "operationId") === operationId,
    );
    if (found === undefined) throw new Error(`no operation ${operationId}`);
    const content = valueAt(found.operation, "requestBody.content") as Json;
    const body = { ...(valueAt(content["application/json"], "example") as Json), ...changes };
    await createAccount();
    return (await send(found.method.toUpperCase(), found.url, { body })).body;
  };
  return {
    createAccount,
    callModel: async () => {
      await createAccount();
      return await follow(account["first_call"]);
    },
    balance: () => read("account"),
    usage: () => read("usage"),
    limitedKey: () => operate("createKey", { limit_usd: 5, limit_window: "month" }),
    invoice: () => operate("createInvoice"),
    claim: async () => {
      await createAccount();
      const started = await follow(valueAt(account, "claim.start"), { email: HUMAN });
      return await follow(valueAt(started, "next.0"));
    },
    invoiceAfterError: async () => {
      await createAccount();
      const refused = await follow(account["first_call"], TOO_EXPENSIVE);
      return await follow(valueAt(refused, "error.next.0"));
    },
  };
}

async function mcpSession(counter: Counter): Promise<Session> {
  const send = async (method: string, params: Json = {}): Promise<Json> => {
    counter.calls += 1;
    return (await postModern(gateway, { method, params })).body;
  };
  const tools = listAt(await send("tools/list"), "result.tools").map(({ name }) => String(name));
  let api_key: string | undefined;
  const run = async (name: string, sent: Json = {}): Promise<Json> => {
    expect(tools).toContain(name);
    const args = { ...sent, ...(api_key === undefined ? {} : { api_key }) };
    return valueAt(await send("tools/call", { name, arguments: args }), "result") as Json;
  };
  const createAccount = async (): Promise<void> => {
    api_key = textAt(await run("create_account"), "structuredContent.api_key");
  };
  const withKey =
    (name: string, args: Json = {}) =>
    async (): Promise<Json> => {
      await createAccount();
      return valueAt(await run(name, args), "structuredContent") as Json;
    };
  const message = { model: "sim/echo", prompt: "hello", max_tokens: 20 };
  return {
    createAccount,
    callModel: withKey("send_message", message),
    balance: withKey("get_balance"),
    usage: withKey("get_usage"),
    limitedKey: withKey("create_key", { limit_usd: 5 }),
    invoice: withKey("create_invoice", { amount_usd: 10 }),
    claim: async () => {
      await withKey("start_claim", { email: HUMAN })();
      return await run("poll_claim");
    },
    invoiceAfterError: async () => {
      await createAccount();
      const refused = await run("send_message", {
        ...message,
        prompt: "x ".repeat(200_000),
        max_tokens: 16_000,
      });
      expect(refused["isError"]).toBe(true);
      const step = JSON.parse(textAt(refused, "content.0.text")) as Json;
      const next = valueAt(step, "error.next.0");
      const args = (valueAt(next, "arguments") ?? {}) as Json;
      return valueAt(await run(textAt(next, "tool"), args), "structuredContent") as Json;
    },
  };
}

const ENTRANCES = { curl: curlSession, Links: linkSession, MCP: mcpSession } as const;

test("each goal is reached on each way in, with the calls that the documentation says", async () => {
  const rows: string[] = [];
  for (const [name, reach, proof] of GOALS) {
    const counts: number[] = [];
    for (const begin of Object.values(ENTRANCES)) {
      const counter = { calls: 0 };
      const reached = JSON.stringify(await reach(await begin(counter))) as string | undefined;
      expect([name, begin.name, String(reached)]).toEqual([
        name,
        begin.name,
        expect.stringMatching(proof),
      ]);
      counts.push(counter.calls);
    }
    rows.push(`| ${name} | ${counts.join(" | ")} |`);
  }
  const head = `| Goal | ${Object.keys(ENTRANCES).join(" | ")} |\n| --- | ---: | ---: | ---: |`;
  const page = readFileSync(FILE, "utf8");
  const table = `<!-- goals -->\n\n${head}\n${rows.join("\n")}\n\n<!-- /goals -->`;
  const written = page.replace(/<!-- goals -->.*<!-- \/goals -->/s, table);
  if (process.env["POSTERN_WRITE_DOCS"] === "1") writeFileSync(FILE, written);
  else expect(page).toBe(written);
});
