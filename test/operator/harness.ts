// A gateway with operators, their sessions, and readers of pages and the audit log.

import { updateAgentPayment } from "../../src/billing/payments/agent-payment-rows.ts";
import { insertX402Payment, type X402Payment } from "../../src/billing/x402/x402-payment-rows.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { createOperatorSessions } from "../../src/operator/sign-in/operator-sessions.ts";
import { type Db, textOrNull } from "../../src/store/db.ts";
import { createPayment } from "../billing/x402/wallet.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import type { StoreKind } from "../support/stores/stores.ts";

export const OPERATOR_EMAIL = "ada@operator.example";
export const OTHER_OPERATOR_EMAIL = "ben@operator.example";

export interface OperatorHarness {
  readonly gateway: Gateway;
  readonly clock: { now: number };
}

export async function startOperatorHarness(
  store: StoreKind,
  env: Readonly<Record<string, string>> = {},
): Promise<OperatorHarness> {
  const clock = { now: Date.now() };
  const gateway = await startGateway({
    store,
    now: () => clock.now,
    env: { POSTERN_OPERATORS: `${OPERATOR_EMAIL}, ${OTHER_OPERATOR_EMAIL.toUpperCase()}`, ...env },
  });
  return { gateway, clock };
}

export interface OperatorSession {
  readonly email: string;
  readonly cookie: string;
  readonly csrf: string;
}

/** A new session of an operator. */
export async function signInOperator(
  { gateway, clock }: OperatorHarness,
  email = OPERATOR_EMAIL,
): Promise<OperatorSession> {
  const { db } = gateway.server;
  const { secret, store } = gateway.config;
  const sessions = createOperatorSessions({
    db,
    master: loadMasterSecret({ secret }, store.dataDir),
    baseUrl: gateway.url,
    operators: [email],
  });
  const { cookie: set } = await db.write((tx) =>
    sessions.begin(tx, { email, network: "test", browser: "test", now: clock.now }),
  );
  const cookie = set.split(";")[0] ?? "";
  const operator = await sessions.find(cookie, clock.now);
  return { email, cookie, csrf: operator?.csrf ?? "" };
}

export interface PageResponse {
  readonly status: number;
  readonly text: string;
  readonly location: string | null;
  readonly headers: Headers;
}

export interface PageRequest {
  readonly form?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One browser request, without following redirects. */
export async function fetchPage(
  { gateway }: OperatorHarness,
  path: string,
  session?: Pick<OperatorSession, "cookie">,
  { form, headers }: PageRequest = {},
): Promise<PageResponse> {
  const response = await fetch(gateway.url + path, {
    method: form === undefined ? "GET" : "POST",
    redirect: "manual",
    headers: {
      ...(session === undefined ? {} : { cookie: session.cookie }),
      ...(form === undefined
        ? {}
        : {
            "content-type": "application/x-www-form-urlencoded",
            "sec-fetch-site": "same-origin",
          }),
      ...headers,
    },
    ...(form === undefined ? {} : { body: new URLSearchParams(form).toString() }),
  });
  return {
    status: response.status,
    text: await response.text(),
    location: response.headers.get("location"),
    headers: response.headers,
  };
}

/** The hidden fields of the page's form for an action. */
export function hiddenFields(page: PageResponse, action: string): Record<string, string> {
  const forms = page.text.match(/<form.*?<\/form>/gs) ?? [];
  const form = forms.find((html) => html.includes(`name="do" value="${action}"`));
  if (form === undefined) throw new Error(`no form for ${action}`);
  const hidden = form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
  return Object.fromEntries([...hidden].map(([, name = "", value = ""]) => [name, value]));
}

export interface AuditRow {
  readonly account_id: string | null;
  readonly actor: string;
  readonly action: string;
  readonly target: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly network: string | null;
}

/** The audit log, oldest entry first. */
export async function readAudit(db: Db, action?: string): Promise<readonly AuditRow[]> {
  const rows = await db.all(
    `select * from audit${action === undefined ? "" : " where action = ?"} order by at, id`,
    action === undefined ? [] : [action],
  );
  return rows.map((row) => ({
    account_id: textOrNull(row, "account_id"),
    actor: `${String(row["actor_type"])} ${String(row["actor_id"])}`,
    action: String(row["action"]),
    target: textOrNull(row, "target"),
    detail: JSON.parse(String(row["detail"])),
    network: textOrNull(row, "network"),
  }));
}

/** An x402 payment of one dollar with an unknown outcome. */
export async function insertUnclearPayment(
  db: Db,
  accountId: string,
  now: number,
): Promise<X402Payment> {
  const { signed } = await createPayment();
  const request = { accountId, signed, totalCents: 100, invoice: { credits: 952_380 }, now };
  const payment = await db.write((tx) => insertX402Payment(tx, { ...request, dueAt: now }));
  if (payment === undefined) throw new Error("the payment exists already");
  const change = { state: "unclear", reason: "no_answer", dueAt: null, now } as const;
  await db.write((tx) => updateAgentPayment(tx, payment, change));
  return payment;
}
