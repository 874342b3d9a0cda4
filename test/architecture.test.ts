// The house as a test: each title is a rule of CONTRIBUTING.md, and the message of a failure names what breaks it.

import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { SETTINGS } from "../src/config/config.ts";
import {
  accountSettings,
  readmeWithTables,
  defaultRoutes,
} from "./support/source/readme-tables.ts";
import {
  codeLines,
  commentLines,
  filesUnder,
  importsOf,
  readText,
  ROOT,
  moduleOf,
  type SourceFile,
} from "./support/source/source-files.ts";

const source = filesUnder("src");
const readme = readText("README.md");

/** What a room may import of ours. Its routes, records and pages, which are its HTTP face, may import `http` besides. */
const ALLOWED_IMPORTS: Readonly<Record<string, readonly string[]>> = {
  base: [],
  store: ["base"],
  models: ["base"],
  simulator: ["base"],
  outbound: ["base"],
  http: ["base", "store"],
  ledger: ["base", "store"],
  keys: ["base", "store"],
  idempotency: ["base", "store"],
  usage: ["base", "store"],
  people: ["base", "store"],
  "provider-keys": ["base", "store"],
  telemetry: ["base", "usage"],
};
const HTTP_FILES = /\/(routes|record)(-[a-z-]+)?\.ts$|\.tsx$/;
const WIRE_PATH = /^src\/inference\/wires\/([^/]+)\//;

const TABLE_OWNERS: Readonly<Record<string, readonly string[]>> = {
  ledger: ["wallet", "spender", "hold", "swept_hold", "transfer", "process"],
  keys: ["api_key"],
  accounts: ["account", "account_creation", "membership", "invitation"],
  usage: ["usage_record"],
  people: ["person", "session"],
  claims: ["claim_attempt", "claim_count", "human_grant"],
  "provider-keys": ["provider_key"],
  responses: ["stored_response", "stored_item"],
  idempotency: ["idempotent_answer"],
  billing: [
    "invoice",
    "checkout",
    "payment",
    "payment_fact",
    "auto_top_up",
    "top_up",
    "payment_method",
    "agent_payment",
  ],
  operator: ["operator_session"],
  store: ["migration"],
};
const TABLE_WRITES =
  /\b(?:insert into|delete from)\s+([a-z_]+)|\bupdate\s+([a-z_]+)\s+set\b|\b(?:insertMany|updateMany|deleteMany)\(\s*"([a-z_]+)"/g;

const RUNTIME_FILES = new Set([
  "src/http/listen.ts",
  "src/http/response-stream.ts",
  "src/http-client/socket.ts",
  "src/store/postgres.ts",
  "src/store/sqlite.ts",
]);
const FORBIDDEN_NAMES =
  /^(utils?|helpers?|lib|libs|common|shared|misc|services?|managers?|types|index)(\.[a-z]+)*$/;

const FILE_LINES_MAX = 400;
const MEDIAN_LINES_MAX = 120;
const COMMENT_SHARE_MAX = 0.12;
const DECISION_LINES_MAX = 60;
/** Names of types only: the prose of pages has the word, too. */
const CAST =
  /[\w)\]}"'`] as (?:[A-Z]\w*|unknown|string|number|boolean|bigint|object|never|readonly|keyof|typeof|\{ readonly|\(|\[)/;
/** A ratchet: it only goes down. */
const UNEXPLAINED_CASTS_MAX = 0;

