// Maps a provider's error to the caller's API. On the API that the caller uses, status, type and message stay as the provider
// wrote them, without secrets, because clients recover by their text. An error of the gateway's own account, such as a rejected key, is
// not reported as the caller's.

import { type CanonicalError, OUTBOUND_WIRES, WIRE_TRAITS } from "@postern/wires";
import { Fault, type FaultCode, type FaultOptions, FAULTS } from "../../base/fault.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import { redact } from "./redact.ts";
import { transportFault } from "./transport-fault.ts";

const MESSAGE_MAX_LENGTH = 8_000;
const PROVIDER_KEYS_STEP = {
  method: "GET",
  url: "/v1/provider-keys",
  why: "List your provider keys. Delete the rejected one and add another.",
} as const;

export interface ProviderFailure {
  readonly wire: UpstreamWire;
  /** Whether the request was translated: then the fields that the error names are not the caller's. */
  readonly isTranslated: boolean;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Whether a retry, or another provider, may succeed. */
export function isRetriable(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/** The error of a response that the provider rejected, or of a stream that began with an error. */
export function providerErrorFault(failure: ProviderFailure, credential: Credential): Fault {
  const { status, headers, isTranslated } = failure;
  const { message, code, type, param } = errorDetails(failure.text);
  const canonical = canonicalErrorOf(failure);
  return reportedFault({ ...canonical, message, nativeCode: code, param }, credential, {
    isTranslated,
    type,
    isContextFull: canonical.nativeCode === CONTEXT_LENGTH_EXCEEDED,
    status,
    headers,
  });
}

/** An error event after the start of a stream, which has no HTTP status. */
export function streamErrorFault(
  error: CanonicalError,
  credential: Credential,
  { isTranslated, type }: Pick<ErrorReport, "isTranslated" | "type">,
): Fault {
  if (error.isTruncation === true)
    return transportFault("incomplete", "the stream was cut", credential);
  const isContextFull = error.nativeCode === CONTEXT_LENGTH_EXCEEDED;
  return reportedFault(error, credential, { isTranslated, type, isContextFull, headers: {} });
}

interface ErrorReport extends Pick<ProviderFailure, "isTranslated" | "headers"> {
  readonly isContextFull: boolean;
  /** The provider's own `type` of the error. */
  readonly type?: string | undefined;
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
  const isRejectedContent = status === 403 && REJECTED_CONTENT.test(message);
  const isAccountError =
    error.code === "provider_not_configured" || ACCOUNT_ERROR_STATUSES.has(status ?? 0);
  if (!isRejectedContent && isAccountError)
    return accountFault(credential, status, message, fields);
  const [code, callerStatus] = isRejectedContent
    ? (["invalid_request", 400] as const)
    : callerStatusOf(status === undefined ? undefined : error.status, error.code);
  const sentence =
    message === "" ? defaultMessage(code, name) : isTranslated ? `${name}: ${message}` : message;
  // The provider's message may quote the prompt, so only its code is logged.
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
  { isTranslated, isContextFull, status, type }: ErrorReport,
): JsonObject {
  return {
    provider,
    ...(isTranslated || type === undefined ? {} : { type }),
    ...(status === undefined ? {} : { provider_status: status }),
    ...(nativeCode === undefined ? {} : { provider_code: nativeCode }),
    ...(isContextFull ? { code: CONTEXT_LENGTH_EXCEEDED } : {}),
    ...(isTranslated && param !== undefined ? { provider_param: param } : {}),
  };
}

/** Only a single word is logged as a code. */
function codeSuffix(code: string | undefined): string {
  return code !== undefined && /^[\w.-]{1,64}$/.test(code) ? ` (${code})` : "";
}

/** `retry-after` for callers if the provider sends none. */
const WAIT_DEFAULT_SECONDS = 5;

// Only a wait that the provider asks for becomes a header here: the gateway's own retries follow it.
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
  const isTemporary = code === "rate_limited" || code === "overloaded";
  return isTemporary ? { headers, retryAfterSeconds: WAIT_DEFAULT_SECONDS } : { headers };
}

/** For errors without a message of the provider: the gateway's default message would be about the gateway itself. */
function defaultMessage(code: FaultCode, name: string): string | undefined {
  const retry = "Wait for `retry-after` seconds and try again, or use another model.";
  if (code === "overloaded") return `${name} is overloaded or unavailable. ${retry}`;
  if (code === "rate_limited") return `${name} is rate limiting requests. ${retry}`;
  return undefined;
}

/** Errors of the account at the provider, whatever their message. */
const ACCOUNT_ERROR_STATUSES = new Set([401, 402, 403]);

/** OpenRouter and xAI use 403 for a prompt that they reject. */
const REJECTED_CONTENT = /\binput was flagged\b|\bviolates usage guidelines\b/i;

/** Clients look for this code to compact a conversation. */
const CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded";

// The status alone is ambiguous: some providers reject a key with 400, and an exhausted quota with 429.
function canonicalErrorOf({ wire, status, text }: ProviderFailure): CanonicalError {
  return OUTBOUND_WIRES[WIRE_TRAITS[wire].base].readError(status, parseJson(text) ?? text);
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
      `${name} rejected the gateway's account${status === undefined ? "" : ` with ${status}`}: ${message}`,
      { fields: { provider: credential.provider.id } },
    );
  return new Fault("forbidden", `${name} rejected the caller's provider key`, {
    message: `${name} rejected your provider key: ${message}`,
    fields,
    next: [PROVIDER_KEYS_STEP],
  });
}

/** Within a stream there is no status, and the provider's code decides alone. */
function callerStatusOf(
  status: number | undefined,
  providerCode: FaultCode,
): readonly [code: FaultCode, status: number] {
  if (status === undefined) return [providerCode, FAULTS[providerCode][0]];
  if (status === 404) return ["model_not_found", 404];
  if (status === 413) return ["payload_too_large", 413];
  if (status === 429) return ["rate_limited", 429];
  if (status === 408 || status === 504) return ["upstream_timeout", 504];
  if (status === 503 || status === 529) return ["overloaded", status];
  if (status >= 500) return ["upstream_error", status];
  if (providerCode === "model_not_found") return [providerCode, 404];
  if (status >= 400) return ["invalid_request", status];
  return ["upstream_error", 502];
}

/** The types that APIs document; anything else could be text. */
const ERROR_TYPE = /^[a-z]{1,40}(?:_[a-z]{1,40}){0,5}$/;

/** Reads the error objects of all providers, which differ in form. */
function errorDetails(text: string): {
  readonly message: string;
  readonly code?: string;
  readonly type?: string;
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
  const { param, type } = error;
  return {
    message: message.slice(0, MESSAGE_MAX_LENGTH),
    ...(code === "" ? {} : { code }),
    ...(typeof type === "string" && ERROR_TYPE.test(type) ? { type } : {}),
    ...(typeof param === "string" && param !== "" ? { param } : {}),
  };
}

/** The `type` of the error in an event of a stream. */
export function errorTypeOf({ error }: JsonObject): string | undefined {
  const type = isObject(error) ? error["type"] : undefined;
  return typeof type === "string" && ERROR_TYPE.test(type) ? type : undefined;
}

function firstText(...values: readonly unknown[]): string {
  for (const value of values) {
    if (typeof value === "string" && value !== "") return value;
    if (Array.isArray(value) && value.length > 0)
      return JSON.stringify(value).slice(0, MESSAGE_MAX_LENGTH);
  }
  return "";
}
