// `postern mcp` with the official clients of both revisions, which start it as a command.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { textAt, valueAt } from "../spec/api-client.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { PROGRAM } from "../support/program.ts";
import { rejectionMessage } from "../support/rejection.ts";

// Each client starts a process.

const gateway = await startGateway();
afterAll(() => gateway.stop());

let home: string;
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), "postern-mcp-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function serverParameters(url: string, env: Record<string, string> = {}) {
  return {
    command: process.execPath,
    args: [...PROGRAM, "mcp", "--url", url],
    cwd: home,
    env: { PATH: process.env["PATH"] ?? "", HOME: home, ...env },
    stderr: "ignore" as const,
  };
}

type CallTool = (name: string, args?: Record<string, unknown>) => Promise<unknown>;

async function withV2(
  mode: "legacy" | { readonly pin: string },
  env: Record<string, string>,
  use: (call: CallTool) => Promise<void>,
): Promise<void> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StdioClientTransport(serverParameters(gateway.url, env)));
  await client.listTools();
  await use((name, args = {}) => client.callTool({ name, arguments: args }));
  await client.close();
}

async function withV1(
  env: Record<string, string>,
  use: (call: CallTool) => Promise<void>,
): Promise<void> {
  const client = new ClientV1({ name: "test", version: "1" });
  await client.connect(new TransportV1(serverParameters(gateway.url, env)));
  await client.listTools();
  await use((name, args = {}) => client.callTool({ name, arguments: args }));
  await client.close();
}

const CLIENTS = [
  [
    "SDK 2, revision 2026-07-28",
    (env: Record<string, string>, use: (call: CallTool) => Promise<void>) =>
      withV2({ pin: "2026-07-28" }, env, use),
  ],
  [
    "SDK 2, revision 2025-11-25",
    (env: Record<string, string>, use: (call: CallTool) => Promise<void>) =>
      withV2("legacy", env, use),
  ],
  ["SDK 1", withV1],
] as const;

describe.each(CLIENTS)("%s over standard input and output", (_name, connect) => {
  test("creates an account, keeps its key in a private file, and uses it", async () => {
    let credits: unknown;
    let key = "";
    await connect({}, async (call) => {
      key = textAt(await call("create_account"), "structuredContent.api_key");
      const balance = await call("get_balance");
      credits = valueAt(balance, "structuredContent.balance.credits");
      const reply = await call("send_message", { model: "sim/echo", prompt: "hi", max_tokens: 9 });
      expect(textAt(reply, "structuredContent.text")).toBe("You said: hi");
    });
    expect(credits).toBe(50_000);
    const file = path.join(home, `.postern/${new URL(gateway.url).host.replace(":", "-")}.json`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(textAt(JSON.parse(readFileSync(file, "utf8")), "api_key")).toBe(key);
    await connect({}, async (call) => {
      await call("create_account");
      expect(valueAt(await call("get_balance"), "structuredContent.key.prefix")).toBe(
        key.slice(0, 12),
      );
    });
    expect(textAt(JSON.parse(readFileSync(file, "utf8")), "api_key")).toBe(key);
  });

  test("uses POSTERN_API_KEY where there is no file", async () => {
    const account = await registerAccount(gateway);
    await connect({ POSTERN_API_KEY: account.key }, async (call) => {
      expect(valueAt(await call("get_balance"), "structuredContent.account.id")).toBe(account.id);
    });
  });
});

describe("a line that is no message", () => {
  test.each(["{not JSON", "[]"])("gets an error without an id: %s", async (line) => {
    const { command, args, cwd, env } = serverParameters(gateway.url);
    const child = spawn(command, args, { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
    child.stdin.end(`${line}\n`);
    const stdout = await text(child.stdout);
    expect(JSON.parse(stdout)).toMatchObject({ jsonrpc: "2.0", id: null, error: {} });
  });
});

describe("a gateway that cannot be reached", () => {
  test("is an error with the URL and what to check", async () => {
    const client = new ClientV1({ name: "test", version: "1" });
    const connecting = client.connect(new TransportV1(serverParameters("http://127.0.0.1:1")));
    expect(await rejectionMessage(connecting)).toMatch(/127\.0\.0\.1:1 cannot be reached.*--url/);
    await client.close();
  });
});
