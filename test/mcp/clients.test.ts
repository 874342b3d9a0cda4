// Official clients, unmodified: the TypeScript SDK of both revisions, and the MCP inspector's command line.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { fundedWallet, signPayment } from "../billing/x402/wallet.ts";
import { call, listAt, textAt, valueAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { startFacilitator, type TestFacilitator } from "../support/fakes/x402-facilitator.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { ROOT } from "../support/source/source-files.ts";
import { MODERN } from "./raw-mcp.ts";

interface TestClient {
  readonly listTools: () => Promise<{ tools: { name: string }[] }>;
  readonly callTool: (
    name: string,
    args: Record<string, unknown>,
    onProgress?: (progress: number) => void,
  ) => Promise<unknown>;
  readonly readResource: (uri: string) => Promise<unknown>;
  readonly close: () => Promise<void>;
}

async function connectV2(
  gateway: Gateway,
  key: string | undefined,
  mode: "legacy" | { readonly pin: string },
): Promise<TestClient> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), { requestInit: { headers } }),
  );
  return {
    listTools: () => client.listTools(),
    callTool: (name, args, onProgress) =>
      client.callTool(
        { name, arguments: args },
        onProgress && { onprogress: ({ progress }) => onProgress(progress) },
      ),
    readResource: (uri) => client.readResource({ uri }),
    close: () => client.close(),
  };
}

async function connectV1(gateway: Gateway, key: string | undefined): Promise<TestClient> {
  const client = new ClientV1({ name: "test", version: "1" });
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const transport = new TransportV1(new URL(`${gateway.url}/mcp`), { requestInit: { headers } });
  await client.connect(transport);
  return {
    listTools: () => client.listTools(),
    callTool: (name, args, onProgress) =>
      client.callTool(
        { name, arguments: args },
        undefined,
        onProgress && { onprogress: ({ progress }) => onProgress(progress) },
      ),
    readResource: (uri) => client.readResource({ uri }),
    close: () => client.close(),
  };
}

const CLIENTS = [
  [
    `SDK 2, revision ${MODERN}`,
    (gateway: Gateway, key?: string) => connectV2(gateway, key, { pin: MODERN }),
  ],
  [
    "SDK 2, revision 2025-11-25",
    (gateway: Gateway, key?: string) => connectV2(gateway, key, "legacy"),
  ],
  ["SDK 1", (gateway: Gateway, key?: string) => connectV1(gateway, key)],
] as const;

