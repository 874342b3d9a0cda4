// Tools that providers run: their price is held and charged, and tools without a known price are refused on the gateway's
// accounts.

import { afterEach, describe, expect, test } from "bun:test";
import { withBilledSearches } from "../../../src/inference/metering/tool-terms.ts";
import type { ParsedRequest } from "../../../src/inference/request/parse-request.ts";
import { feeOfTool, toolBounds } from "../../../src/inference/request/tool-bounds.ts";
import { builtInModels, catalogOf, findModel } from "../../../src/models/catalog.ts";
import { cardAt } from "../../../src/models/price-card.ts";
import { SERVER_TOOLS } from "../../../src/models/tables/server-tool-prices.ts";
import { formatSse } from "../../support/format-sse.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { errorOf, grantCredits, type Json, readWallet, USD } from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;

const USAGE = { input_tokens: 1_000, output_tokens: 10, total_tokens: 1_010 };

async function open(output: readonly Json[] = [], more: Json = {}): Promise<void> {
  const reply = { id: "resp_1", object: "response", status: "completed", model: "gpt-4.1" };
  const response = { ...reply, output, usage: USAGE, ...more };
  const events = [
    ...output.flatMap((item, output_index) => [
      { type: "response.output_item.added", output_index, item },
      { type: "response.output_item.done", output_index, item },
    ]),
    { type: "response.completed", response },
  ].map((event, sequence_number) => ({ ...event, sequence_number }));
  provider = await startRawProvider(({ body }) =>
    (JSON.parse(body) as Json)["stream"] === true
      ? {
          headers: { "content-type": "text/event-stream" },
          body: events
            .map((event) => formatSse({ event: event.type, data: JSON.stringify(event) }))
            .join(""),
        }
      : { body: JSON.stringify(response) },
  );
  const env = Object.fromEntries(
    ["OPENAI", "XAI", "AZURE_OPENAI"].flatMap((prefix) => [
      [`${prefix}_BASE_URL`, `${provider.url}/v1`],
      [`${prefix}_API_KEY`, "test-key-0123456789"],
    ]),
  );
  gateway = await startGateway({ providers: [], env });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

const send = (tools: readonly Json[], more: Json = {}): Promise<Response> =>
  fetch(`${gateway.url}/v1/responses`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({
      model: "openai/gpt-4.1",
      input: "hi",
      max_output_tokens: 100,
      store: false,
      tools,
      ...more,
    }),
  });

async function spent(): Promise<bigint> {
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  return 100n * USD + 50_000_000n - promo - paid;
}

/** 1,000 tokens at $2 and 10 at $8 a million. */
const TOKENS = 2_000_000n + 80_000n;
const GB_MINUTE = 1_500_000n;

test.each([
  ["1 GB by default", {}, 1n],
  ["4 GB", { memory_limit: "4g" }, 4n],
  ["16 GB", { memory_limit: "16g" }, 16n],
  ["64 GB", { memory_limit: "64g" }, 64n],
])(
  "charges five minutes of a container of %s, though no code ran",
  async (_, container, gigabytes) => {
    await open();
    const tool = { type: "code_interpreter", container: { type: "auto", ...container } };
    expect((await send([tool])).status).toBe(200);
    expect(await spent()).toBe(TOKENS + 5n * gigabytes * GB_MINUTE);
  },
);

test("charges the container of a hosted shell, and none for a local one", async () => {
  await open();
  const hosted = { type: "shell", environment: { type: "container_auto", memory_limit: "4g" } };
  expect((await send([hosted])).status).toBe(200);
  expect(await spent()).toBe(TOKENS + 20n * GB_MINUTE);
  expect((await send([{ type: "shell", environment: { type: "local" } }])).status).toBe(200);
  expect(await spent()).toBe(2n * TOKENS + 20n * GB_MINUTE);
});

test("charges a container once if code ran in it, and one that replaced it", async () => {
  const run = (id: string): Json => ({ type: "code_interpreter_call", container_id: id });
  await open([run("cntr_1"), run("cntr_1"), run("cntr_2")]);
  const tool = { type: "code_interpreter", container: { type: "auto" } };
  expect((await send([tool])).status).toBe(200);
  expect(await spent()).toBe(TOKENS + 10n * GB_MINUTE);
});

