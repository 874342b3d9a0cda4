// Creates what the operator's pages need: their own sign-in, sessions and rate limit.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import { createRateLimiter } from "../http/guards/rate-limiter.ts";
import { createSignIn, type IdentitySettings, OPERATOR_CALLBACK_PATH } from "../people/sign-in.ts";
import type { OperatorContext } from "./page-context.ts";
import { createOperatorSessions, OPERATOR_PATH } from "./sign-in/operator-sessions.ts";

const SIGN_IN_ENDPOINT = {
  callbackPath: OPERATOR_CALLBACK_PATH,
  cookie: "postern_operator_signin",
  path: OPERATOR_PATH,
} as const;
/** One sign-in takes two requests. */
const SIGN_IN_RATE_LIMIT = { perMinute: 10, burst: 20 } as const;

export interface OperatorOptions extends Pick<
  OperatorContext,
  "db" | "idempotency" | "baseUrl" | "approval" | "controls" | "chain" | "system" | "publishedLog"
> {
  readonly db: OperatorContext["db"];
  readonly master: MasterSecret;
  /** Verified email addresses of the operators. */
  readonly operators: readonly string[];
  /** The identity provider; undefined where sign-in is off. */
  readonly identity: IdentitySettings | undefined;
}

/** Undefined where the settings name no operator: the pages are then off. */
export function createOperatorContext(options: OperatorOptions): OperatorContext | undefined {
  const { db, master, identity, baseUrl, operators } = options;
  if (operators.length === 0) return undefined;
  return {
    db,
    idempotency: options.idempotency,
    baseUrl,
    approval: options.approval,
    controls: options.controls,
    chain: options.chain,
    system: options.system,
    publishedLog: options.publishedLog,
    sessions: createOperatorSessions({ db, master, baseUrl, operators }),
    signIn:
      identity === undefined
        ? undefined
        : createSignIn({ settings: identity, baseUrl, master, endpoint: SIGN_IN_ENDPOINT }),
    signInRateLimiter: createRateLimiter(SIGN_IN_RATE_LIMIT),
  };
}
