// What must be true after every commit, and at the end of a simulation.

import { type Db, integer, type Reader, type Row, text, type Values } from "../../src/store/db.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { ALL_TRANSFERS } from "../ledger/fixtures.ts";
import { INVOICE_CENTS, nanoOf, type Observations, PEOPLE, wasLost } from "./clients.ts";

export type Query = (sql: string, params?: Values) => readonly Row[];

/** The tables that `checkBalances` reads: it runs after every commit that wrote one of them. */
export const BALANCE_TABLES: ReadonlySet<string> = new Set([
  "wallet",
  "hold",
  "transfer",
  "usage_record",
]);

/**
 * Triggers that keep what was posted to the wallet of each account, because summing all transfers after each commit would be
 * most of the time. The check at the end sums them again.
 */
export const TRACK_POSTED = [
  "create table posted (account_id text primary key, amount integer not null) without rowid",
  ...[
    { table: "transfer", amountOf: ofTransfer },
    {
      table: "usage_record",
      amountOf: (row: string) =>
        `-(coalesce(${row}.promo_nano, 0) + coalesce(${row}.paid_nano, 0))`,
    },
  ].flatMap(({ table, amountOf }) => [
    onChange(table, "insert", [["new", amountOf("new")]]),
    onChange(table, "delete", [["old", `-(${amountOf("old")})`]]),
    onChange(table, "update", [
      ["old", `-(${amountOf("old")})`],
      ["new", amountOf("new")],
    ]),
  ]),
].join(";\n");

function ofTransfer(row: string): string {
  const side = (column: string): string =>
    `case when ${row}.${column} in (${row}.account_id || ':promo', ${row}.account_id || ':paid') then ${row}.amount else 0 end`;
  return `${side("to_account")} - ${side("from_account")}`;
}

function onChange(
  table: string,
  change: "insert" | "delete" | "update",
  amounts: readonly (readonly [row: string, amount: string])[],
): string {
  const statements = amounts.map(
    ([row, amount]) =>
      `insert into posted values (${row}.account_id, ${amount}) on conflict (account_id) do update set amount = amount + excluded.amount;`,
  );
  return `create trigger posted_${table}_${change} after ${change} on ${table} begin ${statements.join(" ")} end`;
}

export function checkBalances(query: Query): readonly string[] {
  const rows = query(`select account_id from wallet where held > promo + paid
    or held <> (select coalesce(sum(amount), 0) from hold where hold.account_id = wallet.account_id)
    or promo + paid <> coalesce((select amount from posted where posted.account_id = wallet.account_id), 0)`);
  return rows.map(
    (row) => `${text(row, "account_id")}: the wallet is not the sum of its transfers and holds`,
  );
}

export async function checkEnd(query: Query, observed: Observations): Promise<readonly string[]> {
  const problems = [
    ...checkCalls(query, observed),
    ...checkKeys(query, observed),
    ...checkPayments(query, observed),
    ...checkOwners(query, observed),
    ...checkWaiting(observed, true),
    ...observed.internalErrors,
  ];
  const held = query("select id from hold");
  if (held.length > 0) problems.push(`${held.length} holds are open`);
  const { problems: ledgerProblems } = await verifyLedger(snapshotDb(query));
  return [...problems, ...ledgerProblems];
}

/** Requests without a result; `withLost` includes those of a process that died or was silent. */
export function checkWaiting({ waiting }: Observations, withLost: boolean): readonly string[] {
  return [...waiting].flatMap(([name, request]) =>
    wasLost(request) && !withLost ? [] : [`${name} has no result: ${request.reason}`],
  );
}

/** Each delivered reply is recorded and paid for in full, once: its hold covered it. */
function checkCalls(query: Query, { served, lostCalls }: Observations): readonly string[] {
  const paid = new Map<string, bigint>();
  for (const row of query(
    `select ref, cast(amount as text) as amount from ${ALL_TRANSFERS} where kind = 'usage' and from_account not like 'system:%'`,
  ))
    paid.set(text(row, "ref"), (paid.get(text(row, "ref")) ?? 0n) + BigInt(text(row, "amount")));
  return [...served].flatMap(([id, cost]) =>
    paid.get(id) === cost || lostCalls.has(id)
      ? []
      : [`${id} was served for ${cost} and paid ${paid.get(id) ?? 0n}`],
  );
}

/** A key has one result, and one charge, however often it was sent; but a call that the store lost runs again. */
function checkKeys(
  query: Query,
  { repliesByKey, lostCalls, cuts }: Observations,
): readonly string[] {
  const problems: string[] = [];
  for (const [key, replies] of repliesByKey)
    if (replies.difference(cuts).size > 1 && lostCalls.isDisjointFrom(replies))
      problems.push(`${key} has the results ${[...replies].join(", ")}`);
  const completed = new Map<string, number>();
  for (const row of query("select id from usage_record where outcome = 'completed'")) {
    const key = text(row, "id").replace(/\.\d+$/, "");
    completed.set(key, (completed.get(key) ?? 0) + 1);
  }
  for (const [key, count] of completed)
    if (count > 1) problems.push(`${key} was charged ${count} times`);
  return problems;
}

function checkPayments(query: Query, { facts, invoices }: Observations): readonly string[] {
  const problems: string[] = [];
  const credits = query(
    "select id, account_id, ref, cast(amount as text) as amount from transfer where kind = 'purchase' and to_account = account_id || ':paid'",
  );
  for (const { kind, payment, invoiceId } of facts) {
    if (kind !== "paid") continue;
    const ids = query("select id from payment where invoice_id = ?", [invoiceId]).map((row) =>
      text(row, "id"),
    );
    const own = credits.filter((row) => ids.includes(text(row, "ref")));
    const amount = own.reduce((sum, row) => sum + BigInt(text(row, "amount")), 0n);
    // A debt of an earlier dispute is paid first.
    if (ids.length !== 1 || own.length > 1 || amount > nanoOf(INVOICE_CENTS))
      problems.push(
        `${payment} of ${invoices.get(invoiceId) ?? ""}: ${ids.length} payments, ${own.length} credits`,
      );
  }
  const pending = query("select ref from payment_fact where state = 'waiting'");
  if (pending.length > 0) problems.push(`${pending.length} payment facts wait`);
  return problems;
}

function checkOwners(query: Query, { owners }: Observations): readonly string[] {
  const problems: string[] = [];
  for (const [account, people] of owners) {
    const rows = query("select person_id from membership where account_id = ? and role = 'owner'", [
      account,
    ]);
    const stored = rows.map((row) => text(row, "person_id")).join(", ");
    if (people.size !== 1 || !people.has(stored))
      problems.push(
        `${account} is owned by ${stored}; ${[...people].join(", ")} got a response that they own it`,
      );
  }
  const bonuses = query("select subject, count(*) as count from human_grant group by subject");
  for (const row of bonuses)
    if (integer(row, "count") > 1 || !PEOPLE.some((person) => person === row["subject"]))
      problems.push(`${text(row, "subject")} got ${integer(row, "count")} bonuses`);
  return problems;
}

function snapshotDb(query: Query): Db {
  const reader: Reader = {
    kind: "sqlite",
    all: async (sql, params) => query(sql, params),
    get: async (sql, params) => query(sql, params)[0],
  };
  // Safe: the verification reads one snapshot and nothing else.
  return { ...reader, snapshot: (work: (one: Reader) => Promise<unknown>) => work(reader) } as Db;
}
