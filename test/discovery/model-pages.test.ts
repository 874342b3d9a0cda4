// The public model pages of a real gateway.

import { afterAll, expect, test } from "bun:test";
import { MINUTE_MS } from "../../src/base/time.ts";
import { pricePerMillion } from "../../src/discovery/model-pages/model-list.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";

const clock = { offset: 0 };
const gateway = await startGateway({
  providers: ["sim", "openai"],
  now: () => Date.now() + clock.offset,
});
afterAll(() => gateway.stop());

async function text(path: string, accept = "text/html"): Promise<string> {
  return (await fetch(gateway.url + path, { headers: { accept } })).text();
}

function listed(html: string): string[] {
  return [...html.matchAll(/<a href="\/models\/([^"]+)">/g)].map(([, id = ""]) => id);
}

test("/models lists what is callable, and with all=true everything", async () => {
  const callable = listed(await text("/models"));
  expect(callable.every((id) => /^(sim|openai)\//.test(id))).toBe(true);
  expect(callable).toContain("sim/echo");
  const html = await text("/models?all=true&provider=anthropic");
  expect(listed(html).length).toBeGreaterThan(5);
  expect(html).toContain("with your key");
});

test("/models searches, filters, sorts and pages", async () => {
  expect(listed(await text("/models?q=ECHO"))).toEqual(["sim/echo", "sim/echo-decisions"]);
  const vision = listed(await text("/models?ability=vision&provider=openai"));
  expect(vision).toContain("openai/gpt-5.4");
  expect(listed(await text("/models?q=no-such-model"))).toEqual([]);
  const [first] = listed(await text("/models?all=true&sort=context"));
  const largest = await (await fetch(`${gateway.url}/v1/models/${first}`)).json();
  expect(largest).toMatchObject({ context_length: expect.any(Number) });
  expect(listed(await text("/models?all=true&page=2"))).toHaveLength(100);
  expectStatus("getModelsPage", 400, await fetch(`${gateway.url}/models?sort=nonsense`));
});

test("the page of a model has prices, providers and code that names it", async () => {
  const html = await text("/models/openai/gpt-5.4");
  for (const part of ["Prices", "Providers", "ANTHROPIC_MODEL=openai/gpt-5.4", "client.chat"])
    expect(html).toContain(part);
  expect(await text("/models/sim/embed")).toContain("/v1/embeddings");
  const missing = await fetch(`${gateway.url}/models/no/such`);
  expect(missing.status).toBe(404);
  expect(await missing.text()).toContain("<h1>Not found</h1>");
});

test("a model says when its provider shuts it down", async () => {
  const read = async (id: string) => (await fetch(`${gateway.url}/v1/models/${id}`)).json();
  expect(await read("openai/gpt-image-1-mini")).toMatchObject({ shutdown_date: "2026-12-01" });
  expect(await read("openai/gpt-image-2")).toMatchObject({ shutdown_date: null });
  const says = "Its provider has announced to shut it down on 2026-12-01.";
  expect(await text("/models/openai/gpt-image-1-mini")).toContain(says);
  expect(await text("/models/openai/gpt-image-2")).not.toContain("shut it down");
});

test("the page of a model has its price history, or says that no change is known", async () => {
  const changed = await text("/models/azure/o3.md");
  expect(changed).toContain("| 2025-06-10 | $2.00 | $0.50 | $8.00 |");
  expect(changed).toContain("| Earliest known | $10.00 |");
  const byHour = await text("/models/deepseek/deepseek-flash.md");
  expect(byHour).toContain("No change of this price is known.");
  expect(byHour).toContain("| Mon, Tue, Wed, Thu, Fri, 01:00–04:00 UTC | $0.30 |");
  expect(await text("/models/sim/echo.md")).toContain("No change of this price is known.");
});

test("pages and API show what the last 24 hours measured", async () => {
  const { key } = await registerAccount(gateway);
  const before = await (await fetch(`${gateway.url}/v1/models/sim/tiny`)).json();
  expect(before).toMatchObject({ measured_24h: null });
  for (let call = 0; call < 6; call++)
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "sim/tiny",
        stream: true,
        messages: [{ role: "user", content: "Hello." }],
      }),
    }).then((response) => response.text());
  await rollUpUsage(gateway.server.db);
  // Figures are read at most once a minute.
  clock.offset += MINUTE_MS;
  const figures = { uptime: 1, latency_ms: expect.any(Number), first_token_ms: expect.any(Number) };
  const model = await (await fetch(`${gateway.url}/v1/models/sim/tiny`)).json();
  expect(model).toMatchObject({ measured_24h: figures });
  const endpoints = await (await fetch(`${gateway.url}/v1/models/sim/tiny/endpoints`)).json();
  expect(endpoints).toMatchObject({ data: [{ measured_24h: figures }] });
  expect(listed(await text("/models?sort=latency"))[0]).toBe("sim/tiny");
  expect(listed(await text("/models?sort=uptime"))[0]).toBe("sim/tiny");
  expect(await text("/models?q=sim/tiny")).toContain("100%");
  expect(await text("/models/sim/tiny.md")).toMatch(/\| up \| ~\d+ ms \| ~\d+ ms \| .* \| 100% \|/);
});

