// The app's side of "Sign in with Postern": it redeems its code for a key at POST /v1/auth/keys, in the form of OpenRouter.

import { z } from "zod";
import { Fault, invalid } from "../base/fault.ts";
import { oneResponse, publicRoute, type Route } from "../http/route.ts";
import { type ConnectPageDeps, connectPageRoutes } from "./connect-page-routes.ts";

export type AppSignInDeps = ConnectPageDeps;

const parameter = z.string().max(1_000);

const Redemption = z
  .looseObject({
    code: parameter.meta({
      description: "Of the redirect to `callback_url`. It works once, for two minutes.",
    }),
    code_verifier: parameter.meta({
      description: "The text whose SHA-256 was the `code_challenge`.",
    }),
    code_challenge_method: parameter.nullish().meta({ description: "Must be `S256`, if sent." }),
  })
  .meta({ id: "AppCodeRedemption" });

const AppKey = z
  .object({
    key: z.string().meta({ description: "An API key of the chosen workspace. It is shown once." }),
    user_id: z.string().meta({ description: "The id of the workspace, as in GET /v1/account." }),
  })
  .meta({ id: "AppKey" });

export function appSignInRoutes(deps: AppSignInDeps): readonly Route[] {
  return [redeemRoute(deps), ...connectPageRoutes(deps)];
}

function redeemRoute({ db, codes }: AppSignInDeps): Route {
  return publicRoute({
    method: "POST",
    path: "/v1/auth/keys",
    id: "redeemAppCode",
    tag: "App sign-in",
    summary: "Redeem the code of a connected app",
    description:
      "For apps whose users sign in with Postern: send the `code` that a person's consent at `/connect` sent to your `callback_url`, with the `code_verifier`. A code works once: if it is sent again, its key is revoked. The key has the limit, expiry and models that the person picked.",
    dialect: "openai",
    body: Redemption,
    requestExample: {
      code: "7QmT2VxZ8RkL4NcW9BdF6HjP3SgY5TaE1UoI0KvXw2M",
      code_verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
      code_challenge_method: "S256",
    },
    responses: oneResponse("The key.", AppKey, {
      key: "pst-rt-…",
      user_id: "acct_01kah5t3mq7d2c9w4e6r8t0yax",
    }),
    faults: ["invalid_request"],
    run: async ({ body, clientIp, now }) => {
      const { code, code_verifier: codeVerifier, code_challenge_method: method } = body;
      if ((method ?? "S256") !== "S256")
        throw invalid("code_challenge_method", "`code_challenge_method` must be `S256`.");
      const unnamed = { clientId: undefined, redirectUri: undefined, resource: undefined };
      const redeemed = await db
        .write((tx) => codes.redeem(tx, { code, codeVerifier, ...unnamed, clientIp, now }))
        .catch((error: unknown) => {
          if (!(error instanceof Fault) || error.status >= 500) throw error;
          // The person left the workspace, or lost the role or the allowance, after the consent.
          throw invalid("code", error.publicMessage);
        });
      // Thrown after the transaction, because a code that is used twice revokes a key.
      if (redeemed.status === "refused")
        throw invalid("code", `${redeemed.problem} Send the person to \`/connect\` again.`);
      return {
        status: 200,
        headers: { "cache-control": "no-store" },
        body: { key: redeemed.key, user_id: redeemed.accountId },
      };
    },
  });
}
