// What a caller may wish for, what is refused with the path to it, and that a provider never sees any of it.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  bodyOf,
  errorOf,
  expectEnvelope,
  type Json,
  postCall,
  STREAMED_APIS,
} from "../support/harness.ts";
import { type TestAccount, registerAccount } from "../../support/gateway.ts";
import { startRoutingHarness, type RoutingHarness } from "../support/routing-harness.ts";

let world: RoutingHarness;
let account: TestAccount;

beforeAll(async () => {
  world = await startRoutingHarness();
  account = await registerAccount(world.gateway);
});
afterAll(() => world.stop());
beforeEach(() => world.resetProviders());

function call(more: Json, api: (typeof STREAMED_APIS)[number] = "chat"): Promise<Response> {
  return postCall(
    world.gateway,
    account,
    api,
    bodyOf(api, "hello", { model: "alpha/echo", ...more }),
  );
}

const MISTAKES: readonly (readonly [path: string, more: Json])[] = [
  ["models", { models: "beta/echo" }],
  ["models", { models: [] }],
  ["models", { models: Array.from({ length: 9 }, () => "beta/echo") }],
  ["models[1]", { models: ["beta/echo", 7] }],
  ["provider", { provider: "beta" }],
  ["provider", { provider: ["beta"] }],
  ["provider.data_collection", { provider: { data_collection: "deny" } }],
  ["provider.order", { provider: { order: "beta" } }],
  ["provider.order", { provider: { order: [] } }],
  ["provider.order[1]", { provider: { order: ["beta", "bedrok"] } }],
  ["provider.only[0]", { provider: { only: [3] } }],
  ["provider.ignore[0]", { provider: { ignore: ["nobody"] } }],
  ["provider.sort", { provider: { sort: "cheapest" } }],
  ["provider.allow_fallbacks", { provider: { allow_fallbacks: "yes" } }],
  ["provider.max_price", { provider: { max_price: 3 } }],
  ["provider.max_price.image", { provider: { max_price: { image: 3 } } }],
  ["provider.max_price.prompt", { provider: { max_price: { prompt: -1 } } }],
  ["provider.max_price.completion", { provider: { max_price: { completion: "lots" } } }],
];

describe("a wish that cannot be read", () => {
  for (const api of STREAMED_APIS)
    test(`is a 400 that names its path on ${api}, and nothing is sent`, async () => {
      for (const [path, more] of MISTAKES) {
        const response = await call(more, api);
        const body: unknown = await response.json();
        expectEnvelope(api, body);
        expect(`${response.status} ${String(errorOf(body)["message"])}`).toContain(`400 ${path}`);
        if (api !== "messages") expect(errorOf(body)["param"]).toBe(path);
      }
      expect(world.providers.alpha.requests).toEqual([]);
    });

  test("a model of the list that is not there is a 404 that names its place", async () => {
    const response = await call({ models: ["alpha/echo", "beta/ekko"] });
    const body: unknown = await response.json();
    expect([response.status, errorOf(body)["code"], errorOf(body)["param"]]).toEqual([
      404,
      "model_not_found",
      "models[1]",
    ]);
  });
});

