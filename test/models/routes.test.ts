import { describe, expect, test } from "bun:test";
import { Fault } from "../../src/base/fault.ts";
import type { Route } from "../../src/http/route.ts";
import { builtInModels, catalogOf } from "../../src/models/catalog.ts";
import { createLiveCatalog } from "../../src/models/live-catalog.ts";
import { ModelList, ModelRecord } from "../../src/models/model-record.ts";
import { type CallerAccess, modelRoutes } from "../../src/models/models-routes.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");
const health = () => ({
  status: "up" as const,
  latencyMs: undefined,
  replyMs: undefined,
  throughput: undefined,
  uptime: undefined,
});
const NOTHING_MEASURED = () => undefined;
const ACCESS: Readonly<Record<string, CallerAccess>> = {
  "Bearer with-openai": { ownProviders: new Set(["openai"]), policy: undefined, dataRules: [] },
  "Bearer narrow": {
    ownProviders: new Set(["openai", "anthropic"]),
    policy: { models: ["sim/echo", "openai/*"], providers: ["sim"] },
    dataRules: [],
  },
};
const routes = modelRoutes({
  catalog: createLiveCatalog({ now: NOW }),
  providerName: (id) => id,
  zdrProviders: new Set<string>(),
  isAvailable: (provider) => provider === "sim",
  health,
  measured: () => Promise.resolve(NOTHING_MEASURED),
  callerAccess: ({ headers }) => Promise.resolve(ACCESS[headers.get("authorization") ?? ""]),
});

async function send(
  path: string,
  headers: Record<string, string> = {},
  options: { routes?: readonly Route[]; now?: number } = {},
): Promise<Response> {
  const url = new URL(path, "http://gateway.test");
  const [listRoute, , getRoute] = options.routes ?? routes;
  const route = url.pathname === "/v1/models" ? listRoute : getRoute;
  const request = new Request(url, { headers });
  const params = route?.params?.parse({
    id: decodeURIComponent(url.pathname.slice("/v1/models/".length)),
  });
  const query = route?.query?.parse(Object.fromEntries(url.searchParams));
  const input = {
    params,
    query,
    body: undefined,
    caller: undefined,
    now: options.now ?? NOW,
    requestId: "req_1",
    clientIp: "127.0.0.1",
    headers: request.headers,
    request,
    bodyText: "",
  };
  const response = await route?.read?.(input);
  if (!(response instanceof Response)) throw new Error("not a response");
  return response;
}

async function ids(path: string, headers?: Record<string, string>): Promise<string[]> {
  const body = (await (await send(path, headers)).json()) as { data: { id: string }[] };
  return body.data.map(({ id }) => id);
}

