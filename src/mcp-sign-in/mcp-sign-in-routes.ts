// The client's side of a sign-in at /mcp: registration (RFC 7591) and the token endpoint. /oauth2/token is for claims alone.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { MINUTE_MS } from "../base/time.ts";
import { strangerLimits } from "../claims/rate-counters.ts";
import { KEY_LIFETIME_MS } from "../device-login/device-login.ts";
import { oauthError, oauthErrorResponse } from "../http/oauth.ts";
import { oneResponse, publicRoute, type Route, type RouteResponse } from "../http/route.ts";
import { MCP_SIGN_IN_SCOPES } from "../http/scopes.ts";
import type { Redemption } from "./authorization-codes.ts";
import { type AuthorizePageDeps, authorizePageRoutes, countUp } from "./authorize-page-routes.ts";
import { resourceOf } from "./authorize-request.ts";
import { REDIRECT_URIS_MAX } from "./mcp-clients.ts";
import { problemOfRedirectUri } from "./redirect-uris.ts";

export type McpSignInDeps = AuthorizePageDeps;

const TAG = "MCP sign-in";
const WINDOW_MS = 10 * MINUTE_MS;
const REGISTRATIONS_PER_NETWORK = 30;
const REGISTRATIONS_MAX = 10_000;
const CLIENT_EXAMPLE = "mcp_eyJuIjoiRWRpdG9yIiwiciI6WyJodHRwOi8vMTI3LjAuMC4xL2NhbGxiYWNrIl19.4Y1o";
const CODE_EXAMPLE = "7QmT2VxZ8RkL4NcW9BdF6HjP3SgY5TaE1UoI0KvXw2M";

// RFC 7591: fields that the server does not know are ignored.
const Registration = z
  .looseObject({
    client_name: z.string().max(1_000).optional().meta({ description: "Shown to the person." }),
    redirect_uris: z.array(z.string()).meta({
      description:
        "https, http to a loopback host, or the scheme of an app. A sign-in uses one of them exactly; only the port of a loopback host may differ.",
    }),
  })
  .meta({ id: "McpClientRegistration" });

const RegisteredClient = z
  .looseObject({
    client_id: z.string().meta({ description: "For the sign-in. It never expires." }),
    client_name: z.string().meta({ description: "The name that the person sees." }),
    redirect_uris: z.array(z.string()).meta({ description: "Those of the request." }),
    grant_types: z.array(z.string()).meta({ description: "`authorization_code` alone." }),
    response_types: z.array(z.string()).meta({ description: "`code` alone." }),
    token_endpoint_auth_method: z
      .literal("none")
      .meta({ description: "Clients are public: there is no secret." }),
  })
  .meta({ id: "McpClient" });

const REQUIRED = ["code", "client_id", "redirect_uri", "code_verifier"] as const;
const parameter = z.string().max(2_048).optional();

const TokenRequest = z
  .looseObject({
    grant_type: parameter.meta({ description: "Must be `authorization_code`." }),
    code: parameter.meta({ description: "Of the redirect. It works once, for two minutes." }),
    client_id: parameter.meta({ description: "That of the authorization request." }),
    redirect_uri: parameter.meta({ description: "That of the authorization request." }),
    code_verifier: parameter.meta({ description: "The verifier of the `code_challenge` (PKCE)." }),
    resource: parameter.meta({ description: "That of the authorization request, if it is sent." }),
  })
  .meta({ id: "McpTokenRequest", required: ["grant_type", ...REQUIRED] });

const Token = z
  .object({
    access_token: z.string().meta({ description: "An API key of the chosen workspace." }),
    token_type: z.literal("Bearer"),
    expires_in: z.int().meta({ description: "Seconds until the key expires." }),
    scope: z.string(),
  })
  .meta({ id: "McpToken" });

export function mcpSignInRoutes(deps: McpSignInDeps): readonly Route[] {
  return [registerRoute(deps), tokenRoute(deps), ...authorizePageRoutes(deps)];
}

