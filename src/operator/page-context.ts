// The dependencies of the operator pages, and the forms, each of which is applied once.

import { z } from "zod";
import type { ChainClient } from "../billing/x402/chain-client.ts";
import type { NetworkBlocks } from "../controls/blocks.ts";
import type { LiveLimits } from "../controls/limits.ts";
import type { RateLimiter } from "../http/guards/rate-limiter.ts";
import type { Operator } from "../http/route.ts";
import { submitOnce, FORM_TOKEN } from "../idempotency/form-submission.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { PublishedLog } from "../ledger-proofs/published-log.ts";
import type { SignIn } from "../people/sign-in.ts";
import type { Db, Tx } from "../store/db.ts";
import { OPERATOR_PATH, type OperatorSessions } from "./sign-in/operator-sessions.ts";
import type { SystemState } from "./system/system-state.ts";

export interface OperatorContext {
  readonly db: Db;
  readonly sessions: OperatorSessions;
  /** Absent without an identity provider. */
  readonly signIn: SignIn | undefined;
  readonly idempotency: Idempotency;
  /** Looks up x402 payments; absent without an RPC URL. */
  readonly chain: Pick<ChainClient, "findPayment"> | undefined;
  /** Limits sign-in attempts per network. */
  readonly signInRateLimiter: RateLimiter;
  readonly baseUrl: string;
  /** Whether a second operator must approve changes of accounts. */
  readonly approval: "off" | "two_person";
  readonly controls: { readonly networks: NetworkBlocks; readonly limits: LiveLimits };
  readonly system: SystemState;
  readonly publishedLog: PublishedLog;
}

export const OPERATOR_SIGN_IN_PATH = `${OPERATOR_PATH}/signin`;

/** The query value that makes the sign-in page say that the session had ended before a form arrived. */
export const SESSION_EXPIRED = "lost";

export const OPERATOR_SIGN_OUT_PATH = `${OPERATOR_PATH}/signout`;

/** Where a request without a session is redirected to. The sign-in returns to its page. */
export function operatorSignInPath(
  { path, query }: { readonly path: string; readonly query: string },
  isForm: boolean,
): string {
  if (path === OPERATOR_SIGN_OUT_PATH) return OPERATOR_SIGN_IN_PATH;
  const returnTo = query === "" ? path : `${path}?${query}`;
  const form = isForm ? { form: SESSION_EXPIRED } : {};
  return `${OPERATOR_SIGN_IN_PATH}?${new URLSearchParams({ return_to: returnTo, ...form }).toString()}`;
}

/** The fields of a form as they were sent. The page shows them again if they are rejected. */
export const FormFields = z.record(z.string(), z.string());

export const FormToken = z.string().regex(FORM_TOKEN);

export interface OperatorFormSubmission {
  readonly token: string;
  /** The form's fields. Sending the token again with other fields is rejected. */
  readonly payload: unknown;
  readonly now: number;
}

/** Applies a form once. Sending it again returns the first result. */
export async function submitFormOnce(
  { db, idempotency }: OperatorContext,
  operator: Operator,
  { token, payload, now }: OperatorFormSubmission,
  run: (tx: Tx) => Promise<string>,
): Promise<string> {
  const submission = { scope: `operator ${operator.email}`, token, payload, now };
  return await db.write((tx) => submitOnce(tx, idempotency, submission, () => run(tx)));
}
