// GET and POST /claim: the human's side of the ceremony. A GET changes nothing; a POST is a form of this very page.

import { z } from "zod";
import { roleOf } from "../accounts/members.ts";
import { Fault, type FaultOptions } from "../base/fault.ts";
import type { Secret } from "../base/secret.ts";
import { networksOf } from "../http/address.ts";
import { pageHeaders, renderPage } from "../http/layout.tsx";
import { personRoute, type Route, type Visitor, visitorRoute } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import { type Attempt, stateOf } from "./attempt.ts";
import { readAttempt } from "./attempt-rows.ts";
import { type FormFields, readChoices } from "./choices-form.ts";
import { type Claims, isMeant } from "./claims.ts";
import { CLAIM_PATH, createLinkCookie, isToken, isUserCode, type LinkCookie } from "./link.ts";
import {
  claimedByAnotherPage,
  type ClaimPage,
  codePage,
  deadPage,
  donePage,
  formerMemberPage,
  fromAnotherPage,
  invalidPage,
  isDead,
  landingPage,
  wrongAccountPage,
} from "./pages.tsx";
import { type Review, reviewOf } from "./review.ts";
import { reviewPage, type ReviewState } from "./review-page.tsx";

export interface ClaimPageParts {
  readonly db: Db;
  readonly claims: Claims;
  readonly master: Secret;
  readonly baseUrl: string;
  /** Where a person goes on after the claim; absent where there is no console. */
  readonly home?: string;
}

interface Room extends ClaimPageParts {
  readonly link: LinkCookie;
}

const PAGE_DOC = {
  tag: "People",
  dialect: "page",
  hidden: true,
  faults: [],
  answers: { 200: { description: "A page.", contentType: "text/html" } },
} as const;

export function claimPageRoutes(parts: ClaimPageParts): readonly Route[] {
  const room: Room = { ...parts, link: createLinkCookie(parts.master, parts.baseUrl) };
  return [openRoute(room), decideRoute(room), codeRoute(room)];
}

function openRoute(room: Room): Route {
  return visitorRoute({
    ...PAGE_DOC,
    method: "GET",
    path: CLAIM_PATH,
    id: "openClaim",
    summary: "The claim page",
    query: z.object({ token: z.string().optional(), user_code: z.string().optional() }),
    run: async ({ query, caller, headers, now }) => {
      const { token, user_code: userCode } = query;
      if (token !== undefined || userCode !== undefined) {
        const attempt = isToken(token) ? await room.claims.findByToken(room.db, token) : undefined;
        const code = isUserCode(userCode) ? userCode : undefined;
        return toPage([room.link.set({ attemptId: attempt?.id, userCode: code })]);
      }
      const shown = room.link.read(headers.get("cookie"));
      if (shown === undefined)
        return show(caller === undefined ? landingPage(false) : codePage(caller));
      const attempt = await attemptOf(room, shown.attemptId);
      if (attempt === undefined) return show(invalidPage());
      if (caller === undefined) return show(strangersPage(attempt, now));
      return await showAttempt(room, attempt, { visitor: caller, userCode: shown.userCode, now });
    },
  });
}

const Decision = z
  .looseObject({ decision: z.enum(["confirm", "decline"]), attempt: z.string().optional() })
  .catchall(z.string().optional());

function decideRoute(room: Room): Route {
  return personRoute({
    ...PAGE_DOC,
    method: "POST",
    path: CLAIM_PATH,
    id: "decideClaim",
    summary: "Confirm or decline a claim",
    body: Decision,
    example: {
      decision: "confirm",
      attempt: "claim_01kah5t3mq7d2c9w4e6r8t0yax",
      user_code: "402817",
    },
    run: async ({ body, caller, headers, now }) => {
      const shown = room.link.read(headers.get("cookie"));
      const attempt = await attemptOf(room, shown?.attemptId);
      if (attempt === undefined) return show(invalidPage());
      const sight: Sight = { visitor: caller, userCode: shown?.userCode, now };
      if (body.attempt !== attempt.id)
        return show(fromAnotherPage(await pageOf(room, attempt, sight)));
      const decision = { attemptId: attempt.id, claimer: caller, now };
      if (body.decision === "decline") {
        const declined = await room.db.write((tx) => room.claims.decline(tx, decision));
        return declined.status === "wrong_account"
          ? show(wrongAccountPage(attempt, caller))
          : toPage([]);
      }
      return await confirm(room, attempt, sight, body);
    },
  });
}