function registerRoute({ db, clients }: McpSignInDeps): Route {
  return publicRoute({
    method: "POST",
    path: "/mcp/register",
    id: "registerMcpClient",
    tag: TAG,
    summary: "Register an MCP client",
    description:
      "Dynamic client registration (RFC 7591), for clients without a metadata document of their own. Clients are public: there is no secret, and PKCE is required. The `client_id` contains the registration, so it never expires.",
    dialect: "oauth",
    body: Registration,
    requestExample: { client_name: "Editor", redirect_uris: ["http://127.0.0.1/callback"] },
    responses: {
      ...oneResponse(
        "The client.",
        RegisteredClient,
        clientRecord({
          id: CLIENT_EXAMPLE,
          name: "Editor",
          redirectUris: ["http://127.0.0.1/callback"],
        }),
        201,
      ),
      ...oauthErrorResponse("McpRegistrationError", {
        invalid_redirect_uri: `There are more than ${REDIRECT_URIS_MAX} redirect URIs or none, or one is not allowed.`,
        invalid_client_metadata: "The redirect URIs are too long together.",
        invalid_request: "A field has a wrong type.",
      }),
    },
    faults: ["invalid_request", "rate_limited"],
    run: async ({ body, clientIp, now }) => {
      const { client_name: name, redirect_uris: uris } = body;
      if (uris.length === 0 || uris.length > REDIRECT_URIS_MAX)
        return oauthError(
          "invalid_redirect_uri",
          `\`redirect_uris\` must have 1 to ${REDIRECT_URIS_MAX} entries.`,
        );
      const problem = uris.map(problemOfRedirectUri).find((each) => each !== undefined);
      if (problem !== undefined)
        return oauthError("invalid_redirect_uri", `Each of \`redirect_uris\` ${problem}.`);
      const client = clients.register(name, uris);
      if (client === undefined)
        return oauthError(
          "invalid_client_metadata",
          "`redirect_uris` are too long. Register fewer.",
        );
      const limit = { scope: "mcp registration", windowMs: WINDOW_MS, max: REGISTRATIONS_MAX };
      const limits = strangerLimits(clientIp, { ...limit, perNetwork: REGISTRATIONS_PER_NETWORK });
      for (const one of limits) await countUp(db, one, now);
      return { status: 201, body: clientRecord(client) };
    },
  });
}

function clientRecord({
  id,
  name,
  redirectUris,
}: {
  readonly id: string;
  readonly name: string;
  readonly redirectUris: readonly string[];
}): z.infer<typeof RegisteredClient> {
  return {
    client_id: id,
    client_name: name,
    redirect_uris: [...redirectUris],
    grant_types: ["authorization_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
}

function tokenRoute({ db, codes, baseUrl }: McpSignInDeps): Route {
  return publicRoute({
    method: "POST",
    path: "/mcp/token",
    id: "redeemMcpCode",
    tag: TAG,
    summary: "Redeem the code of an MCP sign-in",
    description:
      "Send the `code` to which a person consented at `/mcp/authorize`, with the `code_verifier`. A code works once: if it is sent again, its key is revoked. There are no refresh tokens: sign in again when the key has expired. Claims are polled at `POST /oauth2/token`.",
    dialect: "oauth",
    bodyType: "form",
    body: TokenRequest,
    requestExample: {
      grant_type: "authorization_code",
      code: CODE_EXAMPLE,
      client_id: CLIENT_EXAMPLE,
      redirect_uri: "http://127.0.0.1:52100/callback",
      code_verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    },
    responses: {
      ...oneResponse("The key. It is shown once.", Token, {
        access_token: "pst-rt-…",
        token_type: "Bearer",
        expires_in: KEY_LIFETIME_MS / 1_000,
        scope: MCP_SIGN_IN_SCOPES.join(" "),
      }),
      ...oauthErrorResponse("McpTokenError", {
        invalid_grant:
          "The code is unknown, has expired or was used, or another field differs from the authorization request. Start the sign-in again.",
        invalid_request: "A field is missing.",
        unsupported_grant_type: "`grant_type` is not `authorization_code`.",
        invalid_target: "`resource` is not this MCP server.",
      }),
    },
    faults: ["invalid_request"],
    run: async ({ body, clientIp, now }) => {
      const read = readTokenRequest(body, baseUrl);
      if ("status" in read) return read;
      try {
        const redeemed = await db.write((tx) => codes.redeem(tx, { ...read, clientIp, now }));
        return redeemed.status === "refused"
          ? oauthError("invalid_grant", `${redeemed.problem} Start the sign-in again.`)
          : tokenResponse(redeemed.key, redeemed.scopes);
      } catch (error) {
        if (!(error instanceof Fault) || error.status >= 500) throw error;
        // The person left the workspace, or lost the role or the allowance, after the consent.
        return oauthError("invalid_grant", error.publicMessage);
      }
    },
  });
}

/** Returns the error response of a request that lacks something. */
function readTokenRequest(
  body: z.infer<typeof TokenRequest>,
  baseUrl: string,
): Omit<Redemption, "clientIp" | "now"> | RouteResponse {
  const { grant_type: grantType = "", resource: named = "" } = body;
  if (grantType === "") return oauthError("invalid_request", "`grant_type` is required.");
  if (grantType !== "authorization_code")
    return oauthError("unsupported_grant_type", "`grant_type` must be `authorization_code`.");
  const missing = REQUIRED.find((name) => (body[name] ?? "") === "");
  if (missing !== undefined) return oauthError("invalid_request", `\`${missing}\` is required.`);
  const resource = named === "" ? undefined : resourceOf(named, baseUrl);
  if (named !== "" && resource === undefined)
    return oauthError("invalid_target", `\`resource\` must be ${baseUrl}/mcp.`);
  const { code = "", client_id: clientId = "", redirect_uri: redirectUri = "" } = body;
  return { code, clientId, redirectUri, resource, codeVerifier: body.code_verifier ?? "" };
}

function tokenResponse(key: string, scopes: readonly string[]): RouteResponse {
  return {
    status: 200,
    body: {
      access_token: key,
      token_type: "Bearer",
      expires_in: KEY_LIFETIME_MS / 1_000,
      scope: scopes.join(" "),
    },
  };
}
