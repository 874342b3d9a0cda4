// Linearizability check: finds an order of concurrent operations that explains the observed replies and rows.

import { toNano } from "../../../src/base/money/money.ts";
import { type Db, type Row, text, integer } from "../../../src/store/db.ts";
import { type HistoryPlan, KEYS } from "./generators.ts";
import {
  applyOperation,
  type ModelOperation,
  balances,
  budgetUsed,
  type Clock,
  keyState,
  type Model,
} from "./reference-model.ts";

export interface HistoryAccount {
  readonly id: string;
  readonly plan: HistoryPlan;
  readonly holdIds: string[];
  model: Model;
}

/** The operations of one transaction with their replies; null for a lost reply. */
interface Transaction {
  readonly operations: readonly ModelOperation[];
  readonly replies: readonly (string | null)[];
}

export type Thread = readonly Transaction[];

/** The model after an order of the operations that explains every received reply and the rows. */
export function findLinearization(
  model: Model,
  threads: readonly Thread[],
  clock: Clock,
  matches: (model: Model) => boolean,
): Model | undefined {
  if (threads.every((thread) => thread.length === 0)) return matches(model) ? model : undefined;
  for (const [index, [first, ...rest]] of threads.entries()) {
    if (first === undefined) continue;
    const after = applyTransaction(model, first, clock);
    const others = threads.map((thread, other) => (other === index ? rest : thread));
    const linearized =
      after === undefined ? undefined : findLinearization(after, others, clock, matches);
    if (linearized !== undefined) return linearized;
  }
  return undefined;
}

function applyTransaction(
  model: Model,
  { operations, replies }: Transaction,
  clock: Clock,
): Model | undefined {
  let state = model;
  for (const [index, operation] of operations.entries()) {
    const [after, expected] = applyOperation(state, operation, clock);
    const reply = replies[index] ?? null;
    if (reply !== null && reply !== expected) return undefined;
    state = after;
  }
  return state;
}

/** The account's balance, budget, keys and holds as comparable text. */
export function modelSummary(account: HistoryAccount, model: Model): string {
  const { promo, paid, held, owed } = balances(model);
  const keys = keyIdsOf(account).map((id, index) => {
    const key = keyState(model, index);
    return `${id} ${key.held} ${key.calls} ${key.spent} since ${key.day}`;
  });
  const holds = [...model.holds]
    .filter(([, one]) => one.state !== "resolved")
    .map(([id, one]) => `${id} ${one.state} ${one.amount}`);
  const { day, month } = model.budget;
  const used = budgetUsed(model, 0);
  const budget =
    day === null && month === null
      ? "no budget"
      : `${used.day} of ${day ?? "any"} a day, ${used.month} of ${month ?? "any"} a month`;
  return [`${promo} ${paid} ${held} ${owed}`, budget, ...keys.toSorted(), ...holds.toSorted()].join(
    "; ",
  );
}

export async function readSummaries(db: Db): Promise<Map<string, string>> {
  const [wallets, spenders, holds, swept] = await Promise.all([
    db.all("select * from wallet"),
    db.all(
      "select account_id, key_id, held, open_calls, total_spent, day_start from spender order by key_id",
    ),
    db.all("select account_id, id, amount, 'open' as state from hold"),
    db.all("select account_id, id, amount, 'swept' as state from swept_hold"),
  ]);
  const keysBy = Map.groupBy(spenders, (row) => text(row, "account_id"));
  const holdsBy = Map.groupBy([...holds, ...swept], (row: Row) => text(row, "account_id"));
  return new Map(
    wallets.map((row) => {
      const id = text(row, "account_id");
      const keys = (keysBy.get(id) ?? []).map(
        (key) =>
          `${text(key, "key_id")} ${toNano(key["held"])} ${integer(key, "open_calls")} ${toNano(key["total_spent"])} since ${integer(key, "day_start")}`,
      );
      const open = (holdsBy.get(id) ?? []).map(
        (hold: Row) => `${text(hold, "id")} ${text(hold, "state")} ${toNano(hold["amount"])}`,
      );
      return [
        id,
        [
          `${toNano(row["promo"])} ${toNano(row["paid"])} ${toNano(row["held"])} ${toNano(row["owed"])}`,
          budgetOf(row),
          ...keys.toSorted(),
          ...open.toSorted(),
        ].join("; "),
      ];
    }),
  );
}

function budgetOf(row: Row): string {
  if (row["day_budget"] === null && row["month_budget"] === null) return "no budget";
  const part = (window: string): string => {
    const limit = row[`${window}_budget`];
    return `${toNano(row[`${window}_spent`])} of ${limit === null ? "any" : toNano(limit)} a ${window}`;
  };
  return `${part("day")}, ${part("month")}`;
}

export function describeFailure(
  account: HistoryAccount,
  threads: readonly Thread[],
  clock: Clock,
  { rows, round }: { readonly rows: string; readonly round: number },
): string {
  const toJson = (value: unknown): string =>
    JSON.stringify(value, (_, one: unknown) =>
      typeof one === "bigint" ? `${one}n` : one instanceof Map ? [...one] : one,
    );
  return [
    `round ${round} of ${account.id}: no order of its operations explains the result`,
    `before: ${modelSummary(account, account.model)}`,
    `model: ${toJson(account.model)}`,
    ...threads.flatMap((thread) => thread.map((transaction) => toJson(transaction))),
    `clock: ${toJson(clock)}`,
    `rows: ${rows}`,
  ].join("\n");
}

export function keyIdsOf(account: HistoryAccount): string[] {
  return Array.from({ length: KEYS }, (_, index) => `${account.id}.k${index}`);
}
