// The documentation site of a real gateway: every written page is in it, links lead somewhere, pages are small, and the
// examples of the pages run.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { renderMarkdown } from "../../src/discovery/markdown.ts";
import { WRITTEN_SECTIONS, writtenSections } from "../../src/discovery/site/written-pages.ts";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { filesUnder, ROOT } from "../support/source/source-files.ts";

const PAGE_BYTES_MAX = 110_000;
const HTML = { accept: "text/html" };
const PAGES = WRITTEN_SECTIONS.flatMap((section) =>
  section.pages.map((page) => ({ ...page, audience: section.audience })),
);

const gateway = await startGateway({ providers: ["sim", "openai", "anthropic"] });
const folder = mkdtempSync(path.join(ROOT, "test/.docs-examples-"));
// Files that examples send: an image of one pixel, and a PDF without pages.
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
writeFileSync(path.join(folder, "photo.png"), Buffer.from(PIXEL, "base64"));
writeFileSync(path.join(folder, "report.pdf"), "%PDF-1.4\n%%EOF\n");
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await gateway.stop();
});

async function get(url: string, headers: Readonly<Record<string, string>> = HTML) {
  return fetch(`${gateway.url}${url}`, { headers });
}

describe("images", () => {
  test.each(["none.png", "toString", "constructor", "__proto__"])("%s is a 404", async (name) => {
    expect((await get(`/docs/images/${name}`)).status).toBe(404);
  });
});

describe("pages", () => {
  test("are all in a menu, and a file without one is refused", () => {
    const files = filesUnder("docs/site", /\.md$/).map(({ path: file }) =>
      path.posix.relative("docs/site", file),
    );
    const listed = new Set(PAGES.map(({ file }) => file));
    expect(files.filter((file) => !listed.has(file))).toEqual([]);
    expect(() => writtenSections({ "new.md": "# New" })).toThrow("docs/site/new.md");
  });

  test("of customers and of operators are two menus", async () => {
    const customers = await (await get("/docs")).text();
    const operators = await (await get("/docs/operations")).text();
    expect(customers).toContain('href="/docs/quick-start"');
    expect(customers).not.toContain('href="/docs/deploy"');
    expect(operators).toContain('href="/docs/deploy"');
    expect(operators).not.toContain('href="/docs/quick-start"');
    // The next page is of the same menu.
    expect(await (await get("/docs/changelog")).text()).not.toContain('rel="next"');
    expect(operators).not.toContain('rel="prev"');
  });

  test("have at most 110 KB, and links and anchors that lead somewhere", async () => {
    const seen = new Map<string, string>();
    const load = async (url: string): Promise<string> => {
      const known = seen.get(url);
      if (known !== undefined) return known;
      const response = await get(url);
      const text = response.status >= 400 ? "" : await response.text();
      seen.set(url, text);
      return text;
    };
    const queue = ["/docs"];
    const broken: string[] = [];
    for (let page = queue.shift(); page !== undefined; page = queue.shift()) {
      const html = await load(page);
      if (html.length > PAGE_BYTES_MAX) broken.push(`${page} has ${html.length} characters`);
      for (const [, href = ""] of html.matchAll(/<a[^>]* href="([^"]+)"/g)) {
        const { pathname, hash, origin } = new URL(
          href.replaceAll("&amp;", "&"),
          gateway.url + page,
        );
        if (origin !== gateway.url || pathname === "/console") continue;
        if (pathname.startsWith("/docs") && !seen.has(pathname) && !queue.includes(pathname))
          queue.push(pathname);
        const target = await load(pathname);
        const id = decodeURIComponent(hash.slice(1));
        if (target === "" || (id !== "" && !target.includes(` id="${id}"`)))
          broken.push(`${page} → ${href}`);
      }
    }
    expect(broken).toEqual([]);
    expect(seen.size).toBeGreaterThan(100);
  });

  test("are Markdown at .md and for clients that prefer it, with this gateway's address", async () => {
    const file = await get("/docs/quick-start.md", {});
    expect(file.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
    const text = await file.text();
    expect(text).toStartWith("# Quick start\n");
    expect(text).toContain(`${gateway.url}/v1/chat/completions`);
    expect(text).not.toContain("127.0.0.1:8787");
    const codex = await (await get("/docs/guides/codex.md")).text();
    expect(codex).toContain(`${gateway.url.replace("http", "ws")}/v1/responses`);
    expect(await (await get("/docs/quick-start", { accept: "text/markdown" })).text()).toBe(text);
    expect((await get("/docs/index.md")).status).toBe(200);
    expect((await get("/docs/no-such-page")).status).toBe(404);
  });
});

