// The agent's endpoints of a claim: POST /agent/identity/claim and POST /oauth2/token.

import { z } from "zod";
import { ACCOUNT_EXAMPLE, AccountRecord, toAccountRecord } from "../accounts/account-record.ts";
import { getAccount } from "../accounts/accounts.ts";
import { CLAIM_STEP, Fault, type NextStep, READ_OWN_KEY_STEP } from "../base/fault.ts";
import { isOmitted, oauthError, oauthErrorResponse } from "../http/oauth.ts";
import { networksOf } from "../http/request/client-ip.ts";
import {
  type AuthenticatedKey,
  keyRoute,
  keyWriteRoute,
  oneResponse,
  type Route,
  type RouteResponse,
} from "../http/route.ts";
import { NextStepSchema, timestamp } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { CLAIM_PATH } from "./claim-link.ts";
import type { Claims, PollResult, StartedClaim } from "./claims.ts";

export interface ClaimRouteDeps {
  readonly db: Db;
  readonly claims: Claims;
  readonly baseUrl: string;
  /** Names the grant type: `urn:<vendor>:agent-auth:grant-type:claim`. */
  readonly vendor: string;
  /** True without an identity provider: no human could sign in to confirm. */
  readonly isSignInDisabled?: boolean;
}

const EMAIL_LENGTH_MAX = 320;

const ClaimStart = z
  .strictObject({
    email: z.string("must be the human's email address").max(EMAIL_LENGTH_MAX).meta({
      description: "The human's email address. They must sign in with this address to confirm.",
    }),
  })
  .meta({ id: "ClaimStartRequest" });

const ClaimAttemptRecord = z
  .object({
    claim_attempt_id: z
      .string()
      .meta({ description: "ID of the claim attempt; starts with `claim_`." }),
    status: z.literal("initiated"),
    expires_at: z.string(),
    claim_attempt: z.object({
      user_code: z
        .string()
        .meta({ description: "Six-digit code that the human compares on the page." }),
      expires_in: z.int().meta({ description: "Seconds until the link and the code expire." }),
      interval: z.int().meta({ description: "Minimum number of seconds between two polls." }),
      verification_uri: z
        .string()
        .meta({ description: "The page on which the human can enter the code." }),
      verification_uri_complete: z
        .string()
        .meta({ description: "The link to give to the human; the page shows the code." }),
    }),
    next: z.array(NextStepSchema).optional().meta({ description: "How to poll." }),
  })
  .meta({ id: "ClaimAttempt" });

// RFC 6749: unknown parameters are ignored, and an empty one counts as omitted.
const TokenRequest = z
  .looseObject({
    grant_type: z.string().optional().meta({ description: "Must be the claim grant type." }),
    claim_attempt_id: z.string().optional().meta({
      description: "The attempt to poll. Default: the newest attempt started by this key.",
    }),
  })
  .meta({ id: "ClaimTokenRequest", required: ["grant_type"] });

const ClaimedRecord = z
  .object({ status: z.literal("claimed"), account: AccountRecord })
  .meta({ id: "Claimed" });

const POLL_ERRORS = oauthErrorResponse("ClaimPollError", {
  authorization_pending: "The human has not decided yet. Poll again after `interval` seconds.",
  slow_down: "You poll too often. Wait `interval` seconds, now five longer, between two polls.",
  expired_token:
    "The link expired, was replaced by a newer one, or was locked after wrong codes. Start a new claim.",
  access_denied:
    "The human declined, or another person claimed the account. Stop polling; your key keeps working.",
  invalid_request: "A field is missing, or no claim was started.",
  unsupported_grant_type: "`grant_type` is not that of claims.",
});

export function claimRoutes(deps: ClaimRouteDeps): readonly Route[] {
  return [startRoute(deps), tokenRoute(deps)];
}

function startRoute({ claims, baseUrl, vendor, isSignInDisabled = false }: ClaimRouteDeps): Route {
  return keyWriteRoute({
    method: "POST",
    path: "/agent/identity/claim",
    id: "startClaim",
    scope: "claim:write",
    tag: "Claims",
    summary: "Start a claim",
    description:
      "Hands the account over to a human. Give them `verification_uri_complete` and show `user_code` next to it. A new claim invalidates the previous link and code. If the account already has an owner, the named person is invited as a developer.",
    dialect: "oauth",
    body: ClaimStart,
    requestExample: { email: "human@example.com" },
    responses: oneResponse(
      "The claim attempt. Its link and code expire after 15 minutes.",
      ClaimAttemptRecord,
      attemptRecord(
        {
          id: "claim_01kah5t3mq7d2c9w4e6r8t0yax",
          token: "7QmT2VxZ8RkL4NcW9BdF6HjP3SgY5TaE1UoI0KvXw2M",
          userCode: "402817",
          expiresAt: Date.parse("2026-11-21T09:45:00Z"),
          intervalMs: 5_000,
        },
        Date.parse("2026-11-21T09:30:00Z"),
        baseUrl,
      ),
    ),
    faults: ["rate_limited", "provider_not_configured"],
    run: async (tx, { body, caller, clientIp, now }) => {
      if (isSignInDisabled) throw signInDisabledFault();
      const started = await claims.start(tx, {
        ...caller,
        email: body.email,
        network: networksOf(clientIp)[1],
        now,
      });
      return {
        status: 200,
        body: { ...attemptRecord(started, now, baseUrl), next: [pollStep(vendor)] },
      };
    },
  });
}

