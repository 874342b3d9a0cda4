// The sign-in with the identity provider of a workspace. Its path names the workspace, also in the redirect URI, so that the
// response of one issuer cannot be taken for that of another.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { requireAllowedEmail } from "../controls/blocks.ts";
import { pageResponse, redirect } from "../http/pages/page-response.ts";
import { publicPageRoute } from "../http/pages/page-routes.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { toFault } from "../http/response.ts";
import type { Route } from "../http/route.ts";
import { type Identity, recordPerson } from "../people/people.ts";
import type { Sessions } from "../people/sessions.ts";
import { signInFailedPage } from "../people/sign-in-pages.tsx";
import { safeReturnPath } from "../people/sign-in.ts";
import type { Db, Tx } from "../store/db.ts";
import { admitPerson } from "./admit-person.ts";
import { findConnection, markSignedIn, type SsoConnection } from "./connections.ts";
import { findWorkspaceOfEmail } from "./domains.ts";
import { type Sso, ssoPath } from "./sso.ts";

export interface SsoRouteDeps {
  readonly db: Db;
  readonly sso: Sso;
  readonly sessions: Sessions;
  readonly baseUrl: string;
}

const Workspace = z.object({ account: z.string() });

export function ssoRoutes(deps: SsoRouteDeps): readonly Route[] {
  return [beginRoute(deps), callbackRoute(deps)];
}

/** Also the "initiate login URI" that identity providers open from their app pages. */
function beginRoute({ db, sso, baseUrl }: SsoRouteDeps): Route {
  return publicPageRoute({
    tag: "People",
    path: "/signin/sso/{account}",
    id: "signInWithSso",
    summary: "Sign in with the identity provider of a workspace",
    params: Workspace,
    query: z.object({ return_to: z.string().optional(), login_hint: z.string().optional() }),
    run: async ({ params: { account }, query, now }) => {
      const returnTo = safeReturnPath(query.return_to ?? `/console/${account}`, baseUrl);
      try {
        const { signIn } = await requireConnection(sso, db, account);
        const options = { loginHint: query.login_hint };
        const { location, cookie } = await signIn.begin(returnTo, options, now);
        return redirect(location, [cookie]);
      } catch (error) {
        return signInFailed(error, account, returnTo, []);
      }
    },
  });
}

function callbackRoute(deps: SsoRouteDeps): Route {
  const { db, sso, sessions, baseUrl } = deps;
  return publicPageRoute({
    tag: "People",
    path: "/signin/sso/{account}/callback",
    id: "finishSsoSignIn",
    summary: "Complete a sign-in with the identity provider of a workspace",
    params: Workspace,
    run: async ({ request, params: { account }, headers, clientIp, now }) => {
      const cookies = headers.get("cookie");
      const { connection, signIn } = await requireConnection(sso, db, account);
      try {
        const { search } = new URL(request.url, baseUrl);
        const { identity, returnTo } = await signIn.finish(search, cookies, now);
        const session = await db.write(async (tx) => {
          const personId = await admitIdentity(tx, { connection, identity, clientIp, now });
          const network = networksOf(clientIp)[1];
          const browser = headers.get("user-agent") ?? "";
          return sessions.begin(tx, { personId, network, browser, cookies, now });
        });
        return redirect(`${new URL(baseUrl).origin}${returnTo}`, [session, signIn.clearCookie()]);
      } catch (error) {
        const returnTo = signIn.pendingReturnTo(cookies);
        return signInFailed(error, account, returnTo, [signIn.clearCookie()]);
      }
    },
  });
}

interface SignedIn {
  readonly connection: SsoConnection;
  readonly identity: Identity;
  readonly clientIp: string;
  readonly now: number;
}

/** Returns the id of the person. */
async function admitIdentity(
  tx: Tx,
  { connection, identity, clientIp, now }: SignedIn,
): Promise<string> {
  const { accountId, id } = connection;
  await requireAllowedEmail(tx, identity.email);
  // The owner may have replaced the issuer while the person was there.
  if ((await findConnection(tx, accountId))?.id !== id)
    throw new Fault("invalid_request", "the identity provider of the workspace has changed", {
      message: "The identity provider of the workspace has just changed. Sign in again.",
    });
  if ((await findWorkspaceOfEmail(tx, identity.email)) !== accountId)
    throw new Fault("forbidden", "the email is not in a verified domain of the workspace", {
      message: `${identity.email} is not in a verified domain of this workspace. Sign in with an address of your organization, or ask the owner to verify its domain.`,
    });
  const person = await recordPerson(tx, { ...identity, ssoAccountId: accountId }, now);
  await admitPerson(tx, { connection, person, clientIp, now });
  await markSignedIn(tx, accountId, now);
  return person.id;
}

async function requireConnection(
  sso: Sso,
  db: Db,
  accountId: string,
): Promise<NonNullable<Awaited<ReturnType<Sso["findSignIn"]>>>> {
  const found = await sso.findSignIn(db, accountId);
  if (found !== undefined) return found;
  throw new Fault("not_found", "no identity provider of the workspace", {
    message: "This workspace has no single sign-on. Sign in with your own account.",
  });
}

/** Shows errors that the person can correct; rethrows server errors, which are logged. */
function signInFailed(
  error: unknown,
  accountId: string,
  returnTo: string,
  cookies: readonly string[],
): Response {
  const fault = toFault(error);
  if (fault.status >= 500 || fault.status === 404) throw fault;
  const retry = `${ssoPath(accountId)}?${new URLSearchParams({ return_to: returnTo }).toString()}`;
  const { status, publicMessage } = fault;
  return pageResponse(signInFailedPage(publicMessage, retry), { status, cookies });
}
