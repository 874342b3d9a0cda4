import { describe, expect, test } from "bun:test";
import { execFile } from "node:child_process";
import { objectIn, parseObject, stringIn } from "../../src/base/json.ts";
import { openApiPath } from "../../src/discovery/curl.ts";
import { createRouter } from "../../src/http/router.ts";
import type { Json } from "../inference/support/harness.ts";
import { startGateway } from "../support/gateway.ts";
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
        expect(line).toMatch(/^- \[[^\]]+\]\(https?:\/\/[^)\s]+\)(: .+)?$/);
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

  test("starts with commands that work one after the other, with the key of the first", async () => {
    const gateway = await startGateway({});
    const page = await (await fetch(`${gateway.url}/llms.txt`)).text();
    const commands = curlCommands(page);
    expect(commands.map(({ method }) => method)).toEqual(["POST", "POST", "GET"]);
    let key = "";
    const replies: Json[] = [];
    for (const { text: command } of commands) {
      const reply = parseObject(await runShell(command, { POSTERN_API_KEY: key }));
      replies.push(reply ?? {});
      key = stringIn(reply?.["api_key"]) ?? key;
    }
    await gateway.stop();
    const [, completion, balance] = replies;
    expect(completion).toMatchObject({ object: "chat.completion" });
    // The key that the first command created made the call of the second.
    const { prefix, spent_usd: spent } = objectIn(balance?.["key"]) ?? {};
    expect([key !== "" && key.startsWith(String(prefix)), Number(spent) > 0]).toEqual([true, true]);
  });

  test("links only to existing pages", async () => {
    const match = createRouter(site.routes);
    for (const [, url = ""] of text.matchAll(/\]\(([^)]+)\)/g)) {
      const { origin, pathname } = new URL(url);
      expect(origin).toBe(settings.baseUrl);
      expect(match("GET", pathname).kind).toBe("route");
      if (pathname.startsWith("/docs/")) expect((await site.get(pathname)).status).toBe(200);
    }
  });
});
