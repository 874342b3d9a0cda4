// The checks of the ledger, in SQL. Sums are selected as text, because they may exceed a safe integer.

import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";

export interface Check {
  readonly problem: string;
  /** Selects the wrong rows; all columns are text or counts. */
  readonly sql: string;
  /** True if the check compares accounts with each other, so that it must read all of them at once. */
  readonly isGlobal?: true;
  /** True if the check needs single calls of the past, which the sums of a checkpoint do not have. */
  readonly isFullOnly?: true;
}

/** The balance of every ledger account. The transfers of most calls are columns of their usage records. */
const SUMS_CTE = `charged as (
    select account_id, sum(promo_nano) as promo, sum(paid_nano) as paid, sum(overrun_nano) as overrun
    from usage_record where charged_at is not null group by account_id
  ),
  moved as (
    select to_account as account, amount from transfer
    union all
    select from_account as account, -amount as amount from transfer
    union all
    select account_id || ':promo' as account, -promo as amount from charged
    union all
    select account_id || ':paid' as account, -paid as amount from charged
    union all
    select '${SYSTEM_ACCOUNTS.receivable}' as account, -overrun as amount from charged
    union all
    select '${SYSTEM_ACCOUNTS.usageRevenue}' as account, promo + paid + overrun as amount from charged
  ),
  sums as (select account, sum(amount) as total from moved group by account)`;

/** By usage record: usage transfers that are rows. */
const USAGE_CTE = `usage_sums as (
    select account_id, ref, sum(amount) as total
    from transfer where kind = 'usage' group by account_id, ref
  )`;
const JOIN_USAGE_RECORD =
  "usage_record.account_id = usage_sums.account_id and usage_record.id = usage_sums.ref";
const TRANSFERRED =
  "coalesce(usage_sums.total, 0) + coalesce(promo_nano + paid_nano + overrun_nano, 0)";

/** By account: debts and written-off debts. By payment: what passed a clearing account. */
const RECEIVABLE_CTE = `debts as (
    select account_id, sum(amount) as total from (
      select account_id, case when from_account = '${SYSTEM_ACCOUNTS.receivable}' then amount else -amount end as amount
      from transfer where '${SYSTEM_ACCOUNTS.receivable}' in (from_account, to_account)
      union all
      select account_id, overrun_nano as amount from usage_record where charged_at is not null and overrun_nano > 0
    ) as debt group by account_id
  )`;
const WRITTEN_OFF_CTE = `write_offs as (
    select account_id, sum(case when kind = 'write_off' then amount else -amount end) as total
    from transfer where kind = 'write_off' or (kind in ('dispute_closed', 'refund_failed') and id like '%.written_off')
    group by account_id
  )`;
const CLEARED_CTE = `cleared as (
    select account_id, ref, sum(case when from_account like 'system:clearing:%' then amount else -amount end) as total
    from transfer where from_account like 'system:clearing:%' or to_account like 'system:clearing:%'
    group by account_id, ref
  )`;
const NANO_PER_CENT = 10_000_000;

const since = (start: string): string =>
  `sum(case when charged_usage.at >= ${start} then charged_usage.amount else 0 end)`;
const HAS_BUDGET = "(wallet.day_budget is not null or wallet.month_budget is not null)";

