// Errors, headers and request settings that OpenAI's two wires share.

import {
  isObject,
  arrayIn,
  numberIn,
  type JsonObject,
  lookUp,
  objectOrEmpty,
  stringOrEmpty,
} from "../json-readers.ts";
import {
  invalidRequest,
  type NormalizedRequest,
  type CacheTtl,
  type ToolChoice,
  type InvalidRequest,
} from "../reply/normalized-request.ts";
import type { ApiError, SimulatedWire } from "./simulated-wire.ts";

type SharedMember =
  | "modelNotFound"
  | "errorBody"
  | "errorHeaders"
  | "requestIdHeader"
  | "rateLimitHeaders"
  | "missingKeyError"
  | "invalidKeyError";

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: "invalid_request_error",
  403: "invalid_request_error",
  429: "rate_limit_error",
  500: "server_error",
  502: "server_error",
  503: "server_error",
  504: "server_error",
};
const ERROR_CODES: Readonly<Record<number, string>> = {
  429: "rate_limit_exceeded",
  503: "server_overloaded",
};

export const openAiCommon: Pick<SimulatedWire, SharedMember> = {
  modelNotFound: (model) => ({
    status: 404,
    message: `The model \`${model}\` does not exist or you do not have access to it.`,
    code: "model_not_found",
  }),
  errorBody: openAiError,
  errorHeaders: () => ({}),
  requestIdHeader: "x-request-id",
  rateLimitHeaders: (remaining) => ({
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-remaining-requests": String(remaining),
    "x-ratelimit-reset-requests": remaining === 0 ? "6s" : "6ms",
    "x-ratelimit-limit-tokens": "2000000",
    "x-ratelimit-remaining-tokens": remaining === 0 ? "0" : "1999990",
    "x-ratelimit-reset-tokens": remaining === 0 ? "6s" : "0s",
  }),
  missingKeyError: {
    status: 401,
    message:
      "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
  },
  invalidKeyError: { status: 401, message: "Incorrect API key provided.", code: "invalid_api_key" },
};

function openAiError(failure: ApiError): JsonObject {
  const type =
    ERROR_TYPES[failure.status] ??
    (failure.status >= 500 ? "server_error" : "invalid_request_error");
  const code = failure.code ?? ERROR_CODES[failure.status] ?? null;
  return { error: { message: failure.message, type, param: failure.param ?? null, code } };
}

/** Checks the numeric settings that both wires share. Error messages are OpenAI's. */
export function checkSampling(body: JsonObject): InvalidRequest | undefined {
  return (
    checkRange(body, "temperature", { min: 0, max: 2, kind: "decimal" }) ??
    checkRange(body, "top_p", { min: 0, max: 1, kind: "decimal" }) ??
    checkRange(body, "top_logprobs", { min: 0, max: 20, kind: "integer" })
  );
}

export function checkRange(
  body: JsonObject,
  name: string,
  range: { readonly min: number; readonly max: number; readonly kind: "decimal" | "integer" },
): InvalidRequest | undefined {
  const raw = body[name];
  if (raw === undefined || raw === null) return undefined;
  const value = numberIn(raw);
  const article = range.kind === "integer" ? "an integer" : "a decimal";
  if (value === undefined || (range.kind === "integer" && !Number.isInteger(value))) {
    return invalidRequest(
      400,
      `Invalid type for '${name}': expected ${article}, but got something else instead.`,
      name,
      "invalid_type",
    );
  }
  if (value > range.max) {
    const code = `${range.kind}_above_max_value`;
    return invalidRequest(
      400,
      `Invalid '${name}': ${range.kind} above maximum value. Expected a value <= ${range.max}, but got ${value} instead.`,
      name,
      code,
    );
  }
  if (value < range.min) {
    const code = `${range.kind}_below_min_value`;
    return invalidRequest(
      400,
      `Invalid '${name}': ${range.kind} below minimum value. Expected a value >= ${range.min}, but got ${value} instead.`,
      name,
      code,
    );
  }
  return undefined;
}

/** Checks a setting that has named values, if it is given. */
export function checkName(
  value: unknown,
  path: string,
  known: readonly string[],
): InvalidRequest | undefined {
  return value === undefined || value === null || known.some((name) => name === value)
    ? undefined
    : unsupportedValue(path, stringOrEmpty(value), known);
}

export const FORMAT_TYPES = ["text", "json_object", "json_schema"];

export function missingParameter(name: string): InvalidRequest {
  return invalidRequest(
    400,
    `Missing required parameter: '${name}'.`,
    name,
    "missing_required_parameter",
  );
}

export function unsupportedValue(
  name: string,
  value: string,
  known: readonly string[],
): InvalidRequest {
  const list = known.map((entry) => `'${entry}'`).join(", ");
  return invalidRequest(
    400,
    `Invalid value: '${value}'. Supported values are: ${list}.`,
    name,
    "invalid_value",
  );
}

/** The tier in the reply: "auto" is served at the default tier. */
export function servedTier(body: JsonObject): string {
  const requestedTier = stringOrEmpty(body["service_tier"]);
  return requestedTier === "" || requestedTier === "auto" ? "default" : requestedTier;
}

const EFFORT_TOKENS: Readonly<Record<string, number>> = {
  none: 0,
  minimal: 8,
  low: 16,
  medium: 32,
  high: 64,
  xhigh: 128,
  max: 256,
};

export const EFFORTS = Object.keys(EFFORT_TOKENS);

export function effortTokens(effort: unknown): number | undefined {
  return lookUp(EFFORT_TOKENS, stringOrEmpty(effort));
}

/** The TTL of a part's cache breakpoint: OpenAI's own, or Anthropic's as OpenRouter accepts it. */
export function cacheTtlOf(part: JsonObject): CacheTtl | undefined {
  if (isObject(part["cache_control"])) return part["cache_control"]["ttl"] === "1h" ? "1h" : "5m";
  return isObject(part["prompt_cache_breakpoint"]) ? "5m" : undefined;
}

export function readToolChoice(
  choice: unknown,
  nameOf: (choice: JsonObject) => string,
): ToolChoice {
  if (choice === "none") return { kind: "none" };
  if (choice === "required" || choice === "any") return { kind: "required" };
  if (!isObject(choice)) return { kind: "auto" };
  // The simulator runs no tools of providers, so it answers with a text.
  if (/^(?:web_search|image_generation)/.test(String(choice["type"]))) return { kind: "auto" };
  if (choice["type"] !== "allowed_tools") return { kind: "named", names: [nameOf(choice)] };
  const allowed = isObject(choice["allowed_tools"]) ? choice["allowed_tools"] : choice;
  const names = arrayIn(allowed["tools"]).map((tool) => nameOf(objectOrEmpty(tool)));
  // The real API need not call a tool in mode `auto`; the simulator calls one in both modes.
  return { kind: "named", names };
}

export function checkToolChoice(request: NormalizedRequest): InvalidRequest | undefined {
  const choice = request.toolChoice;
  if (choice.kind === "required" && request.tools.length === 0) {
    return invalidRequest(
      400,
      "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
      "tool_choice",
    );
  }
  if (choice.kind !== "named") return undefined;
  const unknown = choice.names.find((name) => !request.tools.some((tool) => tool.name === name));
  return unknown === undefined
    ? undefined
    : invalidRequest(
        400,
        `Tool choice '${unknown}' not found in 'tools' parameter.`,
        "tool_choice",
      );
}
