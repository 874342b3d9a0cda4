// `postern connect` and `postern status` against a real gateway, in a home folder of their own.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { call, chat, textAt, valueAt } from "../spec/api-client.ts";
import { startGateway } from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";
import { skipUnless } from "../support/skip.ts";
import type { ExitResult } from "./run-postern.ts";

const gateway = await startGateway();
afterAll(() => gateway.stop());

let home: string;
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), "postern-connect-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const run = (...args: readonly string[]): Promise<ExitResult> =>
  runInProcess([...args, "--url", gateway.url], { HOME: home });
const read = (file: string): string => readFileSync(path.join(home, file), "utf8");
const savedKey = (): string =>
  textAt(
    JSON.parse(read(`.postern/${new URL(gateway.url).host.replace(":", "-")}.json`)),
    "api_key",
  );

const CLIENTS = [
  ["claude", ".claude/settings.json"],
  ["codex", ".codex/config.toml"],
  ["opencode", ".config/opencode/opencode.json"],
  ["aider", ".aider.conf.yml"],
  ["pi", ".pi/agent/models.json"],
  ["cursor", ".cursor/mcp.json"],
] as const;

describe.each(CLIENTS)("postern connect %s", (client, file) => {
  test("shows the changes and writes nothing without --yes", async () => {
    const { code, stdout } = await run("connect", client);
    expect(code).toBe(0);
    expect(stdout).toContain(file);
    expect(stdout).toContain("+ ");
    expect(stdout).toContain("Nothing was written. Add --yes");
    expect(existsSync(path.join(home, file))).toBe(false);
    expect(existsSync(path.join(home, ".postern"))).toBe(false);
  });

  test("creates an account, writes private files, and undoes all of it", async () => {
    const { code, stdout } = await run("connect", client, "--yes", "--model", "sim/echo");
    expect(code).toBe(0);
    const key = savedKey();
    expect(stdout).not.toContain(key);
    expect(stdout).toContain("Its balance is $0.05. Each call reserves");
    expect(stdout).toContain("Start it with:");
    expect(read(file)).toContain(gateway.url);
    expect(statSync(path.join(home, file)).mode & 0o777).toBe(0o600);
    const account = await call(gateway, "GET /v1/account", { key });
    expect(valueAt(account.body, "balance.credits")).toBe(50_000);

    await run("connect", client, "--yes", "--model", "sim/echo");
    expect(savedKey()).toBe(key);
    const undone = await run("connect", client, "--undo");
    expect(undone.code).toBe(0);
    expect(existsSync(path.join(home, file))).toBe(false);
    expect(savedKey()).toBe(key);
  });
});

describe("files that exist", () => {
  const write = (file: string, text: string): void => {
    mkdirSync(path.dirname(path.join(home, file)), { recursive: true });
    writeFileSync(path.join(home, file), text);
  };

  test("keep what is not about the gateway, and are restored byte for byte", async () => {
    const settings = '{ "permissions": {"allow": ["Bash"]},\n  "env": {"OTHER": "1"} }';
    const toml = 'model = "o3"\napproval_policy = "never"\n\n[tui]\nmodel = "kept"\n';
    write(".claude/settings.json", settings);
    write(".codex/config.toml", toml);
    await run("connect", "claude", "--yes");
    await run("connect", "codex", "--yes", "--model", "sim/echo");
    expect(JSON.parse(read(".claude/settings.json"))).toMatchObject({
      permissions: { allow: ["Bash"] },
      env: { OTHER: "1", ANTHROPIC_BASE_URL: gateway.url, ANTHROPIC_AUTH_TOKEN: savedKey() },
    });
    const config = Bun.TOML.parse(read(".codex/config.toml"));
    expect(config).toMatchObject({
      model: "sim/echo",
      model_provider: "postern",
      approval_policy: "never",
      tui: { model: "kept" },
      model_providers: {
        postern: { base_url: `${gateway.url}/v1`, supports_websockets: true },
      },
    });
    await run("connect", "codex", "--yes", "--model", "sim/echo");
    expect(Bun.TOML.parse(read(".codex/config.toml"))).toEqual(config);
    await run("connect", "claude", "--undo");
    await run("connect", "codex", "--undo");
    expect(read(".claude/settings.json")).toBe(settings);
    expect(read(".codex/config.toml")).toBe(toml);
  });

  test("keep their blank lines, and stay symbolic links", async () => {
    const yaml = "# my settings\n\nauto-commits: false\n";
    write("dotfiles/aider.yml", yaml);
    symlinkSync(path.join(home, "dotfiles/aider.yml"), path.join(home, ".aider.conf.yml"));
    await run("connect", "aider", "--yes", "--model", "sim/echo");
    expect(read("dotfiles/aider.yml")).toStartWith(yaml);
    expect(lstatSync(path.join(home, ".aider.conf.yml")).isSymbolicLink()).toBe(true);
    await run("connect", "aider", "--undo");
    expect(read("dotfiles/aider.yml")).toBe(yaml);
    expect(lstatSync(path.join(home, ".aider.conf.yml")).isSymbolicLink()).toBe(true);
  });

  test("with the keys of other providers are shown without these keys", async () => {
    const foreign = "sk-ant-0123456789abcdefghij";
    const env = { ANTHROPIC_AUTH_TOKEN: foreign, OTHER_API_KEY: foreign };
    write(".claude/settings.json", JSON.stringify({ env }, null, 2));
    write(".aider.conf.yml", `openai-api-key: ${foreign}\n`);
    for (const client of ["claude", "aider"]) {
      const { stdout } = await run("connect", client);
      expect(stdout).toMatch(/^- .*(?:AUTH_TOKEN|api-key)/m);
      expect(stdout).not.toContain(foreign);
    }
    expect((await run("connect", "codex")).stdout).toContain('env_key = "POSTERN_API_KEY"');
  });

  test("are restored after a second run for another gateway", async () => {
    await run("connect", "opencode", "--yes", "--model", "sim/echo");
    const other = gateway.url.replace("127.0.0.1", "localhost");
    const args = ["connect", "opencode", "--yes", "--model", "sim/echo", "--url", other];
    expect((await runInProcess(args, { HOME: home })).code).toBe(0);
    expect(await run("connect", "opencode", "--undo")).toMatchObject({ code: 0 });
    const { port } = new URL(gateway.url);
    for (const host of ["127.0.0.1", "localhost"])
      expect(existsSync(path.join(home, `.postern/${host}-${port}.key`))).toBe(false);
  });

  test("list models that answer messages, and no embedding models", async () => {
    for (const client of ["pi", "opencode"]) {
      const { stdout } = await run("connect", client);
      expect(stdout).toContain("sim/reason");
      expect(stdout).not.toContain("sim/embed");
    }
    const refused = await run("connect", "pi", "--model", "sim/embed");
    expect(refused.stderr).toContain("cannot call");
  });

  test("that are not JSON, or changed since, are left alone", async () => {
    write(".claude/settings.json", "// my settings\n{}");
    const refused = await run("connect", "claude", "--yes");
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain("settings.json: The file is not JSON");
    expect(read(".claude/settings.json")).toBe("// my settings\n{}");
    await run("connect", "pi", "--yes");
    write(".pi/agent/models.json", "{}");
    const undone = await run("connect", "pi", "--undo");
    expect(undone.stderr).toContain("was changed after postern connect wrote it");
    expect(read(".pi/agent/models.json")).toBe("{}");
  });
});

