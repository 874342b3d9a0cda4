// Help, version and errors of the command line.

import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { readConfig } from "../../src/config/config.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { runInProcess } from "../support/run-command.ts";
import { createTempFolder, runPostern, startPostern, stopPostern } from "./run-postern.ts";

describe("postern", () => {
  test("--version prints the version and nothing else", async () => {
    expect(await runPostern(["--version"])).toEqual({
      code: 0,
      stdout: `${packageJson.version}\n`,
      stderr: "",
    });
  });

  test("--help lists every command", async () => {
    const { code, stdout } = await runPostern(["--help"]);
    expect(code).toBe(0);
    for (const command of [
      "serve",
      "simulate",
      "migrate",
      "doctor",
      "admin grant <account> <usd> --reason <text>",
      "admin show <account>",
      "admin revoke-key <key>",
      "admin verify-ledger",
      "admin backup <file>",
    ])
      expect(stdout).toContain(`  ${command} `);
  });

  test("help <command> is the same as <command> --help", async () => {
    for (const command of ["doctor", "admin", "admin grant", "help"]) {
      const words = command.split(" ");
      const help = await runInProcess(["help", ...words], {});
      expect(help).toEqual(await runInProcess([...words, "--help"], {}));
      expect(help.code).toBe(0);
    }
  });

  test("admin --help lists only the admin commands", async () => {
    const { code, stdout } = await runInProcess(["admin", "--help"], {});
    expect(code).toBe(0);
    expect(stdout).toContain("  admin show <account> ");
    expect(stdout).not.toContain("  serve ");
  });

  test("<command> --help shows the usage and does not run the command", async () => {
    for (const command of [
      "serve",
      "simulate",
      "migrate",
      "doctor",
      "admin grant",
      "admin show",
      "admin revoke-key",
      "admin verify-ledger",
      "admin backup",
    ]) {
      const { code, stdout } = await runInProcess([...command.split(" "), "--help"], {});
      expect(`${code} ${stdout}`).toContain(`Usage: postern ${command}`);
      expect(code).toBe(0);
    }
  });

  test("rejects unknown commands, flags and arguments with exit code 2", async () => {
    const cases: readonly (readonly [string, string])[] = [
      ["frob", 'postern: Unknown command "frob"'],
      ["constructor", 'postern: Unknown command "constructor"'],
      ["admin", "Usage: postern admin <command>"],
      [
        "admin frob",
        'postern: Unknown command "admin frob". postern admin --help lists the commands.',
      ],
      ["admin grants", 'postern: Unknown command "admin grants". Did you mean admin grant?'],
      ["grant acct_1", 'postern: Unknown command "grant". Did you mean admin grant?'],
      ["help frob", 'postern: Unknown command "frob"'],
      [
        "admin list --limt 5",
        "postern admin list: Unknown option '--limt'. Did you mean --limit? See postern",
      ],
      ["--frob", "postern serve: Unknown option '--frob'"],
      ["serve --frob", "postern serve: Unknown option '--frob'"],
      ["serve now", 'postern serve: Unexpected argument "now"'],
      ["admin grant acct_1", "postern admin grant: <usd> is missing"],
      ["admin grant acct_1 5", "postern admin grant: --reason <text> is missing"],
      ["admin grant acct_1 -x --reason x", "postern admin grant: Unknown option '-x'"],
      ["simulate --port frob", "postern simulate: --port must be"],
      ["move --to mysql://host/db", "postern move: --to must be a URL"],
    ];
    for (const [line, says] of cases) {
      const { code, stdout, stderr } = await runInProcess(line.split(" "), {});
      expect(`${line}: ${stderr}`).toStartWith(`${line}: ${says}`);
      expect(`${line} ${code} ${stdout}`).toBe(`${line} 2 `);
    }
  });

  test("reports all errors in the settings by name, without secret values", async () => {
    const { code, stdout, stderr } = await runPostern(["serve"], {
      POSTERN_PORT: "http",
      POSTERN_BASE_URL: "gateway.example.com",
      POSTERN_SECRET: "hunter2hunter2",
      POSTERN_TRUSTED_PROXIES: "10.0.0.0/99",
      POSTERN_PROT: "8080",
      OPENAI_BASE_URL: "ftp://example.com",
      DATABASE_URL: "mysql://db",
    });
    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toStartWith("postern serve: The settings have 7 errors:\n");
    for (const name of [
      "POSTERN_PORT",
      "POSTERN_BASE_URL",
      "POSTERN_SECRET",
      "POSTERN_TRUSTED_PROXIES",
      "POSTERN_PROT",
      "OPENAI_BASE_URL",
      "DATABASE_URL",
    ])
      expect(stderr).toContain(`\n  ${name} `);
    expect(stderr).not.toContain("hunter2");
  });

  test("accepts only digits as a number", () => {
    for (const typed of [" ", "0x10", "1e3", "80.0", "-1", "+80", "65536", "8 0"])
      expect([
        typed,
        configErrors({ POSTERN_PORT: typed, POSTERN_ACCOUNTS_PER_HOUR: "1e3" }),
      ]).toEqual([
        typed,
        [
          "POSTERN_PORT must be a whole number from 0 to 65535",
          "POSTERN_ACCOUNTS_PER_HOUR must be a whole number from 0 to 1000000",
        ],
      ]);
    expect(configErrors({ POSTERN_PORT: "0", POSTERN_DRAIN_SECONDS: "3600" })).toEqual([]);
    // A file from Windows leaves a carriage return behind.
    expect(configErrors({ POSTERN_PORT: " 8787", POSTERN_DRAIN_SECONDS: "30\r" })).toEqual([]);
    expect(configErrors({ POSTERN_PORT: "", POSTERN_DRAIN_SECONDS: "" })).toEqual([]);
  });

  test("names the values that a setting takes", () => {
    expect(configErrors({ POSTERN_GRANT_EXHAUSTED: "ignore" })).toEqual([
      "POSTERN_GRANT_EXHAUSTED must be create or refuse",
    ]);
  });

  test("rejects a provider key with whitespace without printing it", () => {
    for (const key of ["sk-one\n", "sk-one\r", " sk-one", "sk one", "sk-öne"])
      expect(configErrors({ OPENAI_API_KEY: key })).toEqual([
        expect.stringMatching(/^OPENAI_API_KEY contains whitespace or another character/),
      ]);
    expect(configErrors({ OPENAI_API_KEY: "sk-one_2:three/four==" })).toEqual([]);
    expect(configErrors({ STRIPE_SECRET_KEY: "rk_live_1\n" })).toEqual([
      "STRIPE_SECRET_KEY contains whitespace or another character that is not valid in a key",
    ]);
  });

  test("requires a secret for a public base URL", async () => {
    const { code, stderr } = await runPostern(["serve"], {
      POSTERN_BASE_URL: "https://gateway.example.com",
    });
    expect(code).toBe(2);
    expect(stderr).toContain("POSTERN_SECRET must be set");
  });

  test("reads .env from the working directory", async () => {
    const { folder, remove } = createTempFolder();
    writeFileSync(path.join(folder, ".env"), "POSTERN_PORT=not-a-port\n");
    const { code, stderr } = await runPostern(["serve"], {}, folder);
    expect(`${code} ${stderr}`).toContain(
      "2 postern serve: The settings have an error:\n  POSTERN_PORT ",
    );
    remove();
  });
});

function configErrors(env: Readonly<Record<string, string>>): readonly string[] {
  const read = readConfig({ env, hostName: "test", providers: PROVIDERS });
  return read.ok ? [] : read.errors;
}

describe("postern simulate", () => {
  test("serves a provider alone, and stops on SIGTERM with exit code 0", async () => {
    const running = await startPostern(["simulate", "--port", "0", "--require-key", "letmein"], {});
    const call = (key: string) =>
      fetch(`${running.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "hello" }] }),
      });
    expect((await call("letmein")).status).toBe(200);
    expect((await call("other")).status).toBe(401);
    expect((await stopPostern(running)).code).toBe(0);
  });
});
