// The claim ceremony: an agent starts an attempt and polls it; a human who signed in with the email that the agent
// named confirms or declines. Every function that writes locks the account first, so two of them never interleave.

import { addDeveloper, lockWorkspace, type Role, roleOf, takeOver } from "../accounts/members.ts";
import { foldEmail } from "../base/email.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import type { Nano } from "../base/money.ts";
import { deriveKey, fingerprint } from "../base/seal.ts";
import { randomBase62, randomDigits, sameText, type Secret } from "../base/secret.ts";
import type { Reader, Tx } from "../store/db.ts";
import {
  type Attempt,
  INTERVAL_MS,
  pollsTooFast,
  SLOWER_BY_MS,
  type State,
  stateOf,
  TRANSITIONS,
  WINDOW_MS,
  WRONG_CODES_MAX,
} from "./attempt.ts";
import {
  countWrongCode,
  insertAttempt,
  markClaimed,
  markDeclined,
  markPolled,
  markSuperseded,
  readAttempt,
  readAttemptByToken,
  readNewestAttempt,
  readOpenAttempts,
  readOpenAttemptsFor,
} from "./attempt-rows.ts";
import { type BonusRules, type BonusState, bonusStateOf, giveBonus, type Human } from "./bonus.ts";
import { countOne, untilNextSlot } from "./counts.ts";
import { faultOfEmail, mailboxOf } from "./email.ts";
import { applyKeyChoices, type KeyChoice } from "./key-choices.ts";

const TOKEN_CHARACTERS = 43;
const CODE_DIGITS = 6;
const HOUR_MS = 3_600_000;
const GUESS_SLOT_MS = 600_000;
const GUESSES_MAX = 5;
const CODE_PAGE = 100;
const CODE_PAGES_MAX = 50;

export interface ClaimLimits extends BonusRules {
  /** Attempts that an account may start in an hour; zero for no limit. */
  readonly startsPerAccount: number;
}

/** What others may want to know of, told inside the transaction of the change. */
export type ClaimEvent =
  | {
      readonly kind: "claim.started" | "claim.declined" | "claim.locked";
      readonly attempt: Attempt;
    }
  | {
      readonly kind: "claim.completed" | "member.added";
      readonly attempt: Attempt;
      readonly personId: string;
      readonly role: Role;
      readonly bonus: Nano;
    }
  | {
      readonly kind: "key.revoked" | "key.limited";
      readonly keyId: string;
      readonly attempt: Attempt;
    };

export interface ClaimsParts {
  readonly master: Secret;
  readonly limits: ClaimLimits;
  readonly onEvent?: (tx: Tx, event: ClaimEvent, now: number) => Promise<void>;
}

/** A signed-in human; the email is the one that their identity provider has verified. */
export interface Claimer {
  readonly personId: string;
  readonly issuer: string;
  readonly subject: string;
  readonly email: string;
}

interface Start {
  readonly accountId: string;
  readonly keyId: string;
  readonly email: string;
  readonly network: string;
  readonly now: number;
}

export interface Started {
  readonly id: string;
  readonly token: string;
  readonly userCode: string;
  readonly expiresAt: number;
  readonly intervalMs: number;
}

interface Poll {
  readonly accountId: string;
  readonly keyId: string;
  readonly attemptId?: string | undefined;
  readonly now: number;
}

export type Polled =
  | { readonly status: "pending" }
  | { readonly status: "claimed" }
  | { readonly status: "denied" }
  | { readonly status: "expired" }
  | { readonly status: "none" }
  | { readonly status: "too_fast"; readonly intervalMs: number };

interface Decision {
  readonly attemptId: string;
  readonly claimer: Claimer;
  readonly now: number;
}

interface Confirmation extends Decision {
  readonly userCode: string;
  /** What becomes of the account's keys; a developer has no say in it. */
  readonly keyChoices: readonly KeyChoice[];
}

type Confirmed =
  | { readonly status: "claimed"; readonly role: Role; readonly bonus: Nano }
  | { readonly status: "wrong_code"; readonly left: number }
  | { readonly status: "refused"; readonly state: State }
  | { readonly status: "wrong_account" };

type Declined =
  | { readonly status: "declined" }
  | Exclude<Confirmed, { status: "claimed" | "wrong_code" }>;

export interface Claims {
  readonly start: (tx: Tx, request: Start) => Promise<Started>;
  readonly poll: (tx: Tx, request: Poll) => Promise<Polled>;
  readonly confirm: (tx: Tx, request: Confirmation) => Promise<Confirmed>;
  readonly decline: (tx: Tx, request: Decision) => Promise<Declined>;
  readonly findByToken: (reader: Reader, token: string) => Promise<Attempt | undefined>;
  /** Finds an attempt by its code alone, among those that name the claimer's own email. */
  readonly findByCode: (
    tx: Tx,
    claimer: Claimer,
    userCode: string,
    now: number,
  ) => Promise<Attempt | undefined>;
  readonly bonusStateOf: (reader: Reader, claimer: Claimer, now: number) => Promise<BonusState>;
}

