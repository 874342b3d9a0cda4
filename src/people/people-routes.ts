/** @jsxImportSource hono/jsx */
// The pages to sign in, sign out and manage sessions.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { emailError } from "../base/text/email.ts";
import { requireAllowedEmail } from "../controls/blocks.ts";
import { KEPT_FORM_PATH, SIGN_IN_PATH } from "../http/guards/session-guard.ts";
import { pageResponse, redirect } from "../http/pages/page-response.ts";
import {
  openPageRoute,
  pageRoute,
  publicPageRoute,
  openFormRoute,
  formRoute,
} from "../http/pages/page-routes.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { toFault } from "../http/response.ts";
import type { Route } from "../http/route.ts";
import type { Db, Tx } from "../store/db.ts";
import type { KeptForms } from "./kept-form.ts";
import { recordPerson } from "./people.ts";
import { endOtherSessions, endSession, listSessions, type Sessions } from "./sessions.ts";
import {
  continuePage,
  keptFormPage,
  ownSignInPath,
  sessionsPage,
  signedOutPage,
  signInFailedPage,
  signInPage,
} from "./sign-in-pages.tsx";
import { CALLBACK_PATH, safeReturnPath, type SignIn } from "./sign-in.ts";

const SESSIONS_PATH = "/sessions";

export interface PeopleRouteDeps {
  readonly db: Db;
  readonly sessions: Sessions;
  readonly keptForms: KeptForms;
  /** Undefined without an identity provider. */
  readonly signIn: SignIn | undefined;
  /** The identity providers of workspaces. */
  readonly workspaceSignIn?: WorkspaceSignIn | undefined;
  readonly baseUrl: string;
  /** False if this gateway sends no emails. */
  readonly sendsEmails: boolean;
}

export interface WorkspaceSignIn {
  /** Whether any workspace has an identity provider. */
  readonly isOffered: () => Promise<boolean>;
  /** The sign-in page of the workspace that an address belongs to. */
  readonly findPath: (email: string, returnTo: string) => Promise<string | undefined>;
  /** Called in the transaction of a sign-in without them. */
  readonly onSignedIn: (
    tx: Tx,
    personId: string,
    at: { readonly network: string; readonly now: number },
  ) => Promise<void>;
}

export function peopleRoutes(deps: PeopleRouteDeps): readonly Route[] {
  return [
    signInRoute(deps),
    chooseSignInRoute(deps),
    callbackRoute(deps),
    signOutRoute(deps),
    signedOutRoute(),
    keptFormRoute(deps),
    sessionsRoute(deps),
    endSessionRoute(deps),
  ];
}

function signInRoute({ signIn, workspaceSignIn, baseUrl }: PeopleRouteDeps): Route {
  return openPageRoute({
    tag: "People",
    path: SIGN_IN_PATH,
    id: "signIn",
    summary: "Sign in",
    query: z.object({
      return_to: z.string().optional(),
      switch: z.string().optional(),
      /** With the gateway's identity provider, without asking for the email address. */
      direct: z.string().optional(),
    }),
    run: async ({ caller: user, query, now }) => {
      const returnTo = safeReturnPath(query.return_to, baseUrl);
      const isChosen = query.direct !== undefined || query.switch !== undefined;
      if (!isChosen && (await workspaceSignIn?.isOffered()) === true)
        return signInPage({ user, returnTo, providerName: signIn?.providerName });
      try {
        const { location, cookie } = await requireSignIn(signIn).begin(
          returnTo,
          { switchAccount: query.switch !== undefined },
          now,
        );
        return redirect(location, [cookie]);
      } catch (error) {
        return signInFailed(toFault(error), returnTo, []);
      }
    },
  });
}

function chooseSignInRoute({ signIn, workspaceSignIn, baseUrl }: PeopleRouteDeps): Route {
  return openFormRoute({
    tag: "People",
    path: SIGN_IN_PATH,
    id: "chooseSignIn",
    summary: "Choose the identity provider of an email address",
    body: z.object({ email: z.string().max(320), return_to: z.string().optional() }),
    requestExample: { email: "ada@example.com" },
    run: async ({ caller: user, body: { email: typed, return_to: path } }) => {
      const returnTo = safeReturnPath(path, baseUrl);
      const email = typed.trim();
      const error = emailError(email);
      if (error !== undefined) {
        const providerName = signIn?.providerName;
        const rejected = { email, error: `The email ${error}.` };
        return pageResponse(signInPage({ user, returnTo, providerName, ...rejected }), {
          status: 400,
        });
      }
      const sso = await workspaceSignIn?.findPath(email, returnTo);
      return continuePage(sso ?? ownSignInPath(returnTo));
    },
  });
}