describe("Markdown", () => {
  test("drops raw HTML and unsafe links, and escapes code", () => {
    const { html } = renderMarkdown(
      "# T\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1)) `<b>`\n\n```sh\necho '<i>'\n```\n",
    );
    expect(html).not.toMatch(/<script|<b>|<i>|javascript:/);
    expect(html).toContain("<code>&lt;b&gt;</code>");
  });

  test("turns a group of code blocks into tabs that work without scripts", () => {
    const { html } = renderMarkdown(
      "<!-- tabs: curl, Python -->\n```sh\ncurl x\n```\n\n```python\nprint(1)\n```\n<!-- /tabs -->\n",
    );
    expect(html.match(/<input type="radio"/g)).toHaveLength(2);
    expect(html).toContain('<label for="tabs-0-1">Python</label>');
  });
});

interface Example {
  readonly page: string;
  readonly language: string;
  readonly code: string;
}

const EXAMPLES: readonly Example[] = PAGES.flatMap(({ file, text }) =>
  [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = "", code = ""]) => ({
    page: file,
    language,
    code,
  })),
);

/** Pages of operators whose examples call the API or set variables. */
const RUN_OPERATOR_PAGES = new Set([
  "simulator.md",
  "identity.md",
  "providers.md",
  "verified-agents.md",
]);
/** Their examples poll for a person, so they end with a 400. */
const POLLING_PAGES = new Set(["claim.md", "identity.md"]);
/** Pages whose examples need more than this gateway, and where the same is tested. */
const TESTED_ELSEWHERE: Readonly<Record<string, string>> = {
  "pay-per-call.md": "test/billing/x402/upto-calls.test.ts, with a chain",
  "x402.md": "test/billing/x402/x402-payments.test.ts, with a chain",
  "mpp.md": "test/billing/mpp, with a chain and a card",
  "ledger-proofs.md": "test/ledger-proofs/ledger-proofs-routes.test.ts, with a published day",
  "deploy.md": "test/deploy/pages.test.ts",
  "operations.md": "test/deploy/pages.test.ts",
  "upgrading.md": "test/deploy/pages.test.ts",
  "operator.md": "test/deploy/pages.test.ts",
  "billing.md": "test/operator/pages.test.ts, with a bank transfer",
  "scale.md": "test/commands/workers.test.ts, with several processes",
};

describe("examples", () => {
  test.each(["json", "toml", "sh", "console", "ts", "js", "python"])(
    "in %s are well-formed",
    (language) => {
      const wrong = EXAMPLES.filter((example) => example.language === language)
        .filter(({ code }) => !isWellFormed(language, code))
        .map(({ page, code }) => `${page}: ${code.slice(0, 80)}`);
      expect(wrong).toEqual([]);
    },
  );

  const pages = PAGES.filter(
    ({ audience, file }) =>
      RUN_OPERATOR_PAGES.has(file) || (audience === "customers" && !(file in TESTED_ELSEWHERE)),
  ).map(({ file }) => file);
  test("run on every page, here or in another test", () => {
    const run = new Set([...pages, ...Object.keys(TESTED_ELSEWHERE)]);
    const code = EXAMPLES.filter(({ language }) => /^(?:sh|[jt]s|python)$/.test(language));
    expect(code.map(({ page }) => page).filter((page) => !run.has(page))).toEqual([]);
  });

  const shellPages = pages.filter((page) =>
    EXAMPLES.some((example) => example.page === page && example.language === "sh"),
  );

  test.each(shellPages)("in sh run: %s", async (page) => {
    const key = await fundedKey();
    const blocks = EXAMPLES.filter((each) => each.page === page && each.language === "sh");
    const script = [
      "set -euo pipefail",
      // Examples show what a reader types; a failed request must fail the test.
      POLLING_PAGES.has(page)
        ? ""
        : 'curl() { command curl --fail-with-body --no-progress-meter "$@"; }',
      ...blocks.map(({ code }) => forGateway(code)),
    ].join("\n");
    const result = await run("bash", ["-c", script], key);
    const ends = POLLING_PAGES.has(page) ? /"error":"authorization_pending"/ : /^/;
    expect(result).toEqual({ exitCode: 0, output: expect.stringMatching(ends) });
  });

  const typescript = EXAMPLES.filter(
    ({ page, language }) => /^[jt]s$/.test(language) && pages.includes(page),
  );
  const named = typescript.map((example, index) => [`${example.page} ${index}`, example] as const);
  /** What each example ended with. One process runs them one after another, because each process loads the SDKs. */
  const endings: Record<string, string> = {};
  beforeAll(async () => {
    const files = named.flatMap(([name, { code }]) => {
      const missing = [...code.matchAll(/from "([^"]+)"/g)].find(
        ([, from = ""]) => !isInstalled(from),
      );
      if (missing !== undefined) {
        endings[name] = "done";
        console.log(`skipped ${name}: ${missing[1]} is not installed`);
        return [];
      }
      const file = path.join(folder, `${name.replaceAll(/\W/g, "-")}.ts`);
      writeFileSync(file, forGateway(code));
      return [[name, file] as const];
    });
    const script = path.join(folder, "all-examples.ts");
    writeFileSync(
      script,
      `const endings: Record<string, string> = {};
for (const [name, file] of ${JSON.stringify(files)}) {
  endings[name] = await import(file).then(() => "done", String);
  await Bun.write("endings.json", JSON.stringify(endings));
}
process.exit(0);
`,
    );
    const { output } = await run(process.execPath, [script], await fundedKey());
    const written: unknown = await Bun.file(path.join(folder, "endings.json")).json();
    Object.assign(endings, written);
    console.log(output);
  });
  test.each(named.map(([name]) => name))("in TypeScript and JavaScript run: %s", (name) => {
    expect([name, endings[name]]).toEqual([name, "done"]);
  });

  test("of errors inside streams see the error, the text before it and no end", async () => {
    const failing = (code: string): string =>
      forGateway(code).replace("Hello.", "Hello. [[sim: fail=2]]");
    const blocks = EXAMPLES.filter(({ page }) => page === "guides/stream-errors.md");
    const codeIn = (language: string): string =>
      failing(blocks.find((block) => block.language === language)?.code ?? "");
    const key = await fundedKey();
    const shell = await run("bash", ["-c", codeIn("sh")], key);
    expect(shell).toMatchObject({ exitCode: 0, output: expect.stringContaining('"error"') });
    const file = path.join(folder, "failing-stream.ts");
    writeFileSync(file, codeIn("ts"));
    const script = await run(process.execPath, [file], key);
    expect(script).toMatchObject({
      exitCode: 0,
      output: expect.stringMatching(/^failed after [1-9]\d* characters: upstream_error /),
    });
  });

  const python = EXAMPLES.filter(({ language }) => language === "python");
  test.each(python.map((example, index) => [`${example.page} ${index}`, example] as const))(
    "in Python run: %s",
    async (name, { code }) => {
      const modules = [...code.matchAll(/^(?:from|import) (\w+)/gm)].map(([, module]) => module);
      if (!canImport(modules.join(", "))) {
        console.log(`skipped ${name}: python3 with ${modules.join(", ")} is not installed`);
        return;
      }
      const key = await fundedKey();
      const result = await run("python3", ["-c", forGateway(code)], key);
      expect(result).toEqual({ ...result, exitCode: 0 });
    },
  );
});

