// Helpers of the billing tests: API calls, page requests and ledger balances.

import { expect } from "bun:test";
import type { Db } from "../../src/store/db.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import type { TestAccount } from "../support/gateway.ts";

export interface InvoiceBody {
  readonly id: string;
  readonly object: string;
  readonly status: string;
  readonly amount_usd: number;
  readonly fee_usd: number;
  readonly tax_usd: number;
  readonly total_usd: number;
  readonly credits: number;
  readonly pay_url: string;
  readonly payment_methods: readonly { readonly type: string; readonly url: string }[];
  readonly created_at: string;
  readonly paid_at: string | null;
}

export interface ApiResponse<T = Record<string, unknown>> {
  readonly status: number;
  readonly body: T;
  readonly headers: Headers;
}

type Endpoint = { readonly url: string };

/** An API call with the account's key. */
export async function api<T = Record<string, unknown>>(
  { url }: Endpoint,
  account: TestAccount,
  [method, path]: readonly [string, string],
  sent: { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<ApiResponse<T>> {
  const response = await fetch(url + path, {
    method,
    headers: { ...account.headers, ...sent.headers },
    ...(sent.body === undefined
      ? {}
      : { body: typeof sent.body === "string" ? sent.body : JSON.stringify(sent.body) }),
  });
  return {
    status: response.status,
    body: (await response.json()) as T,
    headers: response.headers,
  };
}

export async function buyCredits(
  gateway: Endpoint,
  account: TestAccount,
  usd: unknown = 10,
): Promise<InvoiceBody> {
  const { status, body } = await api<InvoiceBody>(
    gateway,
    account,
    ["POST", "/v1/billing/invoice"],
    {
      body: { amount_usd: usd },
    },
  );
  expect({ status, body }).toMatchObject({ status: 201 });
  return body;
}

export async function readInvoice(
  gateway: Endpoint,
  account: TestAccount,
  id: string,
): Promise<InvoiceBody> {
  const { status, body } = await api<InvoiceBody>(gateway, account, [
    "GET",
    `/v1/billing/invoice/${id}`,
  ]);
  expect(status).toBe(200);
  return body;
}

/** The audit entries of invoices, oldest first: `invoice.created inv_… key key_…`. */
export async function invoiceAuditEntries(db: Db, accountId: string): Promise<readonly string[]> {
  const rows = await db.all(
    "select action, target, actor_type, actor_id from audit where account_id = ? and action like 'invoice.%' order by id",
    [accountId],
  );
  return rows.map((row) =>
    [row["action"], row["target"], row["actor_type"], row["actor_id"]].map(String).join(" "),
  );
}

/** Submits a page's form, as a browser does. */
export function submitForm(
  payUrl: string,
  fields: Readonly<Record<string, string>> = {},
  headers: Readonly<Record<string, string>> = { "sec-fetch-site": "same-origin" },
): Promise<Response> {
  return fetch(payUrl, {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(fields).toString(),
  });
}

export async function pageText(url: string): Promise<string> {
  const response = await fetch(url);
  return (await response.text())
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll("&#39;", "'")
    .replaceAll(/\s+/g, " ");
}

export async function readWallet(
  db: Db,
  accountId: string,
): Promise<{ promo: bigint; paid: bigint; held: bigint; owed: bigint }> {
  const row = await db.get(
    "select cast(promo as text) as promo, cast(paid as text) as paid, cast(held as text) as held, cast(owed as text) as owed from wallet where account_id = ?",
    [accountId],
  );
  const amount = (column: string): bigint => BigInt(String(row?.[column]));
  return {
    promo: amount("promo"),
    paid: amount("paid"),
    held: amount("held"),
    owed: amount("owed"),
  };
}

/** The balance of a ledger account in nano-USD: transfers in minus transfers out. */
export async function ledgerBalanceOf(db: Db, name: string): Promise<bigint> {
  const row = await db.get(
    `select cast(coalesce(sum(case when to_account = ? then amount else -amount end), 0) as text) as total
     from transfer where ? in (from_account, to_account)`,
    [name, name],
  );
  return BigInt(String(row?.["total"]));
}

export async function expectLedgerValid(db: Db): Promise<void> {
  expect((await verifyLedger(db)).problems).toEqual([]);
}

export const NANO_PER_CENT = 10_000_000n;
export const NANO_PER_USD = 1_000_000_000n;
