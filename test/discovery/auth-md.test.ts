import { describe, expect, test } from "bun:test";
import { FAULTS } from "../../src/base/fault.ts";
import { TOKEN_ERRORS } from "../../src/discovery/error-docs.ts";
import { createRouter } from "../../src/http/router.ts";
import { parseBlocks, curlCommands, createSite } from "./harness.ts";
import { claimRoutes, coreRoutes, sampleRoutes, settings } from "./sample-routes.ts";

const site = createSite(sampleRoutes);
const manifest = await site.text("/auth.md");

describe("/auth.md", () => {
  test("is Markdown in UTF-8, and the same at its well-known address", async () => {
    const answer = await site.get("/auth.md");
    expect(answer.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
    expect(await site.text("/.well-known/auth.md")).toBe(manifest);
  });

  test("has one title, and no heading skips a level", () => {
    const depths = parseBlocks(manifest).flatMap((block) =>
      block.kind === "heading" ? [block.depth] : [],
    );
    expect(depths[0]).toBe(1);
    expect(depths.filter((depth) => depth === 1)).toHaveLength(1);
    for (const [index, depth] of depths.entries()) {
      expect(depth - (depths[index - 1] ?? 0)).toBeLessThanOrEqual(1);
    }
  });

  test("checks for a key before it registers, and keeps the key before it uses it", () => {
    const titles = parseBlocks(manifest).flatMap((block) =>
      block.depth === 2 ? [block.text] : [],
    );
    expect(titles).toEqual([
      "Look for a key first",
      "Register",
      "Keep the key",
      "Call a model",
      "Watch the balance",
      "Buy credits",
      "More keys",
      "Hand the account to a human",
      "Errors",
      "Trying again",
      "Limits and prices",
      "More",
    ]);
  });

  test("shows only commands whose URL is a mounted route", () => {
    const match = createRouter(site.routes);
    const commands = curlCommands(manifest);
    expect(commands.length).toBeGreaterThanOrEqual(12);
    for (const { method, url } of commands) {
      expect(url).toStartWith(`${settings.baseUrl}/`);
      expect(`${url} ${match(method, new URL(url).pathname).kind}`).toBe(`${url} route`);
    }
  });

  test("sends bodies that their routes accept, and a key where one is needed", () => {
    const match = createRouter(site.routes);
    for (const { method, url, text } of curlCommands(manifest)) {
      const found = match(method, new URL(url).pathname);
      if (found.kind !== "route") throw new Error(`${url} is not mounted`);
      expect(text.includes("$POSTERN_API_KEY")).toBe(found.route.auth === "key");
      const body = /-d '((?:[^']|'\\'')*)'$/.exec(text)?.[1]?.replaceAll(String.raw`'\''`, "'");
      if (body !== undefined)
        expect(found.route.body?.safeParse(JSON.parse(body)).success).toBe(true);
    }
  });

  test("calls a model that this gateway has", () => {
    const models = [...manifest.matchAll(/"model":"([^"]+)"/g)].map(([, model]) => model);
    expect(new Set(models)).toEqual(new Set([settings.exampleModel]));
  });

  test("has every fault code once in its table, with something to do", () => {
    for (const [code, [status]] of Object.entries(FAULTS)) {
      const rows = manifest
        .split("\n")
        .filter((line) => line.startsWith(`| ${status} | \`${code}\` |`));
      expect(rows).toHaveLength(1);
      expect(rows[0]?.split(" | ").every((cell) => cell.trim() !== "")).toBe(true);
    }
  });

  test("has every error of the token endpoint", () => {
    for (const { error } of TOKEN_ERRORS) expect(manifest).toContain(`| \`${error}\` |`);
  });

  test("asks before it uses an e-mail address, and says how to keep the key", () => {
    expect(manifest).toContain("Ask your human before you use their e-mail address");
    expect(manifest).toContain("umask 077");
    expect(manifest).toContain("chmod 600 ~/.postern/gateway.test.json");
  });

  test("takes the key out of an answer as the shell lines say", () => {
    const pattern = /sed -n 's\/(.*)\/\\1\/p'/.exec(manifest)?.[1] ?? "";
    const expression = new RegExp(
      pattern.replaceAll(String.raw`\(`, "(").replaceAll(String.raw`\)`, ")"),
    );
    const answer = JSON.stringify({ account: { id: "acct_1" }, api_key: "pst-rt-abc", balance: 1 });
    expect(expression.exec(answer)?.[1]).toBe("pst-rt-abc");
  });

  test("names the limits, the prices and the fee", () => {
    for (const text of [
      "50,000 credits (0.05 USD)",
      "5 %",
      "no markup",
      "64 KiB; model calls 32 MiB",
    ]) {
      expect(manifest).toContain(text);
    }
    expect(manifest).toContain("10.00 USD of credits cost 10.50 USD before tax");
  });

  test("says where a stream has its cost, and how a chat stream comes to have it", () => {
    expect(manifest).toContain("`usage.cost` says it on streams too");
    expect(manifest).toContain('`"stream_options":{"include_usage":true}`');
  });

  test("names the exact claim grant of this gateway", () => {
    expect(manifest).toContain("urn:acme:agent-auth:grant-type:claim");
    expect(manifest).not.toContain("<vendor>");
  });
});

describe("/auth.md without claim routes", () => {
  test("does not speak of claims", async () => {
    const without = await createSite(coreRoutes).text("/auth.md");
    expect(without).not.toMatch(/claim|take the account over|oauth2/i);
  });

  test("does not speak of them where only one of the two is mounted", async () => {
    const half = await createSite([...coreRoutes, ...claimRoutes.slice(1)]).text("/auth.md");
    expect(half).not.toContain("Hand the account to a human");
  });
});

describe("/auth.md of a gateway with next to no routes", () => {
  test("still stands", async () => {
    const bare = await createSite([]).text("/auth.md");
    expect(curlCommands(bare)).toEqual([]);
    expect(bare).toContain("## Errors");
  });
});
