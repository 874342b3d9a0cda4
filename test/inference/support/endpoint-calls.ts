// Calls of endpoints without a conversation, whose bodies can be forms with files.

import type { Gateway, TestAccount } from "../../support/gateway.ts";
import { type Json, readWallet } from "./harness.ts";

export interface Sender extends TestAccount {
  readonly signal?: AbortSignal;
}

export function post(
  gateway: Gateway,
  { headers, signal }: Sender,
  path: string,
  body: Json | FormData,
): Promise<Response> {
  const { "content-type": _, ...rest } = headers as Record<string, string>;
  const init =
    body instanceof FormData
      ? { method: "POST", headers: rest, body }
      : { method: "POST", headers, body: JSON.stringify(body) };
  return fetch(gateway.url + path, signal === undefined ? init : { ...init, signal });
}

export async function balance(gateway: Gateway, account: TestAccount): Promise<bigint> {
  const { promo, paid } = await readWallet(gateway.server.db, account.id);
  return promo + paid;
}
