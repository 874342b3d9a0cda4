// Scope and key of a request with an `Idempotency-Key`.

import { invalid } from "../../base/fault.ts";
import type { AnyRouteInput, Caller, Route } from "../route.ts";
import { canonicalIp } from "./client-ip.ts";

export interface IdempotentCall {
  readonly scope: string;
  readonly key: string;
  readonly body: string;
  readonly now: number;
}

const KEY_MAX_CHARACTERS = 255;
const PUBLIC_KEY_MIN_CHARACTERS = 16;

export function idempotentCallOf(
  path: string,
  route: Route,
  input: AnyRouteInput,
): IdempotentCall | undefined {
  if (route.method !== "POST") return undefined;
  const minLength = input.caller === undefined ? PUBLIC_KEY_MIN_CHARACTERS : 1;
  const key = readIdempotencyKey(input.headers, minLength);
  if (key === undefined) return undefined;
  return {
    scope: `${scopeOwnerOf(input)} ${route.id}`,
    key,
    body: `${path}\n${input.bodyText}`,
    now: input.now,
  };
}

/** Undefined for a request without a key. */
export function readIdempotencyKey(headers: Headers, minLength = 1): string | undefined {
  const key = headers.get("idempotency-key")?.replace(/^"(.*)"$/, "$1");
  if (key === undefined) return undefined;
  if (!/^[\x21-\x7e]+$/.test(key) || key.length > KEY_MAX_CHARACTERS || key.length < minLength) {
    throw invalid(
      "idempotency-key",
      `\`Idempotency-Key\` must have ${minLength} to ${KEY_MAX_CHARACTERS} printable ASCII characters. Use a random one.`,
    );
  }
  return key;
}

// Requests without an API key are scoped by the client's whole address: the hosts of one /64 may belong to different
// customers, and the response may contain a raw key.
function scopeOwnerOf({ caller, clientIp }: AnyRouteInput): string {
  if (caller === undefined || !("accountId" in caller)) return canonicalIp(clientIp);
  return scopeOfKey(caller);
}

/** Another key of the account may have fewer permissions, so it gets no response of this one. */
export function scopeOfKey({ accountId, keyId }: Pick<Caller, "accountId" | "keyId">): string {
  return `${accountId} ${keyId}`;
}
