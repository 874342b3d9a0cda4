// Claims: an agent starts an attempt and polls it; a human, signed in with the email that the agent named, confirms or
// declines. Every function that writes locks the account first, so writes of one account never interleave.

import { addMember, lockWorkspace, type Role, claimWorkspace } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { randomBase62, randomDigits, timingSafeEqualText } from "../base/crypto/secret.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { creditsOf, type Nano } from "../base/money/money.ts";
import { emailError, foldEmail } from "../base/text/email.ts";
import { HOUR_MS, MINUTE_MS, msUntilNextWindow } from "../base/time.ts";
import { requireAllowedEmail } from "../controls/blocks.ts";
import type { Reader, Tx } from "../store/db.ts";
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
  readOpenAttemptsByEmail,
} from "./claim-attempt-rows.ts";
import {
  type ClaimAttempt,
  POLL_INTERVAL_MS,
  isPollingTooFast,
  SLOW_DOWN_MS,
  type ClaimState,
  claimStateOf,
  TRANSITIONS,
  CLAIM_TTL_MS,
  WRONG_CODES_MAX,
} from "./claim-attempt.ts";
import {
  type BonusLimits,
  type BonusState,
  bonusStateOf,
  grantBonus,
  type BonusRecipient,
} from "./claim-bonus.ts";
import { canonicalMailbox } from "./email-address.ts";
import { applyKeyChoices, type KeyChoice } from "./key-choices.ts";
import { increment } from "./rate-counters.ts";
import { digestOfAll, readKeysAndSetup } from "./shown-state.ts";

const TOKEN_CHARACTERS = 43;
const CODE_DIGITS = 6;
const GUESS_WINDOW_MS = 10 * MINUTE_MS;
const GUESSES_MAX = 5;
const CODE_SEARCH_PAGE_SIZE = 100;
const CODE_SEARCH_PAGES_MAX = 50;

export interface ClaimLimits extends BonusLimits {
  /** Attempts per account and hour; zero for no limit. */
  readonly startsPerAccount: number;
}

export interface ClaimsDeps {
  readonly master: MasterSecret;
  readonly limits: ClaimLimits;
}

/** A signed-in human; the email is verified by their identity provider. */
export interface Claimer {
  readonly personId: string;
  readonly issuer: string;
  readonly subject: string;
  readonly email: string;
  readonly ssoAccountId?: string | undefined;
}

interface StartRequest {
  readonly accountId: string;
  readonly keyId: string;
  readonly email: string;
  readonly network: string;
  readonly now: number;
}

export interface StartedClaim {
  readonly id: string;
  readonly token: string;
  readonly userCode: string;
  readonly expiresAt: number;
  readonly intervalMs: number;
}

interface PollRequest {
  readonly accountId: string;
  readonly keyId: string;
  readonly attemptId?: string | undefined;
  readonly now: number;
}

export type PollResult =
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
  /** Applied only when the human becomes the owner. */
  readonly keyChoices: readonly KeyChoice[];
  /** The digest of the keys and the setup that the human has seen; see `shown-state.ts`. */
  readonly shown: string | undefined;
}

type ConfirmResult =
  | { readonly status: "claimed"; readonly role: Role; readonly bonus: Nano }
  | { readonly status: "wrong_code"; readonly triesLeft: number }
  /** Keys or setup are not those that the human has seen. Nothing was changed. */
  | { readonly status: "changed" }
  | { readonly status: "refused"; readonly state: ClaimState }
  | { readonly status: "wrong_account" };

type DeclineResult =
  | { readonly status: "declined" }
  | Exclude<ConfirmResult, { status: "claimed" | "wrong_code" | "changed" }>;

export interface Claims {
  readonly start: (tx: Tx, request: StartRequest) => Promise<StartedClaim>;
  readonly poll: (tx: Tx, request: PollRequest) => Promise<PollResult>;
  readonly confirm: (tx: Tx, request: Confirmation) => Promise<ConfirmResult>;
  readonly decline: (tx: Tx, request: Decision) => Promise<DeclineResult>;
  readonly findByToken: (reader: Reader, token: string) => Promise<ClaimAttempt | undefined>;
  /** Finds an attempt by its code alone, among those that name the claimer's own email. */
  readonly findByCode: (
    tx: Tx,
    claimer: Claimer,
    userCode: string,
    now: number,
  ) => Promise<ClaimAttempt | undefined>;
  /** Returns the granted amount: zero if this human already had the bonus. */
  readonly grantBonus: (tx: Tx, claimer: Claimer, accountId: string, now: number) => Promise<Nano>;
  readonly bonusStateOf: (reader: Reader, claimer: Claimer, now: number) => Promise<BonusState>;
}

