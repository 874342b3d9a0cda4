// A program that knows only the base URL: from well-known documents it finds the MCP server and auth.md, and it registers,
// calls a model, reads usage, buys credits and hands the account over, over HTTP and over MCP.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { parse } from "yaml";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { type Json, listAt, textAt, valueAt } from "./api-client.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.stop());

async function getJson(url: string): Promise<Json> {
  const response = await fetch(url);
  expect({ url, status: response.status }).toEqual({ url, status: 200 });
  return (await response.json()) as Json;
}

/** RFC 9727's catalog is the only path that the program has to know. */
async function discover(baseUrl: string): Promise<{ readonly auth: string; readonly mcp: string }> {
  const catalog = await getJson(`${baseUrl}/.well-known/api-catalog`);
  const links = listAt(catalog, "linkset");
  const auth = links
    .flatMap((entry) => listAt(entry, "service-doc"))
    .find(({ href }) => String(href).endsWith("/auth.md"));
  const manifest = links
    .flatMap((entry) => (Array.isArray(entry["service-meta"]) ? listAt(entry, "service-meta") : []))
    .find(({ href }) => String(href).endsWith("/ard.json"));
  const entries = listAt(await getJson(textAt(manifest, "href")), "entries");
  const card = entries.find(({ type }) => type === "application/mcp-server-card+json");
  const mcp = textAt(await getJson(textAt(card, "url")), "remotes.0.url");
  return { auth: textAt(auth, "href"), mcp };
}

interface Session {
  readonly register: () => Promise<Json>;
  readonly callModel: () => Promise<Json>;
  readonly usage: () => Promise<Json>;
  readonly pay: () => Promise<Json>;
  readonly claim: () => Promise<Json>;
  readonly pollClaim: () => Promise<Json>;
}

async function expectWholeFlow(session: Session): Promise<void> {
  expect(textAt(await session.register(), "account.id")).toStartWith("acct_");
  expect(JSON.stringify(await session.callModel())).toContain("You said: hello");
  const usage = listAt(await session.usage(), "data");
  expect(usage).toHaveLength(1);
  expect(Number(usage[0]?.["cost_usd"])).toBeGreaterThan(0);
  const invoice = await session.pay();
  expect(new URL(textAt(invoice, "pay_url")).origin).toBe(gateway.url);
  const page = await fetch(textAt(invoice, "pay_url"));
  expect(page.status).toBe(200);
  const claim = await session.claim();
  const claimPage = textAt(claim, "claim_attempt.verification_uri_complete");
  expect((await fetch(claimPage, { redirect: "manual" })).status).toBeLessThan(400);
  expect(JSON.stringify(await session.pollClaim())).toContain("authorization_pending");
}

describe("from the base URL alone", () => {
  test("the commands of auth.md do everything over HTTP", async () => {
    const { auth } = await discover(gateway.url);
    const guide = await (await fetch(auth)).text();
    const spec = parse(await (await fetch(`${new URL(auth).origin}/openapi.yaml`)).text()) as Json;
    expect(valueAt(spec, "openapi")).toBeString();
    let key = "";
    const run = async (method: string, path: string): Promise<Json> => {
      const command = curlCommand(guide, method, path);
      const response = await fetch(command.url, {
        method,
        headers: { ...command.headers, ...(key === "" ? {} : { authorization: `Bearer ${key}` }) },
        ...(command.body === undefined ? {} : { body: command.body }),
      });
      return (await response.json()) as Json;
    };
    await expectWholeFlow({
      register: async () => {
        const created = await run("POST", "/v1/accounts");
        key = textAt(created, "api_key");
        return created;
      },
      callModel: async () => {
        const url = `${gateway.url}/v1/chat/completions`;
        const { body = "" } = curlCommand(guide, "POST", "/v1/chat/completions");
        const request = {
          ...(JSON.parse(body) as Json),
          messages: [{ role: "user", content: "hello" }],
        };
        const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
        const response = await fetch(url, {
          method: "POST",
          headers,
          body: JSON.stringify(request),
        });
        return (await response.json()) as Json;
      },
      usage: () => run("GET", "/v1/usage"),
      pay: () => run("POST", "/v1/billing/invoice"),
      claim: () => run("POST", "/agent/identity/claim"),
      pollClaim: () => run("POST", "/oauth2/token"),
    });
  });

  test("the tools of the MCP server do everything over MCP", async () => {
    const { mcp } = await discover(gateway.url);
    const client = new Client(
      { name: "newcomer", version: "1" },
      { versionNegotiation: { mode: "auto" } },
    );
    await client.connect(new StreamableHTTPClientTransport(new URL(mcp)));
    expect(client.getProtocolEra()).toBe("modern");
    await client.listTools();
    let api_key: string | undefined;
    const run = async (name: string, args: Json = {}): Promise<Json> => {
      const result = await client.callTool({
        name,
        arguments: { ...args, ...(api_key === undefined ? {} : { api_key }) },
      });
      if (result.isError === true) throw new Error(JSON.stringify(result.content));
      // Safe because every tool has an output schema, whose root is an object.
      return result.structuredContent as Json;
    };
    await expectWholeFlow({
      register: async () => {
        const created = await run("create_account");
        api_key = textAt(created, "api_key");
        return created;
      },
      callModel: async () => {
        const models = await run("list_models", { available: "true" });
        const model = textAt(models, "data.0.id");
        return run("send_message", { model, prompt: "hello", max_tokens: 20 });
      },
      usage: () => run("get_usage"),
      pay: () => run("create_invoice", { amount_usd: 10 }),
      claim: () => run("start_claim", { email: "human@example.com" }),
      pollClaim: () => run("poll_claim"),
    });
    await client.close();
  });
});

/** The first curl command of this method and path, as a request. */
function curlCommand(
  guide: string,
  method: string,
  path: string,
): {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
} {
  const commands = [...guide.matchAll(/^curl (?:\\\n|.)*$/gm)].map(([text]) => text);
  const command = commands.find((text) => {
    const url = /https?:\/\/[^\s'"]+/.exec(text)?.[0] ?? "";
    return new URL(url).pathname === path && (/ -X (\w+)/.exec(text)?.[1] ?? "GET") === method;
  });
  if (command === undefined) throw new Error(`auth.md has no command for ${method} ${path}`);
  const url = /https?:\/\/[^\s'"]+/.exec(command)?.[0] ?? "";
  const json = / -d '?(.+?)'?$/m.exec(command)?.[1];
  if (json !== undefined)
    return { url, headers: { "content-type": "application/json" }, body: json };
  const fields = [...command.matchAll(/--data-urlencode '?(\w+)=([^'\n]+)'?/g)];
  if (fields.length === 0) return { url, headers: {} };
  const form = new URLSearchParams(fields.map(([, name = "", value = ""]) => [name, value]));
  return {
    url,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: form.toString(),
  };
}
