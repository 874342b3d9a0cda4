// Validates Converse requests, replies and events by the schemas in the AWS client: known members, required members,
// exactly one member of a union, types and enum values.

import {
  AudioFormat,
  CachePointType,
  CacheTTL,
  ConversationRole,
  ConverseRequest$,
  ConverseResponse$,
  ConverseStreamOutput$,
  DocumentFormat,
  ImageFormat,
  OutputFormatType,
  PerformanceConfigLatency,
  ServiceTierType,
  StopReason,
  ToolResultStatus,
  ToolUseType,
  VideoFormat,
} from "@aws-sdk/client-bedrock-runtime";
import { isObject } from "../../../src/base/json.ts";

/** The schemas have no enum values; only the client's types tell which member has which enum. */
const ENUM_VALUES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Message.role": ConversationRole,
  "MessageStartEvent.role": ConversationRole,
  "ImageBlock.format": ImageFormat,
  "DocumentBlock.format": DocumentFormat,
  "VideoBlock.format": VideoFormat,
  "AudioBlock.format": AudioFormat,
  "ToolResultBlock.status": ToolResultStatus,
  "ToolUseBlock.type": ToolUseType,
  "CachePointBlock.type": CachePointType,
  "CachePointBlock.ttl": CacheTTL,
  "CacheDetail.ttl": CacheTTL,
  "OutputFormat.type": OutputFormatType,
  "ServiceTier.type": ServiceTierType,
  "PerformanceConfiguration.latency": PerformanceConfigLatency,
  "ConverseResponse.stopReason": StopReason,
  "MessageStopEvent.stopReason": StopReason,
};

/** Constraints of the API reference that the schemas lack. */
const STRING_PATTERNS: Readonly<Record<string, RegExp>> = {
  "ToolUseBlock.toolUseId": /^[a-zA-Z0-9_.:-]{1,64}$/,
  "ToolResultBlock.toolUseId": /^[a-zA-Z0-9_.:-]{1,64}$/,
  "ToolUseBlock.name": /^[a-zA-Z0-9_-]{1,64}$/,
  "ToolSpecification.name": /^[a-zA-Z0-9_-]{1,64}$/,
  "ToolSpecification.description": /./s,
  "SpecificToolChoice.name": /^[a-zA-Z0-9_-]{1,64}$/,
  "DocumentBlock.name": /^(?!.* {2})[A-Za-z0-9 ()[\]-]{1,200}$/,
  "ContentBlock.text": /./s,
  "SystemContentBlock.text": /./s,
};
const RANGES: Readonly<Record<string, readonly [min: number, max: number]>> = {
  "InferenceConfiguration.maxTokens": [1, Infinity],
  "InferenceConfiguration.temperature": [0, 1],
  "InferenceConfiguration.topP": [0, 1],
};
/** Lists that must not be empty. The content of a sent message must not be empty either. */
const NON_EMPTY_LISTS: ReadonlySet<string> = new Set(["Tools", "Messages"]);

export function validateConverseRequest(body: unknown): readonly string[] {
  // The schema includes the model, which is sent in the path.
  const problems = check(ConverseRequest$, { modelId: "m", ...Object(body) }, "");
  const messages: unknown = isObject(body) ? body["messages"] : undefined;
  const empty = (Array.isArray(messages) ? (messages as readonly unknown[]) : []).filter(
    (one) => isObject(one) && Array.isArray(one["content"]) && one["content"].length === 0,
  );
  return [...problems, ...empty.map(() => "a message without content")];
}

export function validateConverseReply(body: unknown): readonly string[] {
  return check(ConverseResponse$, body, "");
}

/** Validates a stream event in the client's form: its name is the only member. */
export function validateConverseEvent(event: unknown): readonly string[] {
  return check(ConverseStreamOutput$, event, "");
}

const LIST = 1;
const MAP = 2;
const STRUCT = 3;
const UNION = 4;
const STRING = 0;
const NUMBER = 1;
const BOOLEAN = 2;
const DOCUMENT = 15;
const BLOB = 21;
const LIST_OF = 64;
const MAP_OF = 128;
const BASE64 = /^[A-Za-z0-9+/]+=*$/;

