// The routes that the claim tests need.

import { accountRoutes } from "../../src/account-data/accounts-routes.ts";
import type { Secret } from "../../src/base/crypto/secret.ts";
import { claimPageRoutes } from "../../src/claims/claim-page-routes.ts";
import { claimRoutes } from "../../src/claims/claims-routes.ts";
import type { Claims } from "../../src/claims/claims.ts";
import { ASSET_CACHE_CONTROL, STYLESHEET } from "../../src/http/pages/assets.ts";
import { publicRoute, type Route } from "../../src/http/route.ts";
import { keyRoutes } from "../../src/keys/keys-routes.ts";
import type { Keys } from "../../src/keys/keys.ts";
import { createKeptForms } from "../../src/people/kept-form.ts";
import { peopleRoutes } from "../../src/people/people-routes.ts";
import type { Sessions } from "../../src/people/sessions.ts";
import type { SignIn } from "../../src/people/sign-in.ts";
import { createSignedRequests } from "../../src/signed-requests/signed-requests.ts";
import type { Db } from "../../src/store/db.ts";

export interface TestRouteDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly claims: Claims;
  readonly sessions: Sessions;
  readonly signIn: SignIn | undefined;
  readonly master: Secret;
  readonly baseUrl: string;
  readonly vendor: string;
}

export function createTestRoutes(deps: TestRouteDeps): readonly Route[] {
  const { provePublicKey } = createSignedRequests(deps);
  return [
    ...accountRoutes({
      ...deps,
      limits: { perHour: 0, grantPerDay: 0n, whenExhausted: "create" },
      claimStep: undefined,
      cheapestModel: () => undefined,
      fundingSteps: [],
      provePublicKey,
    }),
    ...keyRoutes({ ...deps, provePublicKey }),
    ...claimRoutes(deps),
    ...claimPageRoutes({ ...deps, consolePath: "/console" }),
    ...peopleRoutes({ ...deps, keptForms: createKeptForms(deps), sendsEmails: false }),
    stylesheet(),
  ];
}

function stylesheet(): Route {
  return publicRoute({
    method: "GET",
    path: STYLESHEET.path,
    id: "stylesheet",
    tag: "Pages",
    summary: "Get the stylesheet",
    dialect: "page",
    hidden: true,
    faults: [],
    responses: { 200: { description: "CSS", contentType: "text/css" } },
    run: () =>
      new Response(STYLESHEET.body, {
        headers: {
          "content-type": STYLESHEET.contentType,
          "cache-control": ASSET_CACHE_CONTROL,
        },
      }),
  });
}