/** A PDF can fill the context of a model, and the hold covers that. */
async function fundedKey(): Promise<string> {
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
  return account.key;
}

function isInstalled(specifier: string): boolean {
  try {
    import.meta.resolve(specifier);
    return Bun.resolveSync(specifier, ROOT) !== "";
  } catch {
    return false;
  }
}

const importable = new Map<string, boolean>();

/** Whether Python has these modules. */
function canImport(modules: string): boolean {
  const known =
    importable.get(modules) ?? spawnSync("python3", ["-c", `import ${modules}`]).status === 0;
  importable.set(modules, known);
  return known;
}

function isWellFormed(language: string, code: string): boolean {
  try {
    if (language === "json") JSON.parse(code);
    if (language === "toml") Bun.TOML.parse(code);
    if (language === "ts" || language === "js")
      new Bun.Transpiler({ loader: "ts" }).transformSync(code);
    if (language === "sh" || language === "console")
      return spawnSync("bash", ["-n"], { input: code }).status === 0;
    if (language === "python") return isPython(code);
    return true;
  } catch {
    return false;
  }
}

/** Also true where python3 is not installed. */
function isPython(code: string): boolean {
  const check = ["-c", "import ast, sys; ast.parse(sys.stdin.read())"];
  return [0, null].includes(spawnSync("python3", check, { input: code }).status);
}

function forGateway(code: string): string {
  return code
    .replaceAll("ws://127.0.0.1:8787", gateway.url.replace("http", "ws"))
    .replaceAll(/http:\/\/127\.0\.0\.1:8787|https:\/\/gateway\.example(?![\w.])/g, gateway.url);
}

interface RunResult {
  readonly exitCode: number | null;
  readonly output: string;
}

function run(command: string, args: readonly string[], key: string): Promise<RunResult> {
  const child = spawn(command, [...args], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"],
      HOME: folder,
      POSTERN_API_KEY: key,
      KEY: key,
      BASE: gateway.url,
    },
  });
  let output = "";
  child.stdout.on("data", (data) => (output += String(data)));
  child.stderr.on("data", (data) => (output += String(data)));
  return new Promise((resolve) => {
    child.on("close", (exitCode) => resolve({ exitCode, output: output.slice(-2_000) }));
  });
}
