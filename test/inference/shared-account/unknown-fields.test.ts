// Fields that the gateway does not know, on its own accounts at providers: their text could name something stored.

import { afterAll, describe, expect, test } from "bun:test";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { errorOf, grantCredits, type Json, postCall, USD } from "../support/harness.ts";

const gateway = await startGateway({ providers: ["openai", "anthropic", "google"] });
const account = await registerAccount(gateway);
await grantCredits(gateway, account, USD);
afterAll(() => gateway.stop());

const MESSAGES = { messages: [{ role: "user", content: "hi" }], max_tokens: 20 };
const CALLS = [
  ["chat", { model: "openai/gpt-4.1", ...MESSAGES }],
  ["responses", { model: "openai/gpt-4.1", input: "hi", store: false }],
  ["messages", { model: "anthropic/claude-haiku-4-5", ...MESSAGES }],
] as const;
type Api = (typeof CALLS)[number][0];
const BODIES: Readonly<Record<Api, Json>> = Object.fromEntries(CALLS) as Record<Api, Json>; // All three are listed.

async function send(api: Api, body: Json): Promise<[number, Json]> {
  const response = await postCall(gateway, account, api, body);
  const json = (await response.json()) as Json;
  return [response.status, response.status === 200 ? {} : errorOf(json)];
}

describe.each(CALLS)("an unknown field of %s", (api, body) => {
  test.each([
    ["stored-4711"],
    [{ id: "stored-4711" }],
    [["stored-4711"]],
    [[{ id: "stored-4711" }]],
    [{ "stored-4711": true }],
  ])("with the text of %j is refused with the field and the next step", async (value) => {
    const [status, error] = await send(api, { ...body, unknown_memory: value });
    expect([status, error]).toEqual([
      400,
      expect.objectContaining({
        message: expect.stringMatching(
          /`unknown_memory`.* Remove it, or add your own provider key/,
        ),
      }),
    ]);
  });

  test("that names a credit of the account is refused", async () => {
    const [status] = await send(api, { ...body, fallback_credit_token: "fct_4711" });
    expect(status).toBe(400);
  });

  test.each([[true], [false], [3], [0.5], [null], [""], [[]], [{}], [[1, 2]]])(
    "with %j names nothing and is sent",
    async (value) => {
      const [status, error] = await send(api, { ...body, unknown_setting: value });
      expect([status, error]).toEqual([200, {}]);
    },
  );
});

const message = (more: Json): Json => ({ messages: [{ role: "user", content: "hi", ...more }] });
const part = (...parts: Json[]): Json => ({ messages: [{ role: "user", content: parts }] });
const item = (more: Json): Json => ({ input: [{ role: "user", content: "hi", ...more }] });
const TEXT = { type: "text", text: "hi" };
const FUNCTION = { name: "f", parameters: { type: "object" } };
const URL = "https://example.com/a.png";
const PNG = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };
const SCHEMA = { name: "s", schema: { type: "object" } };

