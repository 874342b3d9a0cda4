import { afterAll, describe, expect, test } from "bun:test";
import {
  type Api,
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  type Json,
  countOpenHolds,
  PATHS,
  simStats,
  USD,
} from "../inference/support/harness.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

const gateway = await startGateway();
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 100n * USD);
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  expect((await simStats(gateway)).requests).toBe(0);
  expect(gateway.logLines.filter((line) => /"internal"|unexpected/.test(line))).toEqual([]);
  await gateway.stop();
});

const ENDPOINTS: Readonly<Record<string, Api>> = {
  ...Object.fromEntries(Object.entries(PATHS).map(([api, path]) => [path, api as Api])),
  "/v1/messages/count_tokens": "messages",
};

function send(
  path: string,
  body: BodyInit,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(gateway.url + path, {
    method: "POST",
    headers: { ...account.headers, ...headers },
    body,
  });
}

const validRequest = (api: Api, more: Json = {}): string =>
  JSON.stringify(bodyOf(api, "hello", more));

interface MalformedRequest {
  readonly what: string;
  readonly body: (api: Api) => BodyInit;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly param?: string;
}

const MALFORMED: readonly MalformedRequest[] = [
  ...[
    "{",
    '{"model":',
    "hello",
    "{'a':1}",
    '{"a":1,}',
    "[1,2",
    "\u0000",
    '{"a":NaN}',
    '{"a":01}',
  ].map((text) => ({ what: `malformed JSON ${JSON.stringify(text)}`, body: () => text })),
  ...["[]", "null", "3", '"text"', "true", ""].map((text) => ({
    what: `${text || "nothing"} instead of an object`,
    body: () => text,
  })),
  {
    what: "a duplicate model",
    body: (api) => validRequest(api).replace("{", '{"model":"sim/reason",'),
    param: "model",
  },
  {
    what: "a duplicate member with an escape",
    body: (api) => validRequest(api).replace("{", '{"\\u006dodel":"sim/reason",'),
    param: "model",
  },
  {
    what: "deep nesting",
    body: (api) =>
      validRequest(api, { metadata: "@" }).replace(
        '"@"',
        `${'{"a":'.repeat(500)}1${"}".repeat(500)}`,
      ),
  },
  { what: "a megabyte of brackets", body: () => "[".repeat(1_000_000) },
  {
    what: "invalid UTF-8",
    body: (api) =>
      Buffer.concat([
        Buffer.from(validRequest(api).slice(0, -2)),
        Buffer.from([0xff, 0xfe]),
        Buffer.from('"}'),
      ]),
  },
  {
    what: "another content type",
    body: (api) => validRequest(api),
    headers: { "content-type": "text/plain" },
    status: 415,
  },
  {
    what: "a form",
    body: () => "model=sim/echo",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    status: 415,
  },
  { what: "no model", body: (api) => validRequest(api, { model: undefined }), param: "model" },
  {
    what: "a model that is a number",
    body: (api) => validRequest(api, { model: 7 }),
    param: "model",
  },
  { what: "an empty model", body: (api) => validRequest(api, { model: "" }), param: "model" },
  {
    what: "a very long model",
    body: (api) => validRequest(api, { model: "m".repeat(100_000) }),
    param: "model",
  },
  {
    what: "a model that is null",
    body: (api) => validRequest(api, { model: null }),
    param: "model",
  },
  {
    what: "an unknown model",
    body: (api) => validRequest(api, { model: "sim/ecko" }),
    status: 404,
    param: "model",
  },
  {
    what: "a model without a provider",
    body: (api) => validRequest(api, { model: "ecko" }),
    status: 404,
  },
  {
    what: "a model named constructor",
    body: (api) => validRequest(api, { model: "__proto__/constructor" }),
    status: 404,
  },
];

for (const [path, api] of Object.entries(ENDPOINTS)) {
  describe(`invalid input on ${path}`, () => {
    test.each(MALFORMED.map((bad) => ({ bad, what: bad.what })))(
      "$what is a 400 in the format of the API",
      async ({ bad }) => {
        const response = await send(path, bad.body(api), bad.headers);
        const text = await response.text();
        expect([response.status, text.slice(0, 200)]).toEqual([
          bad.status ?? 400,
          text.slice(0, 200),
        ]);
        const body: unknown = JSON.parse(text);
        expectEnvelope(api, body);
        if (bad.param !== undefined) expect(errorOf(body)["param"]).toBe(bad.param);
        expect(response.headers.get("x-request-id")).toStartWith("req_");
        expect(await countOpenHolds(gateway.server.db)).toBe(0);
      },
    );

    test("a body above 32 MiB is a 413, with content-length and chunked", async () => {
      const large = Buffer.alloc(32 * 1_048_576 + 1, 32);
      const announced = await send(path, large).catch(() => undefined);
      if (announced !== undefined) {
        expect(announced.status).toBe(413);
        expectEnvelope(api, await announced.json());
      }
      const stream = new ReadableStream<Uint8Array>({
        start: (controller) => {
          for (let sent = 0; sent <= 32; sent++)
            controller.enqueue(new Uint8Array(1_048_576).fill(32));
          controller.enqueue(new Uint8Array(10).fill(32));
          controller.close();
        },
      });
      const counted = await send(path, stream).catch(() => undefined);
      if (counted !== undefined) expect(counted.status).toBe(413);
    });

    test("a missing, unknown or incomplete key is a 401 with www-authenticate", async () => {
      for (const authorization of [
        "",
        `Bearer ${account.key}x`,
        `Bearer ${account.key.slice(0, -1)}`,
        "Bearer sk-anything",
      ]) {
        const { authorization: _, ...rest } = account.headers as Record<string, string>;
        const response = await fetch(gateway.url + path, {
          method: "POST",
          headers: { ...rest, ...(authorization === "" ? {} : { authorization }) },
          body: validRequest(api),
        });
        expect(response.status).toBe(401);
        expect(response.headers.get("www-authenticate")).toContain("resource_metadata=");
        expectEnvelope(api, await response.json());
      }
    });
  });
}

