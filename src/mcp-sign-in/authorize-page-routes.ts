// The page on which a person lets an MCP client have a key: GET asks and changes nothing. Nothing redirects to a client before
// the person decides, because anyone can register a client with any redirect URI.

import { z } from "zod";
import { personAct } from "../activity/audit.ts";
import { decrypt, type DerivedKey, encrypt } from "../base/crypto/encryption.ts";
import { Fault, invalid } from "../base/fault.ts";
import { isObject, parseJson } from "../base/json.ts";
import { MINUTE_MS } from "../base/time.ts";
import { type WindowLimit, incrementUpTo } from "../claims/rate-counters.ts";
import { KEY_LIFETIME_MS } from "../device-login/device-login.ts";
import { readKeyLimit } from "../device-login/key-limit.tsx";
import { listKeyWorkspaces } from "../device-login/key-workspaces.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import { formErrorOf, pageResponse, redirect } from "../http/pages/page-response.ts";
import { formRoute, pageRoute } from "../http/pages/page-routes.ts";
import type { Route, SessionUser } from "../http/route.ts";
import type { Keys } from "../keys/keys.ts";
import { findNewKeyProblem } from "../keys/member-keys.ts";
import type { Db } from "../store/db.ts";
import { type AuthorizationCodes, type Grant, keySettingsOf } from "./authorization-codes.ts";
import {
  AUTHORIZE_PATH,
  type AuthorizationRequest,
  AuthorizeQuery,
  readAuthorizationRequest,
} from "./authorize-request.ts";
import { consentPage, type ConsentValues, requestErrorPage } from "./consent-page.tsx";
import type { McpClients } from "./mcp-clients.ts";
import { withParameters } from "./redirect-uris.ts";

/** How long a person may take to decide. */
const DECISION_MS = 15 * MINUTE_MS;
const WINDOW_MS = 10 * MINUTE_MS;
/** A request may cause the gateway to fetch a document. */
const REQUESTS_PER_PERSON = 60;

export interface AuthorizePageDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly clients: McpClients;
  readonly codes: AuthorizationCodes;
  readonly baseUrl: string;
  /** Seals a request into its page, so that the form cannot change it. */
  readonly requestKey: DerivedKey;
}

const ConsentForm = z.object({
  request: z.string().max(16_384),
  do: z.enum(["approve", "deny"]),
  account: z.string().max(100).optional(),
  limit_usd: z.string().max(40).optional(),
  limit_window: z.string().max(10).optional(),
});
type ConsentForm = z.infer<typeof ConsentForm>;

export function authorizePageRoutes(deps: AuthorizePageDeps): readonly Route[] {
  return [askRoute(deps), decideRoute(deps)];
}

function askRoute(deps: AuthorizePageDeps): Route {
  const { db, clients, baseUrl } = deps;
  return pageRoute({
    tag: "People",
    path: AUTHORIZE_PATH,
    id: "showMcpSignIn",
    summary: "Ask for the sign-in of an MCP client",
    query: AuthorizeQuery,
    faults: ["rate_limited"],
    run: async ({ caller, query, now }) => {
      const limit = { scope: `mcp sign-in ${caller.personId}`, windowMs: WINDOW_MS };
      await countUp(db, { ...limit, max: REQUESTS_PER_PERSON }, now);
      const request = await readAuthorizationRequest(query, clients, baseUrl);
      if ("error" in request) {
        const { error, description, state, redirectUri } = request;
        const parameters = { error, error_description: description, state, iss: issuer(baseUrl) };
        const back =
          redirectUri === undefined ? undefined : withParameters(redirectUri, parameters);
        return pageResponse(requestErrorPage(description, back), { status: 400 });
      }
      return await consent(deps, request, {
        user: caller,
        sealed: seal(deps, caller, request, now),
      });
    },
  });
}

function decideRoute(deps: AuthorizePageDeps): Route {
  const { baseUrl } = deps;
  return formRoute({
    tag: "People",
    path: AUTHORIZE_PATH,
    id: "decideMcpSignIn",
    summary: "Approve or decline the sign-in of an MCP client",
    body: ConsentForm,
    requestExample: { do: "deny", request: "…" },
    run: async ({ caller, body, clientIp, now }) => {
      const request = unseal(deps, caller, body.request, now);
      if (request === undefined)
        return pageResponse(
          requestErrorPage(
            "This page is too old. Start the sign-in again in your MCP client.",
            undefined,
          ),
          { status: 400 },
        );
      const { redirectUri, state } = request;
      const answer = (parameters: Readonly<Record<string, string>>): Response =>
        redirect(withParameters(redirectUri, { ...parameters, state, iss: issuer(baseUrl) }));
      if (body.do === "deny")
        return answer({ error: "access_denied", error_description: "The person declined." });
      try {
        const accountId = body.account ?? "";
        const grant = grantOf(request, body);
        const act = personAct(accountId, caller.personId, { clientIp, now });
        const problem = await findNewKeyProblem(deps.db, act, deps.keys, keySettingsOf(grant, now));
        if (problem !== undefined) throw invalid(problem.options.param, problem.publicMessage);
        return answer({ code: await deps.db.write((tx) => deps.codes.issue(tx, act, grant)) });
      } catch (error) {
        const { message, field } = formErrorOf(error);
        const page = await consent(deps, request, {
          user: caller,
          sealed: body.request,
          values: body,
          error: { message, field },
        });
        return pageResponse(page, { status: 400 });
      }
    },
  });
}

async function consent(
  deps: AuthorizePageDeps,
  request: AuthorizationRequest,
  shown: Omit<Parameters<typeof consentPage>[0], "request" | "workspaces">,
): Promise<PageLayout> {
  const workspaces = await listKeyWorkspaces(deps.db, shown.user.personId);
  return consentPage({ ...shown, request, workspaces });
}

function grantOf(request: AuthorizationRequest, values: ConsentValues): Grant {
  return {
    ...request,
    ...readKeyLimit(values),
    keyName: `${request.clientName} (MCP sign-in)`,
    keyLifetimeMs: KEY_LIFETIME_MS,
    models: null,
  };
}

/** The `issuer` of the metadata, with which clients compare `iss` (RFC 9207). */
function issuer(baseUrl: string): string {
  return `${baseUrl}/mcp`;
}

const Sealed = z.object({ until: z.number(), request: z.custom<AuthorizationRequest>(isObject) });

function seal(
  { requestKey }: AuthorizePageDeps,
  user: SessionUser,
  request: AuthorizationRequest,
  now: number,
): string {
  const text = JSON.stringify({ until: now + DECISION_MS, request });
  return encrypt(requestKey, sealedFor(user), text);
}

/** Undefined if the request was changed, is another person's, or is too old. */
function unseal(
  { requestKey }: AuthorizePageDeps,
  user: SessionUser,
  sealed: string,
  now: number,
): AuthorizationRequest | undefined {
  try {
    const { until, request } = Sealed.parse(
      parseJson(decrypt(requestKey, sealedFor(user), sealed)),
    );
    return until > now ? request : undefined;
  } catch {
    return undefined;
  }
}

function sealedFor({ personId }: SessionUser): string {
  return `mcp-sign-in ${personId}`;
}

/** Throws if it was counted too often. */
export async function countUp(db: Db, limit: WindowLimit, now: number): Promise<void> {
  if (await db.write((tx) => incrementUpTo(tx, { ...limit, now }))) return;
  throw new Fault("rate_limited", `too many of ${limit.scope}`, {
    message: "Too many sign-ins came from you or your network. Wait ten minutes and try again.",
    retryAfterSeconds: Math.ceil(limit.windowMs / 1_000),
  });
}