interface ClaimDeps {
  readonly limits: ClaimLimits;
  readonly hashToken: (token: string) => string;
  readonly hashCode: (attemptId: string, userCode: string) => string;
  readonly isCode: (attempt: ClaimAttempt, userCode: string) => boolean;
  readonly recipientOf: (claimer: Claimer) => BonusRecipient;
}

export function createClaims({ master, limits }: ClaimsDeps): Claims {
  const tokenKey = deriveKey(master, "claim-token/v1");
  const codeKey = deriveKey(master, "claim-code/v1");
  const mailboxKey = deriveKey(master, "claim-mailbox/v1");
  const deps: ClaimDeps = {
    limits,
    hashToken: (token) => fingerprint(tokenKey, token),
    hashCode: (attemptId, userCode) => fingerprint(codeKey, `${attemptId} ${userCode}`),
    isCode: ({ id, codeHash }, userCode) =>
      fingerprints(codeKey, `${id} ${userCode}`).some((hash) =>
        timingSafeEqualText(codeHash, hash),
      ),
    recipientOf: ({ issuer, subject, email }) => ({
      issuer,
      subject,
      mailboxes: fingerprints(mailboxKey, canonicalMailbox(email)),
    }),
  };
  return {
    start: (tx, request) => start(tx, request, deps),
    poll,
    confirm: (tx, request) => confirm(tx, request, deps),
    decline,
    findByToken: (reader, token) => readAttemptByToken(reader, fingerprints(tokenKey, token)),
    findByCode: (tx, claimer, userCode, now) => findByCode(tx, claimer, { userCode, now }, deps),
    grantBonus: (tx, claimer, accountId, now) =>
      grantBonus(tx, deps.recipientOf(claimer), { ...limits, accountId, now }),
    bonusStateOf: (reader, claimer, now) =>
      bonusStateOf(reader, deps.recipientOf(claimer), { ...limits, now }),
  };
}

/**
 * Only the person whom the agent named may confirm or decline; letter case is ignored. The identity provider of a workspace
 * vouches for an address only there.
 */
export function isNamedPerson(
  { emailFolded, accountId }: ClaimAttempt,
  { email, ssoAccountId }: Pick<Claimer, "email" | "ssoAccountId">,
): boolean {
  return emailFolded === foldEmail(email) && (ssoAccountId ?? accountId) === accountId;
}

async function start(tx: Tx, request: StartRequest, deps: ClaimDeps): Promise<StartedClaim> {
  const { accountId, keyId, email, network, now } = request;
  const error = emailError(email);
  if (error !== undefined) throw invalid("email", `\`email\` ${error}.`);
  const emailFolded = foldEmail(email);
  await requireAllowedEmail(tx, email);
  const { isClaimed } = await lockWorkspace(tx, accountId);
  // Starts are not limited per named email: other accounts could then exhaust the limit of its owner.
  await enforceStartLimit(tx, `account ${accountId}`, deps.limits.startsPerAccount, now);
  for (const open of await readOpenAttempts(tx, accountId))
    if (TRANSITIONS[claimStateOf(open, now)].restart === "supersede")
      await markSuperseded(tx, open.id, now);
  const id = newId("claim", now);
  const token = randomBase62(TOKEN_CHARACTERS);
  const userCode = randomDigits(CODE_DIGITS);
  const expiresAt = now + CLAIM_TTL_MS;
  await insertAttempt(tx, {
    id,
    accountId,
    keyId,
    email,
    emailFolded,
    tokenHash: deps.hashToken(token),
    codeHash: deps.hashCode(id, userCode),
    network,
    invitation: isClaimed,
    createdAt: now,
    expiresAt,
    intervalMs: POLL_INTERVAL_MS,
  });
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "key", id: keyId },
    action: "claim.started",
    target: id,
    detail: { email, invitation: isClaimed },
    network,
    now,
  });
  const data = { claim_attempt_id: id, email };
  await emitEvent(tx, { type: "claim.started", accountId, data, now });
  return { id, token, userCode, expiresAt, intervalMs: POLL_INTERVAL_MS };
}