describe("arguments", () => {
  test("an unknown client, model or URL is an error that names the choices", async () => {
    expect((await run("connect", "emacs")).stderr).toContain("Use one of claude, codex, opencode");
    expect((await run("connect", "pi", "--model", "no/such")).stderr).toContain("cannot call");
    expect((await run("connect", "pi", "--undo")).stderr).toContain("nothing to undo");
    const away = await runInProcess(["connect", "pi", "--url", "http://127.0.0.1:1"], {
      HOME: home,
    });
    expect(away.stderr).toContain(
      "http://127.0.0.1:1 cannot be reached: the connection was refused. Start it, or set --url",
    );
    const onPort = await runInProcess(["connect", "pi"], { HOME: home, POSTERN_PORT: "1" });
    expect(onPort.stderr).toContain("http://127.0.0.1:1 cannot be reached");
  });

  test("env prints the variables, and --claim starts a claim", async () => {
    const { stdout } = await run("connect", "env", "--yes", "--claim", "human@example.com");
    expect(stdout).toContain(
      `export ANTHROPIC_BASE_URL=${gateway.url} ANTHROPIC_AUTH_TOKEN=${savedKey()}`,
    );
    expect(stdout).toMatch(/Send this link to human@example\.com: http.*\/claim\?token=/);
    expect(stdout).toMatch(/The page must show the code \d{6}/);
  });
});

describe("postern status", () => {
  test("shows the balance and the last calls", async () => {
    await run("connect", "env", "--yes");
    await chat(gateway, savedKey());
    const { code, stdout } = await run("status");
    expect(code).toBe(0);
    expect(stdout).toMatch(/balance {2}\$0\.0499\d+ \(49,9\d\d credits\)/);
    expect(stdout).toMatch(/sim\/echo {2}completed {2}\$0\.0000/);
  });

  test("without a key says where it looked", async () => {
    expect((await run("status")).stderr).toContain(".postern/127.0.0.1-");
  });
});

/** The clients themselves, where they are installed. */
const REAL_CLIENTS = [
  ["claude", "@anthropic-ai/claude-code", ["claude", "-p", "Say hello."]],
  ["codex", "@openai/codex", ["codex", "exec", "--skip-git-repo-check", "Say hello."]],
  ["opencode", "opencode-ai", ["opencode", "run", "-m", "postern/sim/echo", "Say hello."]],
] as const;

describe("real clients", () => {
  for (const [client, npmPackage, command] of REAL_CLIENTS) {
    const isInstalled = spawnSync(client, ["--version"], { stdio: "ignore" }).error === undefined;
    const reason = `${client} is not on the PATH: run \`npm install -g ${npmPackage}\``;
    test.skipIf(skipUnless(isInstalled, reason))(
      `${client} does a small job through the gateway`,
      async () => {
        await run("connect", client, "--yes", "--model", "sim/echo");
        const { body: state } = await call(gateway, "GET /v1/account", { key: savedKey() });
        // The hold of a coding agent's request is above the starting credit: its output has no small limit.
        await grantCredits(gateway, { id: textAt(state, "account.id") }, 10n * USD);
        const [name = "", ...args] = command;
        const child = Bun.spawn([name, ...args], {
          cwd: home,
          env: { PATH: process.env["PATH"] ?? "", HOME: home },
          stdin: "ignore",
          stdout: "pipe",
        });
        expect(await new Response(child.stdout).text()).toContain("hello");
        const usage = await call(gateway, "GET /v1/usage", { key: savedKey() });
        expect(valueAt(usage.body, "data.0.outcome")).toBe("completed");
      },
    );
  }
});
