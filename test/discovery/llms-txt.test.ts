import { describe, expect, test } from "bun:test";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { objectIn, parseObject, stringIn } from "../../src/base/json.ts";
import { openApiPath } from "../../src/discovery/curl.ts";
import { createRouter } from "../../src/http/router.ts";
import { startGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { parseBlocks, curlCommands, createSite } from "./harness.ts";
import { sampleRoutes, settings } from "./sample-routes.ts";

/** What the command prints. */
function runShell(command: string, env: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      "bash",
      ["-c", command],
      { env: { PATH: process.env["PATH"], ...env } },
      (error, out) => (error === null ? resolve(out) : reject(error)),
    );
  });
}

const site = createSite(sampleRoutes);
const text = await site.text("/llms.txt");

describe("/llms.txt", () => {
  test("is UTF-8 plain text", async () => {
    const response = await site.get("/llms.txt");
    expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  });

  test("has the format of llmstxt.org", () => {
    const [title, summary, ...rest] = parseBlocks(text);
    expect(title).toMatchObject({ kind: "heading", depth: 1 });
    expect(summary).toMatchObject({ kind: "quote" });
    const start = rest.findIndex((block) => block.kind === "heading");
    const lists = rest.slice(start);
    expect(start).toBeGreaterThan(0);
    for (const [index, block] of lists.entries()) {
      expect(block).toMatchObject(
        index % 2 === 0 ? { kind: "heading", depth: 2 } : { kind: "list" },
      );
      if (block.kind !== "list") continue;
      for (const line of block.text.split("\n"))
        expect(line).toMatch(/^- \[[^\]]+\]\((https?:\/)?\/[^)\s]+\)(: .+)?$/);
    }
    expect(lists.length % 2).toBe(0);
    expect(lists.at(-2)?.text).toBe("Optional");
  });

  test("lists every endpoint that is not hidden, but no document with a well-known address", () => {
    const listed = site.routes.filter(
      ({ hidden, path }) =>
        hidden !== true && !/^\/(?:\.well-known\/|robots\.txt$|sitemap\.(?:xml|md)$)/.test(path),
    );
    for (const route of listed) {
      expect(text).toContain(`- [${route.method} ${openApiPath(route.path)}](`);
    }
  });

  test("starts with commands for mounted routes", () => {
    const match = createRouter(site.routes);
    const commands = curlCommands(text);
    expect(commands).toHaveLength(3);
    for (const { method, url } of commands)
      expect(match(method, new URL(url).pathname).kind).toBe("route");
  });

  test("starts with commands that work one after the other, and never print the key", async () => {
    const gateway = await startGateway({});
    const page = await (await fetch(`${gateway.url}/llms.txt`)).text();
    const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);
    const home = scratchFolder("llms-txt");
    const out = await runShell(blocks.join("\necho\necho ---\n"), { HOME: home });
    await gateway.stop();
    const [registered = "", completion = "", balance = ""] = out.split("\n---\n");
    expect(registered).toStartWith("HTTP/1.1 201");
    expect(parseObject(completion)).toMatchObject({ object: "chat.completion" });
    const { prefix, spent_usd: spent } = objectIn(parseObject(balance)?.["key"]) ?? {};
    const [file = "", ...others] = readdirSync(path.join(home, ".postern")).filter((name) =>
      name.endsWith(".json"),
    );
    const kept = path.join(home, ".postern", file);
    const key = stringIn(parseObject(readFileSync(kept, "utf8"))?.["api_key"]) ?? "";
    // The key that the first command created made the call of the second.
    expect([others, key.startsWith(String(prefix)), Number(spent) > 0]).toEqual([[], true, true]);
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    expect(out).not.toContain(key);
  });

  test("links only to existing pages", async () => {
    const match = createRouter(site.routes);
    for (const [, url = ""] of text.matchAll(/\]\(([^)]+)\)/g)) {
      const { origin, pathname } = new URL(url, settings.baseUrl);
      expect(origin).toBe(settings.baseUrl);
      expect(match("GET", pathname).kind).toBe("route");
      if (pathname.startsWith("/docs/")) expect((await site.get(pathname)).status).toBe(200);
    }
  });
});
