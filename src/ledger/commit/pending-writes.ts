// What a batch writes once all of its operations are decided.

import type { AccountKey } from "../../store/db.ts";
import type { ThresholdCrossing } from "../balance-thresholds.ts";
import type { BudgetThresholdCrossing } from "../budget-rules.ts";
import type { ChargedCall } from "../call-charges.ts";
import type { ChargeSplit, OpenHold } from "../decide.ts";
import type { KeyAlert } from "../key-alerts.ts";
import type { AccountKeySpend, BufferedWallet, NewHold } from "../ledger-rows.ts";
import { type AccountSession, sessionKey } from "../session-rows.ts";
import type { BufferedRows } from "./hold-buffer.ts";

export interface PendingWrites<UsageRecord> {
  readonly newHolds: Map<string, NewHold>;
  /** Holds that have a row. */
  readonly raisedHolds: Map<string, OpenHold>;
  readonly raisedBuffered: Map<string, OpenHold>;
  /** Ids of the settled holds that had a row. */
  readonly deletedHolds: string[];
  readonly settledBuffered: string[];
  readonly deletedSweptHolds: AccountKey[];
  readonly endedLeases: AccountKey[];
  /** Calls that were counted towards the rate limit for each lease of the batch. */
  readonly leases: Map<string, number>;
  /** Rows of leases before the batch: most are filled again, and need no write. */
  readonly leasesBefore: Map<string, OpenHold>;
  readonly records: UsageRecord[];
  /** In the order of `records`. */
  readonly recordCharges: ChargeSplit[];
  /** Calls without a record. */
  readonly chargedCalls: ChargedCall[];
  readonly balanceCrossings: ThresholdCrossing[];
  readonly budgetCrossings: BudgetThresholdCrossing[];
  readonly keyAlerts: KeyAlert[];
  readonly touchedWallets: Map<string, BufferedWallet>;
  readonly touchedKeySpends: Map<string, AccountKeySpend>;
  readonly touchedSessions: Map<string, AccountSession>;
}

/** All but the records, whose type only the caller of the ledger has. */
export type RowWrites = Omit<PendingWrites<unknown>, "records">;

export function emptyWrites<UsageRecord>(): PendingWrites<UsageRecord> {
  return {
    newHolds: new Map(),
    raisedHolds: new Map(),
    raisedBuffered: new Map(),
    deletedHolds: [],
    settledBuffered: [],
    deletedSweptHolds: [],
    endedLeases: [],
    leases: new Map(),
    leasesBefore: new Map(),
    records: [],
    recordCharges: [],
    chargedCalls: [],
    balanceCrossings: [],
    budgetCrossings: [],
    keyAlerts: [],
    touchedWallets: new Map(),
    touchedKeySpends: new Map(),
    touchedSessions: new Map(),
  };
}

export function markTouched(
  writes: RowWrites,
  { accountId, keyId }: { accountId: string; keyId: string },
  {
    wallet,
    keySpend,
    session,
  }: Omit<BufferedRows, "session"> & { readonly session: AccountSession | undefined },
): void {
  if (session !== undefined) writes.touchedSessions.set(sessionKey(accountId, session.id), session);
  writes.touchedWallets.set(accountId, wallet);
  writes.touchedKeySpends.set(keyId, { accountId, keyId, keySpend });
}
