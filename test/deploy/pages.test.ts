// The commands of docs/site/deploy.md, operations.md and upgrading.md, run literally on loopback: only names of hosts, folders and
// placeholders are replaced. Programs that cannot run here are named in the page, with what is done instead.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createTempFolder, startPostern, stopAll, stopPostern } from "../commands/run-postern.ts";
import { PROGRAM } from "../support/program.ts";
import { readText, ROOT } from "../support/source/source-files.ts";
import { dropPostgres, testPostgres } from "../support/stores/postgres.ts";

const SECRET = "d".repeat(44);
const temp = createTempFolder();
const { folder } = temp;
const bin = path.join(folder, "bin");
const store = path.join(folder, "store");
let database = "";
let account = "";
let key = "";
let receiver: ReturnType<typeof Bun.serve>;

/** A block of a page: its commands, and the programs that the sentence below says are not run. */
interface Block {
  readonly commands: readonly string[];
  readonly notRun: ReadonlySet<string>;
}

function blocksOf(page: string): readonly Block[] {
  const found = readText(page).matchAll(
    /```sh\n([^]*?)```\n(?:\nNot run by the tests: ([^\n]*))?/g,
  );
  return [...found].map(([, text = "", note = ""]) => ({
    commands: text
      .replaceAll(/\\\n\s*/g, "")
      .split("\n")
      .filter((line) => line.trim() !== ""),
    notRun: new Set([...note.matchAll(/`([\w-]+)`/g)].map(([, program = ""]) => program)),
  }));
}

/** The programs of a line, which may be joined with `&&`. */
function programsOf(line: string): readonly string[] {
  return line.split("&&").map((part) => /^(?:sudo )?(\S+)/.exec(part.trim())?.[1] ?? "");
}

function isRun(line: string, { notRun }: Block): boolean {
  return !programsOf(line).some((program) => notRun.has(program));
}

const REPLACEMENTS = (): readonly (readonly [string, string])[] => [
  ["/etc/postern/", `${folder}/etc/postern/`],
  ["/etc/systemd/system/", `${folder}/etc/systemd/`],
  ["/etc/nginx/conf.d/", `${folder}/etc/nginx/`],
  ["/backups/", `${folder}/backups/`],
  ["postgres://postern:password@db.example.com:5432/postern", database],
  ["https://alerts.example.com/postern", receiver.url.href],
  ["OPENAI_API_KEY=…", "OPENAI_API_KEY=sk-test"],
  ["<account>", account],
  ["acct_01kah5t3mq7d2c9w4e6r8t0yax", account],
  ["<key>", key],
  ["<usd>", "5"],
  ["<text>", "'a test'"],
];

function replaced(line: string): string {
  return REPLACEMENTS().reduce((text, [from, to]) => text.replaceAll(from, to), line);
}

interface Ran {
  readonly code: number | null;
  readonly output: string;
}