describe("imports", () => {
  for (const [room, allowed] of Object.entries(ALLOWED_IMPORTS)) {
    test(`${room} imports ${allowed.length === 0 ? "nothing of ours" : `${allowed.join(" and ")} only`}`, () => {
      expect(
        violations(source, (file, target) => {
          if (moduleOf(file) !== room) return false;
          const other = moduleOf(target);
          // The routes of several rooms show one another's records.
          const face = HTTP_FILES.test(file) && (other === "http" || HTTP_FILES.test(target));
          return other !== room && !allowed.includes(other) && !face;
        }),
      ).toEqual([]);
    });
  }

  test("a wire imports base, the canonical form and its own folder only", () => {
    expect(
      violations(source, (file, target) => {
        const wire = WIRE_PATH.exec(file)?.[1];
        if (wire === undefined) return false;
        const isOwn = WIRE_PATH.exec(target)?.[1] === wire;
        return (
          !isOwn &&
          moduleOf(target) !== "base" &&
          !/^src\/inference\/(canonical\/|wires\/[a-z-]+\.ts$)/.test(target)
        );
      }),
    ).toEqual([]);
  });

  test("nobody but app.ts imports a routes file", () => {
    expect(
      violations(
        source,
        (file, target, typeOnly) =>
          /\/routes\.tsx?$/.test(target) &&
          file !== "src/server/routes.ts" &&
          !typeOnly &&
          moduleOf(file) !== moduleOf(target),
      ),
    ).toEqual([]);
  });

  test("nobody but main.ts imports config.ts as a value", () => {
    expect(
      violations(
        source,
        (file, target, typeOnly) =>
          target === "src/config/config.ts" && file !== "src/main.ts" && !typeOnly,
      ),
    ).toEqual([]);
  });

  test("a room's capability knows nothing of commands, the house or the app", () => {
    expect(
      violations(
        source,
        (file, target) =>
          /^src\/[a-z-]+\//.test(file) &&
          moduleOf(file) !== "commands" &&
          /^src\/(commands\/|house\.ts|app\.ts|main\.ts)/.test(target),
      ),
    ).toEqual([]);
  });

  test("the framework stays in http, routes files and pages", () => {
    expect(
      source
        .filter(({ path: file }) => moduleOf(file) !== "http" && !HTTP_FILES.test(file))
        .filter((file) =>
          importsOf(file).some(
            ({ from }) => from.split("/")[0] === "hono" || from === "@hono/zod-openapi",
          ),
        )
        .map(({ path: file }) => file),
    ).toEqual([]);
  });

  test("Bun is named in the few files that drive it", () => {
    expect(
      source
        .filter(({ path: file }) => !RUNTIME_FILES.has(file))
        .filter(
          (file) =>
            importsOf(file).some(({ from }) => from === "bun" || from.startsWith("bun:")) ||
            codeLines(file).some((line) => /\bBun\./.test(line)),
        )
        .map(({ path: file }) => file),
    ).toEqual([]);
  });

  test("the environment is read by main.ts and config.ts only", () => {
    const readsEnvironment =
      /\bprocess\.env\b|import .*\benv\b.* from "node:process"|\bimport\.meta\.env\b/;
    expect(
      source
        .filter(({ path: file }) => file !== "src/main.ts" && file !== "src/config/config.ts")
        .filter(({ text }) => readsEnvironment.test(text))
        .map(({ path: file }) => file),
    ).toEqual([]);
  });
});

describe("tables", () => {
  const writers = new Map<string, Set<string>>();
  for (const { path: file, text } of source)
    for (const [, inserted, updated, many] of text.matchAll(TABLE_WRITES)) {
      const table = inserted ?? updated ?? many ?? "";
      writers.set(table, (writers.get(table) ?? new Set()).add(moduleOf(file)));
    }
  const tables = filesUnder("src/store/migrations", /\.sql$/).flatMap(({ text }) =>
    [...text.matchAll(/create table if not exists ([a-z_]+)/g)].map(([, table = ""]) => table),
  );

  test("a table is written by exactly one room", () => {
    const shared = tables
      .filter((table) => writers.get(table)?.size !== 1)
      .map((table) => `${table}: ${[...(writers.get(table) ?? [])].join(", ") || "nobody"}`);
    expect(shared).toEqual([]);
  });

  for (const [room, owned] of Object.entries(TABLE_OWNERS))
    test(`${room} alone writes ${owned.join(", ")}`, () => {
      expect(
        owned.map((table) => `${table} ${[...(writers.get(table) ?? [])].join(", ")}`),
      ).toEqual(owned.map((table) => `${table} ${room}`));
    });
});