function signInDisabledFault(): Fault {
  return new Fault("provider_not_configured", "no identity provider", {
    message:
      "Sign-in is not set up on this gateway, so the account cannot be claimed. The operator must set `OIDC_ISSUER`; retrying does not help.",
  });
}

function tokenRoute({ db, claims, vendor }: ClaimRouteDeps): Route {
  const grantType = claimGrantType(vendor);
  return keyRoute({
    method: "POST",
    path: "/oauth2/token",
    id: "pollClaim",
    scope: "claim:read",
    tag: "Claims",
    summary: "Poll a claim",
    description: `Send \`grant_type=${grantType}\` every \`interval\` seconds. Returns 200 after the human has confirmed; later polls return the same.`,
    dialect: "oauth",
    bodyType: "form",
    body: TokenRequest,
    requestExample: { grant_type: grantType },
    responses: {
      ...oneResponse("The human has claimed the account or joined it.", ClaimedRecord, {
        status: "claimed",
        account: { ...ACCOUNT_EXAMPLE, claimed_at: "2026-11-21T09:34:00.000Z" },
      }),
      ...POLL_ERRORS,
    },
    faults: ["invalid_request"],
    run: async ({ body, caller, now }) => {
      if (isOmitted(body.grant_type))
        return oauthError("invalid_request", "`grant_type` is required.", {
          code: "invalid_request",
          next: [POLL_STEP],
        });
      if (body.grant_type !== grantType)
        return oauthError("unsupported_grant_type", `\`grant_type\` must be ${grantType}.`, {
          code: "invalid_request",
          next: [POLL_STEP],
        });
      const attemptId = isOmitted(body.claim_attempt_id) ? undefined : body.claim_attempt_id;
      const polled = await db.write((tx) => claims.poll(tx, { ...caller, attemptId, now }));
      if (polled.status !== "claimed") return pollErrorResponse(polled, restartStep(caller));
      const account = await getAccount(db, caller.accountId);
      return { status: 200, body: { status: "claimed", account: toAccountRecord(account) } };
    },
  });
}

function claimGrantType(vendor: string): string {
  return `urn:${vendor}:agent-auth:grant-type:claim`;
}

/** A key that may only poll cannot start another claim. */
function restartStep({ granted }: AuthenticatedKey): NextStep {
  return granted.has("claim:write") ? CLAIM_STEP : READ_OWN_KEY_STEP;
}

function pollErrorResponse(
  polled: Exclude<PollResult, { status: "claimed" }>,
  restart: NextStep,
): RouteResponse {
  switch (polled.status) {
    case "pending":
      return oauthError(
        "authorization_pending",
        "The human has not decided yet. Poll again after the interval.",
        { code: "claim_pending", next: [POLL_STEP] },
      );
    case "too_fast":
      return oauthError("slow_down", "Polling too fast. Use the longer `interval` from now on.", {
        code: "claim_polled_too_fast",
        interval: polled.intervalMs / 1_000,
        next: [POLL_STEP],
      });
    case "expired":
      return oauthError(
        "expired_token",
        "The claim attempt expired, was replaced or was locked after wrong codes. Start a new claim.",
        { code: "claim_expired", next: [restart] },
      );
    case "denied":
      return oauthError(
        "access_denied",
        "The human declined, or another person claimed the account.",
        { code: "claim_denied", next: [READ_OWN_KEY_STEP] },
      );
    case "none":
      return oauthError(
        "invalid_request",
        "There is no such claim attempt. Start one with POST /agent/identity/claim.",
        { code: "claim_not_found", next: [restart] },
      );
  }
}

const POLL_STEP: NextStep = {
  method: "GET",
  url: "/docs/api/poll-claim.md",
  why: "Read how to poll the claim, and how often.",
};

function pollStep(vendor: string): NextStep {
  return {
    method: "POST",
    url: "/oauth2/token",
    body: { grant_type: claimGrantType(vendor) },
    content_type: "application/x-www-form-urlencoded",
    why: "Poll every `interval` seconds, until the human has decided.",
  };
}

function attemptRecord(
  started: StartedClaim,
  now: number,
  baseUrl: string,
): z.infer<typeof ClaimAttemptRecord> {
  const page = `${baseUrl}${CLAIM_PATH}`;
  const complete = new URLSearchParams({ token: started.token, user_code: started.userCode });
  return {
    claim_attempt_id: started.id,
    status: "initiated",
    expires_at: timestamp(started.expiresAt),
    claim_attempt: {
      user_code: started.userCode,
      expires_in: Math.max(0, Math.floor((started.expiresAt - now) / 1_000)),
      interval: started.intervalMs / 1_000,
      verification_uri: page,
      verification_uri_complete: `${page}?${complete.toString()}`,
    },
  };
}
