// What is sent and answered, held against the descriptions that the providers publish.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { geminiValidator } from "../../wires/gemini/gemini-discovery-schema.ts";
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

export type Validator = (value: unknown) => readonly string[];

export interface OpenApiSpecs {
  readonly request: Readonly<Record<Wire, Validator>>;
  readonly reply: Readonly<Record<Api, Validator>>;
  readonly event: Readonly<Record<Api, Validator>>;
}

/** Extensions that Postern documents: they stand beside what the descriptions know. */
const POSTERN_FIELDS: ReadonlySet<string> = new Set(["cost", "dropped", "native_finish_reason"]);

export function loadSpecs(): OpenApiSpecs {
  const openai = validatorsOf(OPENAI);
  const anthropic = validatorsOf(ANTHROPIC);
  const gemini = geminiValidator() ?? (() => []);
  return {
    request: {
      chat: openai("CreateChatCompletionRequest", "closed"),
      responses: withPreprocessing(withItemIds, openai("CreateResponse", "closed")),
      messages: anthropic("CreateMessageParams", "closed"),
      gemini: (value) => gemini("GenerateContentRequest", value),
      converse: validateConverseRequest,
    },
    reply: {
      chat: withPreprocessing(withoutPosternFields, openai("CreateChatCompletionResponse")),
      responses: withPreprocessing(withoutNulls, openai("Response")),
      messages: withPreprocessing(withoutPosternFields, anthropic("Message")),
    },
    event: {
      chat: withPreprocessing(withoutNulls, openai("CreateChatCompletionStreamResponse")),
      responses: withPreprocessing(withoutNulls, openai("ResponseStreamEvent")),
      messages: withPreprocessing(withoutPosternFields, anthropic("MessageStreamEvent")),
    },
  };
}

function withPreprocessing(change: (value: unknown) => unknown, check: Validator): Validator {
  return (value) => check(change(value));
}

type UnknownFieldPolicy = "open" | "closed";

function validatorsOf(file: string): (schema: string, openness?: UnknownFieldPolicy) => Validator {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
  // The alternatives overlap in the descriptions, so that a value could be several of them at once.
  const text = readFileSync(file, "utf8").replaceAll(/"oneOf"\s*:/g, '"anyOf":');
  const { components } = JSON.parse(text, withType) as { components: object };
  ajv.addSchema({ $id: "spec", components });
  return (schema, openness = "open") => {
    const validate = ajv.compile({
      $ref: `spec#/components/schemas/${schema}`,
      ...(openness === "closed" ? { unevaluatedProperties: false } : {}),
    });
    return (value) =>
      validate(value)
        ? []
        : (validate.errors ?? [])
            .map(
              (error) =>
                `${schema}${error.instancePath} ${error.message} ${JSON.stringify(error.params)}`,
            )
            .filter((problem) => !KNOWN_MISMATCHES.some(({ at }) => at.test(problem)));
  };
}

// `nullable` beside nothing that it could make nullable is a slip of the description; beside an `enum` it means one more.
function withType(_: string, held: unknown): unknown {
  if (typeof held !== "object" || held === null || !("nullable" in held)) return held;
  const { nullable, ...rest } = held;
  if (!("type" in held)) return rest;
  return nullable === true && "enum" in held && Array.isArray(held.enum)
    ? { ...held, enum: [...(held.enum as unknown[]), null] }
    : held;
}

/** What the descriptions get wrong, and why it is no fault to do otherwise. */
const KNOWN_MISMATCHES: readonly { readonly at: RegExp; readonly why: string }[] = [
  {
    at: /^CreateChatCompletionRequest must NOT have unevaluated properties .*"top_k"/,
    why: "OpenAI has no top_k, and is not sent one; the servers that speak its API commonly have.",
  },
  {
    at: /^CreateChatCompletionStreamResponse\/choices\/\d+\/delta\/tool_calls\/\d+\/type must be equal/,
    why: "A chunk may hold a custom tool's call, as a whole reply may; the description of chunks forgot it.",
  },
];

function mapValues(value: unknown, change: (key: string, held: unknown) => unknown): unknown {
  return JSON.parse(JSON.stringify(value, change)) as unknown;
}

function withoutPosternFields(value: unknown): unknown {
  return mapValues(value, (key, held) => (POSTERN_FIELDS.has(key) ? undefined : held));
}

// OpenAI's description forbids these nulls, which OpenAI itself sends and the Open Responses specification demands.
const NULLS = new Set(["usage", "description"]);

function withoutNulls(value: unknown): unknown {
  return mapValues(withoutPosternFields(value), (key, held) =>
    NULLS.has(key) && held === null ? undefined : held,
  );
}

// The description wants ids on what the model said; the API, as recorded, takes it without, which is the one form that
// never names an item that the provider did not store.
function withItemIds(value: unknown): unknown {
  return mapValues(value, (_, held) => {
    if (typeof held !== "object" || held === null) return held;
    const item = held as Json;
    if (item["type"] === "reasoning") return { id: "rs_1", ...item };
    if (item["role"] === "assistant" && Array.isArray(item["content"]))
      return { id: "msg_1", status: "completed", type: "message", ...item };
    return held;
  });
}
