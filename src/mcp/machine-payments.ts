// Machine Payments in MCP's form: challenges, credential and receipt are in `_meta`, beside x402's form of the same result.

import { encodeJson } from "../base/canonical-json.ts";
import { isObject, type JsonObject, parseJson } from "../base/json.ts";

export const CREDENTIAL_META = "org.paymentauth/credential";
const REQUIRED_META = "org.paymentauth/payment-required";
const RECEIPT_META = "org.paymentauth/receipt";

/** The `_meta` of a tool result, from the headers of the response; undefined if no payment is concerned. */
export function paymentMeta(headers: Headers): JsonObject | undefined {
  const receipt = headers.get("payment-receipt");
  if (receipt !== null) return { [RECEIPT_META]: decode(receipt) };
  const challenges = (headers.get("www-authenticate") ?? "")
    .split(/(?:^|, )Payment (?=id=)/)
    .slice(1)
    .map(parseChallenge);
  return challenges.length === 0 ? undefined : { [REQUIRED_META]: { challenges } };
}

function parseChallenge(parameters: string): JsonObject {
  const entries = [...parameters.matchAll(/(\w+)="([^"]*)"/g)].map(
    ([, name = "", value = ""]) => [name, name === "request" ? decode(value) : value] as const,
  );
  return Object.fromEntries(entries);
}

/** The header `Authorization` for a credential in `_meta`. */
export function credentialHeader(credential: unknown): string | undefined {
  if (!isObject(credential) || !isObject(credential["challenge"])) return undefined;
  const { challenge } = credential;
  const request = encodeJson(challenge["request"] ?? {});
  return `Payment ${encodeJson({ ...credential, challenge: { ...challenge, request } })}`;
}

function decode(encoded: string): unknown {
  return parseJson(Buffer.from(encoded, "base64url").toString("utf8"));
}
