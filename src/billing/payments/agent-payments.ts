// The lifecycle of an agent's payment, independent of its method: stored before it is charged, resumed by any process after
// a crash, and credited once, as a payment fact.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { cancelOpenCheckout, type BillingDeps } from "../billing-deps.ts";
import { lockInvoice } from "../invoices/invoices.ts";
import {
  type AgentPayment,
  type AgentPaymentMethod,
  claimAgentPayment,
  findActiveAgentPayment,
  findAgentPayment,
  insertAgentPayment,
  listDueAgentPayments,
  lockAgentPayment,
  type NewAgentPayment,
  updateAgentPayment,
} from "./agent-payment-rows.ts";
import { hasOpenCheckout } from "./checkouts.ts";
import { type Payable, totalCentsOf } from "./payment-protocol.ts";

/** After this time another process may resume a payment; longer than a settlement takes. */
const LEASE_MS = MINUTE_MS;
export const RETRY_MS = 5_000;
const OUTCOME_POLL_MS = 200;
const OUTCOME_POLLS_MAX = 50;
/** Attempts to close a checkout page, because another one may be opened meanwhile. */
const CANCEL_ATTEMPTS_MAX = 3;
const POLL_BATCH_MAX = 50;
const POLL_FAILURES_MAX = 5;

export interface AgentPaymentDeps {
  readonly billing: BillingDeps;
  readonly now: () => number;
  /** How often the outcome of a payment in another process is polled; lower in tests. */
  readonly outcomePollsMax?: number;
}

/** Continues a payment whose lease this process has taken. */
export type ResumePayment = (payment: AgentPayment) => Promise<void>;

/** Undefined if this payment is stored already. Throws if the invoice cannot be paid in this way now. */
export async function recordIntent(
  { billing, now }: AgentPaymentDeps,
  payable: Payable,
  row: Pick<NewAgentPayment, "id" | "method" | "proof" | "payer" | "expiresAt">,
): Promise<AgentPayment | undefined> {
  const { accountId, invoice } = payable;
  for (let attempts = 0; attempts < CANCEL_ATTEMPTS_MAX; attempts++) {
    // The invoice must not be paid on a checkout page meanwhile.
    if ("id" in invoice)
      await cancelOpenCheckout(billing, { id: invoice.id, accountId, now: now() });
    const recorded = await billing.db.write(async (tx) => {
      if ("id" in invoice) {
        const locked = await lockInvoice(tx, invoice.id);
        if (locked?.status !== "open") throw notPayable(locked?.status ?? "deleted");
        const other = await findActiveAgentPayment(tx, invoice.id);
        if (other !== undefined && other.id !== row.id) throw notPayable("already being paid");
        const { processor } = billing;
        if (processor.kind === "hosted" && (await hasOpenCheckout(tx, processor, invoice.id)))
          return "page";
      }
      const totalCents = totalCentsOf(payable);
      const payment = { ...row, accountId, invoice, totalCents, now: now() };
      return await insertAgentPayment(tx, { ...payment, dueAt: now() + LEASE_MS });
    });
    if (recorded !== "page") return recorded;
  }
  throw notPayable("being paid on its page");
}

/** If the lease was lost, another process charged the payment, so this refusal may not be the first outcome. */
export async function recordRefusal(
  { billing, now }: AgentPaymentDeps,
  payment: AgentPayment,
  { reason, dueAt = null }: { readonly reason: string; readonly dueAt?: number | null },
): Promise<void> {
  await billing.db.write(async (tx) => {
    const current = await lockAgentPayment(tx, payment.id);
    if (current?.dueAt === payment.dueAt)
      await updateAgentPayment(tx, payment, { state: "refused", reason, dueAt, now: now() });
  });
}

export async function recordUnknown(
  { billing, now }: AgentPaymentDeps,
  payment: AgentPayment,
  {
    reason,
    cause,
    retryMs = RETRY_MS,
  }: { readonly reason: string; readonly cause?: unknown; readonly retryMs?: number },
): Promise<void> {
  const { id, method } = payment;
  const fields = { method, payment: id, reason, ...(cause === undefined ? {} : { cause }) };
  billing.log.warn("outcome of an agent's payment is unknown", fields);
  const at = now();
  await billing.db.write((tx) =>
    updateAgentPayment(tx, payment, { state: "open", reason, dueAt: at + retryMs, now: at }),
  );
}

/** `credit` is repeated after a crash until it has succeeded. */
export async function recordPaid(
  { billing, now }: AgentPaymentDeps,
  payment: AgentPayment,
  transaction: string | null,
  credit: (at: number) => Promise<unknown>,
): Promise<void> {
  const at = now();
  const state = "paid";
  await billing.db.write((tx) =>
    updateAgentPayment(tx, payment, { state, transaction, dueAt: at + RETRY_MS, now: at }),
  );
  await credit(at);
  await billing.db.write((tx) => updateAgentPayment(tx, payment, { state, dueAt: null, now: at }));
}

/** Resumes every due payment: after a crash, or while its outcome is unknown. */
export async function pollAgentPayments(
  { billing: { db, log }, now }: AgentPaymentDeps,
  method: AgentPaymentMethod,
  resume: ResumePayment,
): Promise<void> {
  let failures = 0;
  const limit = POLL_BATCH_MAX;
  for (const payment of await listDueAgentPayments(db, method, { now: now(), limit })) {
    if (failures >= POLL_FAILURES_MAX) return;
    const dueAt = now() + LEASE_MS;
    if (!(await claimAgentPayment(db, payment, dueAt))) continue;
    try {
      await resume({ ...payment, dueAt });
    } catch (cause) {
      failures += 1;
      log.warn("failed to resume an agent's payment", { method, payment: payment.id, cause });
    }
  }
}

/**
 * Waits for the outcome of a stored payment, and resumes it if its lease has expired. Undefined if it was sent for
 * another account or invoice. It can still be open.
 */
export async function awaitOutcome(
  deps: AgentPaymentDeps,
  payable: Payable,
  id: string,
  resume: ResumePayment,
): Promise<AgentPayment | undefined> {
  const { outcomePollsMax = OUTCOME_POLLS_MAX, billing, now } = deps;
  const { db } = billing;
  const { accountId, invoice } = payable;
  const stored = await requireAgentPayment(deps, id);
  if (stored.accountId !== accountId || ("id" in invoice && stored.invoiceId !== invoice.id))
    return undefined;
  let payment = stored;
  for (let polls = 0; payment.state === "open" && polls < outcomePollsMax; polls++) {
    const dueAt = now() + LEASE_MS;
    const isDue = payment.dueAt !== null && payment.dueAt <= now();
    if (isDue && (await claimAgentPayment(db, payment, dueAt))) await resume({ ...payment, dueAt });
    else if (payment.reason !== null) break;
    else await new Promise((resolve) => setTimeout(resolve, OUTCOME_POLL_MS));
    payment = await requireAgentPayment(deps, id);
  }
  // The process that recorded the payment as paid may have died before it was credited.
  if (payment.state !== "paid" || payment.dueAt === null) return payment;
  await resume(payment);
  return await requireAgentPayment(deps, id);
}

async function requireAgentPayment(
  { billing }: AgentPaymentDeps,
  id: string,
): Promise<AgentPayment> {
  const payment = await findAgentPayment(billing.db, id);
  if (payment === undefined) throw new Error(`agent payment ${id} not found`);
  return payment;
}

function notPayable(status: string): Fault {
  return new Fault("conflict", `invoice is ${status}`, {
    message: `This invoice is ${status}. Nothing was charged. Get its status with GET /v1/billing/invoice/{id}.`,
  });
}
