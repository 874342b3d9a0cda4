// The newest coding agents sign in at /mcp and connect: each opens its own URL, a person approves, and the browser returns to
// the agent. `npm run clients` installs them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createUser, makeOwner, type TestUser, visitPage } from "../billing/console-user.ts";
import { hiddenFields } from "../operator/harness.ts";
import { call, listAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { skipUnless } from "../support/skip.ts";
import { type ClientName, findClient } from "./client-programs.ts";

/** Ends an agent that waits forever; a sign-in takes some seconds. */
const CLIENT_TIMEOUT_MS = 120_000;

interface SignInClient {
  readonly name: ClientName;
  readonly key: string;
  /** As shell commands; the last one signs in. */
  readonly commands: (program: string, url: string) => readonly string[];
  /** The command that lists the servers, and what it says of one that is signed in. */
  readonly list: (program: string) => string;
  readonly signedIn: RegExp;
  readonly files?: (url: string) => Readonly<Record<string, string>>;
  /** The agent has no server for the redirect: the person pastes its URL. */
  readonly isPasted?: true;
}

const CLIENTS: readonly SignInClient[] = [
  {
    name: "codex",
    key: "Codex (MCP sign-in)",
    commands: (codex, url) => [
      `printf '[mcp_servers.postern]\\nurl = "${url}"\\n' > .codex/config.toml`,
      `${codex} mcp login postern`,
    ],
    list: (codex) => `${codex} mcp list`,
    signedIn: /postern.*OAuth/,
  },
  {
    name: "claude",
    key: "Claude Code (postern) (MCP sign-in)",
    commands: (claude, url) => [
      `${claude} mcp add --transport http postern "${url}?sign_in=required"`,
      // It wants a terminal, of which a line holds the URL.
      `script -qefc 'stty cols 2000; ${claude} mcp login --no-browser postern' /dev/null`,
    ],
    list: (claude) => `${claude} mcp list`,
    signedIn: /postern.*Connected/,
    isPasted: true,
  },
  {
    name: "opencode",
    key: "OpenCode (MCP sign-in)",
    commands: (opencode) => [`${opencode} mcp auth postern`],
    list: (opencode) => `${opencode} mcp list`,
    signedIn: /postern.*connected/,
    files: (url) => ({
      "opencode.json": JSON.stringify({
        mcp: { postern: { type: "remote", url: `${url}?sign_in=required` } },
      }),
    }),
  },
];

const AUTHORIZE_URL = /http:\/\/127\.0\.0\.1:\d+\/mcp\/authorize\?[\w%.=&+~-]+/;

interface Run {
  readonly code: number | null;
  readonly output: string;
}

describe.each(
  CLIENTS.map((client) => {
    const program = findClient(client.name)?.command;
    const reason = `${client.name} is not installed: npm run clients installs it`;
    return {
      client,
      name: client.name,
      program,
      isMissing: skipUnless(program !== undefined, reason),
    };
  }),
)("$name", ({ client, program = "", isMissing }) => {
  const home = scratchFolder("mcp-client");
  let gateway: Gateway;
  let account: TestAccount;
  let owner: TestUser;
  beforeAll(async () => {
    // The agents' own metadata documents are on the Internet.
    gateway = await startGateway({ env: { POSTERN_CLIENT_DOCUMENTS: "off" } });
    account = await registerAccount(gateway);
    owner = await createUser(gateway, "owner");
    await makeOwner(gateway, account.id, owner);
  });
  afterAll(() => gateway.stop());

  function run(
    command: string,
    onOutput: (child: ChildProcess, output: string) => void = () => {},
  ) {
    const child = spawn("sh", ["-c", command], {
      cwd: home,
      env: {
        PATH: process.env["PATH"],
        HOME: home,
        CODEX_HOME: path.join(home, ".codex"),
        BROWSER: "true",
        TERM: "xterm",
      },
      stdio: ["pipe", "pipe", "pipe"],
      timeout: CLIENT_TIMEOUT_MS,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
        onOutput(child, output);
      });
    return new Promise<Run>((resolve) => child.on("close", (code) => resolve({ code, output })));
  }

  /** What the person does in the browser. Returns the URL to which it is redirected. */
  async function approve(url: string): Promise<string> {
    const { pathname, search } = new URL(url);
    const page = await visitPage(gateway, pathname + search, owner);
    const { request = "" } = hiddenFields(page, "approve");
    const form = { request, do: "approve", account: account.id, limit_usd: "5", limit_window: "" };
    return (await visitPage(gateway, "/mcp/authorize", owner, form)).location ?? "";
  }

  test.skipIf(isMissing)("signs in, and connects with the key that it gets", async () => {
    const url = `${gateway.url}/mcp`;
    mkdirSync(path.join(home, ".codex"), { recursive: true });
    for (const [name, text] of Object.entries(client.files?.(url) ?? {}))
      writeFileSync(path.join(home, name), text);
    const commands = [...client.commands(program, url)];
    const signIn = commands.pop() ?? "";
    for (const command of commands) expect((await run(command)).code).toBe(0);
    let visited: Promise<void> | undefined;
    const { code, output } = await run(signIn, (child, text) => {
      const [authorizeUrl] = AUTHORIZE_URL.exec(text) ?? [];
      // The end of a URL is known by what follows it.
      if (authorizeUrl === undefined || text.endsWith(authorizeUrl)) return;
      visited ??= approve(authorizeUrl).then(async (location) => {
        if (client.isPasted) child.stdin?.write(`${location}\r`);
        else await (await fetch(location)).text();
      });
    });
    await visited;
    expect([code, output]).toEqual([0, expect.stringContaining("/mcp/authorize")]);
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(listAt(body, "data").map(({ name }) => name)).toContain(client.key);
    expect((await run(client.list(program))).output).toMatch(client.signedIn);
  });
});
