// The claim pages: GET changes nothing, POST takes only the forms of these pages.

import { z } from "zod";
import { roleOf } from "../accounts/members.ts";
import type { MasterSecret } from "../base/crypto/encryption.ts";
import { Fault, type FaultOptions } from "../base/fault.ts";
import { pageHeaders, renderPage } from "../http/pages/layout.tsx";
import { formRoute, openPageRoute } from "../http/pages/page-routes.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Route, SessionUser } from "../http/route.ts";
import { listKeysFrom } from "../keys/keys.ts";
import type { Db } from "../store/db.ts";
import { listWaitingClaims, readAttempt } from "./claim-attempt-rows.ts";
import { type ClaimAttempt, claimStateOf } from "./claim-attempt.ts";
import {
  CLAIM_CODE_PATH,
  CLAIM_PATH,
  createLinkCookie,
  isClaimToken,
  isUserCode,
  type LinkCookie,
} from "./claim-link.ts";
import {
  claimedByAnotherPage,
  type ClaimPage,
  type CodeError,
  codePage,
  endedPage,
  claimedPage,
  formerMemberPage,
  staleFormPage,
  invalidPage,
  isEnded,
  landingPage,
  wrongAccountPage,
} from "./claim-pages.tsx";
import { reviewPage, type ReviewPageProps } from "./claim-review-page.tsx";
import { type ClaimReview, readClaimReview } from "./claim-review.ts";
import { type Claims, isNamedPerson } from "./claims.ts";
import { type FormFields, parseKeyChoices } from "./key-choices-form.ts";
import { SHOWN_FIELD } from "./shown-state.ts";

export interface ClaimPageDeps {
  readonly claims: Claims;
  readonly db: Db;
  readonly master: MasterSecret;
  readonly baseUrl: string;
  /** The page after a claim links to the workspace below it. */
  readonly consolePath: string;
}

interface ClaimPageContext extends Omit<ClaimPageDeps, "master" | "baseUrl"> {
  readonly link: LinkCookie;
}

export function claimPageRoutes(deps: ClaimPageDeps): readonly Route[] {
  const { master, baseUrl, ...others } = deps;
  const context = { ...others, link: createLinkCookie(master, baseUrl) };
  return [
    openClaimRoute(context),
    enterCodeRoute(context),
    decideRoute(context),
    codeRoute(context),
  ];
}

function openClaimRoute(context: ClaimPageContext): Route {
  return openPageRoute({
    tag: "People",
    path: CLAIM_PATH,
    id: "openClaim",
    summary: "Show the claim page",
    query: z.object({
      token: z.string().optional(),
      user_code: z.string().optional(),
      attempt: z.string().optional(),
    }),
    run: async ({ query, caller, headers, now }) => {
      const { token, user_code: userCode } = query;
      if (token !== undefined || userCode !== undefined) {
        const attempt = isClaimToken(token)
          ? await context.claims.findByToken(context.db, token)
          : undefined;
        const code = isUserCode(userCode) ? userCode : undefined;
        return redirectToClaim([context.link.set({ attemptId: attempt?.id, userCode: code })]);
      }
      if (query.attempt !== undefined && caller !== undefined) {
        const attempt = await findAttempt(context, query.attempt);
        // Its id alone opens a claim only for the person whom the agent named.
        if (attempt === undefined || !isNamedPerson(attempt, caller))
          return pageResponse(invalidPage());
        return redirectToClaim([context.link.set({ attemptId: attempt.id, userCode: undefined })]);
      }
      const linkState = context.link.read(headers.get("cookie"));
      if (linkState === undefined) return await codeEntryResponse(context, caller, now);
      const attempt = await findAttempt(context, linkState.attemptId);
      if (attempt === undefined) return pageResponse(invalidPage());
      if (caller === undefined) return pageResponse(anonymousPage(attempt, now));
      return await attemptResponse(context, attempt, {
        user: caller,
        userCode: linkState.userCode,
        now,
      });
    },
  });
}

/** Also shows the code field while the cookie holds another claim. */
function enterCodeRoute(context: ClaimPageContext): Route {
  return openPageRoute({
    tag: "People",
    path: CLAIM_CODE_PATH,
    id: "showClaimCode",
    summary: "Show the code field and the claims that wait for you",
    run: async ({ caller, now }) => await codeEntryResponse(context, caller, now),
  });
}