async function enforceStartLimit(tx: Tx, scope: string, max: number, now: number): Promise<void> {
  if (max === 0 || (await increment(tx, scope, HOUR_MS, now)) <= max) return;
  throw new Fault("rate_limited", "too many claim starts", {
    message:
      "Too many claims were started for this account. Wait for `retry-after` seconds, and ask the human whether the last link reached them.",
    retryAfterSeconds: msUntilNextWindow(HOUR_MS, now) / 1_000,
  });
}

async function poll(tx: Tx, request: PollRequest): Promise<PollResult> {
  const { accountId, keyId, attemptId, now } = request;
  await lockWorkspace(tx, accountId);
  const attempt =
    attemptId === undefined
      ? await readNewestAttempt(tx, accountId, keyId)
      : await readAttempt(tx, attemptId);
  if (attempt?.accountId !== accountId) return { status: "none" };
  const result = TRANSITIONS[claimStateOf(attempt, now)].poll;
  if (result !== "pending") return { status: result };
  const tooFast = isPollingTooFast(attempt, now);
  const intervalMs = attempt.intervalMs + (tooFast ? SLOW_DOWN_MS : 0);
  await markPolled(tx, attempt.id, intervalMs, now);
  return tooFast ? { status: "too_fast", intervalMs } : { status: "pending" };
}

async function confirm(tx: Tx, request: Confirmation, deps: ClaimDeps): Promise<ConfirmResult> {
  const { claimer, now } = request;
  const attempt = await lockAttempt(tx, request.attemptId);
  if (!isNamedPerson(attempt, claimer)) return { status: "wrong_account" };
  const state = claimStateOf(attempt, now);
  const isCodeCorrect = deps.isCode(attempt, request.userCode);
  const { confirm, wrong_code: wrongCode } = TRANSITIONS[state];
  if (confirm === "repeat") return repeatedConfirm(attempt, claimer);
  if (!isCodeCorrect && wrongCode === "count") {
    await countWrongCode(tx, attempt.id);
    const triesLeft = WRONG_CODES_MAX - attempt.wrongCodes - 1;
    if (triesLeft === 0) {
      const entry = {
        ...actOf(attempt, request),
        action: "claim.locked",
        target: attempt.id,
      } as const;
      await recordAuditEntry(tx, entry);
    }
    return triesLeft === 0
      ? { status: "refused", state: "locked" }
      : { status: "wrong_code", triesLeft };
  }
  if (confirm === "refuse") return { status: "refused", state };
  if (attempt.invitation) return await joinAsDeveloper(tx, attempt, request);
  const current = await readKeysAndSetup(tx, attempt.accountId, now);
  if (request.shown !== digestOfAll(current)) return { status: "changed" };
  return await claimAsOwner(tx, attempt, request, deps);
}

/** Confirming again returns the same result to the person who claimed; everyone else is refused. */
function repeatedConfirm(attempt: ClaimAttempt, claimer: Claimer): ConfirmResult {
  if (attempt.claimedBy !== claimer.personId || attempt.claimedRole === null)
    return { status: "refused", state: "claimed" };
  return { status: "claimed", role: attempt.claimedRole, bonus: attempt.bonus };
}

async function claimAsOwner(
  tx: Tx,
  attempt: ClaimAttempt,
  confirmation: Confirmation,
  deps: ClaimDeps,
): Promise<ConfirmResult> {
  const { claimer, keyChoices, now } = confirmation;
  const { id, accountId, keyId, email } = attempt;
  const { personId } = claimer;
  await claimWorkspace(tx, { accountId, personId, via: id, viaKeyId: keyId, now });
  const bonus = await grantBonus(tx, deps.recipientOf(claimer), { ...deps.limits, accountId, now });
  await markClaimed(tx, id, { personId, role: "owner", bonus, now });
  const act = actOf(attempt, confirmation);
  await applyKeyChoices(tx, act, keyChoices);
  const detail = { email, role: "owner" };
  await recordAuditEntry(tx, { ...act, action: "account.claimed", target: id, detail });
  const data = { claim_attempt_id: id, email, role: "owner", bonus_credits: creditsOf(bonus) };
  await emitEvent(tx, { type: "claim.completed", accountId, data, now });
  return { status: "claimed", role: "owner", bonus };
}

