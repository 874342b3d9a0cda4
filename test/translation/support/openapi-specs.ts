// Validators of requests, replies and events by the OpenAPI specifications that the providers publish.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { geminiValidator } from "../../../packages/wires/test/gemini/gemini-discovery-schema.ts";
import { lazy } from "../../../src/base/lazy.ts";
import { validateConverseRequest } from "./converse-schema.ts";
import type { Api, Json, Wire } from "./harness.ts";

const FOLDER = resolve(
  import.meta.dir,
  "..",
  "..",
  "..",
  process.env["POSTERN_SPECS"] ?? join("..", "shared", "specs"),
);
const OPENAI = join(FOLDER, "openai-openapi.2026-08-21.json");
const ANTHROPIC = join(FOLDER, "anthropic-openapi.lingua-2026-08.yml");

export const hasSpecs = existsSync(OPENAI) && existsSync(ANTHROPIC);

type Validator = (value: unknown) => readonly string[];

export interface OpenApiSpecs {
  readonly request: Readonly<Record<Wire, Validator>>;
  readonly reply: Readonly<Record<Api, Validator>>;
  readonly event: Readonly<Record<Api, Validator>>;
}

/** Postern's documented extensions, which the specifications do not have. */
const POSTERN_FIELDS: ReadonlySet<string> = new Set(["cost", "dropped", "native_finish_reason"]);

/** Once per process, and each schema on its first use: compiling all of them takes more than a second of CPU time. */
export const loadSpecs = lazy(createSpecs);

function createSpecs(): OpenApiSpecs {
  const openai = validatorsOf(OPENAI);
  const anthropic = validatorsOf(ANTHROPIC);
  const gemini = geminiValidator() ?? (() => []);
  return {
    request: {
      chat: openai("CreateChatCompletionRequest", "closed"),
      responses: withPreprocessing(withItemIds, openai("CreateResponse", "closed")),
      messages: betaOf(
        anthropic("CreateMessageParams", "closed"),
        anthropic("BetaCreateMessageParams", "closed"),
      ),
      gemini: (value) => gemini("GenerateContentRequest", value),
      converse: validateConverseRequest,
    },
    reply: {
      chat: withPreprocessing(withoutPosternFields, openai("CreateChatCompletionResponse")),
      responses: withPreprocessing(withoutNulls, openai("Response")),
      messages: withPreprocessing(
        withoutPosternFields,
        betaOf(anthropic("Message"), blocksOf(anthropic("BetaContentBlock"))),
      ),
    },
    event: {
      chat: withPreprocessing(withoutNulls, openai("CreateChatCompletionStreamResponse")),
      responses: withPreprocessing(withoutNulls, openai("ResponseStreamEvent")),
      messages: withPreprocessing(
        withoutPosternFields,
        betaOf(anthropic("MessageStreamEvent"), anthropic("BetaMessageStreamEvent")),
      ),
    },
  };
}

/** MCP servers are a beta, with schemas of its own. */
function betaOf(check: Validator, checkBeta: Validator): Validator {
  const uses = /"mcp_(servers|tool_use|tool_result)"/;
  return (value) => (uses.test(JSON.stringify(value)) ? checkBeta : check)(value);
}

/** Of a beta's message, only the blocks: its other fields are of other betas. */
function blocksOf(check: Validator): Validator {
  return (message) => {
    const { content } = message as { readonly content: readonly unknown[] };
    return content.flatMap((block) => check(block));
  };
}

function withPreprocessing(change: (value: unknown) => unknown, check: Validator): Validator {
  return (value) => check(change(value));
}

type UnknownFieldPolicy = "open" | "closed";

function validatorsOf(file: string): (schema: string, openness?: UnknownFieldPolicy) => Validator {
  const ajv = new Ajv2020({
    strict: false,
    validateFormats: false,
    logger: false,
    // Optimizing the validators takes longer than it saves.
    code: { optimize: false },
  });
  // The specifications' alternatives overlap, so a value may match several of them.
  const text = readFileSync(file, "utf8").replaceAll(/"oneOf"\s*:/g, '"anyOf":');
  const { components } = JSON.parse(text, withType) as { components: object };
  ajv.addSchema({ $id: "spec", components });
  return (schema, openness = "open") => {
    const compiled = lazy(() =>
      ajv.compile({
        $ref: `spec#/components/schemas/${schema}`,
        ...(openness === "closed" ? { unevaluatedProperties: false } : {}),
      }),
    );
    return (value) => {
      const validate = compiled();
      if (validate(value)) return [];
      return (validate.errors ?? [])
        .map(
          (error) =>
            `${schema}${error.instancePath} ${error.message} ${JSON.stringify(error.params)}`,
        )
        .filter((problem) => !KNOWN_MISMATCHES.some(({ at }) => at.test(problem)));
    };
  };
}

// `nullable` without a `type` is a mistake of the specification; with an `enum` it adds null to its values.
function withType(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("nullable" in value)) return value;
  const { nullable, ...rest } = value;
  if (!("type" in value)) return rest;
  return nullable === true && "enum" in value && Array.isArray(value.enum)
    ? { ...value, enum: [...(value.enum as unknown[]), null] }
    : value;
}

/** Mistakes of the specifications. */
const KNOWN_MISMATCHES: readonly { readonly at: RegExp; readonly reason: string }[] = [
  {
    at: /^CreateChatCompletionRequest must NOT have unevaluated properties .*"top_k"/,
    reason: "Many OpenAI-compatible servers support top_k. It is not sent to OpenAI.",
  },
  {
    at: /^CreateChatCompletionStreamResponse\/choices\/\d+\/delta\/tool_calls\/\d+\/type must be equal/,
    reason: "Chunks may have custom tool calls, as replies may.",
  },
];

function mapValues(value: unknown, change: (key: string, member: unknown) => unknown): unknown {
  return JSON.parse(JSON.stringify(value, change)) as unknown;
}

function withoutPosternFields(value: unknown): unknown {
  return mapValues(value, (key, member) => (POSTERN_FIELDS.has(key) ? undefined : member));
}

// OpenAI's specification forbids these nulls, which OpenAI sends and the Open Responses specification requires.
const NULLS = new Set(["usage", "description"]);

function withoutNulls(value: unknown): unknown {
  return mapValues(withoutPosternFields(value), (key, member) =>
    NULLS.has(key) && member === null ? undefined : member,
  );
}

// The specification requires ids on output items in the input. The API, as recorded, accepts them without, and rejects ids
// that it has not stored.
function withItemIds(value: unknown): unknown {
  return mapValues(value, (_, member) => {
    if (typeof member !== "object" || member === null) return member;
    const item = member as Json;
    if (item["type"] === "reasoning") return { id: "rs_1", ...item };
    if (item["role"] === "assistant" && Array.isArray(item["content"]))
      return { id: "msg_1", status: "completed", type: "message", ...item };
    return member;
  });
}