describe.each(CLIENTS)("%s", (_name, connect) => {
  let gateway: Gateway;
  let account: TestAccount;
  let client: TestClient;
  beforeAll(async () => {
    gateway = await startGateway();
    account = await registerAccount(gateway);
    client = await connect(gateway, account.key);
    // The clients check results against the output schemas of the tools that they have listed.
    await client.listTools();
  });
  afterAll(async () => {
    await client.close();
    await gateway.stop();
  });

  test("every tool returns what its output schema says", async () => {
    const key = await client.callTool("create_key", { name: "worker", limit_usd: 0.01 });
    const calls: readonly (readonly [string, Record<string, unknown>])[] = [
      ["create_account", {}],
      ["list_models", { provider: "sim", limit: 2 }],
      ["quote", { model: "sim/echo", prompt: "hello", max_tokens: 20 }],
      ["send_message", { model: "sim/echo", prompt: "hello", max_tokens: 20 }],
      ["get_balance", {}],
      ["list_service_credits", {}],
      ["get_usage", { limit: 1 }],
      ["revoke_key", { id: textAt(key, "structuredContent.id") }],
      ["set_budget", { daily_usd: 1 }],
      ["create_invoice", { amount_usd: 10 }],
      ["start_claim", { email: "human@example.com" }],
      ["poll_claim", {}],
    ];
    for (const [name, args] of calls) {
      const result = await client.callTool(name, args);
      expect({ name, isError: valueAt(result, "isError") }).toEqual({ name, isError: undefined });
      const text = textAt(result, "content.0.text");
      expect(JSON.parse(text)).toEqual(valueAt(result, "structuredContent"));
    }
  });

  test("a quote is what the call holds at most, and the call costs no more", async () => {
    const args = { model: "sim/echo", prompt: "what does this cost?", max_tokens: 100 };
    const quote = await client.callTool("quote", args);
    const sent = await client.callTool("send_message", args);
    const most = Number(textAt(quote, "structuredContent.cost_usd_max"));
    expect(most).toBeGreaterThan(0);
    expect(Number(valueAt(sent, "structuredContent.cost_usd"))).toBeLessThanOrEqual(most);
    const usage = await call(
      gateway,
      `GET /v1/usage/${textAt(sent, "structuredContent.request_id")}`,
      { key: account.key },
    );
    expect(Number(textAt(usage.body, "cost_usd"))).toBe(
      Number(valueAt(sent, "structuredContent.cost_usd")),
    );
  });

  test("a ceiling shortens the reply of every tool that calls a model, and the result says so", async () => {
    const prompt = "[[sim: tokens=300]] go";
    const args = { model: "sim/echo", max_cost_usd: "0.001", max_tokens: 4_000 };
    for (const [tool, more] of [
      ["send_message", { prompt }],
      ["create_response", { input: prompt, max_tokens: undefined, max_output_tokens: 4_000 }],
    ] as const) {
      const sent = await client.callTool(tool, { ...args, ...more });
      expect([tool, sent]).toMatchObject([tool, { structuredContent: { budget_cut: true } }]);
      expect(Number(valueAt(sent, "structuredContent.cost_usd"))).toBeLessThanOrEqual(0.001);
      const refused = await client.callTool(tool, {
        ...args,
        ...more,
        postern: { on_max_cost: "refuse" },
      });
      expect(valueAt(refused, "isError")).toBe(true);
      expect(textAt(refused, "content.0.text")).toContain("max_cost_usd");
    }
  });

  test("reports progress of a long reply, and returns all of it", async () => {
    const progress: number[] = [];
    const result = await client.callTool(
      "send_message",
      { model: "sim/echo", prompt: "[[sim: tokens=300]] go", max_tokens: 400 },
      (value) => progress.push(value),
    );
    expect(progress.length).toBeGreaterThan(2);
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
    const { length } = textAt(result, "structuredContent.text");
    expect(length).toBeGreaterThanOrEqual(progress.at(-1) ?? 0);
    expect(Number(valueAt(result, "structuredContent.cost_usd"))).toBeGreaterThan(0);
  });

  test("an idempotency key makes a repeated call the same call", async () => {
    const args = { name: "once", idempotency_key: `once-${crypto.randomUUID()}` };
    const first = await client.callTool("create_key", args);
    const second = await client.callTool("create_key", args);
    expect(textAt(second, "structuredContent.id")).toBe(textAt(first, "structuredContent.id"));
  });

  test("pages of models cover every model once", async () => {
    const ids: unknown[] = [];
    let cursor: unknown;
    do {
      const page = await client.callTool("list_models", {
        limit: 100,
        ...(cursor === undefined ? {} : { cursor }),
      });
      ids.push(...listAt(page, "structuredContent.data").map(({ id }) => id));
      cursor = valueAt(page, "structuredContent.next_cursor") ?? undefined;
    } while (cursor !== undefined);
    const all = listAt((await call(gateway, "GET /v1/models")).body, "data").map(({ id }) => id);
    expect(ids).toEqual(all);
  });

  test("reads the documents and a model, and nothing else", async () => {
    const authMd = await client.readResource(`${gateway.url}/auth.md`);
    expect(textAt(authMd, "contents.0.text")).toContain("POST");
    const model = await client.readResource(`${gateway.url}/v1/models/sim/echo`);
    expect(JSON.parse(textAt(model, "contents.0.text"))).toMatchObject({ id: "sim/echo" });
    const page = await client.readResource(`${gateway.url}/docs/mcp.md`);
    expect(textAt(page, "contents.0.text")).toStartWith("# ");
    for (const uri of [
      `${gateway.url}/docs/no-such-page.md`,
      `${gateway.url}/v1/models/no/such`,
      `${gateway.url}/metrics`,
      `${gateway.url}/v1/models/../account`,
      "file:///etc/passwd",
    ])
      expect(await rejectionMessage(client.readResource(uri))).toMatch(/not found/i);
  });

  test("an error carries the same next steps as over HTTP, as calls of tools", async () => {
    const args = { model: "sim/echo", prompt: "x".repeat(150_000), max_tokens: 100 };
    const result = await client.callTool("send_message", args);
    const { error } = JSON.parse(textAt(result, "content.0.text")) as Record<string, unknown>;
    expect(error).toMatchObject({ code: "insufficient_credits" });
    expect(listAt(error, "next")).toMatchObject([
      { tool: "create_invoice", arguments: { amount_usd: 1 } },
      { tool: "start_claim" },
    ]);
  });

  test("without a connection key, the key of create_account is an argument", async () => {
    const anonymous = await connect(gateway);
    const created = await anonymous.callTool("create_account", {});
    const api_key = textAt(created, "structuredContent.api_key");
    const balance = await anonymous.callTool("get_balance", { api_key });
    expect(valueAt(balance, "structuredContent.balance.credits")).toBe(50_000);
    await anonymous.close();
  });
});