async function joinAsDeveloper(
  tx: Tx,
  attempt: ClaimAttempt,
  { claimer, now }: Confirmation,
): Promise<ConfirmResult> {
  const { id, accountId, keyId } = attempt;
  const { personId } = claimer;
  const role = await addMember(tx, {
    accountId,
    personId,
    role: "developer",
    via: id,
    viaKeyId: keyId,
    network: null,
    now,
  });
  await markClaimed(tx, id, { personId, role, bonus: 0n, now });
  return { status: "claimed", role, bonus: 0n };
}

/** The network of the person is not recorded, because keys of the account can read the audit log. */
function actOf({ accountId }: ClaimAttempt, { claimer, now }: Decision): Act {
  return { accountId, actor: { type: "person", id: claimer.personId }, network: null, now };
}

async function decline(tx: Tx, decision: Decision): Promise<DeclineResult> {
  const { attemptId, claimer, now } = decision;
  const attempt = await lockAttempt(tx, attemptId);
  if (!isNamedPerson(attempt, claimer)) return { status: "wrong_account" };
  const state = claimStateOf(attempt, now);
  const { decline } = TRANSITIONS[state];
  if (decline === "refuse") return { status: "refused", state };
  if (decline === "decline") {
    const act = actOf(attempt, decision);
    await markDeclined(tx, attempt.id, now);
    await recordAuditEntry(tx, { ...act, action: "claim.declined", target: attempt.id });
  }
  return { status: "declined" };
}

async function findByCode(
  tx: Tx,
  claimer: Claimer,
  { userCode, now }: { readonly userCode: string; readonly now: number },
  deps: ClaimDeps,
): Promise<ClaimAttempt | undefined> {
  const scope = `guess ${claimer.personId}`;
  // Counted before the comparison, so that concurrent guesses are counted as well.
  if ((await increment(tx, scope, GUESS_WINDOW_MS, now)) > GUESSES_MAX)
    throw new Fault("rate_limited", "too many codes tried", {
      message:
        "Too many codes were tried. Wait ten minutes, or open the full link from your agent.",
      retryAfterSeconds: msUntilNextWindow(GUESS_WINDOW_MS, now) / 1_000,
    });
  const hasCode = (attempt: ClaimAttempt): boolean =>
    claimStateOf(attempt, now) === "initiated" && deps.isCode(attempt, userCode);
  const found: ClaimAttempt[] = [];
  const filter = { emailFolded: foldEmail(claimer.email), now, limit: CODE_SEARCH_PAGE_SIZE };
  let before: string | undefined;
  // Other accounts can name the same email any number of times, so one page of attempts is not enough.
  for (let page = 0; page < CODE_SEARCH_PAGES_MAX; page++) {
    const attempts = await readOpenAttemptsByEmail(tx, { ...filter, before });
    found.push(...attempts.filter(hasCode));
    if (attempts.length < CODE_SEARCH_PAGE_SIZE) break;
    before = attempts.at(-1)?.id;
  }
  // If two attempts share the code, only the full link can tell them apart.
  return found.length === 1 ? found[0] : undefined;
}

/** Reads an attempt again under the lock of its account. The account of an attempt never changes. */
async function lockAttempt(tx: Tx, id: string): Promise<ClaimAttempt> {
  const unlocked = await readAttempt(tx, id);
  if (unlocked !== undefined) await lockWorkspace(tx, unlocked.accountId);
  return await requireAttempt(tx, id);
}

async function requireAttempt(tx: Tx, id: string): Promise<ClaimAttempt> {
  const attempt = await readAttempt(tx, id);
  if (attempt === undefined) throw new Fault("not_found", `no claim attempt ${id}`);
  return attempt;
}
