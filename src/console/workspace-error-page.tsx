/** @jsxImportSource hono/jsx */
// The page of an error within a workspace: it keeps the sidebar, says what happened and who can help, and leads back.

import { ownerEmail } from "../accounts/allowance-requests.ts";
import { findMembership } from "../accounts/members.ts";
import { Fault } from "../base/fault.ts";
import { faultText } from "../http/pages/fault-text.ts";
import { pageResponse, redirect } from "../http/pages/page-response.ts";
import type { RouteInput, SessionUser } from "../http/route.ts";
import { ssoPath } from "../sso/sso.ts";
import { withQuery } from "./confirm.tsx";
import { consolePage, sidebarPageOf, workspacePath } from "./console-layout.tsx";
import { type ConsoleReadDeps, requireAccess } from "./require-access.ts";

type ErrorInput = Pick<
  RouteInput<unknown, unknown, unknown, SessionUser>,
  "caller" | "request" | "requestId"
> & { readonly account: string };

/** Any other error is rethrown, and so is that of a person who is not a member. */
export async function workspaceErrorPage(
  deps: ConsoleReadDeps,
  { caller: user, account, request, requestId }: ErrorInput,
  error: unknown,
): Promise<Response> {
  if (!(error instanceof Fault) || !isExplained(error)) throw error;
  const membership = await findMembership(deps.db, account, user.personId);
  if (membership === undefined) throw error;
  if (membership.needsSso) return ssoResponse(account, request);
  const workspace = await requireAccess(deps, account, user.personId, "workspace.read");
  const page = sidebarPageOf(new URL(request.url).pathname);
  const isHidden = error.status === 403 && request.method === "GET";
  const name = workspace.name ?? account;
  const owner = await ownerEmail(deps.db, account);
  const layout = consolePage({
    title: isHidden ? `You cannot see ${page.label} in ${name}` : titleOf(error),
    workspace,
    user,
    // A page that the role cannot see is not in the sidebar.
    page: isHidden ? "" : page.path,
    main: (
      <>
        <p>
          {isHidden
            ? `Your role in this workspace is ${workspace.role}, which does not include this page.`
            : faultText(error)}
        </p>
        {error.status === 403 && owner !== undefined && owner !== user.email ? (
          <p>
            <b>{owner}</b> owns this workspace and can change your role on the Members page.
          </p>
        ) : null}
        {error.status === 503 ? <p>Only the operator of this gateway can change this.</p> : null}
        <p>
          {isHidden ? null : (
            <>
              <a class="button secondary" href={workspacePath(account, page.path)}>
                Back to {page.label}
              </a>{" "}
            </>
          )}
          <a class="button secondary" href={workspacePath(account, "")}>
            Overview
          </a>
        </p>
        <p class="note">
          Request id: <code>{requestId}</code>
        </p>
      </>
    ),
  });
  return pageResponse(layout, { status: error.status });
}

/** The member signs in with the identity provider of the workspace, and comes back. A form is not sent again. */
function ssoResponse(account: string, { method, url }: Request): Response {
  const { pathname, search } = new URL(url);
  const returnTo = method === "GET" ? pathname + search : workspacePath(account, "");
  const signInPath = withQuery(ssoPath(account), { return_to: returnTo });
  if (method === "GET") return redirect(signInPath);
  const layout = {
    title: "Sign in again – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>This workspace requires single sign-on</h1>
        <p class="intro">Nothing was changed. Sign in with your organization, then try again.</p>
        <p>
          <a class="button" href={signInPath}>
            Sign in with single sign-on
          </a>
        </p>
      </>
    ),
  };
  return pageResponse(layout, { status: 403 });
}

function isExplained({ status, code }: Fault): boolean {
  return status === 403 || status === 404 || code === "provider_not_configured";
}

function titleOf({ status }: Fault): string {
  if (status === 403) return "You cannot do this";
  return status === 404 ? "Not found" : "Not set up on this gateway";
}
