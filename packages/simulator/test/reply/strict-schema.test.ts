// Strict tools and schemas are refused in the words of OpenAI and Anthropic, for models named like theirs.

import { describe, expect, test } from "bun:test";
import { createClient, json } from "../simulator-harness.ts";

const send = createClient({ acceptsAnyModel: true });
const CITY = { city: { type: "string" } };
const CLOSED = {
  type: "object",
  properties: CITY,
  required: ["city"],
  additionalProperties: false,
};
const OPEN = { type: "object", properties: CITY, required: ["city"] };
const OPTIONAL = { ...CLOSED, required: [] };
const RECURSIVE = {
  ...CLOSED,
  properties: { city: { $ref: "#/$defs/city" } },
  $defs: {
    city: { ...CLOSED, properties: { city: { $ref: "#/$defs/town" } } },
    town: { anyOf: [{ type: "string" }, { $ref: "#/$defs/city" }] },
  },
};
const NESTED = { ...CLOSED, properties: { city: OPEN } };

type Body = Readonly<Record<string, unknown>>;
interface ApiCase {
  readonly name: string;
  readonly path: (model: string) => string;
  readonly models: { readonly strict: string; readonly other: string };
  readonly withTool: (model: string, schema: Body, strict: boolean) => Body;
  readonly withOutput: (model: string, schema: Body) => Body;
}

const messages = [{ role: "user", content: "Hello" }];

const OPENAI_CASES: readonly ApiCase[] = [
  {
    name: "chat",
    path: () => "/v1/chat/completions",
    models: { strict: "gpt-5.4", other: "sim/echo" },
    withTool: (model, parameters, strict) => ({
      model,
      messages,
      tools: [{ type: "function", function: { name: "look", parameters, strict } }],
    }),
    withOutput: (model, schema) => ({
      model,
      messages,
      response_format: { type: "json_schema", json_schema: { name: "out", schema, strict: true } },
    }),
  },
  {
    name: "responses",
    path: () => "/v1/responses",
    models: { strict: "gpt-5.4", other: "sim/echo" },
    withTool: (model, parameters, strict) => ({
      model,
      input: "Hello",
      tools: [{ type: "function", name: "look", parameters, strict }],
    }),
    withOutput: (model, schema) => ({
      model,
      input: "Hello",
      text: { format: { type: "json_schema", name: "out", schema, strict: true } },
    }),
  },
];

const CLAUDE_CASES: readonly ApiCase[] = [
  {
    name: "messages",
    path: () => "/v1/messages",
    models: { strict: "claude-sonnet-4-6", other: "sim/echo" },
    withTool: (model, input_schema, strict) => ({
      model,
      max_tokens: 64,
      messages,
      tools: [{ name: "look", input_schema, strict }],
    }),
    withOutput: (model, schema) => ({
      model,
      max_tokens: 64,
      messages,
      output_config: { format: { type: "json_schema", schema } },
    }),
  },
  {
    name: "converse",
    path: (model) => `/model/${encodeURIComponent(model)}/converse`,
    models: {
      strict: "us.anthropic.claude-haiku-4-5-20251001-v1:0",
      other: "amazon.nova-lite-v1:0",
    },
    withTool: (_model, schema, strict) => ({
      messages: [{ role: "user", content: [{ text: "Hello" }] }],
      toolConfig: {
        tools: [{ toolSpec: { name: "look", inputSchema: { json: schema }, strict } }],
      },
    }),
    withOutput: (_model, schema) => ({
      messages: [{ role: "user", content: [{ text: "Hello" }] }],
      outputConfig: {
        textFormat: {
          type: "json_schema",
          structure: { jsonSchema: { schema: JSON.stringify(schema) } },
        },
      },
    }),
  },
];

async function errorText(path: string, body: Body): Promise<string | undefined> {
  const response = await send(path, body);
  return response.status === 200 ? undefined : JSON.stringify(await json(response));
}

describe.each(OPENAI_CASES)("OpenAI's rules on $name", ({ path, models, withTool, withOutput }) => {
  const { strict, other } = models;
  test.each([
    ["In context=(), 'additionalProperties' is required to be supplied and to be false.", OPEN],
    ["including every key in properties. Missing 'city'.", OPTIONAL],
    ["In context=('properties', 'city'), 'additionalProperties' is required", NESTED],
  ])("refuses with %j", async (message, schema) => {
    const error = await errorText(path(strict), withTool(strict, schema, true));
    expect(error).toContain("Invalid schema for function 'look': ");
    expect(error).toContain(message);
    expect(error).toContain("invalid_function_parameters");
    const output = await errorText(path(strict), withOutput(strict, schema));
    expect(output).toContain("Invalid schema for response_format 'out': ");
    expect(output).toContain(message);
  });

  test("takes a closed schema, an open one without strict, and any at other models", async () => {
    for (const [model, schema, isStrict] of [
      [strict, CLOSED, true],
      [strict, OPEN, false],
      [other, OPEN, true],
    ] as const)
      expect(await errorText(path(model), withTool(model, schema, isStrict))).toBeUndefined();
    expect(await errorText(path(strict), withOutput(strict, CLOSED))).toBeUndefined();
  });
});

describe.each(CLAUDE_CASES)("Claude's rules on $name", ({ path, models, withTool, withOutput }) => {
  const { strict, other } = models;
  test.each([
    ["For 'object' type, 'additionalProperties' must be explicitly set to false", OPEN],
    ["For 'object' type, 'additionalProperties' must be explicitly set to false", NESTED],
    [
      "For 'integer' type, properties maximum, minimum are not supported",
      { ...CLOSED, properties: { city: { type: "integer", minimum: 1, maximum: 7 } } },
    ],
    [
      "Circular reference detected in schema definitions: city -> town -> city. Self-referencing or mutually-referencing definitions are not supported.",
      RECURSIVE,
    ],
  ])("refuses with %j", async (message, schema) => {
    const tool = await errorText(path(strict), withTool(strict, schema, true));
    expect(tool).toContain(`tools.0.custom: ${message}`);
    const output = await errorText(path(strict), withOutput(strict, schema));
    expect(output).toContain(`output_config.format.schema: ${message}`);
  });

  test("takes a closed schema, an open one without strict, and any at other models", async () => {
    for (const [model, schema, isStrict] of [
      [strict, CLOSED, true],
      [strict, OPEN, false],
      [other, OPEN, true],
    ] as const)
      expect(await errorText(path(model), withTool(model, schema, isStrict))).toBeUndefined();
    expect(await errorText(path(strict), withOutput(strict, CLOSED))).toBeUndefined();
  });
});
