// A gateway with an operator, a browser that is theirs, and the means to read what was written down.

import { insertX402, markX402, type X402Payment } from "../../src/billing/x402-rows.ts";
import { masterSecret } from "../../src/master-secret.ts";
import { createOperatorSessions } from "../../src/operator/sessions.ts";
import { type Db, textOrNull } from "../../src/store/db.ts";
import { newPayment } from "../billing/x402-wallet.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import type { StoreKind } from "../support/stores.ts";

export const ADA = "ada@operator.example";
export const BEN = "ben@operator.example";

export interface Desk {
  readonly gateway: Gateway;
  readonly clock: { now: number };
}

export async function openDesk(
  store: StoreKind,
  env: Readonly<Record<string, string>> = {},
): Promise<Desk> {
  const clock = { now: Date.now() };
  const gateway = await startGateway({
    store,
    now: () => clock.now,
    env: { POSTERN_OPERATORS: `${ADA}, ${BEN.toUpperCase()}`, ...env },
  });
  return { gateway, clock };
}

export interface Seat {
  readonly email: string;
  readonly cookie: string;
  readonly csrf: string;
}

/** An operator who has signed in a moment ago. */
export async function seatOf({ gateway, clock }: Desk, email = ADA): Promise<Seat> {
  const { db } = gateway.house;
  const { secret, store } = gateway.config;
  const sessions = createOperatorSessions({
    db,
    master: masterSecret(secret, store.dataDir),
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

export interface Seen {
  readonly status: number;
  readonly text: string;
  readonly location: string | null;
  readonly headers: Headers;
}

export interface Sent {
  readonly form?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One request of a browser, which follows nothing. */
export async function open(
  { gateway }: Desk,
  path: string,
  seat?: Pick<Seat, "cookie">,
  { form, headers }: Sent = {},
): Promise<Seen> {
  const response = await fetch(gateway.url + path, {
    method: form === undefined ? "GET" : "POST",
    redirect: "manual",
    headers: {
      ...(seat === undefined ? {} : { cookie: seat.cookie }),
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

/** The hidden fields of the form that does this, as the page has them. */
export function fieldsOf(page: Seen, act: string): Record<string, string> {
  const forms = page.text.match(/<form.*?<\/form>/gs) ?? [];
  const form = forms.find((one) => one.includes(`name="do" value="${act}"`));
  if (form === undefined) throw new Error(`no form does ${act}`);
  const hidden = form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
  return Object.fromEntries([...hidden].map(([, name = "", value = ""]) => [name, value]));
}

export interface Written {
  readonly account_id: string | null;
  readonly actor: string;
  readonly action: string;
  readonly target: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly network: string | null;
}

/** The audit log, the oldest entry first. */
export async function written(db: Db, action?: string): Promise<readonly Written[]> {
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

/** A payment by x402 of a dollar, of which nobody could say what became of it. */
export async function leaveUnclear(db: Db, accountId: string, now: number): Promise<X402Payment> {
  const { signed } = await newPayment();
  const made = { accountId, signed, totalCents: 100, invoice: { amountCents: 95 }, now };
  const payment = await db.write((tx) => insertX402(tx, { ...made, dueAt: now }));
  if (payment === undefined) throw new Error("it is known");
  const over = { state: "unclear", reason: "no_answer", dueAt: null, now } as const;
  await db.write((tx) => markX402(tx, payment, over));
  return payment;
}
