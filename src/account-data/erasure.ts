// What remains of a closed account: one row a table says which personal data is erased. It is the only file that writes the
// tables of other folders, so that all of it can be read in one place.

import { type Db, integer, type Reader, text, type Tx } from "../store/db.ts";
import { GRACE_MS } from "./closing.ts";

/** Rows per transaction, so that other writes do not wait long. */
const CHUNK_ROWS = 500;
const ACCOUNTS_PER_RUN = 20;

interface Erasure {
  readonly table: string;
  /** A column by which chunks of rows are chosen. */
  readonly key: string;
  /** The rows that still have data. `@account` is the account's id. */
  readonly rows: string;
  /** The columns to change; absent to delete the rows. `@now` is the time. */
  readonly set?: string;
}

const OF_ACCOUNT = "account_id = @account";
/** Members without another workspace. */
const ONLY_HERE = `(select membership.person_id from membership where membership.account_id = @account
  and not exists (select 1 from membership other where other.person_id = membership.person_id and other.account_id <> @account))`;

/** In this order: a row is erased before the row through which it is found. */
export const ERASURES: readonly Erasure[] = [
  {
    table: "stored_stream",
    key: "response_id",
    rows: `response_id in (select id from stored_response where ${OF_ACCOUNT})`,
  },
  { table: "stored_item", key: "id", rows: OF_ACCOUNT },
  { table: "stored_response", key: "id", rows: OF_ACCOUNT },
  {
    table: "provider_batch",
    key: "id",
    rows: `batch_id in (select id from batch where ${OF_ACCOUNT})`,
  },
  {
    table: "batch_item",
    key: "batch_id",
    rows: `batch_id in (select id from batch where ${OF_ACCOUNT})`,
  },
  { table: "batch", key: "id", rows: OF_ACCOUNT },
  {
    table: "stored_file_part",
    key: "file_id",
    rows: `file_id in (select id from stored_file where ${OF_ACCOUNT})`,
  },
  { table: "stored_file", key: "id", rows: OF_ACCOUNT },
  { table: "response_storage", key: "account_id", rows: OF_ACCOUNT },
  { table: "prompt_log", key: "id", rows: OF_ACCOUNT },
  { table: "sink_entry", key: "call_id", rows: OF_ACCOUNT },
  { table: "sink", key: "name", rows: OF_ACCOUNT },
  { table: "webhook_delivery", key: "id", rows: OF_ACCOUNT },
  { table: "event", key: "id", rows: OF_ACCOUNT },
  {
    table: "webhook",
    key: "id",
    rows: `${OF_ACCOUNT} and url <> ''`,
    set: "url = '', description = null, status = 'deleted', sealed = null, former_sealed = null",
  },
  {
    table: "provider_key",
    key: "id",
    rows: `${OF_ACCOUNT} and (status <> 'deleted' or last4 <> '')`,
    set: "status = 'deleted', name = null, last4 = '', sealed = null, data_key = null, deleted_at = coalesce(deleted_at, @now)",
  },
  {
    table: "api_key",
    key: "id",
    rows: `${OF_ACCOUNT} and (revoked_at is null or name is not null or policy is not null)`,
    set: "name = null, policy = null, revoked_at = coalesce(revoked_at, @now)",
  },
  {
    table: "usage_record",
    key: "id",
    rows: `${OF_ACCOUNT} and labels is not null`,
    set: "labels = null",
  },
  { table: "session_usage", key: "session_id", rows: OF_ACCOUNT },
  { table: "agent_session", key: "id", rows: OF_ACCOUNT },
  { table: "refused_call", key: "id", rows: OF_ACCOUNT },
  { table: "usage_rollup", key: "label", rows: `${OF_ACCOUNT} and label <> ''` },
  { table: "claim_attempt", key: "id", rows: OF_ACCOUNT },
  { table: "invitation", key: "id", rows: OF_ACCOUNT },
  { table: "workspace_domain", key: "domain", rows: OF_ACCOUNT },
  { table: "sso_connection", key: "id", rows: OF_ACCOUNT },
  { table: "scim_group_member", key: "user_id", rows: OF_ACCOUNT },
  { table: "scim_group", key: "id", rows: OF_ACCOUNT },
  { table: "scim_user", key: "id", rows: OF_ACCOUNT },
  { table: "scim_directory", key: "account_id", rows: OF_ACCOUNT },
  { table: "operator_request", key: "id", rows: OF_ACCOUNT },
  { table: "billing_details", key: "account_id", rows: OF_ACCOUNT },
  { table: "preset", key: "name", rows: OF_ACCOUNT },
  { table: "guardrail", key: "name", rows: OF_ACCOUNT },
  { table: "mcp_server", key: "name", rows: OF_ACCOUNT },
  { table: "auto_top_up", key: "account_id", rows: OF_ACCOUNT },
  {
    table: "payment_method",
    key: "id",
    rows: `${OF_ACCOUNT} and state <> 'gone'`,
    set: "state = 'gone', customer = null, ref = null, label = null, page_ref = null, due_at = null",
  },
  {
    table: "audit",
    key: "id",
    rows: `${OF_ACCOUNT} and (detail <> '{}' or network is not null or ip is not null)`,
    set: "detail = '{}', network = null, ip = null, actor_id = case when actor_type = 'person' and actor_id like '%@%' then 'erased' else actor_id end",
  },
  { table: "audit_stream_entry", key: "audit_id", rows: OF_ACCOUNT },
  { table: "audit_stream", key: "account_id", rows: OF_ACCOUNT },
  { table: "email", key: "id", rows: OF_ACCOUNT },
  { table: "email_opt_out", key: "person_id", rows: `person_id in ${ONLY_HERE}` },
  { table: "session", key: "id", rows: `person_id in ${ONLY_HERE}` },
  { table: "person", key: "id", rows: `id in ${ONLY_HERE}` },
  { table: "membership", key: "person_id", rows: OF_ACCOUNT },
];