describe("code", () => {
  test(`a file has ${FILE_LINES_MAX} lines at most, and half of them ${MEDIAN_LINES_MAX} or fewer`, () => {
    const sizes = source.map(({ lines }) => lines.length).sort((left, right) => left - right);
    expect(
      source
        .filter(({ lines }) => lines.length > FILE_LINES_MAX)
        .map(({ path: file, lines }) => `${file} ${lines.length}`),
    ).toEqual([]);
    expect(sizes[Math.floor(sizes.length / 2)] ?? 0).toBeLessThanOrEqual(MEDIAN_LINES_MAX);
  });

  test("oxlint forbids any, !, @ts-ignore, default exports, cycles, long functions and deep nesting", () => {
    const { rules } = JSON.parse(readText(".oxlintrc.json"));
    for (const rule of [
      "typescript/no-explicit-any",
      "typescript/no-non-null-assertion",
      "typescript/ban-ts-comment",
      "typescript/switch-exhaustiveness-check",
      "import/no-default-export",
      "import/no-cycle",
      "node/no-process-env",
    ])
      expect(`${rule} ${rules[rule]}`).toBe(`${rule} error`);
    expect(rules["max-lines"]).toEqual(["error", FILE_LINES_MAX]);
    expect(rules["max-lines-per-function"][1].max).toBe(70);
    expect(rules["max-depth"]).toEqual(["error", 3]);
  });

  test("no rule is switched off inside a file", () => {
    expect(
      matchingLines([...source, ...filesUnder("test")], (line) =>
        /(ox|es)lint-disable|@ts-(ignore|nocheck|expect-error)/.test(line),
      ),
    ).toEqual([]);
  });

  test("no file hands on what another exports", () => {
    expect(
      matchingLines(source, (line) => /^export (\*|\{[^}]*\}|type \{[^}]*\}) from /.test(line)),
    ).toEqual([]);
  });

  test("no drawer: utils, helpers, lib, common, types, index", () => {
    const names = [...source, ...filesUnder("test")].map(({ path: file }) => file);
    expect(
      names.filter((file) => file.split("/").some((part) => FORBIDDEN_NAMES.test(part))),
    ).toEqual([]);
  });

  test("files and folders are named in kebab-case", () => {
    const names = source.map(({ path: file }) => file);
    expect(
      names.filter((file) => !/^src(\/[a-z0-9-]+)*\/[a-z0-9-]+(\.d)?\.tsx?$/.test(file)),
    ).toEqual([]);
  });

  test("there are no classes but Fault", () => {
    expect(
      source.flatMap((file) =>
        codeLines(file)
          .filter((line) => /^\s*(export )?(abstract )?class \w/.test(line))
          .map((line) => `${file.path} ${line.trim()}`),
      ),
    ).toEqual(["src/base/fault.ts export class Fault extends Error {"]);
  });

  test("a cast says on its line, or just above it, why it is safe", () => {
    const unexplained = source.flatMap(unexplainedCasts);
    expect(unexplained.slice(UNEXPLAINED_CASTS_MAX)).toEqual([]);
  });

  test("comments are few: what the code cannot say", () => {
    const lines = source.reduce((sum, file) => sum + file.lines.length, 0);
    const comments = source.reduce((sum, file) => sum + commentLines(file), 0);
    expect(comments / lines).toBeLessThan(COMMENT_SHARE_MAX);
  });

  test("a room's main file begins with what the room is for", () => {
    expect(
      source
        .filter(({ path: file }) => /^src\/([a-z-]+)\/\1\.tsx?$/.test(file))
        .filter(({ lines }) => !/^\/\/ \S/.test(lines[0] ?? ""))
        .map(({ path: file }) => file),
    ).toEqual([]);
  });
});

