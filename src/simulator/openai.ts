// What OpenAI's two wires have in common: errors, headers, and how a request states its settings.

import { wrong, type Ask, type CacheLife, type ToolChoice, type Wrong } from "./ask.ts";
import { fieldsOf, isFields, listOf, numberOf, textOf, type Fields } from "./json.ts";
import type { Failure, Wire } from "./wire.ts";

type Shared =
  | "unknownModel"
  | "failure"
  | "failureHeaders"
  | "requestIdHeader"
  | "limitHeaders"
  | "missingKey"
  | "wrongKey";

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

export const openAiWire: Pick<Wire, Shared> = {
  unknownModel: (model) => ({
    status: 404,
    message: `The model \`${model}\` does not exist or you do not have access to it.`,
    code: "model_not_found",
  }),
  failure: openAiFailure,
  failureHeaders: () => ({}),
  requestIdHeader: "x-request-id",
  limitHeaders: (left) => ({
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-remaining-requests": String(left),
    "x-ratelimit-reset-requests": left === 0 ? "6s" : "6ms",
    "x-ratelimit-limit-tokens": "2000000",
    "x-ratelimit-remaining-tokens": left === 0 ? "0" : "1999990",
    "x-ratelimit-reset-tokens": left === 0 ? "6s" : "0s",
  }),
  missingKey: {
    status: 401,
    message:
      "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
  },
  wrongKey: { status: 401, message: "Incorrect API key provided.", code: "invalid_api_key" },
};

function openAiFailure(failure: Failure): Fields {
  const type =
    ERROR_TYPES[failure.status] ??
    (failure.status >= 500 ? "server_error" : "invalid_request_error");
  const code = failure.code ?? ERROR_CODES[failure.status] ?? null;
  return { error: { message: failure.message, type, param: failure.param ?? null, code } };
}

/** Checks the numbers that both wires share; the names and the sentences are OpenAI's. */
export function checkSampling(body: Fields): Wrong | undefined {
  return (
    checkRange(body, "temperature", { least: 0, most: 2, kind: "decimal" }) ??
    checkRange(body, "top_p", { least: 0, most: 1, kind: "decimal" }) ??
    checkRange(body, "top_logprobs", { least: 0, most: 20, kind: "integer" })
  );
}

export function checkRange(
  body: Fields,
  name: string,
  range: { readonly least: number; readonly most: number; readonly kind: "decimal" | "integer" },
): Wrong | undefined {
  const given = body[name];
  if (given === undefined || given === null) return undefined;
  const value = numberOf(given);
  const article = range.kind === "integer" ? "an integer" : "a decimal";
  if (value === undefined || (range.kind === "integer" && !Number.isInteger(value))) {
    return wrong(
      400,
      `Invalid type for '${name}': expected ${article}, but got something else instead.`,
      name,
      "invalid_type",
    );
  }
  if (value > range.most) {
    const code = `${range.kind}_above_max_value`;
    return wrong(
      400,
      `Invalid '${name}': ${range.kind} above maximum value. Expected a value <= ${range.most}, but got ${value} instead.`,
      name,
      code,
    );
  }
  if (value < range.least) {
    const code = `${range.kind}_below_min_value`;
    return wrong(
      400,
      `Invalid '${name}': ${range.kind} below minimum value. Expected a value >= ${range.least}, but got ${value} instead.`,
      name,
      code,
    );
  }
  return undefined;
}

export function missing(name: string): Wrong {
  return wrong(400, `Missing required parameter: '${name}'.`, name, "missing_required_parameter");
}

export function unknownValue(name: string, value: string, known: readonly string[]): Wrong {
  const list = known.map((entry) => `'${entry}'`).join(", ");
  return wrong(
    400,
    `Invalid value: '${value}'. Supported values are: ${list}.`,
    name,
    "invalid_value",
  );
}

/** The tier that answered: "auto" is served at the default one. */
export function servedTier(body: Fields): string {
  const asked = textOf(body["service_tier"]);
  return asked === "" || asked === "auto" ? "default" : asked;
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

export function effortTokens(effort: unknown): number | undefined {
  return EFFORT_TOKENS[textOf(effort)];
}

/** How a part is marked for the cache: OpenAI's own breakpoint, or Anthropic's as OpenRouter takes it. */
export function cacheMark(part: Fields): CacheLife | undefined {
  if (isFields(part["cache_control"])) return part["cache_control"]["ttl"] === "1h" ? "1h" : "5m";
  return isFields(part["prompt_cache_breakpoint"]) ? "5m" : undefined;
}

export function readToolChoice(choice: unknown, nameOf: (choice: Fields) => string): ToolChoice {
  if (choice === "none") return { kind: "none" };
  if (choice === "required" || choice === "any") return { kind: "required" };
  if (!isFields(choice)) return { kind: "auto" };
  if (choice["type"] !== "allowed_tools") return { kind: "named", names: [nameOf(choice)] };
  const allowed = isFields(choice["allowed_tools"]) ? choice["allowed_tools"] : choice;
  const names = listOf(allowed["tools"]).map((tool) => nameOf(fieldsOf(tool)));
  // Both modes let the model choose among the allowed tools; `auto` is taken as a wish to call one here.
  return { kind: "named", names };
}

export function limitTools(ask: Ask): Wrong | undefined {
  const choice = ask.toolChoice;
  if (choice.kind === "required" && ask.tools.length === 0) {
    return wrong(
      400,
      "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
      "tool_choice",
    );
  }
  if (choice.kind !== "named") return undefined;
  const unknown = choice.names.find((name) => !ask.tools.some((tool) => tool.name === name));
  return unknown === undefined
    ? undefined
    : wrong(400, `Tool choice '${unknown}' not found in 'tools' parameter.`, "tool_choice");
}
