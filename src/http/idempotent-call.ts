// What an `Idempotency-Key` belongs to: whose repetition of which request is answered with the first answer.

import { invalid } from "../base/fault.ts";
import { networksOf } from "./address.ts";
import type { Caller, Input, Route, Visitor } from "./route.ts";

export interface IdempotentCall {
  readonly scope: string;
  readonly key: string;
  readonly body: string;
  readonly now: number;
}

const KEY_MAX = 255;
const OPEN_KEY_MIN = 16;

type AnyInput = Input<unknown, unknown, unknown, Caller | Visitor | undefined>;

export function idempotentCallOf(
  path: string,
  route: Route,
  input: AnyInput,
): IdempotentCall | undefined {
  const key = input.headers.get("idempotency-key")?.replace(/^"(.*)"$/, "$1");
  if (key === undefined || route.method !== "POST") return undefined;
  const least = input.caller === undefined ? OPEN_KEY_MIN : 1;
  if (!/^[\x21-\x7e]+$/.test(key) || key.length > KEY_MAX || key.length < least) {
    throw invalid(
      "idempotency-key",
      `The Idempotency-Key must have ${least} to ${KEY_MAX} printable characters; use a random one.`,
    );
  }
  return {
    scope: `${askerOf(route, input)} ${route.id}`,
    key,
    body: `${path}\n${input.bodyText}`,
    now: input.now,
  };
}

// Without a key the network stands for the caller, so that a stranger elsewhere cannot ask for the answer. What an answer
// reveals once is for the key that asked: another key of the account may be one that was limited on purpose.
function askerOf({ revealsSecret }: Route, { caller, address }: AnyInput): string {
  if (caller === undefined || !("accountId" in caller)) return networksOf(address)[0];
  return revealsSecret === true ? `${caller.accountId} ${caller.keyId}` : caller.accountId;
}
