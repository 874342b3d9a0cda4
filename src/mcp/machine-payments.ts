// Machine Payments in MCP's form: credential and receipt are in `_meta`, and a required payment is the JSON-RPC error -32042, or
// the challenges in `_meta` of a result that also has x402's form.

import { decodeJson, encodeJson } from "../base/canonical-json.ts";
import { isObject, type JsonObject, objectIn, stringIn } from "../base/json.ts";
import type { ToolResult } from "./tool.ts";

export const CREDENTIAL_META = "org.paymentauth/credential";
const REQUIRED_META = "org.paymentauth/payment-required";
const RECEIPT_META = "org.paymentauth/receipt";
export const PAYMENT_REQUIRED = -32_042;
const VERIFICATION_FAILED = -32_043;
const INVALID_PARAMS = -32_602;
/** The capabilities of a server with these methods. */
export function paymentCapability(methods: readonly string[]): JsonObject {
  if (methods.length === 0) return {};
  const listed = methods.map((method) => [method, { intents: ["charge"] }] as const);
  return { experimental: { payment: { methods: Object.fromEntries(listed) } } };
}

export interface PaymentError {
  readonly code: number;
  readonly message: string;
  readonly data: JsonObject;
}

/** The error for a result with challenges, or for a credential that cannot be read. */
export function paymentErrorOf({ body, _meta }: ToolResult): PaymentError | undefined {
  const fault = objectIn(body?.["error"]) ?? {};
  const message = stringIn(fault["message"]) ?? "Payment required.";
  if (fault["param"] === "authorization" && fault["code"] === "invalid_request")
    return { code: INVALID_PARAMS, message, data: { detail: message, ...body } };
  const required = objectIn(_meta?.[REQUIRED_META]);
  if (required === undefined) return undefined;
  const failure = stringIn(fault["payment_error"]);
  const isFailed = failure !== undefined;
  const problem = {
    type: `https://paymentauth.org/problems/${isFailed ? "verification-failed" : "payment-required"}`,
    title: isFailed ? "Payment Verification Failed" : "Payment Required",
    status: 402,
    detail: message,
  };
  const failed = isFailed ? { failure: { detail: failure } } : {};
  const data = { httpStatus: 402, ...required, problem, ...failed, ...body };
  return { code: isFailed ? VERIFICATION_FAILED : PAYMENT_REQUIRED, message, data };
}

/** Clients of plain JSON-RPC put `_meta` beside `params`. */
export function withNestedMeta(message: JsonObject): JsonObject | undefined {
  const credential = objectIn(message["_meta"])?.[CREDENTIAL_META];
  if (credential === undefined) return undefined;
  const { _meta: _root, ...rest } = message;
  const params = objectIn(message["params"]) ?? {};
  const meta = { ...objectIn(params["_meta"]), [CREDENTIAL_META]: credential };
  return { ...rest, params: { ...params, _meta: meta } };
}

/** The `_meta` of a tool result, from the headers of the response; undefined if no payment is concerned. */
export function paymentMeta(headers: Headers): JsonObject | undefined {
  const encoded = headers.get("payment-receipt");
  const receipt = encoded === null ? undefined : objectIn(decodeJson(encoded));
  if (receipt !== undefined) return { [RECEIPT_META]: receipt };
  const challenges = (headers.get("www-authenticate") ?? "")
    .split(/(?:^|, )Payment (?=id=)/)
    .slice(1)
    .map(parseChallenge);
  return challenges.length === 0 ? undefined : { [REQUIRED_META]: { challenges } };
}

function parseChallenge(parameters: string): JsonObject {
  const entries = [...parameters.matchAll(/\b(\w+)="([^"]*)"/g)].map(
    ([, name = "", value = ""]) => [name, name === "request" ? decodeJson(value) : value] as const,
  );
  return Object.fromEntries(entries);
}

/** The result with the id of the challenge in its receipt. */
export function withChallengeId(result: ToolResult, credential: unknown): ToolResult {
  const receipt = objectIn(result._meta?.[RECEIPT_META]);
  const challengeId = objectIn(objectIn(credential)?.["challenge"])?.["id"];
  if (receipt === undefined || challengeId === undefined) return result;
  return { ...result, _meta: { ...result._meta, [RECEIPT_META]: { ...receipt, challengeId } } };
}

/** The header `Authorization` for a credential in `_meta`. One that is no object is refused by the HTTP API. */
export function credentialHeader(credential: unknown): string | undefined {
  if (credential === undefined) return undefined;
  if (!isObject(credential) || !isObject(credential["challenge"])) return "Payment invalid";
  const { challenge } = credential;
  const request = encodeJson(challenge["request"] ?? {});
  return `Payment ${encodeJson({ ...credential, challenge: { ...challenge, request } })}`;
}
