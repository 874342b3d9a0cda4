// The settings of a key that its creator chooses, and their rules.

import { invalid } from "../base/fault.ts";
import { MAX_NANO, type Nano } from "../base/money/money.ts";
import type { LimitWindow } from "../base/money/spend-window.ts";
import { isSafeText, UNSAFE_TEXT_MESSAGE } from "../base/text/safe-text.ts";
import { type KeyPolicy, POLICY_FIELDS } from "../http/key-policy.ts";
import type { ListableScope } from "../http/scopes.ts";
import type { CredentialSettings } from "./key-credential.ts";

export const NAME_MAX = 100;

/** The fields of a policy to set; null removes one. */
export type PolicyChange = {
  readonly [F in keyof KeyPolicy]?: KeyPolicy[F] | null | undefined;
};

export interface KeySettings {
  readonly name?: string | null | undefined;
  readonly expiresAt?: number | null | undefined;
  readonly limit?: Nano | null | undefined;
  readonly limitWindow?: LimitWindow | null | undefined;
  readonly scopes?: readonly ListableScope[] | null | undefined;
  readonly policy?: PolicyChange | undefined;
  /** The percentages of the limit at which an event fires. */
  readonly alertPercents?: readonly number[] | null | undefined;
  /** The app that gets the key by a person's consent. Set at its creation only. */
  readonly app?: string | undefined;
  /** A key that its holder made from another without a request. Set at its creation only. */
  readonly derived?: { readonly raw: string; readonly ancestors: string } | undefined;
  /** What authenticates the key instead of a secret. Set at its creation only. */
  readonly credential?: CredentialSettings | undefined;
  /** null ends the overlap of a rotation. */
  readonly formerSecret?: null | undefined;
}

export function mergePolicy(policy: KeyPolicy, change: PolicyChange = {}): KeyPolicy {
  const given = Object.entries({ ...policy, ...withoutUndefined(change) });
  return Object.fromEntries(given.filter(([, value]) => value !== null));
}

/** A field of a policy that the change would loosen or replace; adding a restriction is allowed. */
export function replacedField(
  policy: KeyPolicy,
  change: PolicyChange = {},
): keyof KeyPolicy | undefined {
  return POLICY_FIELDS.find(
    (field) =>
      policy[field] !== undefined &&
      change[field] !== undefined &&
      JSON.stringify(change[field]) !== JSON.stringify(policy[field]),
  );
}

function withoutUndefined(change: PolicyChange): PolicyChange {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

export function validateSettings(settings: KeySettings, now: number): void {
  const {
    name,
    expiresAt = null,
    limit = null,
    limitWindow = null,
    alertPercents = null,
  } = settings;
  if (typeof name === "string" && name.length > NAME_MAX)
    throw invalid("name", `\`name\` must have at most ${NAME_MAX} characters.`);
  if (typeof name === "string" && !isSafeText(name))
    throw invalid("name", `\`name\` ${UNSAFE_TEXT_MESSAGE}.`);
  if (expiresAt !== null && expiresAt <= now)
    throw invalid("expires_at", "`expires_at` must be in the future.");
  validateLimit({ limit, limitWindow, alertPercents });
}

interface LimitSettings {
  readonly limit: Nano | null;
  readonly limitWindow: LimitWindow | null;
  readonly alertPercents: readonly number[] | null;
}

function validateLimit({ limit, limitWindow, alertPercents }: LimitSettings): void {
  if (limit !== null && (limit < 0n || limit > MAX_NANO))
    throw invalid("limit_usd", "`limit_usd` must be from 0 to 9,000,000.");
  if (limitWindow !== null && limit === null)
    throw invalid("limit_window", "`limit_window` requires `limit_usd`.");
  if (alertPercents !== null && limit === null)
    throw invalid("alert_percents", "`alert_percents` requires `limit_usd`.");
}