describe("a provider sees nothing of it", () => {
  const own = {
    models: ["gamma/other"],
    provider: { order: ["beta"], max_price: { prompt: 10 } },
    postern: { lossy: true },
  };

  for (const api of STREAMED_APIS)
    test(`on ${api} the rest stays the bytes that came`, async () => {
      const { model, ...rest } = bodyOf(api, "hello", { model: "alpha/echo" });
      const text = `{ "model":${JSON.stringify(model)},  ${JSON.stringify(rest).slice(1, -1)} , "models":${JSON.stringify(own.models)},\n "provider":${JSON.stringify(own.provider)}, "postern":${JSON.stringify(own.postern)} }`;
      const path = {
        chat: "/v1/chat/completions",
        responses: "/v1/responses",
        messages: "/v1/messages",
      }[api];
      const response = await fetch(world.gateway.url + path, {
        method: "POST",
        headers: account.headers,
        body: text,
      });
      expect([response.status, response.headers.get("x-postern-provider")]).toEqual([200, "beta"]);
      await response.text();
      const seen = world.providers.beta.requests.at(-1)?.body ?? "";
      expect(JSON.parse(seen)).toEqual({ model: "echo", ...rest });
      expect(seen).toContain(`"echo",  ${JSON.stringify(rest).slice(1, -1)}`);
    });

  test("also where the call is translated", async () => {
    // The simulator as it is in the catalog speaks gemini and converse as well; chat is spoken to it as chat.
    const response = await call(
      { models: ["gamma/other"], provider: { only: ["gamma"] }, model: "alpha/echo" },
      "messages",
    );
    expect(response.status).toBe(200);
    const seen = world.providers.gamma.requests.at(-1)?.body ?? "";
    expect(Object.keys(JSON.parse(seen) as Json)).not.toContain("provider");
  });

  test("a count of tokens takes the wishes, too, and keeps them to itself", async () => {
    const response = await fetch(`${world.gateway.url}/v1/messages/count_tokens`, {
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
    expect(world.providers.beta.requests.at(-1)?.body).toBe(
      '{"model":"echo","messages":[{"role":"user","content":"hello"}]}',
    );
  });

  test("an embedding's fields of these names are none of the gateway's business", async () => {
    const response = await postCall(world.gateway, account, "embeddings", {
      model: "sim/embed",
      input: "hello",
      provider: { sort: "nonsense" },
    });
    expect(response.status).toBe(200);
  });
});

async function whoAnswers(more: Json): Promise<string> {
  const response = await call(more);
  const body: unknown = await response.json();
  return response.status === 200
    ? (response.headers.get("x-postern-model") ?? "")
    : `${response.status} ${String(errorOf(body)["code"])} ${String(errorOf(body)["param"])}`;
}

describe("who answers", () => {
  const cases: readonly (readonly [what: string, more: Json, answered: string])[] = [
    ["its own provider, asked plainly", {}, "alpha/echo"],
    [
      "its own provider, with a limit on the price alone",
      { provider: { max_price: { prompt: 4 } } },
      "alpha/echo",
    ],
    ["its own provider, with nothing in the wishes", { provider: {}, models: null }, "alpha/echo"],
    ["the first of order", { provider: { order: ["gamma", "beta"] } }, "gamma/echo"],
    [
      "the first of order that has the model",
      { provider: { order: ["openai", "beta"] } },
      "beta/echo",
    ],
    ["a provider in whatever case it is written", { provider: { order: ["Beta"] } }, "beta/echo"],
    ["one of only", { provider: { only: ["gamma"] } }, "gamma/echo"],
    [
      "another than its own where that is ignored",
      { provider: { ignore: ["alpha"] } },
      "beta/echo",
    ],
    ["the cheapest of all by price", { provider: { sort: "price" } }, "beta/echo"],
    [
      "the cheapest that is left by price",
      { provider: { sort: "price", ignore: ["beta"] } },
      "alpha/echo",
    ],
    [
      "one whose prices are within the limits",
      {
        provider: { order: ["alpha", "gamma", "beta"], max_price: { prompt: 2, completion: "5" } },
      },
      "beta/echo",
    ],
    [
      "the first of models where model is left out",
      { model: undefined, models: ["gamma/other", "alpha/echo"] },
      "gamma/other",
    ],
    ["itself where models repeats it", { models: ["alpha/echo", "gamma/other"] }, "alpha/echo"],
    [
      "nobody where only and ignore leave none",
      { provider: { only: ["beta"], ignore: ["beta"] } },
      "400 invalid_request provider",
    ],
    [
      "nobody where only names none that has it",
      { provider: { only: ["openai"] } },
      "400 invalid_request provider.only",
    ],
    [
      "nobody where all are too dear",
      { provider: { sort: "price", max_price: { prompt: 0.5 } } },
      "400 invalid_request provider.max_price",
    ],
    [
      "nobody else where order is all there is",
      { provider: { order: ["openai"], allow_fallbacks: false } },
      "400 invalid_request provider.order",
    ],
    [
      "the next model where no provider of the first is left",
      { models: ["gamma/other"], provider: { max_price: { completion: 1 } } },
      "gamma/other",
    ],
  ];
  for (const [what, more, answered] of cases)
    test(what, async () => {
      expect(await whoAnswers(more)).toBe(answered);
    });

  test("a refusal says who has the model", async () => {
    const response = await call({ provider: { only: ["openai"] } });
    expect(String(errorOf(await response.json())["message"])).toBe(
      "provider.only leaves no provider for alpha/echo, which can be had from alpha, beta, gamma. GET /v1/models/alpha/echo/endpoints lists them with their prices.",
    );
  });

  test("a provider without an account is passed over, and named where it is the only one", async () => {
    const asked = { model: "anthropic/claude-sonnet-4-5" };
    expect(await whoAnswers({ ...asked, provider: { only: ["vertex"] } })).toBe(
      "503 provider_not_configured model",
    );
    expect(await whoAnswers({ ...asked, models: ["beta/echo"] })).toBe("beta/echo");
  });

  test("a name without a provider is looked for at its maker's; one that nobody has is a 404", async () => {
    expect(await whoAnswers({ model: "claude-sonnet-4.5" })).toBe(
      "503 provider_not_configured model",
    );
    expect(await whoAnswers({ model: "echo" })).toBe("404 model_not_found model");
  });
});
