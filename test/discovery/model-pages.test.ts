// The public model pages of a real gateway.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { pricePerMillion } from "../../src/discovery/model-pages/model-list.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ providers: ["sim", "openai"] });
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
  expect(listed(await text("/models?q=ECHO"))).toEqual(["sim/echo"]);
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
  expect((await fetch(`${gateway.url}/models/no/such`)).status).toBe(404);
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