test("holds 20 minutes of a container", async () => {
  await open();
  await gateway.server.db.write((tx) =>
    tx.run("update wallet set promo = 0, paid = ? where account_id = ?", [
      1_000_000_000,
      account.id,
    ]),
  );
  const tool = { type: "code_interpreter", container: { type: "auto", memory_limit: "64g" } };
  const response = await send([tool]);
  expect(response.status).toBe(402);
  expect(provider.requests).toHaveLength(0);
});

test.each([
  ["128g", {}, "must be one of 1g, 4g, 16g, 64g"],
  [7, {}, "must be one of 1g, 4g, 16g, 64g"],
  ["4g", { store: true }, 'Use "1g", or set `store` to false'],
])("refuses a container of memory %p with %p", async (memory_limit, more, message) => {
  await open();
  const tool = { type: "code_interpreter", container: { type: "auto", memory_limit } };
  const response = await send([{ type: "function", name: "f", parameters: {} }, tool], more);
  expect(response.status).toBe(400);
  const error = errorOf(await response.json());
  expect(error).toMatchObject({ param: "tools[1].container.memory_limit" });
  expect(error["message"]).toContain(message);
  expect(provider.requests).toHaveLength(0);
});

test("charges the preview of web search at its own price", async () => {
  await open([{ type: "web_search_call", status: "completed", action: { type: "search" } }]);
  expect((await send([{ type: "web_search_preview" }])).status).toBe(200);
  expect(await spent()).toBe(TOKENS + 25_000_000n);
  expect((await send([{ type: "web_search" }])).status).toBe(200);
  expect(await spent()).toBe(2n * TOKENS + 35_000_000n);
});

test.each([
  ["openai/gpt-4.1", "brand_new_tool"],
  ["xai/grok-4.3", "computer_use_preview"],
])("refuses at %s the tool %s, whose cost is not known", async (model, type) => {
  await open();
  const response = await send([{ type: "function", name: "f", parameters: {} }, { type }], {
    model,
  });
  expect(response.status).toBe(400);
  const error = errorOf(await response.json());
  expect(error).toMatchObject({ param: "tools[1]" });
  expect(String(error["message"])).toMatch(/is not known for .*, so this gateway cannot bill it/);
  expect(provider.requests).toHaveLength(0);
});

