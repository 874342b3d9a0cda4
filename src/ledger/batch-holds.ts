// The hold of a batch: one row in `hold` that covers the items which are not settled yet. It belongs to no process, so no
// sweep releases it. `applyBatch` lowers it when an item is settled; the functions here do so for items without a call.

import { minNano, type Nano } from "../base/money/money.ts";
import type { Db, Tx } from "../store/db.ts";
import { lockRows } from "./commit/lock-rows.ts";
import {
  decideHold,
  type HoldOutcome,
  type HoldRequest,
  largestHold,
  type FoundRows,
  type OpenHold,
} from "./decide.ts";
import { insertHolds, updateHoldAmounts, updateKeySpends, updateWallets } from "./ledger-rows.ts";
import { rateLimitWaitMs } from "./rate-limit-rules.ts";
import { recallLeases } from "./recall-leases.ts";

interface HoldOwner {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
}

export type BatchHoldOutcome =
  | Extract<HoldOutcome, { status: "held" }>
  | {
      readonly status: "refused";
      readonly outcome: Exclude<HoldOutcome, { status: "held" }>;
      /** The largest hold that the balance, the key's limit and the budgets cover. */
      readonly affordable: Nano;
    };

/** Before `holdBatch`: leases that may be the reason for a refusal are recalled. They can have credits, and calls of the rate limit. */
export async function freeCreditsForBatch(
  db: Db,
  request: Pick<HoldRequest, "id" | "accountId" | "keyId" | "amount" | "now" | "rateLimit">,
): Promise<void> {
  if (db.kind === "sqlite") return;
  const { accountId, amount, now, rateLimit } = request;
  await db.write(async (tx) => {
    const { wallet, keySpend, key } = await lockOwner(tx, request, now);
    if (wallet === undefined || keySpend === undefined || key === undefined) return;
    const isCovered = largestHold(wallet, keySpend, key, now) >= amount;
    // A key with a rate of its own has no leases.
    const isInRate =
      rateLimit === undefined ||
      rateLimit.isTold === true ||
      rateLimitWaitMs(rateLimit, keySpend, now) <= 0;
    if (!isCovered || !isInRate) await recallLeases(tx, accountId);
  });
}

/** Holds the whole cost of a batch or nothing. A batch is no open call of its key. */
export async function holdBatch(tx: Tx, request: HoldRequest): Promise<BatchHoldOutcome> {
  const { accountId, keyId, now } = request;
  const rows = await lockOwner(tx, request, now);
  const outcome = decideHold(request, rows);
  const { wallet, keySpend, key } = rows;
  if (outcome.status !== "held" || wallet === undefined || keySpend === undefined) {
    const isKnown = wallet !== undefined && keySpend !== undefined && key !== undefined;
    const affordable = isKnown ? largestHold(wallet, keySpend, key, now) : 0n;
    if (outcome.status === "held") throw new Error(`the batch ${request.id} has no wallet`);
    return { status: "refused", outcome, affordable };
  }
  keySpend.openCalls -= 1;
  const { id, expiresAt } = request;
  const { amount } = outcome;
  await insertHolds(tx, [
    { id, accountId, keyId, amount, process: "", epoch: 0, createdAt: now, expiresAt, calls: 0 },
  ]);
  await updateWallets(tx, new Map([[accountId, wallet]]));
  await updateKeySpends(tx, [{ accountId, keyId, keySpend }]);
  return outcome;
}

/** Releases what the hold has for items that end without a settlement. */
export async function shrinkBatchHold(tx: Tx, owner: HoldOwner, by: Nano): Promise<void> {
  await changeHold(tx, owner, (hold) => updateHoldAmounts(tx, [hold]), by);
}

/** Releases what is left of the hold. */
export async function endBatchHold(tx: Tx, owner: HoldOwner): Promise<void> {
  const { accountId, id } = owner;
  await changeHold(tx, owner, async () => {
    await tx.deleteMany("hold", "account_id, id", [[accountId, id]]);
  });
}

async function changeHold(
  tx: Tx,
  owner: HoldOwner,
  write: (hold: OpenHold) => Promise<void>,
  by?: Nano,
): Promise<void> {
  const { wallet, keySpend, hold: found } = await lockOwner(tx, owner, 0);
  const { accountId, keyId } = owner;
  if (found === undefined || wallet === undefined || keySpend === undefined) return;
  const hold = { ...found };
  releaseShare(hold, by ?? hold.amount, { wallet, keySpend });
  await write(hold);
  await updateWallets(tx, new Map([[accountId, wallet]]));
  await updateKeySpends(tx, [{ accountId, keyId, keySpend }]);
}

/** Releases a part of the hold of a batch; a negative part is held again. Returns what was released. */
export function releaseShare(
  hold: { amount: Nano },
  share: Nano,
  { wallet, keySpend }: Pick<FoundRows, "wallet" | "keySpend">,
): Nano {
  const released = minNano(share, hold.amount);
  hold.amount -= released;
  wallet.held -= released;
  keySpend.held -= released;
  return released;
}

async function lockOwner(tx: Tx, { id, accountId, keyId }: HoldOwner, now: number) {
  const request = { id, accountId, keyId, now };
  const rows = await lockRows(tx, [{ kind: "hold", request }], undefined);
  return {
    wallet: rows.wallets.get(accountId),
    keySpend: rows.keySpends.get(keyId),
    key: rows.keys.get(keyId),
    hold: rows.holds.get(id),
  };
}