interface Room {
  readonly limits: ClaimLimits;
  readonly tell: (tx: Tx, event: ClaimEvent, now: number) => Promise<void>;
  readonly hashToken: (token: string) => string;
  readonly hashCode: (attemptId: string, userCode: string) => string;
  readonly humanOf: (claimer: Claimer) => Human;
}

export function createClaims({ master, limits, onEvent }: ClaimsParts): Claims {
  const tokenKey = deriveKey(master, "claim-token/v1");
  const codeKey = deriveKey(master, "claim-code/v1");
  const mailboxKey = deriveKey(master, "claim-mailbox/v1");
  const room: Room = {
    limits,
    tell: onEvent ?? (async () => {}),
    hashToken: (token) => fingerprint(tokenKey, token),
    hashCode: (attemptId, userCode) => fingerprint(codeKey, `${attemptId} ${userCode}`),
    humanOf: ({ issuer, subject, email }) => ({
      issuer,
      subject,
      mailbox: fingerprint(mailboxKey, mailboxOf(email)),
    }),
  };
  return {
    start: (tx, request) => start(tx, request, room),
    poll,
    confirm: (tx, request) => confirm(tx, request, room),
    decline: (tx, request) => decline(tx, request, room),
    findByToken: (reader, token) => readAttemptByToken(reader, room.hashToken(token)),
    findByCode: (tx, claimer, userCode, now) => findByCode(tx, claimer, { userCode, now }, room),
    bonusStateOf: (reader, claimer, now) =>
      bonusStateOf(reader, room.humanOf(claimer), { ...limits, now }),
  };
}

/** The rule that a code alone claims nothing: only letter case is forgiven. */
export function isMeant(attempt: Attempt, email: string): boolean {
  return attempt.emailFolded === foldEmail(email);
}

async function start(tx: Tx, request: Start, room: Room): Promise<Started> {
  const { accountId, keyId, email, network, now } = request;
  const wrong = faultOfEmail(email);
  if (wrong !== undefined) throw invalid("email", `email: ${wrong}`);
  const emailFolded = foldEmail(email);
  const { claimed } = await lockWorkspace(tx, accountId);
  // The address that is named is not counted: then a stranger could use up what its owner's own agent needs.
  await countStart(tx, `account ${accountId}`, room.limits.startsPerAccount, now);
  for (const open of await readOpenAttempts(tx, accountId))
    if (TRANSITIONS[stateOf(open, now)].restart === "supersede")
      await markSuperseded(tx, open.id, now);
  const id = newId("claim", now);
  const token = randomBase62(TOKEN_CHARACTERS);
  const userCode = randomDigits(CODE_DIGITS);
  const expiresAt = now + WINDOW_MS;
  await insertAttempt(tx, {
    id,
    accountId,
    keyId,
    email,
    emailFolded,
    tokenHash: room.hashToken(token),
    codeHash: room.hashCode(id, userCode),
    network,
    invitation: claimed,
    createdAt: now,
    expiresAt,
    intervalMs: INTERVAL_MS,
  });
  await room.tell(tx, { kind: "claim.started", attempt: await lockedAttempt(tx, id) }, now);
  return { id, token, userCode, expiresAt, intervalMs: INTERVAL_MS };
}

async function countStart(tx: Tx, scope: string, most: number, now: number): Promise<void> {
  if (most === 0 || (await countOne(tx, scope, HOUR_MS, now)) <= most) return;
  throw new Fault("rate_limited", "too many claim starts", {
    message:
      "Too many claims were started. Wait for `retry-after` seconds; ask the human whether the last link has reached them.",
    retryAfterSeconds: untilNextSlot(HOUR_MS, now) / 1_000,
  });
}

async function poll(tx: Tx, request: Poll): Promise<Polled> {
  const { accountId, keyId, attemptId, now } = request;
  await lockWorkspace(tx, accountId);
  const attempt =
    attemptId === undefined
      ? await readNewestAttempt(tx, accountId, keyId)
      : await readAttempt(tx, attemptId);
  if (attempt?.accountId !== accountId) return { status: "none" };
  const answer = TRANSITIONS[stateOf(attempt, now)].poll;
  if (answer !== "pending") return { status: answer };
  const tooFast = pollsTooFast(attempt, now);
  const intervalMs = attempt.intervalMs + (tooFast ? SLOWER_BY_MS : 0);
  await markPolled(tx, attempt.id, intervalMs, now);
  return tooFast ? { status: "too_fast", intervalMs } : { status: "pending" };
}

