/** @jsxImportSource hono/jsx */
// Signs operators in and out. It uses the same identity provider as customers, but a callback, cookies and sessions of its
// own, and accepts only the configured addresses. Sign-ins and rejections are recorded in the audit log.

import { z } from "zod";
import { recordAuditEntry } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { pageResponse, redirect } from "../../http/pages/page-response.ts";
import { operatorFormRoute, publicPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import type { Route } from "../../http/route.ts";
import type { Identity } from "../../people/people.ts";
import { OPERATOR_CALLBACK_PATH, safeReturnPath, type SignIn } from "../../people/sign-in.ts";
import {
  OPERATOR_SIGN_IN_PATH,
  OPERATOR_SIGN_OUT_PATH,
  type OperatorContext,
  SESSION_EXPIRED,
} from "../page-context.ts";
import { endOperatorSession, OPERATOR_PATH } from "./operator-sessions.ts";

interface SignInPageProps {
  readonly providerName: string | undefined;
  readonly returnTo: string;
  /** A form arrived after its session had ended. */
  readonly isSessionExpired: boolean;
}

function signInPage({ providerName, returnTo, isSessionExpired }: SignInPageProps): PageLayout {
  const begin = `${OPERATOR_SIGN_IN_PATH}/begin?${new URLSearchParams({ return_to: returnTo }).toString()}`;
  return {
    title: "Operator sign-in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Operator sign-in</h1>
        {isSessionExpired ? (
          <p class="error" role="alert">
            Your session ended before the form arrived. Nothing was changed. Sign in and send the
            form again.
          </p>
        ) : null}
        <p class="intro">These pages are for the operators of this gateway.</p>
        <p>
          A customer's session is not valid here. Every sign-in is recorded, and so is every attempt
          by a person who is not an operator.
        </p>
        {providerName === undefined ? (
          <p class="notice warn">
            Sign-in is not configured on this gateway. Set <code>OIDC_ISSUER</code>.
          </p>
        ) : (
          <p>
            <a class="button" href={begin}>
              Sign in as operator
            </a>
          </p>
        )}
      </>
    ),
  };
}

function rejectedPage(message: string): PageLayout {
  return {
    title: "Not signed in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Not signed in</h1>
        <p class="intro">{message}</p>
        <p>
          <a href={OPERATOR_SIGN_IN_PATH}>Sign in with another account</a>
        </p>
      </>
    ),
  };
}

export function signInRoutes(context: OperatorContext): readonly Route[] {
  return [
    signInPageRoute(context),
    beginRoute(context),
    callbackRoute(context),
    signOutRoute(context),
  ];
}

const ReturnQuery = z.object({ return_to: z.string().optional() });

function signInPageRoute({ signIn, baseUrl }: OperatorContext): Route {
  return publicPageRoute({
    tag: "Operator",
    path: OPERATOR_SIGN_IN_PATH,
    id: "showOperatorSignIn",
    summary: "Show the operator sign-in",
    query: ReturnQuery.extend({ form: z.literal(SESSION_EXPIRED).optional() }),
    run: ({ query }) => {
      const returnTo = safeOperatorPath(query.return_to, baseUrl);
      const isSessionExpired = query.form === SESSION_EXPIRED;
      return signInPage({ providerName: signIn?.providerName, returnTo, isSessionExpired });
    },
  });
}

function beginRoute(context: OperatorContext): Route {
  const { signIn, baseUrl } = context;
  return publicPageRoute({
    tag: "Operator",
    path: `${OPERATOR_SIGN_IN_PATH}/begin`,
    id: "beginOperatorSignIn",
    summary: "Start the operator sign-in",
    query: ReturnQuery,
    run: async ({ query, clientIp, now }) => {
      limitAttempts(context, clientIp, now);
      const returnTo = safeOperatorPath(query.return_to, baseUrl);
      // `true` asks the provider to let the person choose an account or sign in again.
      const { location, cookie } = await requireSignIn(signIn).begin(
        returnTo,
        { switchAccount: true },
        now,
      );
      return redirect(location, [cookie]);
    },
  });
}