describe("GET /v1/models", () => {
  test("needs no authentication", () => {
    expect(routes.map(({ kind, method, path }) => [kind, method, path])).toEqual([
      ["public", "GET", "/v1/models"],
      ["public", "GET", "/v1/models/{id+}/endpoints"],
      ["public", "GET", "/v1/models/{id+}"],
      ["public", "GET", "/v1beta/models"],
      ["public", "GET", "/v1beta/models/{model+}"],
    ]);
  });

  test("leaves out what the policy of the key excludes", async () => {
    const headers = { authorization: "Bearer narrow" };
    expect(await ids("/v1/models", headers)).toEqual(["sim/echo"]);
    expect(await ids("/v1/models?all=true", headers)).toEqual(["sim/echo"]);
    expect((await ids("/v1/models")).length).toBeGreaterThan(1);
  });

  test("lists what is callable, with the caller's own provider keys where a key is sent", async () => {
    const own = await ids("/v1/models");
    expect(own.every((id) => id.startsWith("sim/"))).toBe(true);
    const headers = { authorization: "Bearer with-openai" };
    const response = await send("/v1/models", headers);
    expect(response.headers.get("cache-control")).toBe("private, no-cache");
    const { data } = ModelList.parse(await response.json());
    expect(new Set(data.map(({ owned_by }) => owned_by))).toEqual(new Set(["openai", "sim"]));
    expect(data.every(({ available }) => available)).toBe(true);
    expect(await ids("/v1/models", { authorization: "Bearer unknown" })).toEqual(own);
  });

  test("lists other models for Claude Code under ids that its picker shows", async () => {
    const headers = { "anthropic-version": "2023-06-01", "user-agent": "claude-cli/2.1.197" };
    const listed = await ids("/v1/models?limit=1000", headers);
    expect(listed).toContain("claude/sim/echo");
    expect(await ids(`/v1/models?limit=1&after_id=${listed[0]}`, headers)).toEqual([
      listed[1] ?? "",
    ]);
    const { "anthropic-version": version } = headers;
    expect(await ids("/v1/models", { "anthropic-version": version })).toContain("sim/echo");
    expect(await (await send("/v1/models/claude/sim/echo")).json()).toMatchObject({
      id: "sim/echo",
    });
  });

  test("lists every model with its price in OpenAI's format", async () => {
    const response = await send("/v1/models?all=true");
    expect([response.status, response.headers.get("content-type")]).toEqual([
      200,
      "application/json",
    ]);
    const body = ModelList.parse(await response.json());
    expect(body.data.length).toBe(catalogOf(builtInModels()).models.length);
    for (const { pricing } of body.data) {
      expect(pricing["prompt"]).toMatch(/^\d+(\.\d+)?$/);
      expect(pricing["completion"]).toMatch(/^\d+(\.\d+)?$/);
    }
  });

  test("a record has limits, abilities, prices in USD per token, tiers and availability", async () => {
    const record = ModelRecord.parse(
      await (await send("/v1/models/anthropic/claude-haiku-5-5")).json(),
    );
    expect(record).toMatchObject({
      id: "anthropic/claude-haiku-5-5",
      object: "model",
      owned_by: "anthropic",
      context_length: 1_000_000,
      max_output_tokens: 128_000,
      available: false,
      wires: ["messages"],
      pricing: {
        prompt: "0.0000001",
        completion: "0.0000005",
        input_cache_read: "0.00000001",
        input_cache_write: "0.000000125",
        input_cache_write_1h: "0.0000002",
        web_search: "0.01",
        tiers: [{ above_input_tokens: 100_000, prices: { prompt: "0.0000005" } }],
        service_tiers: { batch: "0.5" },
        regions: { us: "1.1" },
      },
    });
    expect(record.created).toBe(Date.parse("2026-10-07") / 1000);
  });

  test("simulated models are marked and available", async () => {
    expect(await (await send("/v1/models/sim/echo")).json()).toMatchObject({
      simulated: true,
      available: true,
      pricing: { prompt: "0.000001", completion: "0.000002" },
    });
  });

  test("filters by provider, availability and search text", async () => {
    const simulated = [
      "sim/echo",
      "sim/echo-decisions",
      "sim/embed",
      "sim/image",
      "sim/image-each",
      "sim/image-each-pixel",
      "sim/image-each-size",
      "sim/moderation",
      "sim/reason",
      "sim/rerank",
      "sim/rerank-tokens",
      "sim/speech",
      "sim/speech-tokens",
      "sim/tiny",
      "sim/transcribe",
      "sim/transcribe-tokens",
    ];
    expect(await ids("/v1/models?provider=sim")).toEqual(simulated);
    expect(await ids("/v1/models?available=true")).toEqual(simulated);
    expect(await ids("/v1/models?available=false&provider=sim")).toEqual([]);
    expect(await ids("/v1/models?all=true&q=OPUS-5-5&provider=anthropic")).toEqual([
      "anthropic/claude-opus-5-5",
    ]);
  });

  test("pages through the list with limit and cursor, as other lists", async () => {
    const all = await ids("/v1/models?all=true");
    const found: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const after: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const response = await send(`/v1/models?all=true&limit=150${after}`);
      const page = (await response.json()) as {
        data: { id: string }[];
        has_more: boolean;
        next_cursor: string | null;
      };
      expect(page.data.length).toBeLessThanOrEqual(150);
      expect(page.has_more).toBe(page.next_cursor !== null);
      found.push(...page.data.map(({ id }) => id));
      cursor = page.next_cursor;
    }
    expect(found).toEqual(all);
    expect(send("/v1/models?cursor=none")).rejects.toThrow("is not a cursor of this list");
    expect(send("/v1/models?limit=0")).rejects.toThrow();
  });

  test("returns only the fields that are asked for, and the id", async () => {
    const response = await send("/v1/models?fields=pricing,context_length&limit=1");
    const { data } = (await response.json()) as { data: Record<string, unknown>[] };
    expect(data.map((model) => Object.keys(model).toSorted())).toEqual([
      ["context_length", "id", "pricing"],
    ]);
    expect(send("/v1/models?fields=price")).rejects.toThrow("Unknown field `price`");
  });

  test("ignores query parameters of clients, and rejects unknown values", async () => {
    expect((await send("/v1/models?beta=true")).status).toBe(200);
    expect(send("/v1/models?available=yes")).rejects.toThrow();
  });

  test("returns 304 without a body if nothing has changed", async () => {
    const first = await send("/v1/models");
    const etag = first.headers.get("etag") ?? "";
    const again = await send("/v1/models", { "if-none-match": `"other", W/${etag}` });
    expect([again.status, await again.text(), again.headers.get("etag")]).toEqual([304, "", etag]);
    expect(first.headers.get("cache-control")).toBe("public, max-age=300");
    expect(first.headers.get("vary")).toContain("anthropic-version");
  });

  test("updates with the catalog and with time-dependent prices", async () => {
    let catalog = catalogOf(builtInModels());
    const custom = modelRoutes({
      catalog: { current: () => catalog },
      providerName: (id) => id,
      zdrProviders: new Set<string>(),
      isAvailable: () => true,
      health,
      measured: () => Promise.resolve(NOTHING_MEASURED),
      callerAccess: () => Promise.resolve(undefined),
    });
    const before = (await send("/v1/models", {}, { routes: custom })).headers.get("etag");
    catalog = catalogOf(builtInModels().filter(({ id }) => id !== "sim/tiny"));
    expect((await send("/v1/models", {}, { routes: custom })).headers.get("etag")).not.toBe(before);
    const price = async (now: string): Promise<unknown> =>
      (
        await send(
          "/v1/models/deepseek/deepseek-flash",
          {},
          { routes: custom, now: Date.parse(now) },
        )
      ).json();
    expect(await price("2026-11-23T00:30:00Z")).toMatchObject({
      pricing: { prompt: "0.00000015" },
    });
    expect(await price("2026-11-23T01:00:00Z")).toMatchObject({ pricing: { prompt: "0.0000003" } });
  });

  test("with `client_version`, returns what Codex reads, without OpenAI's models", async () => {
    const headers = { authorization: "Bearer with-openai" };
    const response = await send("/v1/models?client_version=0.171.0", headers);
    const { models } = (await response.json()) as { models: Record<string, unknown>[] };
    expect(models.map(({ slug }) => slug)).toEqual(["sim/echo", "sim/reason", "sim/tiny"]);
    expect(models[1]).toMatchObject({
      display_name: expect.stringContaining("easoning"),
      context_window: expect.any(Number),
      default_reasoning_level: "medium",
      supported_reasoning_levels: ["low", "medium", "high"].map((effort) => ({
        effort,
        description: expect.any(String),
      })),
      base_instructions: expect.stringContaining("coding agent"),
    });
    const other = await send("/v1/models", headers);
    expect(other.headers.get("etag")).not.toBe(response.headers.get("etag"));
  });

  test.each([
    [
      "openai/gpt-6.2-sol",
      {
        reasoning: "effort",
        efforts: ["low", "medium", "high", "xhigh", "max"],
        sampling: "without_reasoning",
        tools: { chat: "without_reasoning", responses: true },
        stop: "gateway",
        seed: true,
        logprobs: false,
        service_tiers: expect.arrayContaining(["flex", "priority"]),
      },
    ],
    ["anthropic/claude-opus-5-5", { forced_tools: false, seed: false, n: false, prefill: false }],
    ["anthropic/claude-haiku-4-5", { reasoning: "budget", json_schema: true, stop: "provider" }],
    ["deepseek/deepseek-v4-pro", { forced_tools: "without_reasoning" }],
    ["mistral/mistral-medium-3-5", { reasoning: "effort", efforts: ["none", "high"] }],
    ["groq/openai/gpt-oss-120b", { n: false, tools: { chat: true } }],
  ])("the record of %s says what the provider accepts, and from where", async (id, expected) => {
    const response = await send(`/v1/models/${id}`);
    const { abilities } = ModelRecord.parse(await response.json());
    expect(abilities).toMatchObject(expected);
    for (const { source, checked } of abilities?.sources ?? []) {
      expect(source).toMatch(/^https:\/\/|^recorded replies/);
      expect(checked).toMatch(/^2026-\d\d-\d\d$/);
    }
    expect(abilities?.sources.length).toBeGreaterThan(0);
  });

  test.each(["bedrock/us.moonshotai.kimi-k3", "azure/gpt-6-sol"])(
    "the record of %s lists the tiers that have a price",
    async (id) => {
      const { abilities } = ModelRecord.parse(await (await send(`/v1/models/${id}`)).json());
      expect(abilities?.service_tiers).toEqual(expect.arrayContaining(["priority", "flex"]));
    },
  );

  test("models that are free at their provider, and the newest embeddings, are listed", async () => {
    for (const id of ["zai/glm-4.7-flash", "zai/glm-4.5-flash"]) {
      const { pricing } = ModelRecord.parse(await (await send(`/v1/models/${id}`)).json());
      expect([id, pricing["prompt"], pricing["completion"]]).toEqual([id, "0", "0"]);
    }
    const response = await send("/v1/models/google/gemini-embedding-2");
    expect(ModelRecord.parse(await response.json())).toMatchObject({
      pricing: { prompt: "0.0000002" },
      context_length: 8_192,
      abilities: null,
    });
  });

  test("Codex is offered the efforts that a model takes", async () => {
    const all = modelRoutes({
      catalog: createLiveCatalog({ now: NOW }),
      health,
      providerName: (id: string) => id,
      zdrProviders: new Set<string>(),
      isAvailable: () => true,
      measured: () => Promise.resolve(NOTHING_MEASURED),
      callerAccess: () => Promise.resolve(undefined),
    });
    const response = await send(
      "/v1/models?client_version=1&provider=moonshot&q=kimi-k3.1",
      {},
      { routes: all },
    );
    const { models } = (await response.json()) as {
      models: { supported_reasoning_levels: { effort: string }[] }[];
    };
    expect(models.length).toBeGreaterThan(0);
    const [{ supported_reasoning_levels: levels } = { supported_reasoning_levels: [] }] = models;
    expect(levels.map(({ effort }) => effort)).toEqual(["low", "high", "max"]);
  });

  test("with `anthropic-version`, returns pages in Anthropic's format", async () => {
    const headers = { "anthropic-version": "2023-06-01" };
    const first = (await (await send("/v1/models?limit=2&provider=sim", headers)).json()) as Record<
      string,
      unknown
    >;
    expect(first).toMatchObject({
      has_more: true,
      first_id: "sim/echo",
      last_id: "sim/echo-decisions",
    });
    expect(
      await (await send("/v1/models?limit=2&provider=sim&after_id=sim/tiny", headers)).json(),
    ).toMatchObject({
      has_more: false,
      first_id: "sim/transcribe",
      last_id: "sim/transcribe-tokens",
    });
    expect(await ids("/v1/models?limit=2&provider=sim&before_id=sim/speech", headers)).toEqual([
      "sim/rerank",
      "sim/rerank-tokens",
    ]);
    expect(await ids("/v1/models?provider=unknown", headers)).toEqual([]);
    const model = await (await send("/v1/models/anthropic/claude-opus-5", headers)).json();
    expect(model).toMatchObject({
      type: "model",
      id: "anthropic/claude-opus-5",
      display_name: "Claude Opus 5",
      created_at: "2026-07-24T00:00:00Z",
      max_input_tokens: 1_000_000,
      max_tokens: 128_000,
    });
  });
});

