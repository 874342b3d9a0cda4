// Readiness for a distributed PostgreSQL, which places rows by their primary key: a table of an account carries the account
// in its key, or is listed here with the reason. A new table has to take a side.

import { afterAll, describe, expect, test } from "bun:test";
import { text } from "../../src/store/db.ts";
import { openStore } from "../support/stores/stores.ts";

/** Tables that belong to an account and have another key. `account_id` is a column of each, so rows can be moved. */
const OTHER_KEYS: Readonly<Record<string, string>> = {
  api_key: "looked up by the hash of a key or by its id, before the account is known",
  event: "written once; its id is part of the payload that receivers see",
  webhook: "looked up by the worker for all accounts",
  webhook_delivery: "a queue of the worker for all accounts, in the order of due times",
  audit: "also of operators and systems, who have no account",
  batch: "looked up by its id by the process that runs it",
  stored_file: "looked up by its id, and by the job that expires it",
  prompt_log: "its id is that of a call; the job of expiry reads it for all accounts",
  stored_response: "looked up by its id, which names no account, and by the job that expires it",
  claim_attempt: "looked up by the hash of its token, before the account is known",
  human_grant: "unique per person and mailbox over all accounts",
  provider_key: "looked up by its id in routes that check the account afterwards",
  invitation: "looked up by the invited address, before the account is known",
  invoice: "looked up by payment processors, which know only the invoice",
  payment: "looked up by payment processors, which know only the payment",
  top_up: "a queue of the worker for all accounts, in the order of due times",
  payment_method: "looked up by payment processors, which know only the method",
  agent_payment: "unique per signed payment over all accounts",
  metered_payment: "unique per signed ceiling over all accounts",
  authorization_code: "looked up by the hash of its code, before the account is known",
  device_login: "looked up by the hashes of its codes, before the account is known",
  email: "a queue of the worker for all accounts, in the order of due times",
  operator_request: "looked up by its id, by operators, for all accounts",
};

/** Tables without an account. */
const GLOBAL_TABLES: Readonly<Record<string, string>> = {
  account: "the account itself: its id is the key",
  batch_item: "belongs to a batch",
  provider_batch: "belongs to a batch",
  account_creation: "limits of new accounts per network",
  claim_count: "limits of claims per network and address",
  charge_hour: "sums over all accounts",
  checkout: "belongs to an invoice",
  email_opt_out: "of a person",
  invoice_series: "numbers of all invoices",
  incident_update: "what operators wrote on the status page",
  mcp_session: "of the key of the account that the session created",
  migration: "which migrations are applied",
  open_circuits: "of the processes of the gateway",
  operator_block: "networks and email domains that operators blocked",
  operator_limit: "limits that operators changed",
  operator_session: "of operators",
  payment_fact: "what a payment processor reported, possibly of an unknown payment",
  person: "a person can be a member of several accounts",
  process: "the processes of the gateway",
  provider_hour: "sums over all accounts",
  credential_hour: "sums over all accounts",
  signing_key: "public keys of the gateway",
  ledger_day: "roots over all accounts",
  ledger_proof_page: "leaves of all accounts, without names",
  secret_check: "of the gateway",
  service_level: "what operators promise about models",
  session: "of a person",
  solved_challenge: "of an account that is about to be created",
  stored_file_part: "belongs to a file",
  stored_stream: "belongs to a stored response",
};

const store = await openStore("postgres");
const rows = await store.db.all(`
    select table_info.table_name as name, column_info.column_name as column_name, key_info.column_name as key_name
    from information_schema.tables table_info
    join information_schema.columns column_info
      on column_info.table_schema = table_info.table_schema and column_info.table_name = table_info.table_name
    left join information_schema.table_constraints constraint_info
      on constraint_info.table_schema = table_info.table_schema and constraint_info.table_name = table_info.table_name
      and constraint_info.constraint_type = 'PRIMARY KEY'
    left join information_schema.key_column_usage key_info
      on key_info.constraint_schema = constraint_info.constraint_schema
      and key_info.constraint_name = constraint_info.constraint_name and key_info.column_name = column_info.column_name
    where table_info.table_schema = current_schema() and table_info.table_type = 'BASE TABLE'
    order by 1, 2`);
const keysByTable = new Map(
  [...Map.groupBy(rows, (row) => text(row, "name"))].map(([name, columns]) => [
    name,
    {
      hasAccount: columns.some((row) => text(row, "column_name") === "account_id"),
      key: columns.flatMap(({ key_name: key }) => (typeof key === "string" ? [key] : [])),
    },
  ]),
);
afterAll(() => store.close());

describe("primary keys", () => {
  test("every table has one", () => {
    const missing = [...keysByTable].filter(([, { key }]) => key.length === 0);
    expect(missing).toEqual([]);
  });

  test("of an account's tables contain the account, or the table is listed with a reason", () => {
    const others = [...keysByTable].filter(
      ([, { hasAccount, key }]) => hasAccount && !key.includes("account_id"),
    );
    expect(others.map(([name]) => name).toSorted()).toEqual(Object.keys(OTHER_KEYS).toSorted());
  });

  test("of tables without an account are listed with a reason", () => {
    const global = [...keysByTable].filter(([, { hasAccount }]) => !hasAccount);
    expect(global.map(([name]) => name).toSorted()).toEqual(Object.keys(GLOBAL_TABLES).toSorted());
  });
});