/** Runs lines in one shell, on a copy of the store, in a copy of the repository's folder `deploy`. */
async function runInShell(lines: readonly string[], name: string): Promise<Ran> {
  const data = path.join(folder, `data-${name}`);
  cpSync(store, data, { recursive: true });
  const work = path.join(folder, `work-${name}`);
  cpSync(path.join(ROOT, "deploy"), path.join(work, "deploy"), { recursive: true });
  const env = {
    PATH: `${bin}:${process.env["PATH"] ?? ""}`,
    HOME: folder,
    POSTERN_DATA_DIR: data,
    OPENAI_BASE_URL: receiver.url.href.replace(/\/$/, ""),
  };
  const child = spawn("bash", ["-e", "-o", "pipefail", "-c", lines.map(replaced).join("\n")], {
    cwd: work,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, output };
}

beforeAll(async () => {
  for (const name of ["bin", "backups", "etc/postern", "etc/systemd", "etc/nginx"])
    mkdirSync(path.join(folder, name), { recursive: true });
  const script = (name: string, text: string): void => {
    writeFileSync(path.join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(path.join(bin, name), 0o755);
  };
  script("postern", `exec ${PROGRAM.join(" ")} "$@"`);
  script("sudo", 'exec "$@"');
  receiver = Bun.serve({
    port: 0,
    fetch: ({ headers }) =>
      new Response("{}", { status: headers.has("authorization") ? 200 : 401 }),
  });
  database = await testPostgres();
  const running = await startPostern([], {
    ...temp.settings,
    POSTERN_DATA_DIR: store,
    POSTERN_SECRET: SECRET,
  });
  const created = await fetch(`${running.url}/v1/accounts`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  const body = (await created.json()) as { account: { id: string }; api_key: string };
  account = body.account.id;
  const self = await fetch(`${running.url}/v1/keys/self`, {
    headers: { authorization: `Bearer ${body.api_key}` },
  });
  key = ((await self.json()) as { id: string }).id;
  await stopPostern(running);
});
afterAll(async () => {
  stopAll();
  await receiver.stop(true);
  await dropPostgres(database);
  temp.remove();
});

/** The secret of the test's store, which a page would generate anew. */
const KEEP_SECRET = `export POSTERN_SECRET=${SECRET}`;

/** What the text of a page says to do before and after a block, and what is printed then. */
const AROUND: Readonly<
  Record<
    string,
    {
      readonly before?: readonly string[];
      readonly after?: readonly string[];
      readonly prints: RegExp;
    }
  >
> = {
  "deploy 3": {
    // The comment of the example: set the values.
    before: [
      "install -D --mode 0600 deploy/systemd/example.env /etc/postern/postern.env",
      `sed -i 's/^POSTERN_SECRET=$/POSTERN_SECRET=${SECRET}/; s/^OPENAI_API_KEY=$/OPENAI_API_KEY=sk-test/' /etc/postern/postern.env`,
    ],
    prints: /ok {4}openai /,
  },
  "operations 0": {
    after: [KEEP_SECRET, "postern doctor --fix", "postern doctor"],
    prints: /ok {4}openai .*\n[^]*No problems found\./,
  },
  "operations 1": { before: [KEEP_SECRET], prints: /The move is complete\./ },
  "operations 2": {
    after: [KEEP_SECRET, "postern admin verify-ledger --full"],
    prints: /Backed up the store to [^]*No differences\./,
  },
  "operations 3": {
    after: [KEEP_SECRET, "unset POSTERN_ALERT_EMAIL", "postern admin verify-ledger --alert"],
    prints: /No differences\./,
  },
};

for (const page of ["deploy", "operations", "upgrading", "operator"]) {
  const file = `docs/site/${page}.md`;
  describe(file, () => {
    for (const [index, block] of blocksOf(file).entries()) {
      const run = block.commands.filter((line) => isRun(line, block));
      const around = AROUND[`${page} ${index}`];
      if (run.length === 0) continue;
      test(`runs: ${run[0]}`, async () => {
        const lines = [...(around?.before ?? []), ...run, ...(around?.after ?? [])];
        const { code, output } = await runInShell(lines, `${page}-${index}`);
        expect([code, output]).toEqual([0, expect.stringMatching(around?.prints ?? /^/)]);
      });
    }

    test("names programs that are not run only where it uses them", () => {
      for (const block of blocksOf(file))
        for (const program of block.notRun)
          expect([
            program,
            block.commands.some((line) => programsOf(line).includes(program)),
          ]).toEqual([program, true]);
    });
  });
}

test("the steps of an upgrade", async () => {
  const [, steps = ""] = /## Upgrade\n([^]*?)\n\n\|/.exec(readText("docs/site/upgrading.md")) ?? [];
  const commands = [...steps.matchAll(/`(postern [^`]+)`/g)].map(([, command = ""]) => command);
  expect(commands).toEqual([
    "postern doctor",
    "postern migrate",
    "postern admin verify-ledger --full",
  ]);
  const { code, output } = await runInShell([KEEP_SECRET, ...commands], "upgrade");
  expect([code, output]).toEqual([0, expect.stringContaining("No differences.")]);
});

test("the operator's commands", async () => {
  const commands = [
    "grant <account> <usd> --reason <text>",
    "list",
    "show <account>",
    "revoke-key <key>",
    "verify-ledger",
  ];
  const text = readText("docs/site/operations.md");
  for (const command of commands) expect(text).toContain(`\`postern admin ${command}\``);
  const lines = commands.map((command) => `postern admin ${command}`);
  const { code, output } = await runInShell([KEEP_SECRET, ...lines], "admin");
  expect([code, output]).toEqual([
    0,
    expect.stringMatching(/Granted \$5\.00[^]*Revoked key_[^]*No differences/),
  ]);
});
