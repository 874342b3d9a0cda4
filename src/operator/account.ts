// Everything about one account that an operator needs to answer its owner.

import { type Account, getAccount } from "../accounts/accounts.ts";
import { type Member, membersOf } from "../accounts/members.ts";
import { type Entry, listEntries } from "../audit/audit.ts";
import { type Nano, toNano } from "../base/money.ts";
import type { Page } from "../base/page.ts";
import { listInvoices } from "../billing/billing.ts";
import { paymentsOf } from "../billing/payment-rows.ts";
import { type Key, listKeysFrom } from "../keys/keys.ts";
import { type Freeze, findFreeze } from "../ledger/freezes.ts";
import { type Reader, text, textOrNull, whole, wholeOrNull } from "../store/db.ts";
import { GROUPS_MAX, pageSums, type UsageSum } from "../usage/usage.ts";
import type { InvoiceLine } from "./payments.ts";

const KEYS_SHOWN_MAX = 100;
const SHOWN = 20;
const USAGE_MS = 30 * 86_400_000;
/** All transfers of usage bear the id of their call, and begin so; they lie side by side in the primary key. */
const USAGE_FIRST = "req_";
const USAGE_LAST = `req_${"z".repeat(40)}`;

export interface Movement {
  readonly at: number;
  readonly id: string;
  readonly kind: string;
  readonly amount: Nano;
  /** What it did to the balance: nothing where it moved between the house's own accounts. */
  readonly change: Nano;
  readonly from: string;
  readonly to: string;
  readonly memo: string | null;
}

export interface AccountFile {
  readonly account: Account;
  /** The network that it was created from. */
  readonly createdFrom: string;
  readonly promo: Nano;
  readonly paid: Nano;
  readonly held: Nano;
  readonly owed: Nano;
  /** Why it makes no calls. */
  readonly freeze: Freeze | undefined;
  /** Those that are not revoked first, then the newest that are. */
  readonly keys: readonly Key[];
  /** There may be more. */
  readonly moreKeys: boolean;
  /** Of all its keys; null for never. */
  readonly lastUsedAt: number | null;
  readonly members: readonly Member[];
  readonly invoices: readonly InvoiceLine[];
  /** What moved its money, but for usage; the newest first. */
  readonly movements: readonly Movement[];
  /** The last thirty days, by model. */
  readonly usage: Page<UsageSum>;
  readonly entries: readonly Entry[];
}

export async function readAccountFile(
  reader: Reader,
  accountId: string,
  now: number,
  /** Where the table of models goes on; its beginning unless told. */
  models?: string,
): Promise<AccountFile> {
  const account = await getAccount(reader, accountId);
  const row = await reader.get(
    `select account.created_from, wallet.promo, wallet.paid, wallet.held, wallet.owed
     from account join wallet on wallet.account_id = account.id where account.id = ?`,
    [accountId],
  );
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  const part = { limit: KEYS_SHOWN_MAX, now };
  const standing = await listKeysFrom(reader, accountId, { ...part, revoked: false });
  const revoked = await listKeysFrom(reader, accountId, { ...part, revoked: true });
  const keys = [...standing, ...revoked];
  return {
    account,
    createdFrom: text(row, "created_from"),
    promo: toNano(row["promo"]),
    paid: toNano(row["paid"]),
    held: toNano(row["held"]),
    owed: toNano(row["owed"]),
    freeze: await findFreeze(reader, accountId),
    keys: keys.slice(0, KEYS_SHOWN_MAX),
    moreKeys: keys.length >= KEYS_SHOWN_MAX,
    lastUsedAt: await lastUseOf(reader, accountId),
    members: await membersOf(reader, accountId),
    invoices: await listInvoiceLines(reader, accountId),
    movements: await listMovements(reader, accountId),
    usage: await pageSums(
      reader,
      accountId,
      { from: now - USAGE_MS },
      {
        by: "model",
        limit: GROUPS_MAX,
        ...(models === undefined ? {} : { cursor: models }),
      },
    ),
    entries: (await listEntries(reader, accountId, { limit: SHOWN })).data,
  };
}

async function lastUseOf(reader: Reader, accountId: string): Promise<number | null> {
  const row = await reader.get(
    "select max(last_used_at) as used_at from api_key where account_id = ?",
    [accountId],
  );
  return row === undefined ? null : wholeOrNull(row, "used_at");
}

async function listInvoiceLines(
  reader: Reader,
  accountId: string,
): Promise<readonly InvoiceLine[]> {
  const { data } = await listInvoices(reader, accountId, { limit: SHOWN });
  const lines: InvoiceLine[] = [];
  for (const invoice of data)
    lines.push({ ...invoice, payments: await paymentsOf(reader, invoice.id) });
  return lines;
}

async function listMovements(reader: Reader, accountId: string): Promise<readonly Movement[]> {
  const rows = await reader.all(
    `select * from transfer where account_id = ? and (id < ? or id > ?) and kind <> 'usage'
     order by at desc, id desc limit ?`,
    [accountId, USAGE_FIRST, USAGE_LAST, SHOWN],
  );
  return rows.map((row) => {
    const [from, to] = [text(row, "from_account"), text(row, "to_account")];
    const amount = toNano(row["amount"]);
    return {
      at: whole(row, "at"),
      id: text(row, "id"),
      kind: text(row, "kind"),
      amount,
      change: from.startsWith(accountId) ? -amount : to.startsWith(accountId) ? amount : 0n,
      from: from.replace(`${accountId}:`, ""),
      to: to.replace(`${accountId}:`, ""),
      memo: textOrNull(row, "memo"),
    };
  });
}
