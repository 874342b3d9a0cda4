// The operator's pages, where the settings name an operator: their own sign-in, sessions and limits.

import type { Config } from "../config/config.ts";
import type { Secret } from "../base/secret.ts";
import { handleBalanceThresholds } from "../billing/create-billing.ts";
import { createRateLimiter } from "../http/guards/rate-limiter.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { OperatorContext } from "./page-context.ts";
import { createOperatorSessions, OPERATOR_PATH } from "./sign-in/operator-sessions.ts";
import { createSignIn, type IdentitySettings, OPERATOR_CALLBACK_PATH } from "../people/sign-in.ts";
import type { Db } from "../store/db.ts";
import { chainClientFromConfig } from "../billing/x402/create-x402.ts";

const SIGN_IN_OPTIONS = {
  callbackPath: OPERATOR_CALLBACK_PATH,
  cookie: "postern_operator_signin",
  path: OPERATOR_PATH,
} as const;
/** Each way in takes two. */
const SIGN_IN_RATE_LIMIT = { perMinute: 10, burst: 20 } as const;

export interface OperatorDeps {
  readonly db: Db;
  readonly master: Secret;
  readonly idempotency: Idempotency;
  /** Who vouches for humans; undefined where nobody does. */
  readonly identity: IdentitySettings | undefined;
}

export function createOperatorContext(
  config: Config,
  deps: OperatorDeps,
): OperatorContext | undefined {
  const { operators, baseUrl } = config;
  const { db, master, idempotency, identity } = deps;
  if (operators.length === 0) return undefined;
  return {
    db,
    idempotency,
    baseUrl,
    onBalanceThresholds: handleBalanceThresholds,
    chain: chainClientFromConfig(config),
    sessions: createOperatorSessions({ db, master, baseUrl, operators }),
    signIn:
      identity === undefined
        ? undefined
        : createSignIn({ settings: identity, baseUrl, master, endpoint: SIGN_IN_OPTIONS }),
    signInRateLimiter: createRateLimiter(SIGN_IN_RATE_LIMIT),
  };
}