/** What stays, and why. */
export const KEPT_TABLES: Readonly<Record<string, string>> = {
  account: "the id stays; email, name, network and creator are erased in the end",
  account_creation: "counts per network and hour, deleted after a day",
  wallet: "ledger",
  spender: "ledger",
  hold: "ledger",
  swept_hold: "ledger",
  transfer: "ledger",
  process: "no data of accounts",
  usage_archive: "sums that prove the ledger",
  ledger_checkpoint: "sums that prove the ledger",
  ledger_day: "no data of accounts",
  ledger_proof_page: "hashes and parts of balances without names, deleted after 31 days",
  provider_hour: "sums over all accounts",
  credential_hour: "sums over all accounts",
  charge_hour: "sums over all accounts",
  usage_pending: "emptied by the roll-ups within seconds",
  invoice: "accounting; a paid invoice keeps the buyer that it names",
  invoice_series: "no data of accounts",
  checkout: "accounting; ids of the payment processor",
  payment: "accounting",
  payment_fact: "accounting",
  top_up: "accounting",
  agent_payment:
    "accounting; the address of a wallet is on the public chain, and a payment token works once",
  metered_payment: "accounting; the address of the wallet is on the public chain",
  claim_count: "counts per hour, deleted after a day",
  authorization_code: "deleted an hour after it expires, with the id of a person",
  mcp_session: "deleted a day after its account was created, with the id of a key",
  device_login: "deleted an hour after it expires, with the id of a person and a network",
  human_grant:
    "one bonus per person: the subject of the identity provider and a keyed hash of the mailbox",
  idempotent_answer: "encrypted, deleted after 24 hours",
  incident_update: "no data of accounts",
  open_circuits: "no data of accounts",
  operator_block: "no data of accounts",
  operator_limit: "no data of accounts",
  operator_session: "no data of accounts",
  secret_check: "no data of accounts",
  service_credit: "ledger",
  service_level: "no data of accounts",
  signing_key: "no data of accounts",
  solved_challenge: "no data of accounts; deleted after minutes",
};

/** Erases the accounts whose grace period is over. Returns their ids. */
export async function eraseClosedAccounts(db: Db, now: number): Promise<readonly string[]> {
  const rows = await db.all(
    `with closing as materialized (select account_id, closing_at from wallet where closing_at <= ?)
     select closing.account_id from closing join account on account.id = closing.account_id
     where account.erased_at is null order by closing.closing_at limit ${ACCOUNTS_PER_RUN}`,
    [now - GRACE_MS],
  );
  const erased: string[] = [];
  for (const accountId of rows.map((row) => text(row, "account_id"))) {
    if (await hasMoneyInFlight(db, accountId)) continue;
    for (const erasure of ERASURES) await eraseRows(db, erasure, accountId, now);
    await db.write((tx) => finish(tx, accountId, now));
    erased.push(accountId);
  }
  return erased;
}

/** Whether a hold, top-up or agent payment is open. The account is then erased in a later run. */
async function hasMoneyInFlight(db: Reader, accountId: string): Promise<boolean> {
  const hold = await db.get("select id from hold where account_id = ? limit 1", [accountId]);
  if (hold !== undefined) return true;
  const row = await db.get(
    `select (select count(*) from top_up where account_id = ? and open_for is not null)
       + (select count(*) from agent_payment where account_id = ? and due_at is not null) as count`,
    [accountId, accountId],
  );
  return row === undefined || integer(row, "count") > 0;
}

async function eraseRows(
  db: Db,
  { table, key, rows, set }: Erasure,
  accountId: string,
  now: number,
): Promise<void> {
  const change = set === undefined ? `delete from ${table}` : `update ${table} set ${set}`;
  const { sql, params } = bind(
    `${change} where ${rows} and ${key} in (select ${key} from ${table} where ${rows} limit ${CHUNK_ROWS})`,
    { "@account": accountId, "@now": now },
  );
  while ((await db.write((tx) => tx.run(sql, params))) > 0)
    await new Promise((resolve) => setImmediate(resolve));
}

async function finish(tx: Tx, accountId: string, now: number): Promise<void> {
  await tx.run(
    "update account set email = null, name = null, created_by = null, created_from = '', erased_at = ? where id = ?",
    [now, accountId],
  );
}

function bind(
  statement: string,
  values: Readonly<Record<string, string | number>>,
): { readonly sql: string; readonly params: readonly (string | number)[] } {
  const params: (string | number)[] = [];
  const sql = statement.replaceAll(/@account|@now/g, (name) => {
    params.push(values[name] ?? "");
    return "?";
  });
  return { sql, params };
}