describe("documents", () => {
  test("the README's map lists exactly the folders of src, each with a sentence", () => {
    const folders = readdirSync(path.join(ROOT, "src"), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
      .sort(compareText);
    const rows = [...readme.matchAll(/^\| `([a-z-]+)\/` \| (.+) \|$/gm)];
    expect(rows.map(([, folder = ""]) => folder).sort(compareText)).toEqual(folders);
    expect(
      rows.filter(([, , sentence = ""]) => !sentence.endsWith(".")).map(([row]) => row),
    ).toEqual([]);
  });

  test("the README's tables of settings and endpoints are those of the program (npm run readme writes them)", async () => {
    expect(readme).toBe(readmeWithTables(readme, await defaultRoutes()));
  });

  test("the README says why each dependency is there", () => {
    const { dependencies } = JSON.parse(readText("package.json"));
    const rows = readme.matchAll(/^\| `(@?[a-z][a-z0-9/-]+)` \| \S.+ \|$/gm);
    const explained = new Set([...rows].map(([, name]) => name));
    expect(Object.keys(dependencies).filter((name) => !explained.has(name))).toEqual([]);
  });

  test("dependencies are pinned exactly", () => {
    const { dependencies, devDependencies } = JSON.parse(readText("package.json"));
    const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(
      ([, version]) => !/^\d+\.\d+\.\d+(-[a-z0-9.]+)?$/.test(String(version)),
    );
    expect(loose).toEqual([]);
  });

  test(".env.example names every setting", () => {
    const example = readText(".env.example");
    expect(
      [...Object.keys(SETTINGS), ...accountSettings().map(([name]) => name)].filter(
        (name) => !new RegExp(`^#? ?${name}=`, "m").test(example),
      ),
    ).toEqual([]);
  });

  test("every decision has a number of its own, a title with it, and fits a screen", () => {
    const decisions = filesUnder("docs/decisions", /\.md$/);
    const numbers = decisions.map(({ path: file }) => path.basename(file).slice(0, 4));
    expect(new Set(numbers).size).toBe(numbers.length);
    for (const { path: file, lines } of decisions) {
      expect(path.basename(file)).toMatch(/^\d{4}-[a-z0-9-]+\.md$/);
      expect(lines[0]).toMatch(new RegExp(`^# ${path.basename(file).slice(0, 4)}: \\S`));
      expect(`${file} ${lines.length > DECISION_LINES_MAX ? lines.length : "fits"}`).toBe(
        `${file} fits`,
      );
    }
  });

  test("every file that a document points to is there", () => {
    const pages = [
      ...filesUnder("docs", /\.md$/),
      ...["README.md", "CONTRIBUTING.md"].map((page) => ({ path: page, text: readText(page) })),
    ];
    const missing = pages.flatMap(({ path: page, text }) =>
      [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)]
        .map(([, link = ""]) => path.posix.join(path.posix.dirname(page), link))
        .filter((link) => !existsSync(path.join(ROOT, link)))
        .map((link) => `${page} → ${link}`),
    );
    expect(missing).toEqual([]);
  });

  test("nothing names a machine's folder or holds a secret", () => {
    const everything = ["src", "test", "docs", "bin", "bench", ".ci"]
      .filter((folder) => existsSync(path.join(ROOT, folder)))
      .flatMap((folder) =>
        filesUnder(folder, /\.(ts|tsx|js|mjs|json|jsonl|md|sql|txt|yaml|yml)$|\/run$/),
      );
    const folders = new RegExp(String.raw`(^|[\s"'(=])/(work|home|Users|root)/[a-z]`, "i");
    const secrets =
      /\bsk-(ant-|proj-)?[A-Za-z0-9_-]{40,}|\bAKIA[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|\bgh[pousr]_[A-Za-z0-9]{36}/;
    expect(matchingLines(everything, (line) => folders.test(line) || secrets.test(line))).toEqual(
      [],
    );
  });
});

function compareText(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

/** The imports that break a rule, as `file → target`. */
function violations(
  files: readonly SourceFile[],
  isViolation: (file: string, target: string, typeOnly: boolean) => boolean,
): readonly string[] {
  return files.flatMap((file) =>
    importsOf(file).flatMap(({ target, isTypeOnly }) =>
      target?.startsWith("src/") === true && isViolation(file.path, target, isTypeOnly)
        ? [`${file.path} → ${target}`]
        : [],
    ),
  );
}

function matchingLines(
  files: readonly SourceFile[],
  matches: (line: string) => boolean,
): readonly string[] {
  return files.flatMap(({ path: file, lines }) =>
    lines.flatMap((line, index) =>
      matches(line) && file !== "test/architecture.test.ts"
        ? [`${file}:${index + 1} ${line.trim()}`]
        : [],
    ),
  );
}

function unexplainedCasts(file: SourceFile): readonly string[] {
  const code = codeLines(file);
  let inImport = false;
  return code.flatMap((line, index) => {
    if (/^(import|export)\b.*\{?$|^(import|export) /.test(line))
      inImport = /^(import|export (type )?\{)/.test(line);
    const isName = inImport;
    if (line.includes(";")) inImport = false;
    if (isName || !CAST.test(line)) return [];
    const above = file.lines.slice(Math.max(0, index - 3), index + 1);
    return above.some((near) => /\/\/|\*\/|^\s*\*/.test(near))
      ? []
      : [`${file.path}:${index + 1} ${(file.lines[index] ?? "").trim()}`];
  });
}
