// Providers' errors in canonical form. The status decides unless a wire knows the provider's own code.

import type { JsonObject } from "../json-fields.ts";

/** What went wrong, independently of the provider. */
export type ErrorCode =
  | "invalid_request"
  | "model_not_found"
  | "payload_too_large"
  | "rate_limited"
  | "overloaded"
  | "provider_not_configured"
  | "upstream_error"
  | "upstream_timeout";

/** A provider's error as the gateway reports it. `message` is empty if the provider gave none. */
export interface CanonicalError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly param?: string | undefined;
  readonly status: number;
  /** The provider's own code, such as `context_length_exceeded`. */
  readonly nativeCode?: string | undefined;
  /** From the body; a `retry-after` header is read with the response. */
  readonly retryAfterSeconds?: number | undefined;
  /** The error in the form of the API that it is written for. Absent: its code and message. */
  readonly object?: JsonObject | undefined;
  /** The stream ended early and the provider reported no error. */
  readonly isTruncation?: true | undefined;
}

const MESSAGE_MAX = 2_000;
const CONTEXT_LENGTH_EXCEEDED =
  /context.{0,12}(length|window|size)|prompt is too long|too many (prompt |input )?tokens|input tokens exceeded|input token count .{0,20}exceeds|max_model_len/i;

export interface ProviderErrorDetails {
  readonly status: number;
  readonly message: string | undefined;
  readonly nativeCode?: string | undefined;
  readonly param?: string | undefined;
  /** From the wire's table of provider codes; otherwise the status decides. */
  readonly code?: ErrorCode | undefined;
}

/** A 401, 402 or 403 concerns the gateway's credential, not the caller's: it becomes `provider_not_configured`. */
export function toCanonicalError(error: ProviderErrorDetails): CanonicalError {
  const code = error.code ?? codeOfStatus(error.status);
  const isContextFull =
    code === "invalid_request" &&
    CONTEXT_LENGTH_EXCEEDED.test(`${error.nativeCode ?? ""} ${error.message ?? ""}`);
  return {
    code,
    status: statusOfCode(code, error.status),
    message: (error.message ?? "").slice(0, MESSAGE_MAX),
    nativeCode: isContextFull ? "context_length_exceeded" : error.nativeCode,
    param: error.param,
  };
}

export function truncatedStreamError(): CanonicalError {
  return {
    code: "upstream_error",
    status: 502,
    message: "The provider's stream ended before the reply was complete.",
    isTruncation: true,
  };
}

function codeOfStatus(status: number): ErrorCode {
  if (status === 401 || status === 402 || status === 403) return "provider_not_configured";
  if (status === 404) return "model_not_found";
  if (status === 408 || status === 504) return "upstream_timeout";
  if (status === 413) return "payload_too_large";
  if (status === 429) return "rate_limited";
  if (status === 503 || status === 529) return "overloaded";
  return status >= 400 && status < 500 ? "invalid_request" : "upstream_error";
}

function statusOfCode(code: ErrorCode, status: number): number {
  if (code === "provider_not_configured") return 503;
  if (code === "upstream_timeout") return 504;
  if (code === "model_not_found") return 404;
  return status >= 400 ? status : 502;
}
