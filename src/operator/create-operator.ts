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

export interface OperatorOptions extends Omit<
  OperatorContext,
  "sessions" | "signIn" | "signInRateLimiter"
> {
  readonly master: MasterSecret;
  /** Verified email addresses of the operators. */
  readonly operators: readonly string[];
  /** The identity provider; undefined where sign-in is off. */
  readonly identity: IdentitySettings | undefined;
}

/** Undefined where the settings name no operator: the pages are then off. */
export function createOperatorContext({
  master,
  operators,
  identity,
  ...context
}: OperatorOptions): OperatorContext | undefined {
  if (operators.length === 0) return undefined;
  const { db, baseUrl } = context;
  return {
    ...context,
    sessions: createOperatorSessions({ db, master, baseUrl, operators }),
    signIn:
      identity === undefined
        ? undefined
        : createSignIn({ settings: identity, baseUrl, master, endpoint: SIGN_IN_ENDPOINT }),
    signInRateLimiter: createRateLimiter(SIGN_IN_RATE_LIMIT),
  };
}
