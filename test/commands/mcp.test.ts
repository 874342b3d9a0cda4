// `postern mcp` with the official clients of both revisions, which start it as a command.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { textAt, valueAt } from "../spec/api-client.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { PROGRAM, PROGRAM_SETTINGS } from "../support/program.ts";
import { rejectionMessage } from "../support/rejection.ts";

// Each client starts a process.

let clock = Date.now();
const gateway = await startGateway({ now: () => clock });
afterAll(() => gateway.stop());

let home: string;
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), "postern-mcp-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function serverParameters(url: string, env: Record<string, string> = {}) {
  return {
    command: PROGRAM[0],
    args: [...PROGRAM.slice(1), "mcp", "--url", url],
    cwd: home,
    env: { ...PROGRAM_SETTINGS, PATH: process.env["PATH"] ?? "", HOME: home, ...env },
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
  const host = new URL(gateway.url).host.replace(":", "-");
  const keyIn = (name: string): string =>
    textAt(JSON.parse(readFileSync(path.join(home, ".postern", name), "utf8")), "api_key");

  test("creates an account, keeps its key in a private file, and uses it", async () => {
    const file = path.join(home, ".postern", `${host}.json`);
    let created: unknown;
    await connect({}, async (call) => {
      created = await call("create_account");
      const balance = await call("get_balance");
      expect(valueAt(balance, "structuredContent.balance.credits")).toBe(50_000);
      expect(textAt(balance, "structuredContent.key.id")).toBe(
        textAt(created, "structuredContent.key_id"),
      );
      const reply = await call("send_message", { model: "sim/echo", prompt: "hi", max_tokens: 9 });
      expect(textAt(reply, "structuredContent.text")).toBe("You said: hi");
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(textAt(created, "structuredContent.key_file")).toBe(file);
    expect(JSON.stringify(created)).not.toContain("-rt-");
    expect(JSON.parse(textAt(created, "content.0.text"))).toEqual(
      valueAt(created, "structuredContent"),
    );
    expect(keyIn(`${host}.json`)).toContain("-rt-");
  });

  test("names a tool as the next step of an error", async () => {
    await connect({}, async (call) => {
      const steps = async (name: string, args: Record<string, unknown>): Promise<unknown> =>
        valueAt(JSON.parse(textAt(await call(name, args), "content.0.text")), "error.next");
      expect(await steps("get_balance", {})).toMatchObject([{ tool: "create_account" }]);
      await call("create_account");
      const message = { model: "sim/echo", prompt: "hi", max_tokens: 16_000, n: 8 };
      expect(await steps("send_message", { ...message, model: "sim/no-such" })).toMatchObject([
        { tool: "list_models" },
      ]);
      expect(await steps("send_message", message)).toMatchObject([
        { tool: "create_invoice", arguments: { amount_usd: 1 } },
        { tool: "start_claim" },
      ]);
    });
  });

  test("keeps a second account beside the first, which `account` chooses", async () => {
    await connect({}, async (call) => {
      const ids: string[] = [];
      for (let n = 0; n < 2; n++)
        ids.push(textAt(await call("create_account"), "structuredContent.account.id"));
      const [first = "", second = ""] = ids;
      const used = async (args: Record<string, unknown>): Promise<unknown> =>
        valueAt(await call("get_balance", args), "structuredContent.account.id");
      expect(await used({})).toBe(first);
      expect(await used({ account: second })).toBe(second);
      expect(await used({ account: first })).toBe(first);
      expect(keyIn(`${host}-${second}.json`)).not.toBe(keyIn(`${host}.json`));
      for (const account of ["acct_unknown", "../x", "", 5]) {
        const refused = await call("get_balance", { account });
        expect(valueAt(refused, "isError")).toBe(true);
        expect(textAt(refused, "content.0.text")).toContain("`account`");
      }
    });
  });

  test("creates a new account when its key was revoked, and keeps the file of the first", async () => {
    let first: unknown;
    await connect({}, async (call) => {
      first = await call("create_account");
    });
    const key = keyIn(`${host}.json`);
    const revoked = await fetch(
      `${gateway.url}/v1/keys/${textAt(first, "structuredContent.key_id")}`,
      {
        method: "DELETE",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ confirm: true }),
      },
    );
    expect(revoked.status).toBe(200);
    clock += 6_000;
    await connect({}, async (call) => {
      expect(await rejectionMessage(call("get_balance"))).toContain("was revoked");
      const second = await call("create_account");
      expect(valueAt(await call("get_balance"), "structuredContent.account.id")).toBe(
        textAt(second, "structuredContent.account.id"),
      );
    });
    expect(keyIn(`${host}-${textAt(first, "structuredContent.account.id")}.json`)).toBe(key);
    expect(keyIn(`${host}.json`)).not.toBe(key);
  });

  test("returns the key if it cannot be saved, because it would be lost", async () => {
    await connect({}, async (call) => {
      writeFileSync(path.join(home, ".postern"), "a file, where the folder would be");
      expect(textAt(await call("create_account"), "structuredContent.api_key")).toContain("-rt-");
    });
  });

  test("uses POSTERN_API_KEY where there is no file", async () => {
    const account = await registerAccount(gateway);
    await connect({ POSTERN_API_KEY: account.key }, async (call) => {
      expect(valueAt(await call("get_balance"), "structuredContent.account.id")).toBe(account.id);
    });
  });
});

describe("the listed tools", () => {
  test("have no key as an argument, and say where it is", async () => {
    const client = new ClientV1({ name: "test", version: "1" });
    await client.connect(new TransportV1(serverParameters(gateway.url)));
    expect(client.getInstructions()).toContain("private file");
    const { tools } = await client.listTools();
    const inputs = JSON.stringify(tools.map(({ inputSchema }) => inputSchema));
    expect(inputs).not.toContain('"api_key":{');
    const create = tools.find(({ name }) => name === "create_account");
    expect(create?.description).toContain("private file");
    expect(create?.outputSchema?.required).not.toContain("api_key");
    const balance = tools.find(({ name }) => name === "get_balance");
    expect(balance?.inputSchema.properties).toHaveProperty("account");
    await client.close();
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
