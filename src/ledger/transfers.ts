// Lists the transfers of an account.

import { toNano } from "../base/money/money.ts";
import type { PageRequest } from "../base/pagination.ts";
import { integer, type Reader, text, textOrNull } from "../store/db.ts";
import type { Transfer } from "./rows.ts";

export interface TransferPage {
  readonly transfers: readonly ListedTransfer[];
  /** The cursor of the next page. */
  readonly next: string | undefined;
}

export type ListedTransfer = Omit<Transfer, "memo"> & { readonly memo: string | null };

/** By id, because transfers have no index by time. */
export async function listTransfers(
  reader: Reader,
  accountId: string,
  { limit, cursor }: PageRequest,
): Promise<TransferPage> {
  const rows = await reader.all(
    `select id, from_account, to_account, cast(amount as text) as amount, kind, ref, at, memo from transfer
     where account_id = ? and id > ? order by id limit ?`,
    [accountId, cursor ?? "", limit],
  );
  const transfers = rows.map((row): ListedTransfer => ({
    id: text(row, "id"),
    accountId,
    from: text(row, "from_account"),
    to: text(row, "to_account"),
    amount: toNano(row["amount"]),
    kind: text(row, "kind"),
    ref: text(row, "ref"),
    at: integer(row, "at"),
    memo: textOrNull(row, "memo"),
  }));
  return { transfers, next: transfers.length < limit ? undefined : transfers.at(-1)?.id };
}