/** Fields that determine the cost of a call, with invalid values. */
const FIELDS: readonly (readonly [api: Api, field: string, values: readonly unknown[]])[] = [
  ["chat", "max_tokens", [-1, 1.5, 1e300, "10", true, {}, 100_000_001]],
  ["chat", "max_completion_tokens", [-1, "10", []]],
  ["chat", "n", [0, -1, 129, 1.5, "2"]],
  ["chat", "stream", ["yes", 1, {}]],
  [
    "chat",
    "messages",
    [undefined, "hello", [], {}, [1], ["x"], [null], [{}], [{ role: 7, content: "x" }]],
  ],
  ["chat", "service_tier", [7, {}]],
  ["responses", "max_output_tokens", [-1, 1.5, "10"]],
  ["responses", "stream", ["true", 0]],
  ["responses", "background", [7, "true", [], {}]],
  ["responses", "input", [undefined, 7, {}, true]],
  ["messages", "max_tokens", [undefined, 0, -5, 2.5, "100", null]],
  ["messages", "messages", [undefined, "hello", [], [7], [{ content: "x" }]]],
  ["messages", "stream", [1, "true"]],
  ["embeddings", "input", [undefined, 7, {}, ""]],
];

describe("fields that determine the cost", () => {
  test.each(FIELDS.map(([api, field, values]) => ({ api, field, values })))(
    "$field of $api is refused where it is wrong, and named",
    async ({ api, field, values }) => {
      for (const value of values) {
        const response = await send(PATHS[api], validRequest(api, { [field]: value }));
        const body: unknown = await response.json();
        expect([field, value, response.status]).toEqual([field, value, 400]);
        expectEnvelope(api, body);
        expect(String(errorOf(body)["param"])).toStartWith(field);
        expect(String(errorOf(body)["message"])).toContain(field);
      }
    },
  );
});

test("a number out of range names the range with thousands separators", async () => {
  const response = await send(PATHS.chat, validRequest("chat", { max_tokens: -1 }));
  expect(errorOf(await response.json())["message"]).toBe(
    "`max_tokens` must be an integer from 1 to 100,000,000.",
  );
});

describe("a model that cannot be called", () => {
  test("is a 404 that links to the list of models if it does not exist", async () => {
    const error = errorOf(
      await (await send(PATHS.chat, validRequest("chat", { model: "sim/ecco" }))).json(),
    );
    expect(error["code"]).toBe("model_not_found");
    expect(String(error["message"])).toContain("GET /v1/models");
    expect(error["next"]).toMatchObject([{ method: "GET", url: "/v1/models" }]);
  });

  test("is a 400 if its id is too long", async () => {
    const response = await send(PATHS.chat, validRequest("chat", { model: "m".repeat(3_000) }));
    expect(response.status).toBe(400);
    const error = errorOf(await response.json());
    expect(error["param"]).toBe("model");
    expect(String(error["message"])).toContain("256 characters");
  });

  test("is a 400 that names the right endpoint for embeddings", async () => {
    const chat = errorOf(
      await (await send(PATHS.chat, validRequest("chat", { model: "sim/embed" }))).json(),
    );
    expect(String(chat["message"])).toContain("POST /v1/embeddings");
    const embed = await send(PATHS.embeddings, validRequest("embeddings", { model: "sim/echo" }));
    expect(embed.status).toBe(400);
    expect(String(errorOf(await embed.json())["message"])).toContain("POST /v1/chat/completions");
  });

  test("is a 503 if the gateway has no account at its provider", async () => {
    const response = await send(PATHS.chat, validRequest("chat", { model: "openai/gpt-5-mini" }));
    expect(response.status).toBe(503);
    expect(errorOf(await response.json())).toMatchObject({
      code: "provider_not_configured",
      param: "model",
    });
  });

  test("is a 503 that names all providers of a bare model name", async () => {
    const messageFor = async (model: string): Promise<string> => {
      const response = await send(PATHS.chat, validRequest("chat", { model }));
      expect(response.status).toBe(503);
      return String(errorOf(await response.json())["message"]);
    };
    expect(await messageFor("gpt-5.4")).toBe(
      "This gateway has no account at openai, azure, openrouter or bedrock. Use another model, or add your own key for openai, openrouter or bedrock with POST /v1/provider-keys.",
    );
    expect(await messageFor("azure/gpt-5.4")).toBe(
      "This gateway has no account at azure. Use another model.",
    );
    // Not logged as a failure of the gateway.
    const failures = gateway.logLines.filter((line) => line.includes('"level":"error"'));
    expect(failures.join()).not.toContain("provider_not_configured");
  });
});
