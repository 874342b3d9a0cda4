// Lists the transfers of an account.

import { toNano } from "../base/money/money.ts";
import type { PageRequest } from "../base/pagination.ts";
import { integer, type Reader, type Row, text, textOrNull } from "../store/db.ts";
import { selectUsageInOrder } from "../usage/usage-of-account.ts";
import { callTransfers, readChargedCall } from "./call-charges.ts";
import type { Transfer } from "./ledger-rows.ts";

export interface TransferPage {
  readonly transfers: readonly ListedTransfer[];
  /** The cursor of the next page. */
  readonly next: string | undefined;
}

type ListedTransfer = Omit<Transfer, "memo"> & { readonly memo: string | null };

/** Cursors of the rows of the table `transfer`, after those of calls. */
const ROW_CURSOR_PREFIX = "rows:";

/**
 * Lists the transfers of calls first, then all others, so that no page misses a call whose record is archived in between.
 * A page may have more than `limit` transfers.
 */
export function listTransfers(
  reader: Reader,
  accountId: string,
  { limit, cursor = "" }: PageRequest,
): Promise<TransferPage> {
  return cursor.startsWith(ROW_CURSOR_PREFIX)
    ? listRows(reader, accountId, { limit, after: cursor.slice(ROW_CURSOR_PREFIX.length) })
    : listCalls(reader, accountId, { limit, after: cursor });
}

interface Position {
  readonly limit: number;
  readonly after: string;
}

async function listCalls(
  reader: Reader,
  accountId: string,
  { limit, after }: Position,
): Promise<TransferPage> {
  const { sql, values } = selectUsageInOrder(
    "id, account_id, promo_nano, paid_nano, overrun_nano, charged_at",
    { accountId, ids: { after } },
    { order: "asc", limit },
  );
  const calls = await reader.all(sql, values);
  const transfers = calls
    .flatMap((row) => readChargedCall(row) ?? [])
    .flatMap(callTransfers)
    .map((transfer): ListedTransfer => Object.assign(transfer, { memo: null }));
  const last = calls.length < limit ? undefined : calls.at(-1);
  return { transfers, next: last === undefined ? ROW_CURSOR_PREFIX : text(last, "id") };
}

/** By id, because transfers have no index by time. */
async function listRows(
  reader: Reader,
  accountId: string,
  { limit, after }: Position,
): Promise<TransferPage> {
  const rows = await reader.all(
    `select id, from_account, to_account, cast(amount as text) as amount, kind, ref, at, memo from transfer
     where account_id = ? and id > ? order by id limit ?`,
    [accountId, after, limit],
  );
  const transfers = rows.map((row) => toTransfer(row, accountId));
  const last = rows.length < limit ? undefined : rows.at(-1);
  return { transfers, next: last && `${ROW_CURSOR_PREFIX}${text(last, "id")}` };
}

function toTransfer(row: Row, accountId: string): ListedTransfer {
  return {
    id: text(row, "id"),
    accountId,
    from: text(row, "from_account"),
    to: text(row, "to_account"),
    amount: toNano(row["amount"]),
    kind: text(row, "kind"),
    ref: text(row, "ref"),
    at: integer(row, "at"),
    memo: textOrNull(row, "memo"),
  };
}