export const CHECKS: readonly Check[] = [
  {
    problem: "a wallet's balance does not match its transfers",
    sql: `with ${SUMS_CTE}
      select wallet.account_id, cast(wallet.promo as text) as promo, cast(coalesce(promo.total, 0) as text) as promo_transfers,
        cast(wallet.paid as text) as paid, cast(coalesce(paid.total, 0) as text) as paid_transfers
      from wallet
      left join sums promo on promo.account = wallet.account_id || ':promo'
      left join sums paid on paid.account = wallet.account_id || ':paid'
      where wallet.promo <> coalesce(promo.total, 0) or wallet.paid <> coalesce(paid.total, 0)`,
  },
  {
    problem: "a ledger account belongs neither to a wallet nor to the system",
    // The casts give the column a type: without one, SQLite builds no index for the join.
    sql: `with ${SUMS_CTE}, buckets as (
        select cast(account_id || ':promo' as text) as account from wallet
        union all select cast(account_id || ':paid' as text) from wallet
      )
      select sums.account, cast(sums.total as text) as total
      from sums left join buckets on buckets.account = sums.account
      where buckets.account is null and sums.account not like 'system:%'`,
  },
  {
    problem: "the ledger accounts do not sum to zero",
    sql: `with ${SUMS_CTE} select cast(sum(total) as text) as total from sums having sum(total) <> 0`,
  },
  {
    problem: "a transfer has no positive amount, or the same account on both sides",
    sql: `select id, cast(amount as text) as amount, from_account, to_account from transfer
      where amount <= 0 or from_account = to_account
      union all
      select id, cast(promo_nano + paid_nano + overrun_nano as text), account_id, '${SYSTEM_ACCOUNTS.usageRevenue}'
      from usage_record where promo_nano < 0 or paid_nano < 0 or overrun_nano < 0`,
  },
  {
    problem: "a transfer changes the wallet of another account",
    sql: `select id, account_id, from_account, to_account from transfer
      where (from_account not like 'system:%' and from_account not in (account_id || ':promo', account_id || ':paid'))
        or (to_account not like 'system:%' and to_account not in (account_id || ':promo', account_id || ':paid'))`,
  },
  {
    problem: "a transfer id is used by several accounts",
    isGlobal: true,
    sql: `select id, cast(count(*) as text) as accounts from transfer group by id having count(*) > 1
      union all
      select id, cast(count(*) as text) from usage_record where charged_at is not null group by id having count(*) > 1`,
  },
  {
    problem: "a wallet is negative or holds more than its balance",
    sql: `select account_id, cast(promo as text) as promo, cast(paid as text) as paid, cast(held as text) as held
      from wallet where promo < 0 or paid < 0 or held < 0 or held > promo + paid`,
  },
  {
    problem: "a wallet's held amount does not match its holds",
    sql: `with sums as (select account_id, sum(amount) as total from hold group by account_id)
      select wallet.account_id, cast(wallet.held as text) as held, cast(coalesce(sums.total, 0) as text) as holds
      from wallet left join sums on sums.account_id = wallet.account_id
      where wallet.held <> coalesce(sums.total, 0)`,
  },
  {
    problem: "a key's held amount or open calls do not match its holds",
    sql: `with sums as (select key_id, sum(amount) as total, sum(calls) as calls from hold group by key_id)
      select spender.key_id, cast(spender.held as text) as held, cast(coalesce(sums.total, 0) as text) as holds,
        cast(spender.open_calls as text) as open_calls, cast(coalesce(sums.calls, 0) as text) as open_holds
      from spender left join sums on sums.key_id = spender.key_id
      where spender.held <> coalesce(sums.total, 0) or spender.open_calls <> coalesce(sums.calls, 0)`,
  },
  {
    problem: "a session's held amount does not match its holds",
    sql: `with sums as (select account_id, session_id, sum(amount) as total from hold where session_id is not null group by account_id, session_id)
      select agent_session.id, cast(agent_session.held as text) as held, cast(coalesce(sums.total, 0) as text) as holds
      from agent_session left join sums on sums.account_id = agent_session.account_id and sums.session_id = agent_session.id
      where agent_session.held <> coalesce(sums.total, 0)`,
  },
  {
    problem: "a hold has no wallet, no key, or the key of another account",
    sql: `select hold.id, hold.account_id, hold.key_id, cast(hold.amount as text) as amount from hold
      left join wallet on wallet.account_id = hold.account_id
      left join spender on spender.key_id = hold.key_id
      where wallet.account_id is null or spender.key_id is null or spender.account_id <> hold.account_id or hold.amount < 0`,
  },
  {
    problem: "a hold is both open and swept",
    sql: "select hold.id from hold join swept_hold on swept_hold.id = hold.id",
  },
  {
    problem: "a key's spend does not match its charged usage",
    sql: `with ${USAGE_CTE}, spent as (
        select usage_record.key_id, sum(${TRANSFERRED}) as total
        from usage_record left join usage_sums on ${JOIN_USAGE_RECORD} group by usage_record.key_id
      )
      select spender.key_id, cast(spender.total_spent as text) as total_spent, cast(coalesce(spent.total, 0) as text) as charged,
        cast(coalesce(usage_archive.charged_nano, 0) as text) as archived
      from spender left join spent on spent.key_id = spender.key_id
      left join usage_archive on usage_archive.key_id = spender.key_id
      where spender.total_spent <> coalesce(spent.total, 0) + coalesce(usage_archive.charged_nano, 0)`,
  },
  {
    problem: "a key's spend in a window exceeds its spend in a longer one",
    sql: `select key_id, cast(day_spent as text) as day, cast(week_spent as text) as week,
        cast(month_spent as text) as month, cast(total_spent as text) as total
      from spender where day_spent < 0 or day_spent > week_spent or day_spent > month_spent
        or week_spent > total_spent or month_spent > total_spent`,
  },
  {
    problem: "a key's spend in a window does not match the usage charged since its start",
    isFullOnly: true,
    sql: `with charged_usage as (
        select usage_record.key_id, transfer.at, transfer.amount
        from transfer
        join usage_record on usage_record.account_id = transfer.account_id and usage_record.id = transfer.ref
        where transfer.kind = 'usage'
        union all
        select key_id, charged_at as at, promo_nano + paid_nano + overrun_nano as amount from usage_record where charged_at is not null
      ), spent as (
        select spender.key_id, ${since("spender.day_start")} as day, ${since("spender.week_start")} as week,
          ${since("spender.month_start")} as month
        from charged_usage join spender on spender.key_id = charged_usage.key_id group by spender.key_id
      )
      select spender.key_id, cast(spender.day_spent as text) as day, cast(coalesce(spent.day, 0) as text) as day_charged,
        cast(spender.week_spent as text) as week, cast(coalesce(spent.week, 0) as text) as week_charged,
        cast(spender.month_spent as text) as month, cast(coalesce(spent.month, 0) as text) as month_charged
      from spender left join spent on spent.key_id = spender.key_id
      left join usage_archive on usage_archive.key_id = spender.key_id
      where (usage_archive.last_at is null or (usage_archive.last_at < spender.week_start and usage_archive.last_at < spender.month_start))
        and (spender.day_spent <> coalesce(spent.day, 0) or spender.week_spent <> coalesce(spent.week, 0)
        or spender.month_spent <> coalesce(spent.month, 0))`,
  },
  {
    problem: "a budget's spend does not match the usage charged since its window started",
    isFullOnly: true,
    sql: `with charged_usage as (
        select account_id, at, amount from transfer where transfer.kind = 'usage'
        union all
        select account_id, charged_at as at, promo_nano + paid_nano + overrun_nano as amount from usage_record where charged_at is not null
      ), spent as (
        select wallet.account_id, ${since("wallet.day_start")} as day, ${since("wallet.month_start")} as month
        from wallet join charged_usage on charged_usage.account_id = wallet.account_id
        where ${HAS_BUDGET} group by wallet.account_id
      )
      select wallet.account_id, cast(wallet.day_spent as text) as day, cast(coalesce(spent.day, 0) as text) as day_charged,
        cast(wallet.month_spent as text) as month, cast(coalesce(spent.month, 0) as text) as month_charged
      from wallet left join spent on spent.account_id = wallet.account_id
      where ${HAS_BUDGET} and (wallet.day_spent <> coalesce(spent.day, 0) or wallet.month_spent <> coalesce(spent.month, 0))`,
  },
  {
    problem: "a budget is negative or has no window",
    sql: `select account_id, cast(day_budget as text) as day_budget, cast(month_budget as text) as month_budget,
        cast(day_start as text) as day_start, cast(month_start as text) as month_start
      from wallet where day_budget < 0 or month_budget < 0
        or (${HAS_BUDGET} and (day_start is null or month_start is null or day_start < month_start or day_spent is null or month_spent is null))`,
  },
  {
    problem: "a usage record's cost does not match its transfers",
    sql: `with ${USAGE_CTE}
      select usage_record.id, usage_record.account_id, cast(usage_record.cost_nano as text) as cost,
        cast(usage_record.byok as text) as byok, cast(${TRANSFERRED} as text) as transfers
      from usage_record left join usage_sums on ${JOIN_USAGE_RECORD}
      where ${TRANSFERRED} <> case when usage_record.byok = 0 then usage_record.cost_nano else 0 end`,
  },
  {
    problem: "a usage transfer has no usage record",
    sql: `with ${USAGE_CTE}
      select usage_sums.account_id, usage_sums.ref, cast(usage_sums.total as text) as transfers
      from usage_sums left join usage_record on ${JOIN_USAGE_RECORD}
      left join (select account_id, max(through_id) as through_id from usage_archive group by account_id) as archived
        on archived.account_id = usage_sums.account_id
      where usage_record.id is null and (archived.through_id is null or usage_sums.ref > archived.through_id)`,
  },
  {
    problem: "the cost of archived usage records does not match their transfers",
    isFullOnly: true,
    sql: `with archived as (
        select account_id, max(through_id) as through_id, sum(cost_nano) as cost, sum(charged_nano) as charged
        from usage_archive group by account_id
      ), moved as (
        select archived.account_id, sum(transfer.amount) as total
        from archived join transfer on transfer.account_id = archived.account_id
        where transfer.kind = 'usage' and transfer.ref <= archived.through_id group by archived.account_id
      )
      select archived.account_id, cast(archived.cost as text) as cost, cast(coalesce(moved.total, 0) as text) as transfers,
        cast(archived.charged as text) as charged
      from archived left join moved on moved.account_id = archived.account_id
      where archived.cost <> coalesce(moved.total, 0) or archived.charged <> coalesce(moved.total, 0)`,
  },
  {
    problem: "an account's debt does not match its transfers",
    sql: `with ${RECEIVABLE_CTE}
      select wallet.account_id, cast(wallet.owed as text) as owed, cast(coalesce(debts.total, 0) as text) as transfers
      from wallet left join debts on debts.account_id = wallet.account_id
      where wallet.owed < 0 or wallet.owed <> coalesce(debts.total, 0)`,
  },
  {
    problem: "an account's written-off debt does not match its transfers",
    sql: `with ${WRITTEN_OFF_CTE}
      select wallet.account_id, cast(wallet.written_off as text) as written_off, cast(coalesce(write_offs.total, 0) as text) as transfers
      from wallet left join write_offs on write_offs.account_id = wallet.account_id
      where wallet.written_off < 0 or wallet.written_off <> coalesce(write_offs.total, 0)`,
  },
  {
    problem: "a payment's transfers do not match what was received and returned",
    sql: `with ${CLEARED_CTE}
      select payment.id, payment.account_id, cast(coalesce(cleared.total, 0) as text) as transfers, cast(payment.amount_cents as text) as paid_cents,
        cast(payment.refunded_cents as text) as refunded_cents, cast(payment.disputed_cents as text) as disputed_cents
      from payment left join cleared on cleared.ref = payment.id and cleared.account_id = payment.account_id
      where coalesce(cleared.total, 0) <> case when payment.state = 'foreign' then 0
        else (payment.amount_cents - payment.refunded_cents - payment.disputed_cents) * ${NANO_PER_CENT} end`,
  },
  {
    problem: "a clearing transfer belongs to no payment of its account",
    sql: `with ${CLEARED_CTE}
      select cleared.account_id, cleared.ref, cast(cleared.total as text) as transfers
      from cleared left join payment on payment.id = cleared.ref and payment.account_id = cleared.account_id
      left join metered_payment on metered_payment.id = cleared.ref and metered_payment.account_id = cleared.account_id
      where payment.id is null and metered_payment.id is null`,
  },
  {
    problem: "the transfers of a call that a wallet pays do not match its payment",
    sql: `with ${CLEARED_CTE}
      select metered_payment.id, metered_payment.account_id, metered_payment.state,
        cast(coalesce(cleared.total, 0) as text) as transfers, cast(metered_payment.amount_nano as text) as amount
      from metered_payment left join cleared
        on cleared.ref = metered_payment.id and cleared.account_id = metered_payment.account_id
      where coalesce(cleared.total, 0) <> case metered_payment.state when 'open' then metered_payment.credit_nano
          when 'due' then metered_payment.amount_nano when 'paid' then metered_payment.amount_nano else 0 end
        or metered_payment.charge_nano > metered_payment.credit_nano
        or (metered_payment.state <> 'open' and metered_payment.amount_nano < metered_payment.charge_nano)`,
  },
  {
    problem: "an invoice's status does not match its payments",
    sql: `select invoice.id, invoice.status, cast(count(payment.id) as text) as payments,
        cast(coalesce(sum(payment.amount_cents), 0) as text) as paid_cents
      from invoice left join payment on payment.invoice_id = invoice.id and payment.state = 'credited'
        and payment.account_id = invoice.account_id
      group by invoice.id, invoice.status, invoice.total_cents, invoice.tax_cents
      having count(payment.id) <> case when invoice.status in ('paid', 'refunded') then 1 else 0 end
        or (count(payment.id) = 1 and sum(payment.amount_cents) <> invoice.total_cents + invoice.tax_cents)`,
  },
  {
    problem: "an automatic top-up's state does not match its invoice",
    sql: `select top_up.id, top_up.account_id, top_up.state, invoice.status
      from top_up left join invoice on invoice.id = top_up.invoice_id and invoice.account_id = top_up.account_id
      where invoice.id is null or (top_up.state = 'paid') <> (invoice.status in ('paid', 'refunded'))
        or (top_up.open_for is not null) <> (top_up.state in ('charging', 'processing'))`,
  },
  {
    problem: "a service credit does not match its transfer",
    sql: `select service_credit.account_id, service_credit.id, cast(service_credit.amount as text) as amount,
        cast(transfer.amount as text) as transferred
      from service_credit left join transfer on transfer.account_id = service_credit.account_id and transfer.id = service_credit.id
      where transfer.id is null or transfer.kind <> 'service_credit' or transfer.amount <> service_credit.amount`,
  },
  {
    problem: "a transfer of a service credit has no service credit",
    sql: `select transfer.account_id, transfer.id, cast(transfer.amount as text) as amount
      from transfer left join service_credit on service_credit.account_id = transfer.account_id and service_credit.id = transfer.id
      where transfer.kind = 'service_credit' and service_credit.id is null`,
  },
  {
    problem: "an account has no wallet",
    sql: `select account.id from account left join wallet on wallet.account_id = account.id where wallet.account_id is null`,
  },
  {
    problem: "an account has more than one starting grant",
    sql: `select account_id, cast(count(*) as text) as grants from transfer
      where kind = 'grant' and id like 'start.%' group by account_id having count(*) > 1`,
  },
];