function check(schema: unknown, value: unknown, at: string, member = ""): readonly string[] {
  const known = resolveSchema(schema);
  if (typeof known === "number") return checkSimple(known, value, at, member);
  if (!Array.isArray(known)) return [`${at}: unknown schema type`];
  const [kind, , name, , first, second, required] = known as readonly unknown[];
  switch (kind) {
    case LIST:
      return checkList(value, at, { name: String(name), item: first, member });
    case MAP:
      return checkMap(value, at, second);
    case STRUCT:
    case UNION:
      return checkMembers(value, at, {
        name: String(name),
        names: (first as readonly string[] | undefined) ?? [],
        schemas: (second as readonly unknown[] | undefined) ?? [],
        required: typeof required === "number" ? required : 0,
        isUnion: kind === UNION,
      });
    default:
      return [];
  }
}

/** A schema may be wrapped in a function, or in a pair with serialization traits. */
function resolveSchema(schema: unknown): unknown {
  if (typeof schema === "function") return resolveSchema((schema as () => unknown)());
  const [inner] = Array.isArray(schema) ? (schema as readonly unknown[]) : [undefined];
  const isTraited = Array.isArray(schema) && schema.length === 2;
  return isTraited ? resolveSchema(inner) : schema;
}

function checkSimple(kind: number, value: unknown, at: string, member: string): readonly string[] {
  if (kind >= MAP_OF) return checkMap(value, at, kind - MAP_OF);
  if (kind >= LIST_OF) return checkList(value, at, { name: "", item: kind - LIST_OF, member });
  switch (kind) {
    case STRING:
      return typeof value === "string" ? checkEnum(value, at, member) : [`${at} is no string`];
    case NUMBER:
      return typeof value === "number" ? checkRange(value, at, member) : [`${at} is no number`];
    case BOOLEAN:
      return typeof value === "boolean" ? [] : [`${at} is neither true nor false`];
    case BLOB:
      return typeof value === "string" && BASE64.test(value) ? [] : [`${at} is not base64`];
    case DOCUMENT:
      return [];
    default:
      return [`${at}: a type that no Converse request is known to have (${kind})`];
  }
}

function checkEnum(value: string, at: string, member: string): readonly string[] {
  const words = ENUM_VALUES[member];
  if (words !== undefined && !Object.values(words).includes(value))
    return [`${at} is ${JSON.stringify(value)}, not one of ${Object.values(words).join(", ")}`];
  return (STRING_PATTERNS[member]?.test(value) ?? true)
    ? []
    : [`${at} has not the form that it must have`];
}

function checkRange(value: number, at: string, member: string): readonly string[] {
  const [least, most] = RANGES[member] ?? [-Infinity, Infinity];
  return value >= least && value <= most ? [] : [`${at} is ${value}`];
}

interface ListContext {
  readonly name: string;
  readonly item: unknown;
  readonly member: string;
}

function checkList(
  value: unknown,
  at: string,
  { name, item, member }: ListContext,
): readonly string[] {
  if (!Array.isArray(value)) return [`${at} is no list`];
  if (value.length === 0 && NON_EMPTY_LISTS.has(name)) return [`${at} is empty`];
  return value.flatMap((one, place) => check(item, one, `${at}[${place}]`, member));
}

function checkMap(value: unknown, at: string, item: unknown): readonly string[] {
  if (!isObject(value)) return [`${at} is no object`];
  return Object.entries(value).flatMap(([key, one]) => check(item, one, `${at}.${key}`));
}

interface StructContext {
  readonly name: string;
  readonly names: readonly string[];
  readonly schemas: readonly unknown[];
  /** The first `required` members are required. */
  readonly required: number;
  readonly isUnion: boolean;
}

function checkMembers(value: unknown, at: string, members: StructContext): readonly string[] {
  if (!isObject(value)) return [`${at} is no object`];
  const { name, names, schemas, required, isUnion } = members;
  const given = Object.keys(value).filter((key) => value[key] !== undefined);
  const missing = names.slice(0, required).filter((key) => !given.includes(key));
  const count = isUnion && given.length !== 1 ? [`${at} is not exactly one member of ${name}`] : [];
  return [
    ...missing.map((key) => `${at}.${key} is missing`),
    ...count,
    ...given.flatMap((key) => {
      const index = names.indexOf(key);
      return index < 0
        ? [`${at}.${key} is unknown to ${name}`]
        : check(schemas[index], value[key], `${at}.${key}`, `${name}.${key}`);
    }),
  ];
}
