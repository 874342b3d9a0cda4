import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { createSimulator } from "@postern/simulator";
import { secret } from "../../src/base/crypto/secret.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import {
  createKeyCheck,
  type KeyCheckResult,
  canAddKey,
  type ProviderEndpoint,
  UNCHECKED,
} from "../../src/provider-keys/key-check.ts";
import { GOOD_KEY, openFakeProvider, acceptOnly } from "./fake-provider.ts";

const provider = openFakeProvider();
const otherProvider = openFakeProvider();
const WRONG_KEY = "sk-wrong-zyxwvutsrqponmlkjihgfedcba-0000";
const ACTIVE: KeyCheckResult = { kind: "accepted", status: "active" };

afterAll(async () => {
  await provider.close();
  await otherProvider.close();
});

beforeEach(() => provider.respondWith(acceptOnly(GOOD_KEY)));

function check(
  endpoint: ProviderEndpoint | undefined,
  key: string,
  timeoutMs = 30_000,
): Promise<KeyCheckResult> {
  return createKeyCheck({ endpointOf: () => endpoint, timeoutMs })("openai", secret(key));
}

function providerResponds(status: number, body: unknown): void {
  provider.respondWith(() =>
    typeof body === "string" ? new Response(body, { status }) : Response.json(body, { status }),
  );
}

describe("a key that the provider accepts", () => {
  test("is active", async () => {
    expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(ACTIVE);
    expect(provider.requests.at(-2)).toMatchObject({
      method: "GET",
      path: "/v1/models",
      headers: { authorization: `Bearer ${GOOD_KEY}`, "user-agent": "postern" },
    });
  });

  test("is sent in the provider's header, with its other headers", async () => {
    const endpoint = provider.endpoint({
      auth: "x-api-key",
      headers: { "anthropic-version": "2023-06-01" },
      paths: { messages: "/v1/messages" },
    });
    expect(await check({ ...endpoint, baseUrl: provider.url }, GOOD_KEY)).toEqual(ACTIVE);
    const request = provider.requests.at(-2);
    expect(request).toMatchObject({
      path: "/v1/models",
      headers: { "x-api-key": GOOD_KEY, "anthropic-version": "2023-06-01" },
    });
    expect(request?.headers).not.toHaveProperty("authorization");
    expect(await check(provider.endpoint({ auth: "api-key" }), GOOD_KEY)).toEqual(ACTIVE);
  });

  test("is unchecked if the list is public", async () => {
    providerResponds(200, { data: [] });
    expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    expect(provider.requests.at(-1)?.headers).not.toHaveProperty("authorization");
  });

  test("is checked at the provider's own path", async () => {
    expect(await check(provider.endpoint({ keyCheckPath: "/key" }), GOOD_KEY)).toEqual(ACTIVE);
    expect(provider.requests.at(-1)?.path).toBe("/v1/key");
  });
});

