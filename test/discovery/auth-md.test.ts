import { describe, expect, test } from "bun:test";
import { FAULTS } from "../../src/base/fault.ts";
import { TOKEN_ERRORS } from "../../src/discovery/error-docs.ts";
import { requiresKey } from "../../src/http/route.ts";
import { createRouter } from "../../src/http/router.ts";
import { parseBlocks, curlCommands, createSite } from "./harness.ts";
import { claimRoutes, coreRoutes, sampleRoutes, settings } from "./sample-routes.ts";

const site = createSite(sampleRoutes);
const page = await site.text("/auth.md");

describe("/auth.md", () => {
  test("is UTF-8 Markdown, also at its well-known URL", async () => {
    const response = await site.get("/auth.md");
    expect(response.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
    expect(await site.text("/.well-known/auth.md")).toBe(page);
  });

  test("has one title and no skipped heading level", () => {
    const depths = parseBlocks(page).flatMap((block) =>
      block.kind === "heading" ? [block.depth] : [],
    );
    expect(depths[0]).toBe(1);
    expect(depths.filter((depth) => depth === 1)).toHaveLength(1);
    for (const [index, depth] of depths.entries()) {
      expect(depth - (depths[index - 1] ?? 0)).toBeLessThanOrEqual(1);
    }
  });

  test("has its sections in the order in which an agent needs them", () => {
    const titles = parseBlocks(page).flatMap((block) => (block.depth === 2 ? [block.text] : []));
    expect(titles).toEqual([
      "Find an existing key",
      "Register",
      "Store the key",
      "Call a model",
      "Check the balance",
      "Buy credits",
      "Manage keys",
      "Hand the account to a human",
      "Errors",
      "Retries",
      "Limits and prices",
      "Links",
    ]);
  });

  test("has only commands for mounted routes", () => {
    const match = createRouter(site.routes);
    const commands = curlCommands(page);
    expect(commands.length).toBeGreaterThanOrEqual(12);
    for (const { method, url } of commands) {
      expect(url).toStartWith(`${settings.baseUrl}/`);
      expect(`${url} ${match(method, new URL(url).pathname).kind}`).toBe(`${url} route`);
    }
  });

  test("has commands with valid bodies, and with a key if the route needs one", () => {
    const match = createRouter(site.routes);
    for (const { method, url, text } of curlCommands(page)) {
      const found = match(method, new URL(url).pathname);
      if (found.kind !== "route") throw new Error(`${url} is not mounted`);
      expect(text.includes("$POSTERN_API_KEY")).toBe(requiresKey(found.route));
      const body = /-d '((?:[^']|'\\'')*)'$/.exec(text)?.[1]?.replaceAll(String.raw`'\''`, "'");
      if (body !== undefined)
        expect(found.route.body?.safeParse(JSON.parse(body)).success).toBe(true);
    }
  });

  test("calls the example model of the settings", () => {
    const models = [...page.matchAll(/"model":"([^"]+)"/g)].map(([, model]) => model);
    expect(new Set(models)).toEqual(new Set([settings.exampleModel]));
  });

  test("lists every fault code once, with an action", () => {
    for (const [code, [status]] of Object.entries(FAULTS)) {
      const rows = page
        .split("\n")
        .filter((line) => line.startsWith(`| ${status} | \`${code}\` |`));
      expect(rows).toHaveLength(1);
      expect(rows[0]?.split(" | ").every((cell) => cell.trim() !== "")).toBe(true);
    }
  });

  test("lists every error of the token endpoint", () => {
    for (const { error } of TOKEN_ERRORS) expect(page).toContain(`| \`${error}\` |`);
  });

  test("asks for consent before using an email address, and protects the key file", () => {
    expect(page).toContain("Ask your human before you use their email address");
    expect(page).toContain("umask 077");
    expect(page).toContain("chmod 600 ~/.postern/gateway.test.json");
  });

  test("extracts the key from a registration response with its sed expression", () => {
    const pattern = /sed -n 's\/(.*)\/\\1\/p'/.exec(page)?.[1] ?? "";
    const expression = new RegExp(
      pattern.replaceAll(String.raw`\(`, "(").replaceAll(String.raw`\)`, ")"),
    );
    const response = JSON.stringify({
      account: { id: "acct_1" },
      api_key: "pst-rt-abc",
      balance: 1,
    });
    expect(expression.exec(response)?.[1]).toBe("pst-rt-abc");
  });

  test("states limits, prices and the fee", () => {
    for (const text of [
      "50,000 credits ($0.05)",
      "5%",
      "no markup",
      "64 KiB; model calls 32 MiB",
    ]) {
      expect(page).toContain(text);
    }
    expect(page).toContain("$10.00 of credits costs $10.50 before tax");
  });

  test("says what to do when the starting credit of the day is used up, if it is limited", async () => {
    expect(page).not.toContain("used up");
    const grants = { percentPerHour: 5, percentPerDay: 10 };
    const textWhen = (whenExhausted: "create" | "refuse"): Promise<string> =>
      createSite(sampleRoutes, { ...settings, grants: { ...grants, whenExhausted } }).text(
        "/auth.md",
      );
    const [created, refused] = [await textWhen("create"), await textWhen("refuse")];
    expect(created).toContain("If `balance.credits` is `0`");
    expect(refused).not.toContain("If `balance.credits` is `0`");
    expect(refused).toContain("the status is `429` until midnight UTC");
    for (const text of [created, refused])
      expect(text).toContain("5% of the gateway's daily budget per hour, and 10% per day");
  });

  test("says how to get the cost of a stream", () => {
    expect(page).toContain("`usage.cost` has it too, also in streams");
    expect(page).toContain('`"stream_options":{"include_usage":true}`');
  });

  test("quotes the user code of the example response in the message for the human", () => {
    expect(page).toContain('"user_code": "402817"');
    expect(page).toContain("Check that the page shows the code 402817");
  });

  test("states the exact claim grant type of this gateway", () => {
    expect(page).toContain("urn:acme:agent-auth:grant-type:claim");
    expect(page).not.toContain("<vendor>");
  });
});

describe("/auth.md without claim routes", () => {
  test("does not mention claims", async () => {
    const without = await createSite(coreRoutes).text("/auth.md");
    expect(without).not.toMatch(/claim|take the account over|oauth2/i);
  });

  test("leaves out the claim section if only one of the two routes is mounted", async () => {
    const half = await createSite([...coreRoutes, ...claimRoutes.slice(1)]).text("/auth.md");
    expect(half).not.toContain("Hand the account to a human");
  });
});

describe("/auth.md without any routes", () => {
  test("has no commands and still lists the errors", async () => {
    const bare = await createSite([]).text("/auth.md");
    expect(curlCommands(bare)).toEqual([]);
    expect(bare).toContain("## Errors");
  });
});