async function codeEntryResponse(
  context: ClaimPageContext,
  caller: SessionUser | undefined,
  now: number,
): Promise<Response> {
  if (caller === undefined) return pageResponse(landingPage(false));
  return pageResponse(await codeEntryPage(context, { user: caller, now }));
}

async function codeEntryPage(
  { db }: ClaimPageContext,
  { user, now }: Pick<ClaimViewer, "user" | "now">,
  error?: CodeError,
): Promise<ClaimPage> {
  return codePage({ user, waiting: await listWaitingClaims(db, user, now), error, now });
}

const SIX_DIGITS = "The code must have six digits.";

const Decision = z
  .looseObject({ decision: z.enum(["confirm", "decline"]), attempt: z.string().optional() })
  .catchall(z.string().optional());

function decideRoute(context: ClaimPageContext): Route {
  return formRoute({
    tag: "People",
    path: CLAIM_PATH,
    id: "decideClaim",
    summary: "Confirm or decline a claim",
    body: Decision,
    requestExample: {
      decision: "confirm",
      attempt: "claim_01kah5t3mq7d2c9w4e6r8t0yax",
      user_code: "402817",
    },
    run: async ({ body, caller, headers, now }) => {
      const linkState = context.link.read(headers.get("cookie"));
      const attempt = await findAttempt(context, linkState?.attemptId);
      if (attempt === undefined) return pageResponse(invalidPage());
      const viewer: ClaimViewer = { user: caller, userCode: linkState?.userCode, now };
      if (body.attempt !== attempt.id)
        return pageResponse(staleFormPage(await pageOf(context, attempt, viewer)));
      const decision = { attemptId: attempt.id, claimer: caller, now };
      if (body.decision === "decline") {
        const declined = await context.db.write((tx) => context.claims.decline(tx, decision));
        return declined.status === "wrong_account"
          ? pageResponse(wrongAccountPage(attempt, caller))
          : redirectToClaim([]);
      }
      return await confirm(context, attempt, viewer, body);
    },
  });
}

async function confirm(
  context: ClaimPageContext,
  attempt: ClaimAttempt,
  viewer: ClaimViewer,
  fields: FormFields,
): Promise<Response> {
  const { user, now } = viewer;
  const reviewResponse = async (overrides: Partial<ReviewPageProps>): Promise<Response> =>
    isNamedPerson(attempt, user) && claimStateOf(attempt, now) === "initiated"
      ? pageResponse(
          await reviewPageFor(context, attempt, viewer, { formValues: fields, ...overrides }),
        )
      : await attemptResponse(context, attempt, viewer);
  const { choices, invalid } = parseKeyChoices(fields);
  if (invalid !== undefined) return await reviewResponse({ invalidChoice: invalid });
  const userCode = fields["user_code"]?.replaceAll(/\s/g, "");
  if (!isUserCode(userCode)) return await reviewResponse({ codeError: SIX_DIGITS });
  const confirmed = await context.db.write((tx) =>
    context.claims.confirm(tx, {
      attemptId: attempt.id,
      claimer: user,
      userCode,
      keyChoices: choices,
      shown: fields[SHOWN_FIELD],
      now,
    }),
  );
  if (confirmed.status === "wrong_account") return pageResponse(wrongAccountPage(attempt, user));
  if (confirmed.status === "changed") return await reviewResponse({ shownBefore: fields });
  if (confirmed.status !== "wrong_code") return redirectToClaim([]);
  const { triesLeft } = confirmed;
  const codeError = `Wrong code. The link is disabled after ${triesLeft} more wrong ${triesLeft === 1 ? "code" : "codes"}.`;
  return await reviewResponse({ codeError });
}

function codeRoute(context: ClaimPageContext): Route {
  const { db, claims, link } = context;
  return formRoute({
    tag: "People",
    path: CLAIM_CODE_PATH,
    id: "enterClaimCode",
    summary: "Find a claim by its code",
    body: z.object({ user_code: z.string() }),
    requestExample: { user_code: "402817" },
    run: async ({ body, caller, now }) => {
      const rejected = async (error: CodeError): Promise<ClaimPage> =>
        await codeEntryPage(context, { user: caller, now }, error);
      const userCode = body.user_code.replaceAll(/\s/g, "");
      if (!isUserCode(userCode))
        return pageResponse(await rejected({ status: 400, message: SIX_DIGITS }));
      try {
        const found = await db.write((tx) => claims.findByCode(tx, caller, userCode, now));
        if (found !== undefined)
          return redirectToClaim([link.set({ attemptId: found.id, userCode })]);
      } catch (error) {
        if (!(error instanceof Fault) || error.code !== "rate_limited") throw error;
        const { status, publicMessage, options } = error;
        return pageResponse(await rejected({ status, message: publicMessage }), options);
      }
      const message = `No open claim for ${caller.email} has this code. Check the code and the account that you are signed in with, or open the full link from your agent.`;
      return pageResponse(await rejected({ status: 404, message }));
    },
  });
}

