import {
  type CanonicalError,
  type ErrorCode,
  toCanonicalError,
} from "../../canonical/canonical-error.ts";
import { arrayIn, isObject, numberIn, objectIn, stringIn, lookUp } from "../../json-fields.ts";

/** All codes of google.rpc. */
const CODE_BY_STATUS: Readonly<Record<string, ErrorCode>> = {
  OK: "upstream_error",
  CANCELLED: "upstream_error",
  UNKNOWN: "upstream_error",
  INVALID_ARGUMENT: "invalid_request",
  DEADLINE_EXCEEDED: "upstream_timeout",
  NOT_FOUND: "model_not_found",
  ALREADY_EXISTS: "invalid_request",
  PERMISSION_DENIED: "provider_not_configured",
  UNAUTHENTICATED: "provider_not_configured",
  RESOURCE_EXHAUSTED: "rate_limited",
  FAILED_PRECONDITION: "provider_not_configured",
  ABORTED: "upstream_error",
  OUT_OF_RANGE: "invalid_request",
  UNIMPLEMENTED: "invalid_request",
  INTERNAL: "upstream_error",
  UNAVAILABLE: "overloaded",
  DATA_LOSS: "upstream_error",
};
const UPSTREAM_ERROR = 502;
const CREDENTIAL_REASON = /API_?KEY|ACCESS_TOKEN|CREDENTIALS|CONSUMER|SERVICE_DISABLED|BILLING/;
const PROJECT_PATH = /projects\/[^/\s`"']+(?:\/locations\/[^/\s`"']+)?\//g;

/** `{"error":{code,message,status,details}}`, which some endpoints wrap in an array. */
export function readError(status: number, input: unknown): CanonicalError {
  const body = Array.isArray(input) ? (input[0] as unknown) : input; // Array.isArray gives any[].
  if (!isObject(body)) return toCanonicalError({ status, message: stringIn(body)?.trim() });
  const error = objectIn(body["error"]) ?? body;
  const rpcStatus = stringIn(error["status"]);
  const reason = reasonOf(error["details"]);
  const errorStatus = status >= 400 ? status : (numberIn(error["code"]) ?? UPSTREAM_ERROR);
  const code =
    reason !== undefined && CREDENTIAL_REASON.test(reason)
      ? "provider_not_configured"
      : rpcStatus === undefined
        ? undefined
        : lookUp(CODE_BY_STATUS, rpcStatus);
  return {
    ...toCanonicalError({
      status: errorStatus,
      message: (stringIn(error["message"]) ?? stringIn(body["error"]))?.replaceAll(
        PROJECT_PATH,
        "",
      ),
      nativeCode: reason ?? rpcStatus,
      code,
    }),
    retryAfterSeconds: retryAfterSecondsOf(error["details"]),
  };
}

// Google answers an invalid key with a 400; only the details tell it from an invalid request.
function reasonOf(details: unknown): string | undefined {
  for (const detail of arrayIn(details)) {
    const reason = stringIn(objectIn(detail)?.["reason"]);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function retryAfterSecondsOf(details: unknown): number | undefined {
  for (const detail of arrayIn(details)) {
    const delay = stringIn(objectIn(detail)?.["retryDelay"]);
    const seconds = delay === undefined ? Number.NaN : Number.parseFloat(delay);
    if (seconds >= 0) return Math.ceil(seconds);
  }
  return undefined;
}
