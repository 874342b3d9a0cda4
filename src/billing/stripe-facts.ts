// What Stripe's records of a Checkout page say in this house's words: what was paid, given back and disputed, causes
// before what they cause.

import type { Stripe as StripeClient } from "stripe";
import type { PaymentFact, Seen } from "./processor.ts";

/** Names the invoice on what is Stripe's; a payer cannot set it, as they can a client's reference. */
export const INVOICE_MARK = "postern_invoice";

const LIST_MAX = 100;
const SECOND_MS = 1_000;

type Session = Awaited<ReturnType<StripeClient["checkout"]["sessions"]["retrieve"]>>;
type Dispute = Pick<
  Awaited<ReturnType<StripeClient["disputes"]["retrieve"]>>,
  "id" | "status" | "amount" | "currency" | "created"
>;

export async function seenOf(stripe: StripeClient, ref: string): Promise<Seen> {
  const session = await sessionOf(stripe, ref);
  if (session === undefined) return { state: "expired", url: undefined, facts: [] };
  const url = session.url ?? undefined;
  const intent = session.payment_intent;
  const invoiceId = session.metadata?.[INVOICE_MARK];
  if (session.status === "open") return { state: "open", url, facts: [] };
  if (session.status === "expired") return { state: "expired", url: undefined, facts: [] };
  if (invoiceId === undefined || intent === null || typeof intent === "string")
    throw new Error(`the page ${ref} has no payment of an invoice`);
  if (intent.status !== "succeeded") {
    // A bank may still refuse what takes days to arrive; then the page is as good as expired.
    const isDead = intent.status === "canceled" || intent.status === "requires_payment_method";
    return { state: isDead ? "expired" : "processing", url: undefined, facts: [] };
  }
  const about = { processor: "stripe", payment: intent.id, invoiceId, taxCents: 0 } as const;
  const paid: PaymentFact = {
    ...about,
    ref: intent.id,
    kind: "paid",
    amountCents: intent.amount_received,
    taxCents: taxOf(session),
    currency: intent.currency,
    at: intent.created * SECOND_MS,
  };
  const facts = [paid];
  const refunds = stripe.refunds.list({ payment_intent: intent.id, limit: LIST_MAX });
  for await (const refund of refunds) {
    if (refund.status !== "succeeded") continue;
    const { id, amount, currency, created } = refund;
    const at = created * SECOND_MS;
    facts.push({ ...about, ref: id, kind: "refunded", amountCents: amount, currency, at });
  }
  const disputes = stripe.disputes.list({ payment_intent: intent.id, limit: LIST_MAX });
  for await (const dispute of disputes) facts.push(...factsOfDispute(dispute, about));
  return { state: "done", url: undefined, facts };
}

/** Undefined where this account at Stripe has no such page, as after a change of accounts: nobody pays at it here. */
async function sessionOf(stripe: StripeClient, ref: string): Promise<Session | undefined> {
  try {
    return await stripe.checkout.sessions.retrieve(ref, { expand: ["payment_intent"] });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "resource_missing";
}

/** An inquiry takes no money, and neither does a dispute that was prevented. */
function factsOfDispute(
  { id, status, amount, currency, created }: Dispute,
  about: Pick<PaymentFact, "processor" | "payment" | "invoiceId" | "taxCents">,
): readonly PaymentFact[] {
  if (status.startsWith("warning_") || status === "prevented") return [];
  const at = created * SECOND_MS;
  const fact = { ...about, ref: id, currency, at };
  const disputed: PaymentFact = { ...fact, kind: "disputed", amountCents: amount };
  if (status !== "won" && status !== "lost") return [disputed];
  return [
    disputed,
    { ...fact, kind: "dispute_closed", amountCents: status === "won" ? amount : 0 },
  ];
}

function taxOf(session: Session): number {
  return session.total_details?.amount_tax ?? 0;
}