describe("images that the model generates", () => {
  const image = (id: string): Json => ({
    type: "image_generation_call",
    id,
    status: "completed",
    result: "iVBORw0KGgo=",
  });
  const imageTokens = {
    input_tokens: 100,
    input_tokens_details: { image_tokens: 40 },
    output_tokens: 1_000,
  };
  const tool = (fields: Json = {}): Json => ({ type: "image_generation", ...fields });

  test.each([
    ["the one that OpenAI chooses", {}, 60n * 5_000n + 40n * 8_000n + 1_000n * 30_000n],
    ["another one", { model: "gpt-image-1-mini" }, 60n * 2_000n + 40n * 2_500n + 1_000n * 8_000n],
  ])("are charged by the tokens of the image model: %s", async (_, fields, cost) => {
    await open([image("ig_1")], { tool_usage: { image_gen: imageTokens }, tools: [tool(fields)] });
    expect((await send([tool(fields)])).status).toBe(200);
    expect(await spent()).toBe(TOKENS + cost);
    expect(await (await send([tool(fields)], { stream: true })).text()).toContain("ig_1");
    expect(await spent()).toBe(2n * (TOKENS + cost));
  });

  test("are charged one by one if the reply does not have their tokens", async () => {
    await open([image("ig_1"), image("ig_2"), { ...image("ig_3"), status: "failed" }]);
    expect((await send([tool()])).status).toBe(200);
    expect(await spent()).toBe(TOKENS + 2n * 250_000_000n);
  });

  test("are in the message of a chat", async () => {
    await open([image("ig_1")]);
    const call = (stream: boolean): Promise<Response> =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          model: "openai/gpt-4.1",
          messages: [{ role: "user", content: "Draw a door." }],
          tools: [tool()],
          stream,
        }),
      });
    const images = [
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
    ];
    const { choices } = (await (await call(false)).json()) as {
      choices: readonly { message: Json }[];
    };
    expect(choices[0]?.message["images"]).toEqual(images);
    expect(await (await call(true)).text()).toContain(`"images":${JSON.stringify(images)}`);
    expect(await spent()).toBe(2n * (TOKENS + 250_000_000n));
  });

  test("are held at what the largest of these can cost", async () => {
    await open();
    const held = async (fields: Json): Promise<number> => {
      const response = await fetch(`${gateway.url}/v1/quote?api=responses`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          model: "openai/gpt-4.1",
          input: "hi",
          max_output_tokens: 100,
          max_tool_calls: 1,
          tools: [tool(fields)],
        }),
      });
      return Number(((await response.json()) as Json)["cost_usd_max"]);
    };
    // What OpenAI's calculator says for GPT Image 2 in high quality: 7,024, 5,488 and 12,329 tokens at $30 a million.
    const published: readonly (readonly [fields: Json, usd: number])[] = [
      [{ model: "gpt-image-2", quality: "high", size: "1024x1024" }, 0.2107],
      [{ model: "gpt-image-2", quality: "high", size: "1536x1024" }, 0.1647],
      [{ model: "gpt-image-2", size: "3584x2048" }, 0.3699],
      [{ model: "gpt-image-1", quality: "high", size: "1024x1536" }, 0.25],
      [{ quality: "low", size: "1024x1024" }, 0.25],
      [{}, 0.25],
    ];
    for (const [fields, usd] of published)
      expect({ fields, isCovered: (await held(fields)) >= usd }).toEqual({
        fields,
        isCovered: true,
      });
    expect(await held({ size: "huge-size" })).toBe(await held({ size: "3840x2160" }));
  });

  test("need an image model with a price", async () => {
    await open();
    const response = await send([tool({ model: "gpt-image-99" })]);
    expect([response.status, errorOf(await response.json())["param"]]).toEqual([
      400,
      "tools[0].model",
    ]);
    expect(provider.requests).toHaveLength(0);
  });
});

test("refuses OpenAI's tools at Azure, whose prices differ", async () => {
  await open();
  const tools = ["web_search", "file_search", "code_interpreter", "mcp", "computer_use_preview"];
  for (const type of tools) {
    const response = await send([{ type }], { model: "azure/gpt-4.1" });
    expect([type, response.status]).toEqual([type, 400]);
  }
  expect((await send([], { model: "azure/gpt-4.1" })).status).toBe(200);
});

test("passes tools that cost tokens only", async () => {
  await open();
  const mcp = { type: "mcp", server_label: "m", server_url: "https://mcp.test" };
  expect(
    (await send([mcp, { type: "computer_use_preview" }, { type: "local_shell" }])).status,
  ).toBe(200);
  expect(await spent()).toBe(TOKENS);
});

test("each fee of the table is the price of the tool that a request with it holds for", async () => {
  await open();
  const names = ["web_search", "web_search_20250305", "web_search_preview", "web_fetch_20250910"];
  names.push("file_search", "code_interpreter", "code_execution", "x_search", "google_search");
  names.push("code_execution_20250825", "url_context");
  const catalog = catalogOf(builtInModels());
  for (const { providers, name, fee } of SERVER_TOOLS) {
    const type = names.find((one) => name.test(one));
    if (fee === undefined || type === undefined) continue;
    const isContainer = fee.meter === "container_minute";
    const meter = isContainer ? "code_execution" : fee.meter;
    // Requests of other APIs name it `web_fetch_…`.
    expect([type, type === "url_context" ? meter : feeOfTool({ type })]).toEqual([type, meter]);
    expect(toolBounds({ tools: [{ type }] }).containers.length > 0).toBe(
      /^code_(interpreter|execution_\d)/.test(type),
    );
    const priced = catalog.models.filter(
      ({ provider: id, prices, name: model }) =>
        providers.includes(id) &&
        (fee.models ?? /./).test(model) &&
        cardAt(prices, Date.now())?.base[fee.meter] !== undefined,
    );
    expect([type, providers, priced.length > 0]).toEqual([type, providers, true]);
  }
  expect(findModel(catalog, "openai/gpt-4.1")).toBeDefined();
});

