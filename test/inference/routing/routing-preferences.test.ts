// Routing preferences in the request: how they are validated, what they select, and that providers never receive them.

import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { registerAccount } from "../../support/gateway.ts";
import {
  bodyOf,
  errorOf,
  expectEnvelope,
  type Json,
  postCall,
  STREAMED_APIS,
} from "../support/harness.ts";
import { startRoutingHarness } from "../support/routing-harness.ts";

const harness = await startRoutingHarness();
const account = await registerAccount(harness.gateway);
afterAll(() => harness.stop());
beforeEach(() => harness.resetProviders());

function call(more: Json, api: (typeof STREAMED_APIS)[number] = "chat"): Promise<Response> {
  return postCall(
    harness.gateway,
    account,
    api,
    bodyOf(api, "hello", { model: "alpha/echo", ...more }),
  );
}

const INVALID_PREFERENCES: readonly (readonly [path: string, more: Json])[] = [
  ["models", { models: "beta/echo" }],
  ["models", { models: [] }],
  ["models", { models: Array.from({ length: 9 }, () => "beta/echo") }],
  ["models[1]", { models: ["beta/echo", 7] }],
  ["provider", { provider: "beta" }],
  ["provider", { provider: ["beta"] }],
  ["provider.data_collection", { provider: { data_collection: "deny" } }],
  ["provider.data_collection", { provider: { data_collection: "some" } }],
  ["provider.zdr", { provider: { zdr: true } }],
  ["provider.zdr", { provider: { zdr: "yes" } }],
  ["provider.region", { provider: { region: "us" } }],
  ["provider.region", { provider: { region: 1 } }],
  ["provider.quality", { provider: { quality: "best" } }],
  ["provider.order", { provider: { order: "beta" } }],
  ["provider.order", { provider: { order: [] } }],
  ["provider.order[1]", { provider: { order: ["beta", "bedrok"] } }],
  ["provider.only[0]", { provider: { only: [3] } }],
  ["provider.ignore[0]", { provider: { ignore: ["unknown"] } }],
  ["provider.sort", { provider: { sort: "cheapest" } }],
  ["provider.allow_fallbacks", { provider: { allow_fallbacks: "yes" } }],
  ["provider.max_price", { provider: { max_price: 3 } }],
  ["provider.max_price.image", { provider: { max_price: { image: 3 } } }],
  ["provider.max_price.prompt", { provider: { max_price: { prompt: -1 } } }],
  ["provider.max_price.completion", { provider: { max_price: { completion: "lots" } } }],
];

describe("invalid preferences", () => {
  for (const api of STREAMED_APIS)
    test(`are rejected on ${api} with a 400 that names the field`, async () => {
      for (const [path, more] of INVALID_PREFERENCES) {
        const response = await call(more, api);
        const body: unknown = await response.json();
        expectEnvelope(api, body);
        expect(response.status).toBe(400);
        expect(String(errorOf(body)["message"])).toContain(`\`${path}\``);
        if (api !== "messages") expect(errorOf(body)["param"]).toBe(path);
      }
      expect(harness.providers.alpha.requests).toEqual([]);
    });

  test("returns 404 with the path of an unknown model in `models`", async () => {
    const response = await call({ models: ["alpha/echo", "beta/ekko"] });
    const body: unknown = await response.json();
    expect([response.status, errorOf(body)["code"], errorOf(body)["param"]]).toEqual([
      404,
      "model_not_found",
      "models[1]",
    ]);
  });
});

