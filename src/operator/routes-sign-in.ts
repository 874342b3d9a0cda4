// The operator's own way in and out: with the identity provider that signs customers in, but with a callback, a cookie
// and sessions of its own, and only for the addresses that the settings name. Who came in, and who was refused, is kept.

import { z } from "zod";
import { record } from "../audit/audit.ts";
import { foldEmail } from "../base/email.ts";
import { Fault } from "../base/fault.ts";
import { networksOf } from "../http/address.ts";
import { openRoute, type Route } from "../http/route.ts";
import type { Identity } from "../people/people.ts";
import { OPERATOR_CALLBACK_PATH, ownPath, type SignIn } from "../people/sign-in.ts";
import {
  formRoute,
  LOST_FORM,
  type Office,
  OPERATOR_PAGE,
  OPERATOR_SIGN_IN,
  redirect,
  show,
} from "./office.ts";
import { endOperatorSession, OPERATOR_PATH } from "./sessions.ts";
import { refusedPage, signInPage } from "./sign-in-page.tsx";

export function signInRoutes(office: Office): readonly Route[] {
  return [doorRoute(office), beginRoute(office), callbackRoute(office), signOutRoute(office)];
}

const ReturnQuery = z.object({ return_to: z.string().optional() });

function doorRoute({ signIn, baseUrl }: Office): Route {
  return openRoute({
    ...OPERATOR_PAGE,
    method: "GET",
    path: OPERATOR_SIGN_IN,
    id: "showOperatorSignIn",
    summary: "Where operators sign in",
    query: ReturnQuery.extend({ form: z.literal(LOST_FORM).optional() }),
    run: ({ query }) => {
      const returnTo = ownOperatorPath(query.return_to, baseUrl);
      const isFormLost = query.form === LOST_FORM;
      return show(signInPage({ providerName: signIn?.providerName, returnTo, isFormLost }));
    },
  });
}

function beginRoute(office: Office): Route {
  const { signIn, baseUrl } = office;
  return openRoute({
    ...OPERATOR_PAGE,
    method: "GET",
    path: `${OPERATOR_SIGN_IN}/begin`,
    id: "beginOperatorSignIn",
    summary: "Go to the identity provider as an operator",
    query: ReturnQuery,
    run: async ({ query, address, now }) => {
      takeAttempt(office, address, now);
      const returnTo = ownOperatorPath(query.return_to, baseUrl);
      // Whoever is signed in there for other things says so again.
      const { location, cookie } = await configured(signIn).begin(returnTo, true, now);
      return redirect(location, [cookie]);
    },
  });
}

function callbackRoute(office: Office): Route {
  const { db, sessions, signIn, baseUrl } = office;
  return openRoute({
    ...OPERATOR_PAGE,
    method: "GET",
    path: OPERATOR_CALLBACK_PATH,
    id: "finishOperatorSignIn",
    summary: "Come back from the identity provider as an operator",
    run: async ({ request, headers, address, now }) => {
      takeAttempt(office, address, now);
      const gone = configured(signIn).noCookie();
      const network = networksOf(address)[1];
      const { search } = new URL(request.url, baseUrl);
      const found = await finish(configured(signIn), search, headers.get("cookie"), now);
      if ("refused" in found) {
        if (found.refused.code === "forbidden")
          await noteRefusal(office, { email: null, network, now });
        const { status, publicMessage } = found.refused;
        return show(refusedPage(publicMessage), { status, cookies: [gone] });
      }
      const { email } = found.identity;
      if (!sessions.isOperator(email)) {
        await noteRefusal(office, { email, network, now });
        const said = `${email} is not an operator of this gateway. This attempt was written down.`;
        return show(refusedPage(said), { status: 403, cookies: [gone] });
      }
      const cookie = await db.write(async (tx) => {
        const browser = headers.get("user-agent") ?? "";
        const begun = await sessions.begin(tx, { email, network, browser, now });
        await record(tx, {
          accountId: null,
          actor: { type: "operator", id: foldEmail(email) },
          action: "operator.signed_in",
          target: begun.sessionId,
          network,
          now,
        });
        return begun.cookie;
      });
      return redirect(ownOperatorPath(found.returnTo, baseUrl), [cookie, gone]);
    },
  });
}

function signOutRoute(office: Office): Route {
  return formRoute(office, {
    path: `${OPERATOR_PATH}/signout`,
    id: "signOperatorOut",
    summary: "Sign out as an operator",
    endsSession: true,
    run: async ({ address, now }, { email, sessionId }) => {
      await office.db.write(async (tx) => {
        await endOperatorSession(tx, sessionId, now);
        await record(tx, {
          accountId: null,
          actor: { type: "operator", id: email },
          action: "operator.signed_out",
          target: sessionId,
          network: networksOf(address)[1],
          now,
        });
      });
      return redirect(OPERATOR_SIGN_IN, [office.sessions.noCookie()]);
    },
  });
}

type Finished =
  | { readonly identity: Identity; readonly returnTo: string }
  | { readonly refused: Fault };

/** What is ours to mend is thrown on, to be logged. */
async function finish(
  signIn: SignIn,
  search: string,
  cookies: string | null,
  now: number,
): Promise<Finished> {
  try {
    return await signIn.finish(search, cookies, now);
  } catch (error) {
    if (error instanceof Fault && error.status < 500) return { refused: error };
    throw error;
  }
}

async function noteRefusal(
  { db }: Office,
  refused: { readonly email: string | null; readonly network: string; readonly now: number },
): Promise<void> {
  const { email, network, now } = refused;
  await db.write((tx) =>
    record(tx, {
      accountId: null,
      actor: { type: "person", id: email ?? "unknown" },
      action: "operator.refused",
      target: null,
      network,
      now,
    }),
  );
}

function takeAttempt({ attempts }: Office, address: string, now: number): void {
  const waitMs = attempts.take(networksOf(address)[1], now);
  if (waitMs > 0)
    throw new Fault("rate_limited", "an operator's sign-in is tried too often", {
      message: "Too many attempts to sign in came from this network. Wait a minute and try again.",
      retryAfterSeconds: waitMs / 1_000,
    });
}

/** Nobody is led out of the operator's part of the site. */
function ownOperatorPath(path: string | undefined, baseUrl: string): string {
  const own = ownPath(path, baseUrl);
  const isWithin = own.startsWith(`${OPERATOR_PATH}/`) || own.startsWith(`${OPERATOR_PATH}?`);
  return isWithin && !own.startsWith(OPERATOR_SIGN_IN) ? own : OPERATOR_PATH;
}

function configured(signIn: SignIn | undefined): SignIn {
  if (signIn !== undefined) return signIn;
  throw new Fault("provider_not_configured", "no identity provider", {
    message: "Sign-in is not set up on this gateway: OIDC_ISSUER must be set.",
  });
}
