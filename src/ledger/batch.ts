// Writes one batch of holds and settles in one transaction: lock the rows, decide in memory, write the outcome.

import type { Nano } from "../base/money.ts";
import type { Tx } from "../store/db.ts";
import { type BudgetMark, passedMarks } from "./budget-rules.ts";
import {
  type Charge,
  decideHold,
  decideSettle,
  type HoldOutcome,
  type HoldRequest,
  type OpenHold,
  type SettleOutcome,
  type SettleRequest,
} from "./decide.ts";
import { lock, type State } from "./lock.ts";
import { type Fall, noteFalls, type TellBudgets, type TellFalls } from "./marks.ts";
import {
  bucketOf,
  insertHolds,
  insertTransfers,
  type KeptSpender,
  type KeptWallet,
  type NewHold,
  SYSTEM,
  type Transfer,
  updateSpenders,
  updateWallets,
} from "./rows.ts";
import { addYoung, type Applied, newHold, type YoungHolds } from "./young-holds.ts";

export type Operation<Record> =
  | { readonly kind: "hold"; readonly request: HoldRequest }
  | { readonly kind: "settle"; readonly request: SettleRequest<Record> };

export interface BatchContext<Record> {
  readonly process: string;
  readonly epoch: number;
  readonly writeRecords: (tx: Tx, records: readonly Record[]) => Promise<void>;
  readonly tellFalls?: TellFalls | undefined;
  readonly tellBudgets?: TellBudgets | undefined;
}

interface Writes<Record> {
  readonly newHolds: Map<string, NewHold>;
  readonly goneHolds: string[];
  readonly goneYoung: string[];
  readonly goneSwept: string[];
  readonly transfers: Transfer[];
  readonly records: Record[];
  readonly falls: Fall[];
  readonly budgetMarks: BudgetMark[];
  readonly touchedWallets: Map<string, KeptWallet>;
  readonly touchedSpenders: Map<string, KeptSpender>;
}

/** `young`: the holds that no table has yet, where new ones are kept so as well. */
export async function applyBatch<Record>(
  tx: Tx,
  operations: readonly Operation<Record>[],
  context: BatchContext<Record>,
  young?: YoungHolds,
): Promise<Applied> {
  const state = await lock(tx, operations, young);
  const writes: Writes<Record> = {
    newHolds: new Map(),
    goneHolds: [],
    goneYoung: [],
    goneSwept: [],
    transfers: [],
    records: [],
    falls: [],
    budgetMarks: [],
    touchedWallets: new Map(),
    touchedSpenders: new Map(),
  };
  const outcomes = operations.map((operation) =>
    operation.kind === "hold"
      ? applyHold(operation.request, state, writes, context)
      : applySettle(operation.request, state, writes),
  );
  await write(tx, writes, context, young !== undefined);
  const { newHolds: born, goneYoung: gone } = writes;
  const goneWritten = [...writes.goneHolds, ...writes.goneSwept];
  const { wallets, spenders } = state;
  return { outcomes, kept: { born, gone, goneWritten, wallets, spenders } };
}

function applyHold<Record>(
  request: HoldRequest,
  state: State,
  writes: Writes<Record>,
  context: BatchContext<Record>,
): HoldOutcome {
  // The batch may be the repetition of one whose commit was not heard of.
  const known = state.holds.get(request.id) ?? state.swept.get(request.id);
  if (known !== undefined && !sameOwner(known, request))
    throw new Error(`hold ${request.id} is another account's or key's`);
  if (known !== undefined) return { status: "held", amount: known.amount };
  const wallet = state.wallets.get(request.accountId);
  const spender = state.spenders.get(request.keyId);
  const outcome = decideHold(request, wallet, spender, state.keys.get(request.keyId));
  if (outcome.status !== "held" || wallet === undefined || spender === undefined) return outcome;
  const hold = newHold(request, outcome.amount, context);
  state.holds.set(hold.id, hold);
  writes.newHolds.set(hold.id, hold);
  if (state.young !== undefined) addYoung(wallet, spender, hold.amount, 1);
  else touch(writes, request, wallet, spender);
  return outcome;
}