test("the pages are Markdown for clients that prefer it", async () => {
  expect(await text("/models", "text/markdown")).toContain("`sim/echo`");
  expect(await text("/models/sim/echo.md")).toStartWith("# Simulator: echo\n");
});

test("a call accepts the id that Claude Code sees", async () => {
  const { key } = await registerAccount(gateway);
  const response = await fetch(`${gateway.url}/v1/messages`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify({
      model: "claude/sim/echo",
      max_tokens: 20,
      messages: [{ role: "user", content: "Hello." }],
    }),
  });
  expect(response.status).toBe(200);
});

test("prices are shown per million tokens", () => {
  expect(
    ["0.0000025", "0", "0.000000001", undefined].map((price) => pricePerMillion(price)),
  ).toEqual(["$2.50", "free", "$0.001", "–"]);
});

test("pages of unknown models, documents and images are 404, and malformed paths 400", async () => {
  const get = (path: string) => fetch(gateway.url + path);
  expectStatus("getModelPage", 404, await get("/models/unknown/unknown"));
  expectStatus("getModelPage", 400, await get("/models/sim%00"));
  expectStatus("getDocsPage", 404, await get("/docs/nothing"));
  expectStatus("getDocsPage", 400, await get("/docs/%00"));
  expectStatus("getDocsImage", 404, await get("/docs/images/nothing.png"));
  expectStatus("getDocsImage", 400, await get("/docs/images/%00"));
  expectStatus("searchDocs", 400, await get(`/docs/search?q=${"x".repeat(1_000)}`));
});

test("/models is rendered once, and a network asks for few new pages", async () => {
  const plain = await fetch(`${gateway.url}/models`);
  const etag = plain.headers.get("etag") ?? "";
  expect(etag).not.toBe("");
  const again = await fetch(`${gateway.url}/models`, { headers: { "if-none-match": etag } });
  expect(again.status).toBe(304);
  const search = (index: number) => fetch(`${gateway.url}/models?q=search-${index}`);
  const statuses: number[] = [];
  for (let index = 0; index < 60 && statuses.at(-1) !== 429; index++) {
    const response = await search(index);
    statuses.push(response.status);
    if (response.status === 429) {
      expect(response.headers.has("retry-after")).toBe(true);
      expectStatus("getModelsPage", 429, response);
    }
  }
  expect(statuses.at(-1)).toBe(429);
  expect(statuses.length).toBeGreaterThan(20);
  for (const path of ["/models", "/models?q=search-0"])
    expect([path, (await fetch(gateway.url + path)).status]).toEqual([path, 200]);
});
