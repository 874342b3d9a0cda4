// Finds the session of a page's visitor, and sends visitors without one to the sign-in.

import {
  redirectToSignIn,
  requireSameOriginForm,
  sessionEnded,
  type SentForm,
} from "../guards/session-guard.ts";
import { redirect } from "../pages/page-response.ts";
import { sessionEndedPage } from "../pages/session-ended-page.tsx";
import type { RequestContext, Step } from "../request-context.ts";
import { decodeForm } from "../request/body-decoder.ts";
import type { Operator, SessionUser } from "../route.ts";

export interface SessionDeps {
  /** Finds the session of the request's cookies; absent if sign-in is disabled. */
  readonly find?: (cookies: string | null, now: number) => Promise<SessionUser | undefined>;
  /** Returns the cookie that keeps a form that was sent after the session ended; undefined if it is too large. */
  readonly keepForm?: (form: SentForm, now: number) => string | undefined;
  /** Absent if no operator is configured. */
  readonly operators?: OperatorSessionDeps | undefined;
}

export interface OperatorSessionDeps {
  readonly find: (cookies: string | null, now: number) => Promise<Operator | undefined>;
  /** Where a request without a session is redirected to. */
  readonly signInPath: (request: Pick<RequestContext, "path" | "query">, isForm: boolean) => string;
}

export function findSession({ find }: SessionDeps): Step {
  return async (context) => {
    context.caller = {
      user: await find?.(context.request.headers.get("cookie"), context.now),
    };
    return undefined;
  };
}

/** Redirects to the sign-in, which returns to the page. */
export const requireSession: Step = ({ caller: { user }, path, query }) =>
  user === undefined ? redirectToSignIn(path, query) : undefined;

/**
 * Keeps a form that was sent without a session, so that the person does not have to fill it in again. The `form-action`
 * policy of our pages blocks redirecting a form to the identity provider.
 */
export function keepFormWithoutSession({ keepForm }: SessionDeps, baseUrl: string): Step {
  return ({ caller: { user }, request, path, now, body }) => {
    if (user !== undefined) return undefined;
    if (keepForm === undefined) throw sessionEnded();
    const { headers } = request;
    const form = decodeForm(request, body.text);
    const fields = requireSameOriginForm(form, headers, undefined, baseUrl);
    return sessionEndedPage(path, keepForm({ path, fields }, now));
  };
}

export function findOperator({ operators }: SessionDeps): Step {
  return async (context) => {
    context.caller = {
      user: await operators?.find(context.request.headers.get("cookie"), context.now),
    };
    return undefined;
  };
}

export function requireOperator({ operators }: SessionDeps): Step {
  return (context, { method }) => {
    if (context.caller.user !== undefined) return undefined;
    if (operators === undefined) throw new Error("an operator page without operators");
    return redirect(operators.signInPath(context, method !== "GET"));
  };
}