describe("a key that the provider rejects", () => {
  test("is rejected on 401 with the provider's message, without the key", async () => {
    const result = await check(provider.endpoint(), WRONG_KEY);
    expect(result).toEqual({
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
    [
      "part of the key in the message",
      401,
      { detail: `no ${WRONG_KEY.slice(3, 15)} here` },
      "no [key] here",
    ],
    ["an HTML body", 401, "<html>Unauthorized</html>", ""],
    ["a message of several lines", 401, { message: "no\r\n\u0000\u001b[31m key" }, "no [31m key"],
    ["an empty body", 401, "", ""],
    ["a message that is not a string", 401, { error: { message: { a: 1 } } }, ""],
  ] as const)
    test(`is rejected with ${title}`, async () => {
      providerResponds(status, body);
      expect(await check(provider.endpoint(), WRONG_KEY)).toEqual({
        kind: "rejected",
        name: "OpenAI",
        status,
        message,
      });
    });

  test("is rejected with a bounded message if the reply is endless or long", async () => {
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
    const result = await check(provider.endpoint(), WRONG_KEY);
    expect(result.kind === "rejected" && result.message.length).toBe(301);
  });
});

describe("a key is unchecked", () => {
  for (const [status, body] of [
    [402, { error: { message: "Insufficient balance" } }],
    [403, { error: { message: "Missing scopes: api.model.read" } }],
    [400, { error: { message: "bad query" } }],
    [404, "not here"],
    [429, { error: { message: "slow down" } }],
    [500, "oops"],
    [503, ""],
  ] as const)
    test(`after status ${status} with ${JSON.stringify(body)}`, async () => {
      providerResponds(status, body);
      expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    });

  test("after a redirect, which is not followed with the key", async () => {
    for (const status of [301, 302, 307, 308]) {
      provider.respondWith(() => Response.redirect(`${otherProvider.url}/v1/models`, status));
      expect(await check(provider.endpoint(), GOOD_KEY)).toEqual(UNCHECKED);
    }
    expect(otherProvider.requests).toEqual([]);
  });

  test("after a timeout before the headers or within the body", async () => {
    provider.respondWith(() => new Promise<Response>(() => {}));
    expect(await check(provider.endpoint(), GOOD_KEY, 150)).toEqual(UNCHECKED);
    provider.respondWith(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(new Uint8Array([123])),
          }),
          { status: 401 },
        ),
    );
    expect(await check(provider.endpoint(), GOOD_KEY, 150)).toEqual(UNCHECKED);
  });

  test("if the provider is unreachable, has an invalid URL or no endpoint", async () => {
    const closedProvider = openFakeProvider();
    const endpoint = closedProvider.endpoint();
    await closedProvider.close();
    expect(await check(endpoint, GOOD_KEY)).toEqual(UNCHECKED);
    expect(await check({ ...provider.endpoint(), baseUrl: "nonsense" }, GOOD_KEY)).toEqual(
      UNCHECKED,
    );
    expect(await check(undefined, GOOD_KEY)).toEqual(UNCHECKED);
  });
});

describe("the in-process simulator", () => {
  const simProvider = PROVIDERS.find(({ id }) => id === "sim");
  const endpointWith = (requireKey: string | boolean): ProviderEndpoint => {
    if (simProvider === undefined) throw new Error("no provider sim");
    const simulator = createSimulator({ now: () => 1, requireKey });
    return {
      provider: simProvider,
      baseUrl: "http://simulator.invalid",
      credentials: [{ apiKey: undefined }],
      inProcess: (request) => simulator.fetch(request),
    };
  };

  test("checks keys without a network", async () => {
    expect(await check(endpointWith(GOOD_KEY), GOOD_KEY)).toEqual(ACTIVE);
    expect(await check(endpointWith(GOOD_KEY), WRONG_KEY)).toMatchObject({
      kind: "rejected",
      status: 401,
    });
    expect(await check(endpointWith(false), GOOD_KEY)).toEqual(UNCHECKED);
  });
});

describe("a key can be added", () => {
  const credential = { apiKey: secret("the gateway's own") };

  test("for every provider with an endpoint that requires a key", () => {
    expect(canAddKey(provider.endpoint(), false)).toBe(true);
    expect(canAddKey({ ...provider.endpoint(), credentials: [credential] }, false)).toBe(true);
  });

  test("not for a provider without a key, where any text would make calls free", () => {
    const keyless = { ...provider.endpoint(), credentials: [{ apiKey: undefined }] };
    expect(canAddKey(keyless, true)).toBe(false);
    expect(canAddKey(provider.endpoint({ isLocal: true }), true)).toBe(false);
  });

  test("for the simulator only in development", () => {
    const endpoint = { ...provider.endpoint({ id: "sim" }), credential };
    expect(canAddKey(endpoint, true)).toBe(true);
    expect(canAddKey(endpoint, false)).toBe(false);
  });
});
