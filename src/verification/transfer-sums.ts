// Sums of all transfers by hour, ledger accounts and kind. Usage comes from the hourly sums of charges; other transfers are few, and are
// read by account. So the time grows with accounts and payments, and not with calls.

import { type Nano, toNano } from "../base/money/money.ts";
import { HOUR_MS } from "../base/time.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import { integer, type Reader, type Row, text } from "../store/db.ts";
import { type ChargesAt, readChargeHours } from "../usage/rollup/charge-hours.ts";
import { accountRanges, ALL_ACCOUNTS } from "./account-range.ts";
import { perAccount } from "./check-tables.ts";
import { FIRST_CALL_ID, LAST_CALL_ID } from "./checkpoint.ts";

export const STARTING_GRANT = "starting";
export const CLAIM_GRANT = "claim";
export const OPERATOR_GRANT = "operator";
/** A recovered write-off. */
export const WRITTEN_OFF = "written_off";

export interface TransferSum {
  /** The start of the hour. */
  readonly at: number;
  /** A ledger account of the system; a wallet's are `promo` and `paid`. */
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  /** What a grant was for, or `written_off`; otherwise empty. */
  readonly origin: string;
  readonly amount: Nano;
}

/** Accounts per statement on SQLite, which blocks the main thread. */
const ACCOUNTS_PER_STATEMENT = 500;
const COLUMNS = "account_id, id, from_account, to_account, amount, kind, at";
/** All transfers except those of calls, whose ids begin with the id of the call. */
const BESIDE_CALLS = [{ before: FIRST_CALL_ID }, { after: LAST_CALL_ID }];

/** The reader must be a snapshot. */
export async function readTransferSums(
  reader: Reader,
  onStatement: (done: number) => void = () => {},
): Promise<readonly TransferSum[]> {
  let done = 0;
  const sums = (await readChargeHours(reader)).flatMap(usageSums);
  // Without ranges, PostgreSQL needs one statement.
  const ranges =
    reader.kind === "postgres" ? [ALL_ACCOUNTS] : accountRanges(reader, ACCOUNTS_PER_STATEMENT);
  for await (const range of ranges) {
    for (const ids of BESIDE_CALLS) {
      const source = { table: "transfer", columns: COLUMNS, range };
      const { sql, params } = perAccount(reader.kind, source, ids);
      sums.push(...(await reader.all(sumStatement(sql), params)).map(toTransferSum));
      onStatement((done += 1));
    }
    // Other requests run meanwhile.
    if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
  }
  return sums;
}

function usageSums({ at, promo, paid, overrun }: ChargesAt): readonly TransferSum[] {
  const common = { at, to: SYSTEM_ACCOUNTS.usageRevenue, kind: "usage", origin: "" } as const;
  return [
    { ...common, from: "promo", amount: promo },
    { ...common, from: "paid", amount: paid },
    { ...common, from: SYSTEM_ACCOUNTS.receivable, amount: overrun },
  ];
}

const side = (column: string): string =>
  `case when ${column} like 'system:%' then ${column} else substr(${column}, length(account_id) + 2) end`;

function sumStatement(transfers: string): string {
  return `select at - at % ${HOUR_MS} as at, ${side("from_account")} as from_side, ${side("to_account")} as to_side, kind,
      case when kind in ('dispute_closed', 'refund_failed') and id like '%.written_off' then '${WRITTEN_OFF}'
        when kind <> 'grant' then ''
        when id like 'start.%' then '${STARTING_GRANT}'
        when id like 'grant.%' then '${OPERATOR_GRANT}'
        else '${CLAIM_GRANT}' end as origin,
      cast(sum(amount) as text) as amount
    from (${transfers}) as moved where kind <> 'usage' group by 1, 2, 3, 4, 5`;
}

function toTransferSum(row: Row): TransferSum {
  return {
    at: integer(row, "at"),
    from: text(row, "from_side"),
    to: text(row, "to_side"),
    kind: text(row, "kind"),
    origin: text(row, "origin"),
    amount: toNano(row["amount"]),
  };
}