describe("canceled calls", () => {
  test("a client that leaves a streamed call ends it", async () => {
    const gateway = await startGateway();
    const { key } = await registerAccount(gateway);
    const leave = new AbortController();
    const response = await fetch(`${gateway.url}/mcp`, {
      method: "POST",
      signal: leave.signal,
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: {
          name: "send_message",
          arguments: {
            model: "sim/echo",
            prompt: "[[sim: tokens=2000 chunks=2000 pace=10]] go",
            max_tokens: 2_000,
          },
          _meta: { progressToken: 1 },
        },
      }),
    });
    const first = await response.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toContain("notifications/progress");
    leave.abort();
    await eventually(async () => {
      const { body } = await call(gateway, "GET /v1/usage", { key });
      return valueAt(body, "data.0.outcome") === "client_aborted";
    });
    await gateway.stop();
  });
});

describe("payments with x402", () => {
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  beforeAll(async () => {
    facilitator = startFacilitator();
    gateway = await startGateway({ env: facilitator.env });
  });
  afterAll(async () => {
    await gateway.stop();
    await facilitator.stop();
  });

  test("a required payment has x402's form, and a signed one runs the call", async () => {
    const { key } = await registerAccount(gateway);
    const client = new Client({ name: "test", version: "1" });
    const headers = { authorization: `Bearer ${key}` };
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), {
        requestInit: { headers },
      }),
    );
    await client.listTools();
    const args = { model: "sim/echo", prompt: "x".repeat(150_000), max_tokens: 100 };
    const refused = await client.callTool({ name: "send_message", arguments: args });
    expect(refused.isError).toBe(true);
    const required = refused.structuredContent;
    expect(required).toMatchObject({ x402Version: 2, accepts: [{ scheme: "exact" }] });
    expect(JSON.parse(textAt(refused, "content.0.text"))).toEqual(required);
    expect(textAt(refused, "content.1.text")).toContain('"next"');
    const [accepted] = listAt(required, "accepts");
    const wallet = fundedWallet(facilitator, 10_000n);
    const { header } = await signPayment(wallet, accepted as never);
    const paid = await client.callTool({
      name: "send_message",
      arguments: args,
      _meta: { "x402/payment": JSON.parse(Buffer.from(header, "base64").toString()) as unknown },
    });
    expect(paid.isError).toBeUndefined();
    expect(valueAt(paid._meta, "x402/payment-response")).toMatchObject({ success: true });
    await client.close();
  });
});

describe("MCP inspector", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "mcp-inspector-"));
  const CLI = path.join(folder, "cli/build/cli.js");

  // The package reads the package.json of the inspector, which is two folders up only in the inspector's own layout.
  beforeAll(() => {
    const modules = path.join(ROOT, "node_modules");
    cpSync(path.join(modules, "@modelcontextprotocol/inspector-cli"), path.join(folder, "cli"), {
      recursive: true,
    });
    symlinkSync(modules, path.join(folder, "node_modules"));
    writeFileSync(
      path.join(folder, "package.json"),
      JSON.stringify({ name: "@modelcontextprotocol/inspector", version: "1.0.3", type: "module" }),
    );
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function inspect(url: string, args: readonly string[]): Promise<unknown> {
    const child = spawn("node", [CLI, "--cli", `${url}/mcp`, "--transport", "http", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
    return new Promise((resolve, reject) =>
      child.on("close", (code) =>
        code === 0 ? resolve(JSON.parse(output)) : reject(new Error(`exit code ${code}`)),
      ),
    );
  }

  test("lists the tools and calls one", async () => {
    const gateway = await startGateway();
    const tools = await inspect(gateway.url, ["--method", "tools/list"]);
    expect(listAt(tools, "tools")[0]).toMatchObject({ name: "create_account" });
    const result = await inspect(gateway.url, [
      "--method",
      "tools/call",
      "--tool-name",
      "list_models",
      "--tool-arg",
      "provider=sim",
    ]);
    expect(listAt(result, "structuredContent.data").map(({ id }) => id)).toContain("sim/echo");
    await gateway.stop();
  });
});
