// All data of one account that the operator pages and `postern admin show` need.

import { type Account, getAccount } from "../../accounts/accounts.ts";
import { type Member, listAllMembers } from "../../accounts/members.ts";
import { type AuditEntry, listAuditEntries } from "../../activity/audit.ts";
import { type Nano, toNano } from "../../base/money/money.ts";
import { DAY_MS } from "../../base/time.ts";
import { listInvoices } from "../../billing/invoices/invoices.ts";
import { paymentsOfInvoice } from "../../billing/payments/payment-rows.ts";
import { type ActorNames, readEntryNames } from "../../keys/actor-names.ts";
import type { Key } from "../../keys/key.ts";
import { listKeysFrom } from "../../keys/keys.ts";
import { type Freeze, findFreeze } from "../../ledger/freezes.ts";
import { type Reader, text, textOrNull, integer, integerOrNull } from "../../store/db.ts";
import { startOfDay } from "../../usage/time-buckets.ts";
import { sumUsage, type UsageSum } from "../../usage/usage-stats.ts";
import type { InvoiceWithPayments } from "../payments/payment-list.ts";

const KEYS_MAX = 100;
const LIST_LIMIT = 20;
const USAGE_PERIOD_MS = 30 * DAY_MS;
/** The ids of usage transfers begin with the call's id, so they are one range of the primary key. */
const USAGE_ID_MIN = "req_";
const USAGE_ID_MAX = `req_${"z".repeat(40)}`;

export interface AccountTransfer {
  readonly at: number;
  readonly id: string;
  readonly kind: string;
  readonly amount: Nano;
  /** The change of the customer's balance; zero for transfers between system accounts. */
  readonly balanceChange: Nano;
  readonly from: string;
  readonly to: string;
  readonly memo: string | null;
}

export interface AccountDetails {
  readonly account: Account;
  /** The network from which it was created. */
  readonly createdFrom: string;
  /** The listed agent operator whose agent signed the creation. */
  readonly verifiedAgent: string | null;
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  readonly owed: Nano;
  /** Undefined if the account is not frozen. */
  readonly freeze: Freeze | undefined;
  /** Active keys first, then revoked ones, each newest first. */
  readonly keys: readonly Key[];
  /** Whether the list of keys was cut. */
  readonly hasMoreKeys: boolean;
  /** The last use of any key; null for never. */
  readonly lastUsedAt: number | null;
  readonly members: readonly Member[];
  readonly invoices: readonly InvoiceWithPayments[];
  /** Transfers except usage, newest first. */
  readonly transfers: readonly AccountTransfer[];
  /** The last 30 days by model, highest cost first. */
  readonly usage: readonly UsageSum[];
  readonly auditEntries: readonly AuditEntry[];
  readonly auditNames: ActorNames;
}

export async function readAccountDetails(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<AccountDetails> {
  const account = await getAccount(reader, accountId);
  const origin = await reader.get("select created_from, verified_agent from account where id = ?", [
    accountId,
  ]);
  if (origin === undefined) throw new Error(`account ${accountId} is gone`);
  const row = await reader.get("select promo, paid, held, owed from wallet where account_id = ?", [
    accountId,
  ]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  const page = { limit: KEYS_MAX, now };
  const live = await listKeysFrom(reader, accountId, { ...page, revoked: false });
  const revoked = await listKeysFrom(reader, accountId, { ...page, revoked: true });
  const keys = [...live, ...revoked];
  const auditEntries = (await listAuditEntries(reader, accountId, { limit: LIST_LIMIT })).data;
  return {
    account,
    createdFrom: text(origin, "created_from"),
    verifiedAgent: textOrNull(origin, "verified_agent"),
    promo: toNano(row["promo"]),
    paid: toNano(row["paid"]),
    held: toNano(row["held"]),
    owed: toNano(row["owed"]),
    freeze: await findFreeze(reader, accountId),
    keys: keys.slice(0, KEYS_MAX),
    hasMoreKeys: keys.length >= KEYS_MAX,
    lastUsedAt: await lastKeyUse(reader, accountId),
    members: await listAllMembers(reader, accountId),
    invoices: await listAccountInvoices(reader, accountId),
    transfers: await listTransfers(reader, accountId),
    usage: await sumUsageByCost(reader, accountId, now),
    auditEntries,
    auditNames: await readEntryNames(reader, auditEntries),
  };
}

async function sumUsageByCost(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<readonly UsageSum[]> {
  const from = startOfDay("UTC", now - USAGE_PERIOD_MS);
  const sums = await sumUsage(reader, accountId, { from }, "model");
  return sums.toSorted((one, other) => Number(other.cost - one.cost) || other.calls - one.calls);
}

async function lastKeyUse(reader: Reader, accountId: string): Promise<number | null> {
  const row = await reader.get(
    "select max(last_used_at) as used_at from api_key where account_id = ?",
    [accountId],
  );
  return row === undefined ? null : integerOrNull(row, "used_at");
}

async function listAccountInvoices(
  reader: Reader,
  accountId: string,
): Promise<readonly InvoiceWithPayments[]> {
  const { data } = await listInvoices(reader, accountId, { limit: LIST_LIMIT });
  const lines: InvoiceWithPayments[] = [];
  for (const invoice of data)
    lines.push({ ...invoice, payments: await paymentsOfInvoice(reader, invoice.id) });
  return lines;
}

async function listTransfers(
  reader: Reader,
  accountId: string,
): Promise<readonly AccountTransfer[]> {
  const rows = await reader.all(
    `select * from transfer where account_id = ? and (id < ? or id > ?) and kind <> 'usage'
     order by at desc, id desc limit ?`,
    [accountId, USAGE_ID_MIN, USAGE_ID_MAX, LIST_LIMIT],
  );
  return rows.map((row) => {
    const [from, to] = [text(row, "from_account"), text(row, "to_account")];
    const amount = toNano(row["amount"]);
    return {
      at: integer(row, "at"),
      id: text(row, "id"),
      kind: text(row, "kind"),
      amount,
      balanceChange: from.startsWith(accountId) ? -amount : to.startsWith(accountId) ? amount : 0n,
      from: from.replace(`${accountId}:`, ""),
      to: to.replace(`${accountId}:`, ""),
      memo: textOrNull(row, "memo"),
    };
  });
}