/** The signed-in user who views an attempt. */
interface ClaimViewer {
  readonly user: SessionUser;
  readonly userCode: string | undefined;
  readonly now: number;
}

/** Before sign-in the page reveals only whether the link still works. */
function anonymousPage(attempt: ClaimAttempt, now: number): ClaimPage {
  const state = claimStateOf(attempt, now);
  return state === "expired" || state === "superseded" || state === "locked"
    ? endedPage(state)
    : landingPage(true);
}

async function attemptResponse(
  context: ClaimPageContext,
  attempt: ClaimAttempt,
  viewer: ClaimViewer,
): Promise<Response> {
  return pageResponse(await pageOf(context, attempt, viewer));
}

async function pageOf(
  context: ClaimPageContext,
  attempt: ClaimAttempt,
  viewer: ClaimViewer,
): Promise<ClaimPage> {
  const { user, now } = viewer;
  if (!isNamedPerson(attempt, user)) return wrongAccountPage(attempt, user);
  const state = claimStateOf(attempt, now);
  if (isEnded(state)) return endedPage(state);
  if (state === "initiated") return await reviewPageFor(context, attempt, viewer);
  if (attempt.claimedBy !== user.personId) return claimedByAnotherPage();
  // Links of claimed attempts never expire, so access depends on the current membership.
  const role = await roleOf(context.db, attempt.accountId, user.personId);
  if (role === undefined) return formerMemberPage(user);
  const review = await loadReview(context, attempt, viewer);
  const { accountId, claimedAt } = attempt;
  const revoked = await listKeysFrom(context.db, accountId, { revoked: true, now });
  return claimedPage({
    attempt,
    role,
    review,
    revoked: revoked.filter(({ revokedAt }) => revokedAt === claimedAt),
    user,
    consolePath: context.consolePath,
  });
}

async function reviewPageFor(
  context: ClaimPageContext,
  attempt: ClaimAttempt,
  viewer: ClaimViewer,
  overrides: Partial<ReviewPageProps> = {},
): Promise<ClaimPage> {
  const review = await loadReview(context, attempt, viewer);
  const isRejected = Object.keys(overrides).length > 0;
  const status = overrides.shownBefore !== undefined ? 409 : isRejected ? 400 : 200;
  return { status, layout: reviewPage({ attempt, review, ...viewer, ...overrides }) };
}

async function loadReview(
  context: ClaimPageContext,
  attempt: ClaimAttempt,
  viewer: ClaimViewer,
): Promise<ClaimReview> {
  const review = await readClaimReview(context.db, context.claims, attempt, {
    claimer: viewer.user,
    now: viewer.now,
  });
  // The account stores its single address; the page shows the network.
  const [address = ""] = review.openedFrom.split("/");
  return { ...review, openedFrom: networksOf(address)[1] };
}

async function findAttempt(
  { db }: ClaimPageContext,
  id: string | undefined,
): Promise<ClaimAttempt | undefined> {
  return id === undefined ? undefined : await readAttempt(db, id);
}

function pageResponse(
  { status, layout }: ClaimPage,
  { retryAfterSeconds }: Pick<FaultOptions, "retryAfterSeconds"> = {},
): Response {
  return new Response(renderPage(layout), {
    status,
    headers: {
      ...pageHeaders(),
      "cache-control": "no-store",
      ...(retryAfterSeconds === undefined
        ? {}
        : { "retry-after": String(Math.max(1, Math.ceil(retryAfterSeconds))) }),
    },
  });
}

/** Links and forms redirect to the page without a query, which shows the result. */
function redirectToClaim(cookies: readonly string[]): Response {
  const headers = new Headers({
    location: CLAIM_PATH,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
  });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}
