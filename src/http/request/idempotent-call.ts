// Scope and key of a request with an `Idempotency-Key`.

import { invalid } from "../../base/fault.ts";
import type { AnyRouteInput, Caller, Route } from "../route.ts";
import { canonicalIp } from "./client-ip.ts";

export interface IdempotentCall {
  /** Absent if the caller has none. */
  readonly accountId?: string;
  readonly scope: string;
  readonly key: string;
  readonly body: string;
  readonly now: number;
  /** The response has a secret, so it is repeated for minutes only. */
  readonly revealsSecret?: boolean;
  /** How long the response is kept, and how old it may be; a day by default. */
  readonly maxAgeMs?: number;
}

const KEY_MAX_CHARACTERS = 255;
/** As many bits as a random UUID has hexadecimal digits for, and 16 random bytes have. */
const SECRET_KEY_MIN_BITS = 128;
const HEX_BITS = 4;
const LOWER_CASE_BITS = Math.log2(36);
const BASE64_BITS = 6;
/** Fewer different characters than in any random text of that length. */
const DIFFERENT_CHARACTERS_MIN = 8;

export function idempotentCallOf(
  path: string,
  route: Route,
  input: AnyRouteInput,
): IdempotentCall | undefined {
  if (route.method !== "POST") return undefined;
  const key = readIdempotencyKey(input.headers);
  if (key === undefined) return undefined;
  const { revealsSecret = false } = route;
  if (revealsSecret && bitsOf(key) < SECRET_KEY_MIN_BITS)
    throw invalid(
      "idempotency-key",
      "The response to this request has a secret, which a repetition shows again. Its `Idempotency-Key` must be a random text of at least 128 bits, such as 32 hexadecimal digits or a UUID.",
    );
  return {
    revealsSecret,
    ...scopeOf(input, route.id),
    key,
    body: `${path}\n${input.bodyText}`,
    now: input.now,
  };
}

/** The most bits that a text of this length and these characters can have. */
function bitsOf(key: string): number {
  if (new Set(key.toLowerCase()).size < DIFFERENT_CHARACTERS_MIN) return 0;
  // The hyphens of a UUID are not random.
  if (/^[0-9a-f-]+$/i.test(key)) return key.replaceAll("-", "").length * HEX_BITS;
  return key.length * (/^[0-9a-z]+$/.test(key) ? LOWER_CASE_BITS : BASE64_BITS);
}

/** Undefined for a request without a key. */
export function readIdempotencyKey(headers: Headers): string | undefined {
  const key = headers.get("idempotency-key")?.replace(/^"(.*)"$/, "$1");
  if (key === undefined) return undefined;
  if (!/^[\x21-\x7e]+$/.test(key) || key.length > KEY_MAX_CHARACTERS) {
    throw invalid(
      "idempotency-key",
      `\`Idempotency-Key\` must have 1 to ${KEY_MAX_CHARACTERS} printable ASCII characters. Use a random one.`,
    );
  }
  return key;
}

// Requests without an API key are scoped by the client's whole address: the hosts of one /64 may belong to different
// customers, and the response may contain a raw key.
function scopeOf({ caller, clientIp }: AnyRouteInput, name: string): IdempotencyScope {
  if (caller === undefined || !("accountId" in caller))
    return { scope: `${canonicalIp(clientIp)} ${name}` };
  return scopeOfKey(caller, name);
}

type IdempotencyScope = Pick<IdempotentCall, "accountId" | "scope">;

/** A scope for each key: another key of the account may have fewer permissions, so it gets no response of this one. */
export function scopeOfKey(
  { accountId, keyId }: Pick<Caller, "accountId" | "keyId">,
  name: string,
): IdempotencyScope {
  return { accountId, scope: `${keyId} ${name}` };
}