async function confirm(
  room: Room,
  attempt: Attempt,
  sight: Sight,
  fields: FormFields,
): Promise<Response> {
  const { visitor, now } = sight;
  const again = async (what: Partial<ReviewState>): Promise<Response> =>
    isMeant(attempt, visitor.email) && stateOf(attempt, now) === "initiated"
      ? show(await reviewAgain(room, attempt, sight, { typed: fields, ...what }))
      : await showAttempt(room, attempt, sight);
  const { choices, wrong } = readChoices(fields);
  if (wrong !== undefined) return await again({ wrongChoice: wrong });
  const userCode = fields["user_code"]?.replaceAll(/\s/g, "");
  if (!isUserCode(userCode)) return await again({ wrongCode: "The code has six digits." });
  const confirmed = await room.db.write((tx) =>
    room.claims.confirm(tx, {
      attemptId: attempt.id,
      claimer: visitor,
      userCode,
      keyChoices: choices,
      now,
    }),
  );
  if (confirmed.status === "wrong_account") return show(wrongAccountPage(attempt, visitor));
  if (confirmed.status !== "wrong_code") return toPage([]);
  const { left } = confirmed;
  const wrongCode = `That is not the code of this claim. ${left} more ${left === 1 ? "try" : "tries"}, then the link is closed.`;
  return await again({ wrongCode });
}

function codeRoute({ db, claims, link }: Room): Route {
  return personRoute({
    ...PAGE_DOC,
    method: "POST",
    path: `${CLAIM_PATH}/code`,
    id: "enterClaimCode",
    summary: "Find a claim by its code",
    body: z.object({ user_code: z.string() }),
    example: { user_code: "402817" },
    run: async ({ body, caller, now }) => {
      const userCode = body.user_code.replaceAll(/\s/g, "");
      if (!isUserCode(userCode))
        return show(codePage(caller, { status: 400, message: "The code has six digits." }));
      try {
        const found = await db.write((tx) => claims.findByCode(tx, caller, userCode, now));
        if (found !== undefined) return toPage([link.set({ attemptId: found.id, userCode })]);
      } catch (error) {
        if (!(error instanceof Fault) || error.code !== "rate_limited") throw error;
        const { status, publicMessage, options } = error;
        return show(codePage(caller, { status, message: publicMessage }), options);
      }
      const message = `No open claim for ${caller.email} has that code. Check the digits, and the account that you are signed in with; or open the full link that your agent gave you.`;
      return show(codePage(caller, { status: 404, message }));
    },
  });
}

/** Who looks at an attempt, and what they brought along. */
interface Sight {
  readonly visitor: Visitor;
  readonly userCode: string | undefined;
  readonly now: number;
}

/** A stranger learns whether the link is dead, and nothing else. */
function strangersPage(attempt: Attempt, now: number): ClaimPage {
  const state = stateOf(attempt, now);
  return state === "expired" || state === "superseded" || state === "locked"
    ? deadPage(state)
    : landingPage(true);
}

async function showAttempt(room: Room, attempt: Attempt, sight: Sight): Promise<Response> {
  return show(await pageOf(room, attempt, sight));
}

async function pageOf(room: Room, attempt: Attempt, sight: Sight): Promise<ClaimPage> {
  const { visitor, now } = sight;
  if (!isMeant(attempt, visitor.email)) return wrongAccountPage(attempt, visitor);
  const state = stateOf(attempt, now);
  if (isDead(state)) return deadPage(state);
  if (state === "initiated") return await reviewAgain(room, attempt, sight);
  if (attempt.claimedBy !== visitor.personId) return claimedByAnotherPage();
  // A link opens for ever, and a workspace is shown to those who belong to it now.
  const role = await roleOf(room.db, attempt.accountId, visitor.personId);
  if (role === undefined) return formerMemberPage(visitor);
  const review = await look(room, attempt, sight);
  return donePage({ attempt, role, review, visitor, home: room.home });
}

async function reviewAgain(
  room: Room,
  attempt: Attempt,
  sight: Sight,
  what: Partial<ReviewState> = {},
): Promise<ClaimPage> {
  const review = await look(room, attempt, sight);
  const status = Object.keys(what).length === 0 ? 200 : 400;
  return { status, frame: reviewPage({ attempt, review, ...sight, ...what }) };
}

async function look({ db, claims }: Room, attempt: Attempt, sight: Sight): Promise<Review> {
  const review = await reviewOf(db, claims, attempt, { claimer: sight.visitor, now: sight.now });
  const [address = ""] = review.openedFrom.split("/");
  return { ...review, openedFrom: networksOf(address)[1] };
}

async function attemptOf({ db }: Room, id: string | undefined): Promise<Attempt | undefined> {
  return id === undefined ? undefined : await readAttempt(db, id);
}

function show(
  { status, frame }: ClaimPage,
  { retryAfterSeconds }: Pick<FaultOptions, "retryAfterSeconds"> = {},
): Response {
  return new Response(renderPage(frame), {
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

/** The answer to a form, and to a link: the page at its clean address shows what came of it. */
function toPage(cookies: readonly string[]): Response {
  const headers = new Headers({
    location: CLAIM_PATH,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
  });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}