function callbackRoute(deps: PeopleRouteDeps): Route {
  const { db, signIn, sessions, baseUrl, workspaceSignIn } = deps;
  return publicPageRoute({
    tag: "People",
    path: CALLBACK_PATH,
    id: "finishSignIn",
    summary: "Complete a sign-in",
    run: async ({ request, headers, clientIp, now }) => {
      const cookies = headers.get("cookie");
      try {
        const { search } = new URL(request.url, baseUrl);
        const { identity, returnTo } = await requireSignIn(signIn).finish(search, cookies, now);
        const session = await db.write(async (tx) => {
          await requireAllowedEmail(tx, identity.email);
          const person = await recordPerson(tx, identity, now);
          await workspaceSignIn?.onSignedIn(tx, person.id, {
            network: networksOf(clientIp)[1],
            now,
          });
          return sessions.begin(tx, {
            personId: person.id,
            network: networksOf(clientIp)[1],
            browser: headers.get("user-agent") ?? "",
            cookies,
            now,
          });
        });
        const clearedCookie = requireSignIn(signIn).clearCookie();
        return redirect(`${new URL(baseUrl).origin}${returnTo}`, [session, clearedCookie]);
      } catch (error) {
        const clearedCookie = signIn === undefined ? [] : [signIn.clearCookie()];
        return signInFailed(toFault(error), signIn?.pendingReturnTo(cookies) ?? "/", clearedCookie);
      }
    },
  });
}

function signOutRoute({ db, sessions }: PeopleRouteDeps): Route {
  // The session is optional: signing out twice, by a double click or in another tab, succeeds.
  return openFormRoute({
    tag: "People",
    path: "/signout",
    id: "signOut",
    summary: "Sign out",
    run: async ({ caller, clientIp, now }) => {
      if (caller === undefined) return redirect("/signout", [sessions.clearCookie()]);
      const { personId, sessionId } = caller;
      const act = { personId, network: networksOf(clientIp)[1], now };
      await db.write((tx) => endSession(tx, act, sessionId));
      return redirect("/signout", [sessions.clearCookie()]);
    },
  });
}

function signedOutRoute(): Route {
  return openPageRoute({
    tag: "People",
    path: "/signout",
    id: "signedOut",
    summary: "Show the sign-out page",
    run: ({ caller }) => signedOutPage(caller),
  });
}

function keptFormRoute({ keptForms }: PeopleRouteDeps): Route {
  return pageRoute({
    tag: "People",
    path: KEPT_FORM_PATH,
    id: "showKeptForm",
    summary: "Show a form that was sent after the session ended",
    run: ({ caller, headers, now }) => {
      const form = keptForms.find(headers.get("cookie"), now);
      return form === undefined ? redirect("/console") : keptFormPage(caller, form);
    },
  });
}

function sessionsRoute({ db, sendsEmails }: PeopleRouteDeps): Route {
  return pageRoute({
    tag: "People",
    path: SESSIONS_PATH,
    id: "listSessions",
    summary: "List sessions",
    run: async ({ caller, now }) => {
      const list = await listSessions(db, caller.personId, now);
      return sessionsPage(caller, list, sendsEmails);
    },
  });
}

function endSessionRoute({ db, sessions }: PeopleRouteDeps): Route {
  return formRoute({
    tag: "People",
    path: SESSIONS_PATH,
    id: "endSession",
    summary: "End sessions",
    body: z.object({ session: z.string() }),
    requestExample: { session: "others" },
    run: async ({ caller, body, clientIp, now }) => {
      const { personId, sessionId } = caller;
      const act = { personId, network: networksOf(clientIp)[1], now };
      await db.write((tx) =>
        body.session === "others"
          ? endOtherSessions(tx, act, sessionId)
          : endSession(tx, act, body.session),
      );
      return body.session === sessionId
        ? redirect("/signout", [sessions.clearCookie()])
        : redirect(SESSIONS_PATH);
    },
  });
}

function requireSignIn(signIn: SignIn | undefined): SignIn {
  if (signIn !== undefined) return signIn;
  throw new Fault("provider_not_configured", "no identity provider", {
    message: "Sign-in is not set up on this gateway. The operator must set OIDC_ISSUER.",
  });
}

/** Shows errors that the user can fix; rethrows server errors, which are logged. */
function signInFailed(fault: Fault, returnTo: string, cookies: readonly string[]): Response {
  if (fault.status >= 500) throw fault;
  const { status, publicMessage } = fault;
  const retry = { return_to: returnTo, switch: "1" };
  const retryUrl = `${SIGN_IN_PATH}?${new URLSearchParams(retry).toString()}`;
  return pageResponse(signInFailedPage(publicMessage, retryUrl), { status, cookies });
}