test("asks OpenAI's Responses for a search that Chat Completions has for few models", async () => {
  await open([{ type: "web_search_call", status: "completed", action: { type: "search" } }]);
  const call = (model: string): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model,
        messages: [{ role: "user", content: "hi" }],
        max_tokens: 100,
        web_search_options: {},
      }),
    });
  expect((await call("openai/gpt-4.1")).status).toBe(200);
  expect(provider.requests.at(-1)?.path).toEndWith("/responses");
  expect(JSON.parse(provider.requests.at(-1)?.body ?? "")).toMatchObject({
    tools: [{ type: "web_search" }],
  });
  expect(await spent()).toBe(TOKENS + 10_000_000n);
});

test("holds a search at the meter of the provider that runs it", async () => {
  await open();
  const catalog = catalogOf(builtInModels());
  const billed = (id: string, fees: ParsedRequest["fees"]): ParsedRequest["fees"] => {
    const found = findModel(catalog, id);
    const card = found && cardAt(found.model.prices, Date.now());
    if (card === undefined) throw new Error(`no price of ${id}`);
    const request = { fees } as ParsedRequest; // Safe because only the fees are read.
    return withBilledSearches(request, card).fees;
  };
  const preview = { web_search_preview: 3 };
  expect(billed("openai/gpt-4.1", preview)).toBe(preview);
  expect(billed("anthropic/claude-sonnet-4-5", preview)).toEqual({ web_search: 3 });
  // Google takes no limit of searches, so the usual number is held at least.
  expect(billed("google/gemini-3-flash-preview", { web_search: 3 })).toEqual({ grounding: 10 });
  expect(billed("google/gemini-3-flash-preview", { web_search: 30 })).toEqual({ grounding: 30 });
  expect(billed("mistral/mistral-large-latest", preview)).toBe(preview);
});

test("holds the fee of each use that the limits allow", async () => {
  await open();
  const turns = { messages: [] };
  const search = { type: "web_search_20250305" };
  const cases: readonly (readonly [Json, ParsedRequest["fees"]])[] = [
    [{ tools: [{ type: "web_search" }], max_tool_calls: 7 }, { web_search: 7 }],
    [{ tools: [{ type: "web_search" }] }, { web_search: 10 }],
    [{ ...turns, web_search_options: {} }, { web_search: 10 }],
    [{ ...turns, tools: [{ ...search, max_uses: 4 }] }, { web_search: 4 }],
    [{ ...turns, tools: [{ ...search, max_uses: 4 }, search] }, { web_search: 14 }],
    [{ tools: [{ ...search, max_uses: 9 }], max_tool_calls: 2 }, { web_search: 2 }],
  ];
  for (const [request, fees] of cases)
    expect([request, toolBounds(request).fees]).toEqual([request, fees]);
  expect(toolBounds({ tools: [{ type: "web_search" }] }, 3).fees).toEqual({ web_search: 3 });
});

test("holds each repeated read of the prompt that the limits allow", async () => {
  await open();
  const search = { type: "web_search_20250305" };
  const fetchTool = { type: "web_fetch_20250910" };
  const cases: readonly (readonly [Json, number])[] = [
    [{ tools: [{ type: "web_search" }, { type: "mcp" }] }, 10],
    [{ messages: [], tools: [search, fetchTool] }, 20],
    [{ messages: [], tools: [{ ...search, max_uses: 7 }] }, 7],
    [{ messages: [], tools: [{ ...search, max_uses: 7 }, fetchTool] }, 17],
    [{ messages: [], context_management: { edits: [{ type: "compact_20260112" }] } }, 1],
    [{ reasoning: { mode: "deep" } }, 1],
    [{ tools: [{ type: "function", name: "f" }] }, 0],
  ];
  for (const [request, calls] of cases)
    expect([request, toolBounds(request).toolCalls]).toEqual([request, calls]);
});
