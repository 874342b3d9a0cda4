// A provider's own error in the caller's envelope: its status and its sense, without its secrets. What is the gateway's
// own trouble with the provider, such as a refused key, is not blamed on the caller.

import { Fault, type FaultCode, type FaultOptions, FAULTS } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { CanonicalError } from "../canonical/error.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import type { Credential } from "../providers/credentials.ts";
import { OUTBOUND_WIRES } from "../wires/wires.ts";
import { redact } from "./redact.ts";
import { transportFault } from "./transport-fault.ts";

const MESSAGE_MAX_LENGTH = 2_000;
const PROVIDER_KEYS_STEP = {
  method: "GET",
  url: "/v1/provider-keys",
  why: "See your provider keys; delete the one that fails and add another.",
} as const;

export interface ProviderFailure {
  readonly wire: UpstreamWire;
  /** Whether the provider was asked in other words than the caller's: then the fields that it names are not the caller's. */
  readonly isTranslated: boolean;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Whether another try, or another provider, may do better. */
export function isRetriable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** The error of a response that the provider rejected, or of a stream that began with an error. */
export function providerErrorFault(failure: ProviderFailure, credential: Credential): Fault {
  const { status, headers, isTranslated } = failure;
  const { message, code, param } = errorDetails(failure.text);
  const canonical = canonicalErrorOf(failure);
  return reportedFault({ ...canonical, message, nativeCode: code, param }, credential, {
    isTranslated,
    isContextFull: canonical.nativeCode === CONTEXT_LENGTH_EXCEEDED,
    status,
    headers,
  });
}

/** The error of a stream that had begun: there is no status, and so none of the provider's in the body. */
export function streamErrorFault(
  error: CanonicalError,
  credential: Credential,
  { isTranslated }: Pick<ProviderFailure, "isTranslated">,
): Fault {
  if (error.isTruncation === true)
    return transportFault("incomplete", "the stream was cut", credential);
  const isContextFull = error.nativeCode === CONTEXT_LENGTH_EXCEEDED;
  return reportedFault(error, credential, { isTranslated, isContextFull, headers: {} });
}

interface ErrorReport extends Pick<ProviderFailure, "isTranslated" | "headers"> {
  readonly isContextFull: boolean;
  /** The provider's HTTP status; absent within a stream. */
  readonly status?: number;
}

function reportedFault(error: CanonicalError, credential: Credential, report: ErrorReport): Fault {
  const { id, name } = credential.provider;
  const { isTranslated, status, headers } = report;
  const message = redact(error.message, credential);
  const nativeCode =
    error.nativeCode === undefined ? undefined : redact(error.nativeCode, credential);
  const fields = providerFields({ ...error, nativeCode }, id, report);
  const isRefusedText = status === 403 && CONTENT_REFUSED.test(message);
  const isAccountError =
    error.code === "provider_not_configured" || ACCOUNT_ERROR_STATUSES.has(status ?? 0);
  if (!isRefusedText && isAccountError) return accountFault(credential, status, message, fields);
  const [code, callerStatus] = isRefusedText
    ? (["invalid_request", 400] as const)
    : callerStatusOf(status === undefined ? undefined : error.status, error.code);
  const sentence = message === "" ? defaultMessage(code, name) : `${name}: ${message}`;
  // A provider's words may quote the prompt, which no log does.
  return new Fault(code, `${id} answered ${status ?? "in a stream"}${codeSuffix(nativeCode)}`, {
    ...(sentence === undefined ? {} : { message: sentence }),
    ...(error.param === undefined || isTranslated ? {} : { param: error.param }),
    status: callerStatus,
    fields,
    ...retryAfterOptions(code, headers, error.retryAfterSeconds),
  });
}

function providerFields(
  { nativeCode, param }: CanonicalError,
  provider: string,
  { isTranslated, isContextFull, status }: ErrorReport,
): JsonObject {
  return {
    provider,
    ...(status === undefined ? {} : { provider_status: status }),
    ...(nativeCode === undefined ? {} : { provider_code: nativeCode }),
    ...(isContextFull ? { code: CONTEXT_LENGTH_EXCEEDED } : {}),
    ...(isTranslated && param !== undefined ? { provider_param: param } : {}),
  };
}

/** A code as the log tells it: one word, and no sentence. */
function codeSuffix(code: string | undefined): string {
  return code !== undefined && /^[\w.-]{1,64}$/.test(code) ? ` (${code})` : "";
}

/** What callers of these codes are told to wait where the provider does not say. */
const WAIT_DEFAULT_SECONDS = 5;

// The wait that a provider asks for is a header, which the gateway's own tries keep to; the one that it does not ask for
// is the caller's alone.
function retryAfterOptions(
  code: FaultCode,
  headers: ProviderFailure["headers"],
  statedSeconds: number | undefined,
): Pick<FaultOptions, "headers" | "retryAfterSeconds"> {
  if (headers["retry-after"] !== undefined) return { headers };
  if (statedSeconds !== undefined)
    return {
      headers: { ...headers, "retry-after": String(Math.max(1, Math.ceil(statedSeconds))) },
    };
  const isPromised = code === "rate_limited" || code === "overloaded";
  return isPromised ? { headers, retryAfterSeconds: WAIT_DEFAULT_SECONDS } : { headers };
}

/** What a provider means that says it with a status alone, where the table's sentence would be about the gateway. */
function defaultMessage(code: FaultCode, name: string): string | undefined {
  const again = "Wait for `retry-after` seconds and try again, or use another model.";
  if (code === "overloaded") return `${name} is overloaded, or down for a while. ${again}`;
  if (code === "rate_limited") return `${name} takes no more requests for now. ${again}`;
  return undefined;
}

/** Whatever its words, a provider that refuses an account refuses the gateway, and not the caller. */
const ACCOUNT_ERROR_STATUSES = new Set([401, 402, 403]);

/** OpenRouter and xAI say 403 where it is the request's own text that they refuse. */
const CONTENT_REFUSED = /\binput was flagged\b|\bviolates usage guidelines\b/i;

/** What clients look for to shorten a conversation. */
const CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded";

// A status does not say it all: a key that is refused is a 400 at some providers, a quota that is used up a 429.
function canonicalErrorOf({ wire, status, text }: ProviderFailure): CanonicalError {
  const outbound =
    wire === "embeddings"
      ? OUTBOUND_WIRES.chat
      : OUTBOUND_WIRES[wire === "count_tokens" ? "messages" : wire];
  return outbound.readError(status, parseJson(text) ?? text);
}

function accountFault(
  credential: Credential,
  status: number | undefined,
  message: string,
  fields: Readonly<Record<string, unknown>>,
): Fault {
  const { name } = credential.provider;
  if (!credential.byok)
    return new Fault(
      "provider_not_configured",
      `the gateway's account at ${name} was refused${status === undefined ? "" : ` with ${status}`}: ${message}`,
      { fields: { provider: credential.provider.id } },
    );
  return new Fault("forbidden", `own key refused by ${name}`, {
    message: `${name} refused your own provider key: ${message}`,
    fields,
    next: [PROVIDER_KEYS_STEP],
  });
}

/** Without a status, as within a stream, the provider's code decides alone. */
function callerStatusOf(
  status: number | undefined,
  sense: FaultCode,
): readonly [code: FaultCode, status: number] {
  if (status === undefined) return [sense, FAULTS[sense][0]];
  if (status === 404) return ["model_not_found", 404];
  if (status === 413) return ["payload_too_large", 413];
  if (status === 429) return ["rate_limited", 429];
  if (status === 408 || status === 504) return ["upstream_timeout", 504];
  if (status === 503 || status === 529) return ["overloaded", status];
  if (status >= 500) return ["upstream_error", status];
  if (sense === "model_not_found") return [sense, 404];
  if (status >= 400) return ["invalid_request", status === 422 ? 422 : 400];
  return ["upstream_error", 502];
}

/** Finds the words in the many forms that providers give errors in. */
function errorDetails(text: string): {
  readonly message: string;
  readonly code?: string;
  readonly param?: string;
} {
  const outer = parseJson(text);
  const body: unknown = Array.isArray(outer) ? outer[0] : outer;
  if (!isObject(body))
    return { message: /^\s*</.test(text) ? "" : text.slice(0, MESSAGE_MAX_LENGTH) };
  const error = isObject(body["error"]) ? body["error"] : body;
  const message = firstText(
    error["message"],
    body["error"],
    body["detail"],
    body["message"],
    error["error"],
  );
  const code = firstText(error["code"], error["type"], error["status"]);
  const { param } = error;
  return {
    message: message.slice(0, MESSAGE_MAX_LENGTH),
    ...(code === "" ? {} : { code }),
    ...(typeof param === "string" && param !== "" ? { param } : {}),
  };
}

function firstText(...values: readonly unknown[]): string {
  for (const value of values) {
    if (typeof value === "string" && value !== "") return value;
    if (Array.isArray(value) && value.length > 0)
      return JSON.stringify(value).slice(0, MESSAGE_MAX_LENGTH);
  }
  return "";
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