function applySettle<Record>(
  request: SettleRequest<Record>,
  state: State,
  writes: Writes<Record>,
): SettleOutcome {
  const hold = state.holds.get(request.id);
  const known = hold ?? state.swept.get(request.id);
  const wallet = state.wallets.get(request.accountId);
  const spender = state.spenders.get(request.keyId);
  if (known === undefined) return { status: "already" };
  if (wallet === undefined || spender === undefined || !sameOwner(known, request))
    throw new Error(`hold ${request.id} is settled for another account or key`);
  const key = state.keys.get(request.keyId);
  const before = wallet.promo + wallet.paid;
  const budgetBefore = wallet.budget === undefined ? undefined : { ...wallet.budget };
  const charge = decideSettle(request.cost, request.now, { hold, wallet, spender, key });
  noteFalls(writes.falls, request, before, wallet);
  if (wallet.budget !== undefined) {
    const { accountId } = request;
    const passed = passedMarks(budgetBefore, wallet.budget, { accountId, now: charge.at });
    writes.budgetMarks.push(...passed);
  }
  if (hold === undefined) {
    state.swept.delete(request.id);
    writes.goneSwept.push(request.id);
  } else {
    giveBack(hold, state, writes, { wallet, spender });
  }
  moveUsage(writes.transfers, request, charge);
  if (request.record !== undefined) writes.records.push(request.record);
  touch(writes, request, wallet, spender);
  return {
    status: "settled",
    charged: charge.promo + charge.paid,
    overrun: charge.overrun,
    late: hold === undefined,
  };
}

function giveBack<Record>(
  hold: OpenHold,
  state: State,
  writes: Writes<Record>,
  { wallet, spender }: { readonly wallet: KeptWallet; readonly spender: KeptSpender },
): void {
  state.holds.delete(hold.id);
  // A hold of this very batch was never written, so there is nothing to delete.
  const isNew = writes.newHolds.delete(hold.id);
  const isYoung = state.young?.holds.has(hold.id) === true;
  if (isYoung) writes.goneYoung.push(hold.id);
  else if (!isNew) writes.goneHolds.push(hold.id);
  if (state.young !== undefined && (isNew || isYoung)) addYoung(wallet, spender, -hold.amount, -1);
}

function sameOwner(hold: OpenHold, request: { accountId: string; keyId: string }): boolean {
  return hold.accountId === request.accountId && hold.keyId === request.keyId;
}

function touch<Record>(
  writes: Writes<Record>,
  request: { accountId: string; keyId: string },
  wallet: KeptWallet,
  spender: KeptSpender,
): void {
  writes.touchedWallets.set(request.accountId, wallet);
  writes.touchedSpenders.set(request.keyId, spender);
}

function moveUsage(
  transfers: Transfer[],
  request: Pick<SettleRequest<unknown>, "id" | "accountId">,
  { promo, paid, overrun, at }: Charge,
): void {
  const { id, accountId } = request;
  const move = (name: string, from: string, amount: Nano): void => {
    const to = SYSTEM.usageRevenue;
    transfers.push({
      id: `${id}.${name}`,
      accountId,
      from,
      to,
      amount,
      kind: "usage",
      ref: id,
      at,
    });
  };
  if (promo > 0n) move("promo", bucketOf(accountId, "promo"), promo);
  if (paid > 0n) move("paid", bucketOf(accountId, "paid"), paid);
  if (overrun > 0n) move("overrun", SYSTEM.overrunExpense, overrun);
}

async function write<Record>(
  tx: Tx,
  writes: Writes<Record>,
  context: BatchContext<Record>,
  keepsYoung: boolean,
): Promise<void> {
  const work: Promise<void>[] = [];
  if (writes.touchedWallets.size > 0)
    work.push(updateWallets(tx, writes.touchedWallets), updateSpenders(tx, writes.touchedSpenders));
  if (writes.newHolds.size > 0 && !keepsYoung)
    work.push(insertHolds(tx, [...writes.newHolds.values()]));
  if (writes.goneHolds.length > 0) work.push(tx.deleteMany("hold", "id", writes.goneHolds));
  if (writes.goneSwept.length > 0) work.push(tx.deleteMany("swept_hold", "id", writes.goneSwept));
  if (writes.transfers.length > 0) work.push(insertTransfers(tx, writes.transfers));
  if (writes.records.length > 0) work.push(context.writeRecords(tx, writes.records));
  if (writes.falls.length > 0 && context.tellFalls !== undefined)
    work.push(context.tellFalls(tx, writes.falls));
  if (writes.budgetMarks.length > 0 && context.tellBudgets !== undefined)
    work.push(context.tellBudgets(tx, writes.budgetMarks));
  await Promise.all(work);
}
