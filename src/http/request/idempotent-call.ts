// What an `Idempotency-Key` belongs to: whose repetition of which request is answered with the first answer.

import { invalid } from "../../base/fault.ts";
import { networksOf } from "./client-ip.ts";
import type { Caller, RouteInput, Route, SessionUser } from "../route.ts";

export interface IdempotentCall {
  readonly scope: string;
  readonly key: string;
  readonly body: string;
  readonly now: number;
}

const KEY_MAX_CHARACTERS = 255;
const PUBLIC_KEY_MIN_CHARACTERS = 16;

type AnyRouteInput = RouteInput<unknown, unknown, unknown, Caller | SessionUser | undefined>;

export function idempotentCallOf(
  path: string,
  route: Route,
  input: AnyRouteInput,
): IdempotentCall | undefined {
  const key = input.headers.get("idempotency-key")?.replace(/^"(.*)"$/, "$1");
  if (key === undefined || route.method !== "POST") return undefined;
  const minLength = input.caller === undefined ? PUBLIC_KEY_MIN_CHARACTERS : 1;
  if (!/^[\x21-\x7e]+$/.test(key) || key.length > KEY_MAX_CHARACTERS || key.length < minLength) {
    throw invalid(
      "idempotency-key",
      `The Idempotency-Key must have ${minLength} to ${KEY_MAX_CHARACTERS} printable characters; use a random one.`,
    );
  }
  return {
    scope: `${scopeOwnerOf(route, input)} ${route.id}`,
    key,
    body: `${path}\n${input.bodyText}`,
    now: input.now,
  };
}

// Without a key the network stands for the caller, so that a stranger elsewhere cannot ask for the answer. What an answer
// reveals once is for the key that asked: another key of the account may be one that was limited on purpose.
function scopeOwnerOf({ revealsSecret }: Route, { caller, clientIp }: AnyRouteInput): string {
  if (caller === undefined || !("accountId" in caller)) return networksOf(clientIp)[0];
  return revealsSecret === true ? `${caller.accountId} ${caller.keyId}` : caller.accountId;
}
