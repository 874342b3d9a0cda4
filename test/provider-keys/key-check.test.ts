import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/secret.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import {
  createKeyCheck,
  type KeyCheckResult,
  canAddKey,
  type ProviderEndpoint,
  UNCHECKED,
} from "../../src/provider-keys/key-check.ts";
import { createSimulator } from "../../src/simulator/simulator.ts";
import { GOOD_KEY, openFakeProvider, acceptOnly } from "./fake-provider.ts";

const provider = openFakeProvider();
const otherProvider = openFakeProvider();
const WRONG_KEY = "sk-wrong-zyxwvutsrqponmlkjihgfedcba-0000";
const ACTIVE: KeyCheckResult = { kind: "accepted", status: "active" };
const SHORT_MS = 150;

afterAll(async () => {
  await provider.close();
  await otherProvider.close();
});

beforeEach(() => provider.respondWith(acceptOnly(GOOD_KEY)));

function check(place: ProviderEndpoint | undefined, key: string): Promise<KeyCheckResult> {
  return createKeyCheck({ endpointOf: () => place, timeoutMs: SHORT_MS })("openai", secret(key));
}

function providerResponds(status: number, body: unknown): void {
  provider.respondWith(() =>
    typeof body === "string" ? new Response(body, { status }) : Response.json(body, { status }),
  );
}

describe("a key that the provider takes", () => {
  test("is active", async () => {
    expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(ACTIVE);
    expect(provider.requests.at(-2)).toMatchObject({
      method: "GET",
      path: "/v1/models",
      headers: { authorization: `Bearer ${GOOD_KEY}`, "user-agent": "postern" },
    });
  });

  test("goes where the provider's row wants it, with the row's headers", async () => {
    const place = provider.endpoint({
      auth: "x-api-key",
      headers: { "anthropic-version": "2023-06-01" },
      paths: { messages: "/v1/messages" },
    });
    expect(await check({ ...place, baseUrl: provider.url }, GOOD_KEY)).toEqual(ACTIVE);
    const asked = provider.requests.at(-2);
    expect(asked).toMatchObject({
      path: "/v1/models",
      headers: { "x-api-key": GOOD_KEY, "anthropic-version": "2023-06-01" },
    });
    expect(asked?.headers).not.toHaveProperty("authorization");
    expect(await check(provider.endpoint({ auth: "api-key" }), GOOD_KEY)).toEqual(ACTIVE);
  });

  test("is unchecked where everybody may read the list", async () => {
    providerResponds(200, { data: [] });
    expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    expect(provider.requests.at(-1)?.headers).not.toHaveProperty("authorization");
  });

  test("is asked for at another path where the row names one", async () => {
    expect(await check(provider.endpoint({ keyCheckPath: "/key" }), GOOD_KEY)).toEqual(ACTIVE);
    expect(provider.requests.at(-1)?.path).toBe("/v1/key");
  });
});

