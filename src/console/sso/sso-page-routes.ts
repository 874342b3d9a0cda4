// The routes of the single sign-on page.

import { z } from "zod";
import { ssoRequiredSince } from "../../accounts/accounts.ts";
import type { Act } from "../../activity/audit.ts";
import type { Route } from "../../http/route.ts";
import {
  findConnection,
  removeConnection,
  requireSso,
  saveConnection,
} from "../../sso/connections.ts";
import {
  addDomain,
  getDomain,
  listDomains,
  queryRecord,
  recordDomainCheck,
  type RecordState,
  removeDomain,
} from "../../sso/domains.ts";
import type { Sso } from "../../sso/sso.ts";
import type { Tx } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";
import { SsoForm } from "./sso-form.ts";
import { type SsoListing, ssoPage } from "./sso-page.tsx";

export interface SsoPageDeps extends ConsoleReadDeps {
  readonly sso: Sso;
  readonly baseUrl: string;
}

export function ssoPageRoutes(deps: SsoPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: SsoPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/sso",
    id: "showWorkspaceSso",
    summary: "Show the single sign-on of a workspace",
    query: z.object({ ask: z.enum(["remove", "require"]).optional(), ...DoneQuery }),
    permission: "sso.read",
    run: async ({ view, account, query: { ask, done } }) =>
      ssoPage({ ...view, listing: await readSso(deps, account), ask, done }),
  });
}

async function readSso({ db, sso, baseUrl }: SsoPageDeps, account: string): Promise<SsoListing> {
  const [domains, connection, requiredSince] = await Promise.all([
    listDomains(db, account),
    findConnection(db, account),
    ssoRequiredSince(db, account),
  ]);
  return { domains, connection, requiredSince, redirectUri: sso.redirectUri(account), baseUrl };
}

function changeRoute(deps: SsoPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/sso",
    id: "changeWorkspaceSso",
    summary: "Change the domains and the identity provider of a workspace",
    body: SsoForm,
    requestExample: { do: "add_domain", domain: "example.com" },
    permission: "sso.change",
    prepare: async ({ account, body }) => {
      if (body.do === "save") await deps.sso.checkIssuer(body.issuer);
      return body.do === "check_domain"
        ? await queryRecord(deps.sso.resolveTxt, await getDomain(deps.db, account, body.domain))
        : undefined;
    },
    write: (tx, { act, body }, state) => changeSso(tx, act, { form: body, state }, deps.sso),
    done: ({ account, body }, done) => donePath(workspacePath(account, "/sso"), done ?? body.do),
    rejected: async ({ view, account, body: values }, error) =>
      ssoPage({ ...view, listing: await readSso(deps, account), rejected: { values, error } }),
  });
}

interface SsoChange {
  readonly form: SsoForm;
  /** What the DNS said, of `check_domain`. */
  readonly state: RecordState | undefined;
}

/** Returns the notice of the page, if it is not that of the form. */
async function changeSso(
  tx: Tx,
  act: Act,
  { form, state }: SsoChange,
  sso: Sso,
): Promise<string | undefined> {
  switch (form.do) {
    case "add_domain":
      await addDomain(tx, act, form.domain);
      return undefined;
    case "check_domain":
      if (state === undefined) throw new Error("the record was not queried");
      await recordDomainCheck(tx, act, { domain: form.domain, state });
      return `record_${state}`;
    case "remove_domain":
      await removeDomain(tx, act, form.domain);
      return undefined;
    case "save": {
      const { issuer, client_id: clientId, client_secret: clientSecret } = form;
      const defaultRole = form.default_role === "" ? null : form.default_role;
      await saveConnection(tx, act, { issuer, clientId, clientSecret, defaultRole }, sso);
      return undefined;
    }
    case "remove":
      await removeConnection(tx, act);
      return undefined;
    case "require":
    case "allow":
      await requireSso(tx, act, form.do === "require");
      return undefined;
  }
}
