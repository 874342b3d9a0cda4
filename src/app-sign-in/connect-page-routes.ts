// The page on which a person lets an app have a key: GET asks and changes nothing. Apps are not registered, so nothing redirects
// to one before the person decides.

import { z } from "zod";
import { type Act, personAct } from "../activity/audit.ts";
import { type Fault, invalid } from "../base/fault.ts";
import { nanoFromUsd } from "../base/money/money.ts";
import { LIMIT_WINDOWS } from "../base/money/spend-window.ts";
import { DAY_MS } from "../base/time.ts";
import { listKeyWorkspaces } from "../device-login/key-workspaces.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import { formErrorOf, pageResponse, redirect } from "../http/pages/page-response.ts";
import { formRoute, pageRoute } from "../http/pages/page-routes.ts";
import type { Route } from "../http/route.ts";
import { MODEL_CALL_SCOPES } from "../http/scopes.ts";
import { POLICY_SCHEMA } from "../keys/key-record.ts";
import type { Keys } from "../keys/keys.ts";
import { findNewKeyProblem } from "../keys/member-keys.ts";
import {
  type AuthorizationCodes,
  type Grant,
  keySettingsOf,
} from "../mcp-sign-in/authorization-codes.ts";
import { withParameters } from "../mcp-sign-in/redirect-uris.ts";
import type { Db } from "../store/db.ts";
import {
  connectErrorPage,
  connectPage,
  type ConnectPageProps,
  LIFETIMES,
} from "./connect-page.tsx";
import {
  CHOICE_FIELDS,
  CONNECT_FIELDS,
  CONNECT_PATH,
  type ConnectChoices,
  ConnectQuery,
  type ConnectRequest,
  readConnectRequest,
} from "./connect-request.ts";

export interface ConnectPageDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly codes: AuthorizationCodes;
}

const ConnectForm = z.object({
  ...CONNECT_FIELDS,
  ...CHOICE_FIELDS,
  do: z.enum(["approve", "deny"]),
  account: z.string().max(100).optional(),
});

export function connectPageRoutes(deps: ConnectPageDeps): readonly Route[] {
  return [askRoute(deps), decideRoute(deps)];
}

function askRoute(deps: ConnectPageDeps): Route {
  return pageRoute({
    tag: "People",
    path: CONNECT_PATH,
    id: "showAppSignIn",
    summary: "Ask for the connection of an app",
    query: ConnectQuery,
    run: async ({ caller, query }) => {
      const request = readConnectRequest(query);
      if (typeof request === "string")
        return pageResponse(connectErrorPage(request), { status: 400 });
      return await consent(deps, { user: caller, request, choices: query });
    },
  });
}

function decideRoute(deps: ConnectPageDeps): Route {
  return formRoute({
    tag: "People",
    path: CONNECT_PATH,
    id: "decideAppSignIn",
    summary: "Approve or decline the connection of an app",
    body: ConnectForm,
    requestExample: {
      do: "deny",
      callback_url: "https://app.example/callback",
      code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
      code_challenge_method: "S256",
    },
    run: async ({ caller, body, clientIp, now }) => {
      const request = readConnectRequest(body);
      if (typeof request === "string")
        return pageResponse(connectErrorPage(request), { status: 400 });
      const { callbackUrl, state } = request;
      if (body.do === "deny")
        return redirect(withParameters(callbackUrl, { error: "access_denied", state }));
      const { account = "" } = body;
      try {
        const act = personAct(account, caller.personId, { clientIp, now });
        const code = await approve(deps, act, grantOf(request, body));
        return redirect(withParameters(callbackUrl, { code, state }));
      } catch (error) {
        const page = { user: caller, request, account, choices: body, error: formErrorOf(error) };
        return pageResponse(await consent(deps, page), { status: 400 });
      }
    },
  });
}

async function approve(
  { db, keys, codes }: ConnectPageDeps,
  act: Act,
  grant: Grant,
): Promise<string> {
  const problem = await findNewKeyProblem(db, act, keys, keySettingsOf(grant, act.now));
  if (problem !== undefined) throw invalid(fieldOf(problem), problem.publicMessage);
  return await db.write((tx) => codes.issue(tx, act, grant));
}

function fieldOf({ options: { param } }: Fault): string | undefined {
  return param === "limit_usd" ? "limit" : param;
}

async function consent(
  { db }: ConnectPageDeps,
  props: Omit<ConnectPageProps, "workspaces">,
): Promise<PageLayout> {
  return connectPage({ ...props, workspaces: await listKeyWorkspaces(db, props.user.personId) });
}

function grantOf(
  { app, callbackUrl, codeChallenge }: ConnectRequest,
  { limit: amount = "", reset, days = "", models = "" }: ConnectChoices,
): Grant {
  const limit = nanoFromUsd(amount.trim());
  if (limit === undefined || limit <= 0n)
    throw invalid("limit", "The limit must be an amount in US dollars, such as 5 or 2.50.");
  if (!Object.hasOwn(LIFETIMES, days)) throw invalid("days", "Choose how long the key works.");
  return {
    clientId: new URL(callbackUrl).origin,
    clientName: app,
    redirectUri: callbackUrl,
    resource: "",
    codeChallenge,
    scopes: MODEL_CALL_SCOPES,
    limit,
    limitWindow: LIMIT_WINDOWS.find((window) => window === reset) ?? null,
    keyName: `${app} (connected app)`.slice(-100),
    keyLifetimeMs: days === "" ? null : Number(days) * DAY_MS,
    models: modelsOf(models),
  };
}

function modelsOf(text: string): readonly string[] | null {
  const globs = text.split(/[\s,]+/).filter((glob) => glob !== "");
  if (globs.length === 0) return null;
  if (!POLICY_SCHEMA.allowed_models.safeParse(globs).success)
    throw invalid(
      "models",
      "Enter at most 50 model ids, one per line. `*` stands for any characters.",
    );
  return globs;
}
