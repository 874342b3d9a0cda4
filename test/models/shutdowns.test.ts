// Models that their provider shuts down: offered until that day, and a clear error from then on.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { builtInModels, catalogOf, findModel } from "../../src/models/catalog.ts";
import { createLiveCatalog } from "../../src/models/live-catalog.ts";
import { modelNotFound } from "../../src/models/model-not-found.ts";
import { modelsNamed } from "../../src/models/same-model.ts";
import { shutdownOf, SHUTDOWNS } from "../../src/models/tables/shutdown-dates.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";

const BEFORE = Date.parse("2026-12-10T23:59:59Z");
const AFTER = Date.parse("2026-12-11T00:00:00Z");
const catalog = catalogOf(builtInModels());

describe("a model that is shut down", () => {
  test("is offered until the day before, without a restart", () => {
    const live = createLiveCatalog({ now: BEFORE });
    expect(findModel(live.current(), "openai/gpt-5-mini")).toBeDefined();
    expect(live.refresh(BEFORE)).toEqual({ changed: false });
    expect(findModel(live.current(), "openai/gpt-5-mini")).toBeDefined();
    live.refresh(AFTER);
    const after = live.current();
    for (const id of ["openai/gpt-5-mini", "openai/gpt-5-mini-2025-08-07", "openai/gpt-5"])
      expect([id, findModel(after, id)]).toEqual([id, undefined]);
    expect(after.models.some(({ id }) => id === "openai/gpt-5-mini")).toBe(false);
    expect(modelNotFound(after, "openai/gpt-5-mini").publicMessage).toBe(
      'The provider "openai" shut "gpt-5-mini" down on 2026-12-11. Use "openai/gpt-6.1-terra".',
    );
  });

  test("is still offered by other providers", () => {
    expect(findModel(catalog, "azure/gpt-4-turbo")).toBeDefined();
    const named = modelsNamed(catalog, "gpt-4-turbo", AFTER).map(({ id }) => id);
    expect(named).toContain("azure/gpt-4-turbo");
    expect(named).not.toContain("openai/gpt-4-turbo");
  });

  test("keeps its price for a reply that names it", () => {
    expect(catalog.byName.get("openai/gpt-4-turbo")?.prices.length).toBeGreaterThan(0);
  });

  test("is found by its snapshots, whose model may still be offered", () => {
    const dead = "openai/gpt-4o-mini-search-preview-2025-03-11";
    expect(findModel(catalog, "openai/gpt-4o-mini")).toBeDefined();
    expect(findModel(catalog, dead)).toBeUndefined();
    expect(modelNotFound(catalog, dead).publicMessage).toContain("2026-07-23");
    expect(modelNotFound(catalog, "claude/openai/o4-mini").publicMessage).toContain("2026-10-23");
  });

  test("does not change the error of an unknown model", () => {
    const { publicMessage } = modelNotFound(catalog, "openai/gpt-5.9");
    expect(publicMessage).toContain('No model has the id "openai/gpt-5.9".');
  });
});

test("every successor is offered, and has no day of its own", () => {
  for (const [provider, rows] of SHUTDOWNS)
    for (const [date, names, successor] of rows) {
      expect([date, new Date(date).toISOString().slice(0, 10)]).toEqual([date, date]);
      if (successor === undefined) continue;
      const model = findModel(catalog, `${provider}/${successor}`)?.model;
      expect([String(names), successor, model?.shutdownDate]).toEqual([
        String(names),
        successor,
        null,
      ]);
    }
});

function isEnding(id: string): boolean {
  const [provider = "", name = ""] = id.split("/");
  return shutdownOf(provider, name) !== undefined;
}

describe("over HTTP", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ providers: ["openai", "azure", "anthropic", "google"] });
  });
  afterAll(async () => gateway.stop());

  test("every API names the day and the successor", async () => {
    const { headers } = await registerAccount(gateway);
    const messages = [{ role: "user", content: "Hi" }];
    const calls: readonly (readonly [path: string, body: object])[] = [
      ["/v1/chat/completions", { model: "openai/gpt-4", messages }],
      ["/v1/responses", { model: "openai/o1", input: "Hi" }],
      ["/v1/messages", { model: "openai/gpt-4-turbo", messages, max_tokens: 5 }],
      ["/v1/images/generations", { model: "openai/gpt-image-1", prompt: "A fox" }],
      [
        "/v1beta/models/openai/o3-mini:generateContent",
        { contents: [{ role: "user", parts: [{ text: "Hi" }] }] },
      ],
    ];
    for (const [path, body] of calls) {
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(`${gateway.url}${path}`, init);
      const text = await response.text();
      expect([path, response.status, text]).toEqual([
        path,
        404,
        expect.stringMatching(/down on 2026-10-23\. Use ."openai\/gpt-[a-z0-9.-]+/),
      ]);
    }
  });

  test("the list leaves it out, and its page says why", async () => {
    const list = await (await fetch(`${gateway.url}/v1/models?all=true&provider=openai`)).text();
    expect(list).not.toContain('"openai/gpt-4-turbo"');
    expect(list).toContain('"openai/gpt-5-mini"');
    const page = await fetch(`${gateway.url}/v1/models/openai/gpt-4-turbo`);
    expect([page.status, await page.text()]).toEqual([404, expect.stringContaining("2026-10-23")]);
  });

  test("a call by name goes to another provider of the model", async () => {
    const { headers } = await registerAccount(gateway);
    const body = JSON.stringify({
      model: "gpt-4-turbo",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 5,
    });
    const init = { method: "POST", headers, body };
    const response = await fetch(`${gateway.url}/v1/chat/completions`, init);
    expect([response.status, response.headers.get("x-postern-provider")]).toEqual([200, "azure"]);
  });

  test("the documents for agents name no model whose end is announced", async () => {
    for (const provider of ["openai", "anthropic"]) {
      const own = await startGateway({ providers: [provider] });
      const texts = await Promise.all(
        ["/llms.txt", "/auth.md", "/SKILL.md"].map(async (path) =>
          (await fetch(own.url + path)).text(),
        ),
      );
      const named = texts.flatMap((text) => {
        // This list follows the prices of the day.
        const examples = text.replaceAll(/The cheapest models that work now[^\n]*/g, "");
        return examples.match(/\b(openai|anthropic)\/[a-z0-9.-]*[a-z0-9]/g) ?? [];
      });
      const ends = new Set(named.filter(isEnding));
      expect(named.length).toBeGreaterThan(3);
      expect([...ends]).toEqual([]);
      await own.stop();
    }
  });

  test("a name that only providers without an account have names the day, too", async () => {
    const only = await startGateway({ providers: ["openai"] });
    const { headers } = await registerAccount(only);
    const replyTo = async (model: string): Promise<readonly [status: number, text: string]> => {
      const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }] });
      const init = { method: "POST", headers, body };
      const response = await fetch(`${only.url}/v1/chat/completions`, init);
      return [response.status, await response.text()];
    };
    const [status, text] = await replyTo("gpt-4-turbo");
    expect(status).toBe(503);
    expect(text).toMatch(/shut ."gpt-4-turbo." down on 2026-10-23\. Use .* no account at azure/);
    const ended = await replyTo("gpt-4.5-preview");
    expect(ended).toEqual([503, expect.stringContaining("down on 2025-07-14")]);
    await only.stop();
  });
});
