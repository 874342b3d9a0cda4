import {
  type CanonicalError,
  type ErrorCode,
  toCanonicalError,
} from "../../canonical/canonical-error.ts";
import { isObject, objectIn, stringIn, lookUp } from "../../json-fields.ts";

/** The runtime's exceptions, by lower-cased name, from error replies and stream frames. */
const CODE_BY_EXCEPTION: Readonly<Record<string, readonly [ErrorCode, number]>> = {
  validationexception: ["invalid_request", 400],
  accessdeniedexception: ["provider_not_configured", 503],
  unrecognizedclientexception: ["provider_not_configured", 503],
  invalidsignatureexception: ["provider_not_configured", 503],
  expiredtokenexception: ["provider_not_configured", 503],
  missingauthenticationtokenexception: ["provider_not_configured", 503],
  resourcenotfoundexception: ["model_not_found", 404],
  conflictexception: ["invalid_request", 400],
  throttlingexception: ["rate_limited", 429],
  toomanyrequestsexception: ["rate_limited", 429],
  servicequotaexceededexception: ["rate_limited", 429],
  modelnotreadyexception: ["overloaded", 503],
  serviceunavailableexception: ["overloaded", 503],
  modeltimeoutexception: ["upstream_timeout", 504],
  modelerrorexception: ["upstream_error", 502],
  modelstreamerrorexception: ["upstream_error", 502],
  internalserverexception: ["upstream_error", 502],
  internalfailure: ["upstream_error", 502],
};
const FAILED_DEPENDENCY = 424;
const UPSTREAM_ERROR = 502;
const MODEL_NOT_FOUND_MESSAGE =
  /model identifier is invalid|end of its life|could not resolve the foundation model/i;
const ACCESS_DENIED_MESSAGE =
  /don't have access to the model|on-demand throughput isn.t supported|security token/i;
const ARN = /arn:aws[\w-]*:[^\s"',]+/g;

/** `{"message":"…"}`. The exception name is in a header, which the transport may copy to `__type`. */
export function readError(status: number, input: unknown): CanonicalError {
  if (!isObject(input))
    return toCanonicalError({
      status,
      message: stringIn(input)?.trim(),
      code: codeOfStatus(status),
    });
  const error = objectIn(input["error"]) ?? input;
  const message = stringIn(error["message"]) ?? stringIn(error["Message"]);
  const type = stringIn(input["__type"]) ?? stringIn(error["code"]) ?? stringIn(error["type"]);
  return readException(type, message, status);
}

/** `type` as in a frame's or reply's header: `throttlingException`, `com.amazon#ThrottlingException:http://…`. */
export function readException(
  type: string | undefined,
  message: string | undefined,
  status?: number,
): CanonicalError {
  const name =
    type === undefined ? undefined : (/(?<![A-Za-z])([A-Za-z]+)(?::.*)?$/.exec(type)?.[1] ?? type);
  const known = name === undefined ? undefined : lookUp(CODE_BY_EXCEPTION, name.toLowerCase());
  return toCanonicalError({
    status: status ?? known?.[1] ?? UPSTREAM_ERROR,
    message: message?.replaceAll(ARN, "the resource"),
    nativeCode: name,
    code: codeOfMessage(message) ?? known?.[0] ?? codeOfStatus(status ?? 0),
  });
}

function codeOfMessage(message: string | undefined): ErrorCode | undefined {
  if (message === undefined) return undefined;
  if (MODEL_NOT_FOUND_MESSAGE.test(message)) return "model_not_found";
  return ACCESS_DENIED_MESSAGE.test(message) ? "provider_not_configured" : undefined;
}

function codeOfStatus(status: number): ErrorCode | undefined {
  return status === FAILED_DEPENDENCY ? "upstream_error" : undefined;
}