function callbackRoute(context: OperatorContext): Route {
  const { db, sessions, signIn, baseUrl } = context;
  return publicPageRoute({
    tag: "Operator",
    path: OPERATOR_CALLBACK_PATH,
    id: "finishOperatorSignIn",
    summary: "Finish the operator sign-in",
    run: async ({ request, headers, clientIp, now }) => {
      limitAttempts(context, clientIp, now);
      const clearedCookie = requireSignIn(signIn).clearCookie();
      const network = networksOf(clientIp)[1];
      const { search } = new URL(request.url, baseUrl);
      const outcome = await finishSignIn(requireSignIn(signIn), search, headers.get("cookie"), now);
      if ("fault" in outcome) {
        if (outcome.fault.code === "forbidden")
          await recordRejection(context, { email: null, network, now });
        const { status, publicMessage } = outcome.fault;
        return pageResponse(rejectedPage(publicMessage), { status, cookies: [clearedCookie] });
      }
      const { email } = outcome.identity;
      if (!sessions.isOperator(email)) {
        await recordRejection(context, { email, network, now });
        const message = `${email} is not an operator of this gateway. This attempt was recorded.`;
        return pageResponse(rejectedPage(message), { status: 403, cookies: [clearedCookie] });
      }
      const cookie = await db.write(async (tx) => {
        const browser = headers.get("user-agent") ?? "";
        return (await sessions.begin(tx, { email, network, browser, now })).cookie;
      });
      return redirect(safeOperatorPath(outcome.returnTo, baseUrl), [cookie, clearedCookie]);
    },
  });
}

function signOutRoute(context: OperatorContext): Route {
  return operatorFormRoute({
    path: OPERATOR_SIGN_OUT_PATH,
    id: "signOperatorOut",
    summary: "Sign the operator out",
    run: async ({ clientIp, now, caller: operator }) => {
      const network = networksOf(clientIp)[1];
      await context.db.write((tx) => endOperatorSession(tx, operator, { network, now }));
      return redirect(OPERATOR_SIGN_IN_PATH, [context.sessions.clearCookie()]);
    },
  });
}

type SignInOutcome =
  | { readonly identity: Identity; readonly returnTo: string }
  | { readonly fault: Fault };

/** Server errors are rethrown, so that they are logged. */
async function finishSignIn(
  signIn: SignIn,
  search: string,
  cookies: string | null,
  now: number,
): Promise<SignInOutcome> {
  try {
    return await signIn.finish(search, cookies, now);
  } catch (error) {
    if (error instanceof Fault && error.status < 500) return { fault: error };
    throw error;
  }
}

async function recordRejection(
  { db }: OperatorContext,
  rejection: { readonly email: string | null; readonly network: string; readonly now: number },
): Promise<void> {
  const { email, network, now } = rejection;
  await db.write((tx) =>
    recordAuditEntry(tx, {
      accountId: null,
      actor: { type: "person", id: email ?? "unknown" },
      action: "operator.refused",
      target: null,
      network,
      now,
    }),
  );
}

function limitAttempts({ signInRateLimiter }: OperatorContext, address: string, now: number): void {
  const waitMs = signInRateLimiter.take(networksOf(address)[1], now);
  if (waitMs > 0)
    throw new Fault("rate_limited", "operator sign-in rate limit", {
      message: "Too many sign-in attempts from this network. Wait a minute and try again.",
      retryAfterSeconds: waitMs / 1_000,
    });
}

/** Redirects only to operator pages. */
function safeOperatorPath(path: string | undefined, baseUrl: string): string {
  const returnPath = safeReturnPath(path, baseUrl);
  const isOperatorPage =
    returnPath.startsWith(`${OPERATOR_PATH}/`) || returnPath.startsWith(`${OPERATOR_PATH}?`);
  return isOperatorPage && !returnPath.startsWith(OPERATOR_SIGN_IN_PATH)
    ? returnPath
    : OPERATOR_PATH;
}

function requireSignIn(signIn: SignIn | undefined): SignIn {
  if (signIn !== undefined) return signIn;
  throw new Fault("provider_not_configured", "no identity provider", {
    message: "Sign-in is not configured on this gateway. Set OIDC_ISSUER.",
  });
}
