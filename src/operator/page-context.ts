// What the operator's pages are built of, and their guards: nobody but a signed-in operator sees one, and a form is
// believed only from this very site, with the session's own token, once.

import { z } from "zod";
import { decodeForm } from "../http/request/body-decoder.ts";
import { redirect } from "../http/pages/page-response.ts";
import type { RateLimiter } from "../http/guards/rate-limiter.ts";
import { type RouteInput, publicRoute, type Route } from "../http/route.ts";
import { splitTarget } from "../http/request/request-target.ts";
import { requireSameOriginForm } from "../http/guards/session-guard.ts";
import { submitOnce, FORM_TOKEN } from "../idempotency/form-submission.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { OnBalanceThresholds } from "../ledger/balance-thresholds.ts";
import type { ChainClient } from "../billing/x402/chain-client.ts";
import type { SignIn } from "../people/sign-in.ts";
import type { Db, Tx } from "../store/db.ts";
import {
  type Operator,
  OPERATOR_PATH,
  type OperatorSessions,
} from "./sign-in/operator-sessions.ts";

export interface OperatorContext {
  readonly db: Db;
  readonly sessions: OperatorSessions;
  /** Absent where nobody vouches for people. */
  readonly signIn: SignIn | undefined;
  readonly idempotency: Idempotency;
  /** Told of balances that an adjustment took below a mark. */
  readonly onBalanceThresholds: OnBalanceThresholds;
  /** Asked after payments by x402 that an operator ends; absent where no node is set. */
  readonly chain: ChainClient | undefined;
  /** How often one network may begin to sign in. */
  readonly signInRateLimiter: RateLimiter;
  readonly baseUrl: string;
}

export const OPERATOR_PAGE_DEFAULTS = {
  tag: "Operator",
  dialect: "page",
  hidden: true,
  faults: [],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;

export const OPERATOR_SIGN_IN_PATH = `${OPERATOR_PATH}/signin`;

/** Says at the sign-in that a form came after its session had ended, and did nothing. */
export const SESSION_EXPIRED = "lost";

interface PageSpec<P, Q> {
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly run: (
    input: RouteInput<P, Q, undefined, undefined>,
    operator: Operator,
  ) => Promise<Response> | Response;
}

interface FormSpec<P> extends Omit<PageSpec<P, undefined>, "run" | "query"> {
  /** A session that is over already is all that this form asks for. */
  readonly endsSession?: boolean;
  readonly run: (
    input: RouteInput<P, undefined, undefined, undefined>,
    operator: Operator,
    fields: Readonly<Record<string, string>>,
  ) => Promise<Response> | Response;
}

export function pageRoute<P = undefined, Q = undefined>(
  { sessions }: OperatorContext,
  { run, ...spec }: PageSpec<P, Q>,
): Route {
  return publicRoute<P, Q>({
    ...OPERATOR_PAGE_DEFAULTS,
    ...spec,
    method: "GET",
    run: async (input) => {
      const operator = await sessions.find(input.headers.get("cookie"), input.now);
      return operator === undefined
        ? redirectToSignIn(input.request.url)
        : await run(input, operator);
    },
  });
}

export function formRoute<P = undefined>(
  { sessions, baseUrl }: OperatorContext,
  { run, endsSession = false, ...spec }: FormSpec<P>,
): Route {
  return publicRoute<P>({
    ...OPERATOR_PAGE_DEFAULTS,
    ...spec,
    method: "POST",
    run: async (input) => {
      const { headers, now, request, bodyText } = input;
      const operator = await sessions.find(headers.get("cookie"), now);
      if (operator === undefined && endsSession) return redirect(OPERATOR_SIGN_IN_PATH);
      if (operator === undefined) return redirectToSignIn(request.url, { form: SESSION_EXPIRED });
      const fields = requireSameOriginForm(
        decodeForm(request, bodyText),
        headers,
        operator,
        baseUrl,
      );
      return await run(input, operator, fields);
    },
  });
}

export const FormToken = z
  .string()
  .regex(FORM_TOKEN, "is missing: load the page again and use its form");

// A form that is sent empty sends its fields as nothing.
export const emptyAsUndefined = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === "" ? undefined : value), schema.optional());

export interface OperatorFormSubmission {
  readonly token: string;
  /** All that it asks for: the same form with another wish is refused. */
  readonly payload: unknown;
  readonly now: number;
}

/** Does what a form asks for once. A repetition is answered as the first time. */
export async function submitFormOnce(
  { db, idempotency }: OperatorContext,
  operator: Operator,
  { token, payload, now }: OperatorFormSubmission,
  run: (tx: Tx) => Promise<string>,
): Promise<string> {
  const submission = { scope: `operator ${operator.email}`, token, payload, now };
  return await db.write((tx) => submitOnce(tx, idempotency, submission, () => run(tx)));
}

function redirectToSignIn(url: string, more: Readonly<Record<string, string>> = {}): Response {
  const [path, query] = splitTarget(url);
  const returnTo = query === "" ? path : `${path}?${query}`;
  const back = new URLSearchParams({ return_to: returnTo, ...more });
  return redirect(`${OPERATOR_SIGN_IN_PATH}?${back.toString()}`);
}
