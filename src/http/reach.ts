// Which stored objects of an account a key reaches, in lists and by their ids.

import type { Caller } from "./route.ts";

export interface Reach {
  readonly accountId: string;
  /** Only what this key has made; undefined for all of the account. */
  readonly keyId: string | undefined;
}

/** A key with a limit, a policy or a list of scopes never has `keys:manage`: it reaches only what it has made. */
export function reachOf({
  accountId,
  keyId,
  granted,
}: Pick<Caller, "accountId" | "keyId" | "granted">): Reach {
  return { accountId, keyId: granted?.has("keys:manage") === true ? undefined : keyId };
}

/** For what acts for the whole account, such as the console. */
export function wholeAccount(accountId: string): Reach {
  return { accountId, keyId: undefined };
}

/** A condition on `account_id` and `key_id`, and its values. */
export function withinReach(
  { accountId, keyId }: Reach,
  table = "",
): { readonly sql: string; readonly values: readonly string[] } {
  const ofAccount = `${table}account_id = ?`;
  return keyId === undefined
    ? { sql: ofAccount, values: [accountId] }
    : { sql: `${ofAccount} and ${table}key_id = ?`, values: [accountId, keyId] };
}

/** For the 404 of an object that a key does not reach, which is that of one that does not exist. */
export const REACH_TEXT = "A key with a restriction reaches only what it has made.";