async function confirm(tx: Tx, request: Confirmation, room: Room): Promise<Confirmed> {
  const { claimer, now } = request;
  const attempt = await lockedAttempt(tx, request.attemptId);
  if (!isMeant(attempt, claimer.email)) return { status: "wrong_account" };
  const state = stateOf(attempt, now);
  const isRight = sameText(attempt.codeHash, room.hashCode(attempt.id, request.userCode));
  const { confirm, mistype } = TRANSITIONS[state];
  if (confirm === "repeat") return repeated(attempt, claimer);
  if (!isRight && mistype === "count") {
    await countWrongCode(tx, attempt.id);
    const left = WRONG_CODES_MAX - attempt.wrongCodes - 1;
    if (left === 0) await room.tell(tx, { kind: "claim.locked", attempt }, now);
    return left === 0 ? { status: "refused", state: "locked" } : { status: "wrong_code", left };
  }
  if (confirm === "refuse") return { status: "refused", state };
  return attempt.invitation
    ? await join(tx, attempt, request, room)
    : await own(tx, attempt, request, room);
}

/** Whoever claimed it is told the same again; anybody else, that it is done. */
function repeated(attempt: Attempt, claimer: Claimer): Confirmed {
  if (attempt.claimedBy !== claimer.personId || attempt.claimedRole === null)
    return { status: "refused", state: "claimed" };
  return { status: "claimed", role: attempt.claimedRole, bonus: attempt.bonus };
}

async function own(
  tx: Tx,
  attempt: Attempt,
  { claimer, keyChoices, now }: Confirmation,
  room: Room,
): Promise<Confirmed> {
  const { id, accountId } = attempt;
  const { personId } = claimer;
  await takeOver(tx, { accountId, personId, via: id, now });
  const bonus = await giveBonus(tx, room.humanOf(claimer), { ...room.limits, accountId, now });
  await markClaimed(tx, id, { personId, role: "owner", bonus, now });
  for (const { keyId, kind } of await applyKeyChoices(tx, accountId, keyChoices, now))
    await room.tell(tx, { kind, keyId, attempt }, now);
  await room.tell(tx, { kind: "claim.completed", attempt, personId, role: "owner", bonus }, now);
  return { status: "claimed", role: "owner", bonus };
}

async function join(
  tx: Tx,
  attempt: Attempt,
  { claimer, now }: Confirmation,
  room: Room,
): Promise<Confirmed> {
  const { id, accountId } = attempt;
  const { personId } = claimer;
  const isNew = (await roleOf(tx, accountId, personId)) === undefined;
  const role = await addDeveloper(tx, { accountId, personId, via: id, now });
  await markClaimed(tx, id, { personId, role, bonus: 0n, now });
  if (isNew) await room.tell(tx, { kind: "member.added", attempt, personId, role, bonus: 0n }, now);
  return { status: "claimed", role, bonus: 0n };
}

async function decline(
  tx: Tx,
  { attemptId, claimer, now }: Decision,
  room: Room,
): Promise<Declined> {
  const attempt = await lockedAttempt(tx, attemptId);
  if (!isMeant(attempt, claimer.email)) return { status: "wrong_account" };
  const state = stateOf(attempt, now);
  const { decline } = TRANSITIONS[state];
  if (decline === "refuse") return { status: "refused", state };
  if (decline === "decline") {
    await markDeclined(tx, attempt.id, now);
    await room.tell(tx, { kind: "claim.declined", attempt }, now);
  }
  return { status: "declined" };
}

async function findByCode(
  tx: Tx,
  claimer: Claimer,
  { userCode, now }: { readonly userCode: string; readonly now: number },
  room: Room,
): Promise<Attempt | undefined> {
  const scope = `guess ${claimer.personId}`;
  // Every try counts, so that tries at the same instant are counted too.
  if ((await countOne(tx, scope, GUESS_SLOT_MS, now)) > GUESSES_MAX)
    throw new Fault("rate_limited", "too many codes tried", {
      message:
        "Too many codes were tried. Wait ten minutes, or open the full link that your agent gave you.",
      retryAfterSeconds: untilNextSlot(GUESS_SLOT_MS, now) / 1_000,
    });
  const hasCode = (attempt: Attempt): boolean =>
    stateOf(attempt, now) === "initiated" &&
    sameText(attempt.codeHash, room.hashCode(attempt.id, userCode));
  const found: Attempt[] = [];
  const asked = { emailFolded: foldEmail(claimer.email), now, most: CODE_PAGE };
  let before: string | undefined;
  // Strangers may name the same address as often as they like, and must not bury the one that is meant.
  for (let page = 0; page < CODE_PAGES_MAX; page++) {
    const attempts = await readOpenAttemptsFor(tx, { ...asked, before });
    found.push(...attempts.filter(hasCode));
    if (attempts.length < CODE_PAGE) break;
    before = attempts.at(-1)?.id;
  }
  // Of two with the same code neither is taken: only the full link says which is meant.
  return found.length === 1 ? found[0] : undefined;
}

/** Reads an attempt under the lock of its account: which account that is never changes. */
async function lockedAttempt(tx: Tx, id: string): Promise<Attempt> {
  const unlocked = await readAttempt(tx, id);
  if (unlocked !== undefined) await lockWorkspace(tx, unlocked.accountId);
  const attempt = await readAttempt(tx, id);
  if (attempt === undefined) throw new Fault("not_found", `no claim attempt ${id}`);
  return attempt;
}