const NESTED: readonly (readonly [api: Api, path: string, fields: Json])[] = [
  ["chat", "messages[0].memory", message({ memory: "m-4711" })],
  ["chat", "messages[0].memory", message({ memory: [{ key: "m-4711" }] })],
  ["chat", "messages[0].content[1].asset", part(TEXT, { ...TEXT, asset: "a-4711" })],
  ["chat", "messages[0].content[0].type", part({ type: "stored_image_4711", text: "hi" })],
  [
    "chat",
    "messages[0].content[0].image_url.name",
    part({ type: "image_url", image_url: { url: URL, name: "a-4711" } }),
  ],
  [
    "chat",
    "messages[0].content[0].image_url.title",
    part({ type: "image_url", image_url: { url: URL, title: "a-4711" } }),
  ],
  [
    "chat",
    "tools[0].function.stored",
    { tools: [{ type: "function", function: { ...FUNCTION, stored: "f-4711" } }] },
  ],
  ["chat", "tools[0].google_search", { tools: [{ google_search: {} }] }],
  [
    "chat",
    "tool_choice.agent",
    { tool_choice: { type: "function", function: { name: "f" }, agent: "a-4711" } },
  ],
  ["chat", "response_format.saved", { response_format: { type: "text", saved: "s-4711" } }],
  [
    "chat",
    "response_format.json_schema.ref",
    { response_format: { type: "json_schema", json_schema: { ...SCHEMA, ref: "s-4711" } } },
  ],
  ["chat", "user.id", { user: { id: "u-4711" } }],
  [
    "chat",
    "prediction.source",
    { prediction: { type: "content", content: "x", source: "p-4711" } },
  ],
  ["responses", "input[0].memory", item({ memory: "m-4711" })],
  ["responses", "input[0].type", item({ type: "stored_message_4711" })],
  [
    "responses",
    "input[0].content[0].type",
    item({ content: [{ type: "stored_text_4711", text: "hi" }] }),
  ],
  ["responses", "reasoning.trace", { reasoning: { trace: "r-4711" } }],
  [
    "responses",
    "text.format.ref",
    { text: { format: { type: "json_schema", ...SCHEMA, ref: "s-4711" } } },
  ],
  [
    "responses",
    "tools[0].toolbox",
    { tools: [{ type: "function", ...FUNCTION, toolbox: "t-4711" }] },
  ],
  [
    "responses",
    "tools[0].tools[0]",
    {
      tools: [
        { type: "namespace", name: "n", description: "d", tools: [{ type: "code_interpreter" }] },
      ],
    },
  ],
  [
    "responses",
    "tools[0].user_location.place",
    { tools: [{ type: "web_search", user_location: { type: "approximate", place: "p-4711" } }] },
  ],
  ["messages", "messages[0].memory", message({ memory: "m-4711" })],
  ["messages", "messages[0].content[0].asset", part({ ...TEXT, asset: "a-4711" })],
  [
    "messages",
    "messages[0].content[0].source.handle",
    part({ type: "image", source: { ...PNG, handle: "h-4711" } }),
  ],
  [
    "messages",
    "messages[0].content[0].source.type",
    part({ type: "image", source: { ...PNG, type: "asset" } }),
  ],
  [
    "messages",
    "messages[0].content[0].cache_control.name",
    part({ ...TEXT, cache_control: { type: "ephemeral", name: "c-4711" } }),
  ],
  ["messages", "system[0].memory", { system: [{ ...TEXT, memory: "m-4711" }] }],
  [
    "messages",
    "tools[0].package",
    { tools: [{ name: "f", input_schema: { type: "object" }, package: "p-4711" }] },
  ],
  ["messages", "thinking.trace", { thinking: { type: "disabled", trace: "t-4711" } }],
  ["messages", "output_config.profile", { output_config: { profile: "p-4711" } }],
];

describe("an unknown field below the top level", () => {
  test.each(NESTED.map(([api, path, fields]) => ({ api, path, fields })))(
    "of $api at $path is refused with its path",
    async ({ api, path, fields }) => {
      const [status, error] = await send(api, { ...BODIES[api], ...fields });
      expect([status, error]).toEqual([
        400,
        expect.objectContaining({
          message: expect.stringContaining(`\`${path}\``),
          ...(api === "messages" ? {} : { param: path }),
        }),
      ]);
    },
  );

  test.each([
    [400, { thinking_config: { thinking_budget: 0, memory: "m-4711" } }],
    [200, { thinking_config: { thinking_level: "low", include_thoughts: true } }],
    [200, { thinkingConfig: { thinkingLevel: "low", thinkingBudget: 10 } }],
    [
      200,
      {
        safety_settings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_ONLY_HIGH" }],
      },
    ],
  ])("in `extra_body` of Google returns %d for %j", async (expected, google) => {
    const model = "google/gemini-2.5-flash";
    const [status, error] = await send("chat", { ...BODIES.chat, model, extra_body: { google } });
    expect([status, error]).toEqual([
      expected,
      expected === 200
        ? {}
        : expect.objectContaining({ param: "extra_body.google.thinking_config.memory" }),
    ]);
  });

  test("with a number, a boolean or nothing names nothing and is sent", async () => {
    const nothing = { a: 1, b: true, c: null, d: "", e: [], f: {}, g: [1] };
    const [status, error] = await send("chat", {
      ...BODIES.chat,
      ...message({ content: [{ ...TEXT, ...nothing }], ...nothing }),
    });
    expect([status, error]).toEqual([200, {}]);
  });
});