describe("GET /v1/models/{id}", () => {
  test("resolves a name without a provider to the model that a call would use", async () => {
    const read = async (name: string, headers?: Record<string, string>) =>
      (await (await send(`/v1/models/${name}`, headers)).json()) as { id: string };
    expect((await read("gpt-5.4")).id).toBe("openai/gpt-5.4");
    const claude = await read("claude-haiku-4-5", { "anthropic-version": "2023-06-01" });
    expect(claude).toMatchObject({ id: "anthropic/claude-haiku-4-5", type: "model" });
  });

  test("resolves ids with slashes and aliases", async () => {
    expect(await (await send("/v1/models/groq/openai/gpt-oss-120b")).json()).toMatchObject({
      id: "groq/openai/gpt-oss-120b",
    });
    expect(await (await send("/v1/models/openai/gpt-4o-2024-11-20")).json()).toMatchObject({
      id: "openai/gpt-4o",
    });
  });

  test("returns 404 with suggestions for an unknown id", async () => {
    const fault: unknown = await send("/v1/models/no-one/gpt-5.4").catch((error: unknown) => error);
    if (!(fault instanceof Fault)) throw new Error("no fault");
    expect([fault.code, fault.status]).toEqual(["model_not_found", 404]);
    expect(fault.publicMessage).toContain("openai/gpt-5.4");
  });
});