describe("a key that the provider refuses", () => {
  test("is refused on 401, in the provider's words, without the key", async () => {
    const verdict = await check(provider.endpoint(), WRONG_KEY);
    expect(verdict).toEqual({
      kind: "rejected",
      name: "OpenAI",
      status: 401,
      message: "Incorrect API key provided: [key]",
    });
  });

  for (const [title, status, body, message] of [
    ["a 403", 403, { error: { message: "The key is blocked." } }, "The key is blocked."],
    [
      "xAI's 400",
      400,
      { code: "x", error: "Incorrect API key provided: sk***00. Get one at https://console.x.ai." },
      "Incorrect API key provided: [key] Get one at https://console.x.ai.",
    ],
    [
      "Google's 400",
      400,
      [{ error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT" } }],
      "API key not valid.",
    ],
    ["a part of the key", 401, { detail: `no ${WRONG_KEY.slice(3, 15)} here` }, "no [key] here"],
    ["a page", 401, "<html>Unauthorized</html>", ""],
    ["several lines", 401, { message: "no\r\n\u0000\u001b[31m key" }, "no [31m key"],
    ["nothing", 401, "", ""],
    ["a message that is no text", 401, { error: { message: { a: 1 } } }, ""],
  ] as const)
    test(`is refused with ${title}`, async () => {
      providerResponds(status, body);
      expect(await check(provider.endpoint(), WRONG_KEY)).toEqual({
        kind: "rejected",
        name: "OpenAI",
        status,
        message,
      });
    });

  test("is refused within bounds when the provider floods", async () => {
    provider.respondWith(
      () =>
        new Response(
          new ReadableStream({
            pull: (controller) => controller.enqueue(new Uint8Array(65_536).fill(65)),
          }),
          { status: 401 },
        ),
    );
    expect(await check(provider.endpoint(), WRONG_KEY)).toMatchObject({
      kind: "rejected",
      message: "",
    });
    providerResponds(401, { error: { message: "long ".repeat(500) } });
    const verdict = await check(provider.endpoint(), WRONG_KEY);
    expect(verdict.kind === "rejected" && verdict.message.length).toBe(301);
  });
});

describe("a provider that says nothing about the key leaves it unchecked", () => {
  for (const [status, body] of [
    [402, { error: { message: "Insufficient balance" } }],
    [403, { error: { message: "Missing scopes: api.model.read" } }],
    [400, { error: { message: "bad query" } }],
    [404, "not here"],
    [429, { error: { message: "slow down" } }],
    [500, "oops"],
    [503, ""],
  ] as const)
    test(`${status} ${JSON.stringify(body)}`, async () => {
      providerResponds(status, body);
      expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    });

  test("a redirect is not followed, so the key goes nowhere else", async () => {
    for (const status of [301, 302, 307, 308]) {
      provider.respondWith(() => Response.redirect(`${otherProvider.url}/v1/models`, status));
      expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    }
    expect(otherProvider.requests).toEqual([]);
  });

  test("silence, before the headers or within the body, ends in time", async () => {
    const before = performance.now();
    provider.respondWith(() => new Promise<Response>(() => {}));
    expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    provider.respondWith(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(new Uint8Array([123])),
          }),
          { status: 401 },
        ),
    );
    expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    expect(performance.now() - before).toBeLessThan(SHORT_MS * 2 + 1_500);
  });

  test("nobody there, a broken address, and no place at all", async () => {
    const gone = openFakeProvider();
    const place = gone.endpoint();
    await gone.close();
    expect(await check(place, GOOD_KEY)).toEqual(UNCHECKED);
    expect(await check({ ...provider.endpoint(), baseUrl: "nonsense" }, GOOD_KEY)).toEqual(
      UNCHECKED,
    );
    expect(await check(undefined, GOOD_KEY)).toEqual(UNCHECKED);
  });
});

describe("the simulator in this process", () => {
  const row = PROVIDERS.find(({ id }) => id === "sim");
  const placeWith = (requireKey: string | boolean): ProviderEndpoint => {
    if (row === undefined) throw new Error("there is no simulator among the providers");
    const simulator = createSimulator({ now: () => 1, requireKey });
    const credential = {
      apiKey: undefined,
      inProcess: (request: Request) => simulator.fetch(request),
    };
    return { provider: row, baseUrl: "http://simulator.invalid", credential };
  };

  test("is asked without a network", async () => {
    expect(await check(placeWith(GOOD_KEY), GOOD_KEY)).toEqual(ACTIVE);
    expect(await check(placeWith(GOOD_KEY), WRONG_KEY)).toMatchObject({
      kind: "rejected",
      status: 401,
    });
    expect(await check(placeWith(false), GOOD_KEY)).toEqual(UNCHECKED);
  });
});

describe("a key may be brought", () => {
  const credential = { apiKey: secret("the gateway's own") };

  test("for every provider that has an address and needs a key", () => {
    expect(canAddKey(provider.endpoint(), false)).toBe(true);
    expect(canAddKey({ ...provider.endpoint(), credential }, false)).toBe(true);
  });

  test("not where the gateway itself needs none: any text would make calls free", () => {
    const keyless = { ...provider.endpoint(), credential: { apiKey: undefined } };
    expect(canAddKey(keyless, true)).toBe(false);
    expect(canAddKey(provider.endpoint({ isLocal: true }), true)).toBe(false);
  });

  test("for the simulator in development only", () => {
    const place = { ...provider.endpoint({ id: "sim" }), credential };
    expect(canAddKey(place, true)).toBe(true);
    expect(canAddKey(place, false)).toBe(false);
  });
});
