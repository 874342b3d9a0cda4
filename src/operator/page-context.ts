// The dependencies and guards of the operator pages: every page needs an operator session, and every form must come from
// this site, with the session's CSRF token, and is applied once.

import { z } from "zod";
import type { ChainClient } from "../billing/x402/chain-client.ts";
import type { RateLimiter } from "../http/guards/rate-limiter.ts";
import { requireSameOriginForm } from "../http/guards/session-guard.ts";
import { redirect } from "../http/pages/page-response.ts";
import { decodeForm } from "../http/request/body-decoder.ts";
import { splitTarget } from "../http/request/request-target.ts";
import { type RouteInput, publicRoute, type Route } from "../http/route.ts";
import { submitOnce, FORM_TOKEN } from "../idempotency/form-submission.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { SignIn } from "../people/sign-in.ts";
import type { Db, Tx } from "../store/db.ts";
import {
  type Operator,
  OPERATOR_PATH,
  type OperatorSessions,
} from "./sign-in/operator-sessions.ts";
import type { SystemState } from "./system/system-state.ts";

export interface OperatorContext {
  readonly db: Db;
  readonly sessions: OperatorSessions;
  /** Absent without an identity provider. */
  readonly signIn: SignIn | undefined;
  readonly idempotency: Idempotency;
  /** Looks up x402 payments; absent without an RPC URL. */
  readonly chain: ChainClient | undefined;
  /** Limits sign-in attempts per network. */
  readonly signInRateLimiter: RateLimiter;
  readonly baseUrl: string;
  readonly system: SystemState;
}

export const OPERATOR_PAGE_DEFAULTS = {
  tag: "Operator",
  dialect: "page",
  hidden: true,
  faults: [],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;

export const OPERATOR_SIGN_IN_PATH = `${OPERATOR_PATH}/signin`;

/** The query value that makes the sign-in page say that the session had ended before a form arrived. */
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
  /** For the sign-out form: succeeds without a session. */
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

export const FormToken = z.string().regex(FORM_TOKEN);

/** Browsers send an empty input as an empty string. */
export const emptyAsUndefined = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === "" ? undefined : value), schema.optional());

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

function redirectToSignIn(url: string, more: Readonly<Record<string, string>> = {}): Response {
  const [path, query] = splitTarget(url);
  const returnTo = query === "" ? path : `${path}?${query}`;
  const back = new URLSearchParams({ return_to: returnTo, ...more });
  return redirect(`${OPERATOR_SIGN_IN_PATH}?${back.toString()}`);
}