describe("a suffix of OpenRouter on the model id", () => {
  test("`:nitro` and `:floor` sort the providers, as `provider.sort` does", async () => {
    const sorted = await call({ provider: { sort: "price" } });
    const cheapest = await call({ model: "alpha/echo:floor" });
    expect([cheapest.status, cheapest.headers.get("x-postern-provider")]).toEqual([
      200,
      sorted.headers.get("x-postern-provider"),
    ]);
    // The caller's own sort wins.
    const own = await call({ model: "alpha/echo:nitro", provider: { sort: "price" } });
    expect(own.headers.get("x-postern-provider")).toBe(sorted.headers.get("x-postern-provider"));
    expect((await call({ model: "beta/echo:nitro" })).status).toBe(200);
  });

  test("that the gateway does not have returns a 404 with the model to use", async () => {
    for (const suffix of ["free", "batch"]) {
      const response = await call({ model: `alpha/echo:${suffix}` });
      const { code, message, next } = errorOf(await response.json());
      expect([response.status, code, message]).toEqual([
        404,
        "model_not_found",
        `This gateway has no \`:${suffix}\` variants of models. Use "alpha/echo".`,
      ]);
      expect(next).toMatchObject([{ url: "/v1/models/alpha/echo" }]);
    }
  });

  test("does not hide a misspelled name", async () => {
    const response = await call({ model: "alpha/ekho:nitro" });
    expect(errorOf(await response.json())["message"]).toContain('"alpha/ekho"');
  });

  test.each([
    [["fp8"], "cannot be promised"],
    [["fp9"], "must be an array of int4"],
    ["fp8", "must be an array of int4"],
  ])(
    "a list of quantizations %j is refused, as providers do not say theirs",
    async (list, text) => {
      const response = await call({ provider: { quantizations: list } });
      const { param, message } = errorOf(await response.json());
      expect([response.status, param]).toEqual([400, "provider.quantizations"]);
      expect(message).toContain(text);
    },
  );

  test("a list of quantizations with `unknown` is accepted", async () => {
    const response = await call({ provider: { quantizations: ["fp8", "unknown"] } });
    expect(response.status).toBe(200);
  });

  test("is ignored where the provider may do anything with the data, which is the default", async () => {
    const response = await call({ provider: { data_collection: "allow", zdr: false } });
    expect(response.status).toBe(200);
  });
});

