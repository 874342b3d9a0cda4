// A program that knows only the base URL: from well-known documents it finds the MCP server and auth.md, and it registers,
// calls a model, reads usage, pays with its wallet and hands the account over, over HTTP and over MCP. A person signs in
// and confirms the claim; then the key still works.

import { afterAll, describe, expect, test } from "bun:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Challenge, Credential } from "mppx";
import { createEvmClient, type MppClient } from "../billing/mpp/client.ts";
import { fundedWallet } from "../billing/x402/wallet.ts";
import { CLIENT, startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import { createHttpBrowser } from "../support/browser/http-browser.ts";
import { startFacilitator } from "../support/fakes/x402-facilitator.ts";
import { startGateway } from "../support/gateway.ts";
import { type Json, listAt, textAt, valueAt } from "./api-client.ts";
import { curlCommand } from "./curl-command.ts";

const issuer = await startFakeIssuer();
const facilitator = startFacilitator();
const { issuer: OIDC_ISSUER } = issuer;
const signIn = { OIDC_ISSUER, OIDC_CLIENT_ID: CLIENT.id, OIDC_CLIENT_SECRET: CLIENT.secret };
const gateway = await startGateway({ env: { ...facilitator.env, ...signIn } });
afterAll(async () => {
  await gateway.stop();
  await facilitator.stop();
  await issuer.close();
});

/** The wallet that the program's human lets it spend from. */
const newWalletClient = (): MppClient => createEvmClient(fundedWallet(facilitator, 10_000n));

/** The person opens the link, signs in with the identity provider, and confirms. */
async function confirmClaim(claim: Json, email: string): Promise<void> {
  issuer.overrides = { claims: { email, sub: email } };
  const browser = createHttpBrowser();
  await browser.visit(textAt(claim, "claim_attempt.verification_uri_complete"));
  const review = await browser.visit(`${gateway.url}/signin?return_to=%2Fclaim`);
  const done = await browser.submit(review, { decision: "confirm" });
  expect(done.text).toContain("The account is yours");
}

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
  /** Pays with the wallet. */
  readonly pay: () => Promise<void>;
  readonly balance: () => Promise<Json>;
  readonly claim: () => Promise<{ readonly started: Json; readonly email: string }>;
  readonly pollClaim: () => Promise<Json>;
}

async function expectWholeFlow(session: Session): Promise<void> {
  expect(textAt(await session.register(), "account.id")).toStartWith("acct_");
  expect(JSON.stringify(await session.callModel())).toContain("You said: hello");
  const usage = listAt(await session.usage(), "data");
  expect(usage).toHaveLength(1);
  expect(Number(usage[0]?.["cost_usd"])).toBeGreaterThan(0);
  const creditsOf = async () => Number(valueAt(await session.balance(), "balance.credits"));
  const before = await creditsOf();
  await session.pay();
  expect(await creditsOf()).toBeGreaterThan(before);
  const { started, email } = await session.claim();
  expect(JSON.stringify(await session.pollClaim())).toContain("authorization_pending");
  await confirmClaim(started, email);
  expect(await session.pollClaim()).toMatchObject({ status: "claimed" });
  expect(valueAt(await session.balance(), "members")).toMatchObject([{ email, role: "owner" }]);
  expect(JSON.stringify(await session.callModel())).toContain("You said: hello");
}

describe("from the base URL alone", () => {
  test("the commands of auth.md do everything over HTTP", async () => {
    const { auth } = await discover(gateway.url);
    const guide = await (await fetch(auth)).text();
    const spec = Bun.YAML.parse(
      await (await fetch(`${new URL(auth).origin}/openapi.yaml`)).text(),
    ) as Json;
    expect(valueAt(spec, "openapi")).toBeString();
    let key = "";
    const wallet = newWalletClient();
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
      pay: async () => {
        const invoice = textAt(await run("POST", "/v1/billing/invoice"), "id");
        // The guide's placeholder of the invoice.
        const { url } = curlCommand(guide, "POST", "/v1/billing/invoice/INVOICE_ID/mpp");
        const init = { method: "POST", headers: { "x-api-key": key } };
        const paid = await wallet.fetch(url.replace("INVOICE_ID", invoice), init);
        expect(await paid.json()).toMatchObject({ status: "paid" });
      },
      balance: () => run("GET", "/v1/account"),
      claim: async () => {
        const { body = "" } = curlCommand(guide, "POST", "/agent/identity/claim");
        const started = await run("POST", "/agent/identity/claim");
        return { started, email: textAt(JSON.parse(body), "email") };
      },
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
    const wallet = newWalletClient();
    const callTool = (name: string, args: Json, _meta: Record<string, unknown> = {}) =>
      client.callTool({
        name,
        arguments: { ...args, ...(api_key === undefined ? {} : { api_key }) },
        _meta,
      });
    const run = async (name: string, args: Json = {}): Promise<Json> => {
      const result = await callTool(name, args);
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
      pay: async () => {
        const args = { model: "sim/echo", prompt: "x".repeat(150_000), max_tokens: 100 };
        const unpaid = await callTool("send_message", args);
        const required = unpaid._meta?.["org.paymentauth/payment-required"];
        const [challenge] = listAt(required, "challenges");
        // Safe because mppx itself rejects a challenge of another form.
        const header = Challenge.serialize(challenge as unknown as Challenge.Challenge);
        const response = new Response("", { status: 402, headers: { "www-authenticate": header } });
        const credential = Credential.deserialize(await wallet.credentialFor(response));
        const paid = await callTool("send_message", args, {
          "org.paymentauth/credential": credential,
        });
        expect(paid.isError).toBeUndefined();
      },
      balance: () => run("get_balance"),
      claim: async () => {
        const email = "human@example.com";
        return { started: await run("start_claim", { email }), email };
      },
      pollClaim: () => run("poll_claim"),
    });
    await client.close();
  });
});
