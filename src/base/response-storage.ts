// Which responses of the Responses API are stored, and for how long: the operator's setting and the account's, of which the
// stricter applies.

/** From the loosest to the strictest. */
export const STORE_MODES = ["by_default", "on_request", "never"] as const;
export type StoreMode = (typeof STORE_MODES)[number];

export interface ResponseStorage {
  /** `by_default` stores unless the request has `store: false`; `on_request` only with `store: true`. */
  readonly mode: StoreMode;
  readonly retentionDays: number;
}

export function strictestStorage(
  operator: ResponseStorage,
  account: ResponseStorage | undefined,
): ResponseStorage {
  if (account === undefined) return operator;
  const isStricter = STORE_MODES.indexOf(account.mode) > STORE_MODES.indexOf(operator.mode);
  return {
    mode: isStricter ? account.mode : operator.mode,
    retentionDays: Math.min(operator.retentionDays, account.retentionDays),
  };
}