describe("fields of the gateway", () => {
  const gatewayFields = {
    models: ["gamma/other"],
    provider: { order: ["beta"], max_price: { prompt: 10 } },
    postern: { lossy: true },
  };

  for (const api of STREAMED_APIS)
    test(`are removed on ${api}, and all other bytes stay unchanged`, async () => {
      const { model, ...rest } = bodyOf(api, "hello", { model: "alpha/echo" });
      const text = `{ "model":${JSON.stringify(model)},  ${JSON.stringify(rest).slice(1, -1)} , "models":${JSON.stringify(gatewayFields.models)},\n "provider":${JSON.stringify(gatewayFields.provider)}, "postern":${JSON.stringify(gatewayFields.postern)} }`;
      const path = {
        chat: "/v1/chat/completions",
        responses: "/v1/responses",
        messages: "/v1/messages",
      }[api];
      const response = await fetch(harness.gateway.url + path, {
        method: "POST",
        headers: account.headers,
        body: text,
      });
      expect([response.status, response.headers.get("x-postern-provider")]).toEqual([200, "beta"]);
      await response.text();
      const sent = harness.providers.beta.requests.at(-1)?.body ?? "";
      expect(JSON.parse(sent)).toEqual({ model: "echo", ...rest });
      expect(sent).toContain(`"echo",  ${JSON.stringify(rest).slice(1, -1)}`);
    });

  test("are removed from a translated call", async () => {
    const response = await call(
      { models: ["gamma/other"], provider: { only: ["gamma"] }, model: "alpha/echo" },
      "messages",
    );
    expect(response.status).toBe(200);
    const sent = harness.providers.gamma.requests.at(-1)?.body ?? "";
    expect(Object.keys(JSON.parse(sent) as Json)).not.toContain("provider");
  });

  test("select the provider of a token count, and are removed from it", async () => {
    const response = await fetch(`${harness.gateway.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "alpha/echo",
        messages: [{ role: "user", content: "hello" }],
        provider: { order: ["beta"] },
      }),
    });
    expect(response.status).toBe(200);
    const { input_tokens: counted } = (await response.json()) as { input_tokens: number };
    expect(counted).toBeGreaterThan(0);
    expect(harness.providers.beta.requests.at(-1)?.body).toBe(
      '{"model":"echo","messages":[{"role":"user","content":"hello"}]}',
    );
  });

  test("are ignored in embeddings requests", async () => {
    const response = await postCall(harness.gateway, account, "embeddings", {
      model: "sim/embed",
      input: "hello",
      provider: { sort: "nonsense" },
    });
    expect(response.status).toBe(200);
  });
});

/** The id of the model that answered, or status, code and param of the error. */
async function answeredBy(more: Json): Promise<string> {
  const response = await call(more);
  const body: unknown = await response.json();
  return response.status === 200
    ? (response.headers.get("x-postern-model") ?? "")
    : `${response.status} ${String(errorOf(body)["code"])} ${String(errorOf(body)["param"])}`;
}

describe("the call goes to", () => {
  const cases: readonly (readonly [what: string, more: Json, answered: string])[] = [
    ["the model's own provider without preferences", {}, "alpha/echo"],
    [
      "the model's own provider with only `max_price`",
      { provider: { max_price: { prompt: 4 } } },
      "alpha/echo",
    ],
    [
      "the model's own provider with empty preferences",
      { provider: {}, models: null },
      "alpha/echo",
    ],
    ["the first provider in `order`", { provider: { order: ["gamma", "beta"] } }, "gamma/echo"],
    [
      "the first provider in `order` that has the model",
      { provider: { order: ["openai", "beta"] } },
      "beta/echo",
    ],
    ["a provider written in any case", { provider: { order: ["Beta"] } }, "beta/echo"],
    ["a provider in `only`", { provider: { only: ["gamma"] } }, "gamma/echo"],
    [
      "another provider if its own is in `ignore`",
      { provider: { ignore: ["alpha"] } },
      "beta/echo",
    ],
    ["the cheapest provider with `sort: price`", { provider: { sort: "price" } }, "beta/echo"],
    [
      "the cheapest provider that `ignore` leaves",
      { provider: { sort: "price", ignore: ["beta"] } },
      "alpha/echo",
    ],
    [
      "the first provider within `max_price`",
      {
        provider: { order: ["alpha", "gamma", "beta"], max_price: { prompt: 2, completion: "5" } },
      },
      "beta/echo",
    ],
    [
      "the first of `models` if `model` is missing",
      { model: undefined, models: ["gamma/other", "alpha/echo"] },
      "gamma/other",
    ],
    [
      "the model itself if `models` repeats it",
      { models: ["alpha/echo", "gamma/other"] },
      "alpha/echo",
    ],
    [
      "no provider if `only` and `ignore` exclude all",
      { provider: { only: ["beta"], ignore: ["beta"] } },
      "400 invalid_request provider",
    ],
    [
      "no provider if none in `only` has the model",
      { provider: { only: ["openai"] } },
      "400 invalid_request provider.only",
    ],
    [
      "no provider if all are above `max_price`",
      { provider: { sort: "price", max_price: { prompt: 0.5 } } },
      "400 invalid_request provider.max_price",
    ],
    [
      "no provider outside `order` without fallbacks",
      { provider: { order: ["openai"], allow_fallbacks: false } },
      "400 invalid_request provider.order",
    ],
    [
      "the next of `models` if no provider of the first is left",
      { models: ["gamma/other"], provider: { max_price: { completion: 1 } } },
      "gamma/other",
    ],
  ];
  for (const [title, more, answered] of cases)
    test(title, async () => {
      expect(await answeredBy(more)).toBe(answered);
    });

  test("no provider: the error lists the providers that have the model", async () => {
    const response = await call({ provider: { only: ["openai"] } });
    expect(String(errorOf(await response.json())["message"])).toBe(
      "No provider of alpha/echo matches `provider.only`. It is available from alpha, beta, gamma: see GET /v1/models/alpha/echo/endpoints for their prices.",
    );
  });

  test("the next of `models` if the gateway has no account at a provider; 503 if there is none", async () => {
    const claude = { model: "anthropic/claude-sonnet-4-5" };
    expect(await answeredBy({ ...claude, provider: { only: ["vertex"] } })).toBe(
      "503 provider_not_configured model",
    );
    expect(await answeredBy({ ...claude, models: ["beta/echo"] })).toBe("beta/echo");
  });

  test("any provider of a name without a provider; 404 for an unknown name", async () => {
    expect(await answeredBy({ model: "claude-sonnet-4.5" })).toBe(
      "503 provider_not_configured model",
    );
    expect(await answeredBy({ model: "echo" })).toBe("404 model_not_found model");
  });
});
