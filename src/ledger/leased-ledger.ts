// A ledger whose process decides holds of busy keys on leases.

import { createCreditLeases, type CreditLeases } from "./credit-leases.ts";
import type {
  HoldOutcome,
  HoldRequest,
  RaiseOutcome,
  RaiseRequest,
  SettleOutcome,
  SettleRequest,
} from "./decide.ts";
import type { CreditLeaseDeps } from "./held-leases.ts";

/** What callers of the ledger do with calls. */
export interface LedgerOperations<UsageRecord> {
  readonly hold: (request: HoldRequest) => Promise<HoldOutcome>;
  /** Decides a hold from cached rows, or on a lease; undefined if rows must be read first. */
  readonly tryHoldSync: (request: HoldRequest) => HoldOutcome | undefined;
  /** Holds more for an open call. */
  readonly raise: (request: RaiseRequest) => Promise<RaiseOutcome>;
  readonly settle: (request: SettleRequest<UsageRecord>) => Promise<SettleOutcome>;
  /** For a call that still runs: its hold is kept for another lifetime. */
  readonly extendHold: (id: string) => void;
  /** Returns the credits that are reserved for the next calls. */
  readonly returnLeases: () => void;
  /** Whether the store was unavailable at the last commit. */
  readonly isFailing: () => boolean;
}

export function startLeases(
  { db, process, epoch, ownHolds, leases }: StartLeasesDeps,
  submit: CreditLeaseDeps["submit"],
): CreditLeases | undefined {
  if (ownHolds === undefined || leases === undefined) return undefined;
  const { now, busyHolds } = leases;
  return createCreditLeases({ db, process, epoch, now, busyHolds, ownHolds, submit });
}

interface StartLeasesDeps extends Pick<CreditLeaseDeps, "db" | "process" | "epoch"> {
  readonly ownHolds: CreditLeaseDeps["ownHolds"] | undefined;
  readonly leases: Pick<CreditLeaseDeps, "now" | "busyHolds"> | undefined;
}

export function withLeases<UsageRecord>(
  ledger: LedgerOperations<UsageRecord>,
  leases: CreditLeases,
): LedgerOperations<UsageRecord> {
  return {
    ...ledger,
    hold: (request) => holdBesideLeases(leases, ledger.hold, request),
    tryHoldSync: (request) => (ledger.isFailing() ? undefined : leases.tryHold(request)),
    raise: (request) => raiseBesideLeases(leases, ledger.raise, request),
    settle: (request) => {
      const lease = leases.shareOf(request.id) ?? request.lease;
      if (lease === undefined) {
        const settled = ledger.settle(request);
        leases.removeOwnHold(request.id);
        return settled;
      }
      if (!isRelease(request)) return ledger.settle({ ...request, lease });
      leases.release(request.id);
      return Promise.resolve(RELEASED);
    },
    extendHold: (id) => {
      ledger.extendHold(id);
      leases.extend(id);
    },
    returnLeases: leases.closeAll,
  };
}

function isRelease({ record, cost }: SettleRequest<unknown>): boolean {
  return record === undefined && cost === 0n;
}

const RELEASED: SettleOutcome = { status: "settled", charged: 0n, overrun: 0n, late: false };

/** Leases must not be the reason for a refusal or a smaller hold: they are recalled, and the hold is decided again. */
async function holdBesideLeases(
  leases: CreditLeases,
  submitHold: LedgerOperations<never>["hold"],
  request: HoldRequest,
): Promise<HoldOutcome> {
  let outcome = await submitHold({ ...request, refuseShortened: true });
  const isRecalled = mayBeLeased(outcome, request) && (await leases.recall(request.accountId));
  if (isRecalled || isShortened(outcome)) outcome = await submitHold(request);
  if (outcome.status === "held") leases.addOwnHold(request, outcome.amount);
  return outcome;
}

function isShortened(outcome: HoldOutcome): boolean {
  return outcome.status === "insufficient_credits" && outcome.isShortened === true;
}

/** Whether leases may have what the hold was refused for. */
function mayBeLeased(outcome: HoldOutcome, { rateLimit }: HoldRequest): boolean {
  if (outcome.status === "insufficient_credits") return outcome.posted > outcome.available;
  if (outcome.status === "key_limit") return outcome.held > 0n;
  if (outcome.status === "budget") return outcome.blocked.held > 0n;
  if (outcome.status === "rate_limited") return rateLimit?.isTold !== true;
  return outcome.status === "too_many_calls";
}

/** The same for a raise. */
async function raiseBesideLeases(
  leases: CreditLeases,
  submitRaise: LedgerOperations<never>["raise"],
  request: RaiseRequest,
): Promise<RaiseOutcome> {
  const raise = (): Promise<RaiseOutcome> => leases.raise(request) ?? submitRaise(request);
  const first = await raise();
  const isWhole = first.status === "raised" && first.amount >= request.amount;
  if (isWhole || first.status === "lost" || !(await leases.recall(request.accountId))) return first;
  const second = await raise();
  return second.status === "refused" ? first : second;
}
