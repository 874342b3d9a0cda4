// The operator's pages, where the settings name an operator: their own sign-in, sessions and limits.

import type { Config } from "./config.ts";
import type { Secret } from "./base/secret.ts";
import { tellOfFalls } from "./cashier.ts";
import { createRateGuard } from "./http/rate.ts";
import type { Idempotency } from "./idempotency/idempotency.ts";
import type { Office } from "./operator/office.ts";
import { createOperatorSessions, OPERATOR_PATH } from "./operator/sessions.ts";
import { createSignIn, type IdentitySettings, OPERATOR_CALLBACK_PATH } from "./people/sign-in.ts";
import type { Db } from "./store/db.ts";
import { chainOf } from "./x402-counter.ts";

const DOOR = {
  callbackPath: OPERATOR_CALLBACK_PATH,
  cookie: "postern_operator_signin",
  path: OPERATOR_PATH,
} as const;
/** Each way in takes two. */
const ATTEMPTS = { perMinute: 10, burst: 20 } as const;

export interface OfficeGround {
  readonly db: Db;
  readonly master: Secret;
  readonly idempotency: Idempotency;
  /** Who vouches for humans; undefined where nobody does. */
  readonly identity: IdentitySettings | undefined;
}

export function openOffice(config: Config, ground: OfficeGround): Office | undefined {
  const { operators, baseUrl } = config;
  const { db, master, idempotency, identity } = ground;
  if (operators.length === 0) return undefined;
  return {
    db,
    idempotency,
    baseUrl,
    tellFalls: tellOfFalls,
    chain: chainOf(config),
    sessions: createOperatorSessions({ db, master, baseUrl, operators }),
    signIn:
      identity === undefined
        ? undefined
        : createSignIn({ settings: identity, baseUrl, master, door: DOOR }),
    attempts: createRateGuard(ATTEMPTS),
  };
}
