// `doctor` on Stripe: whether the secret key works, and whether it may read what payments need. Write permissions cannot be
// checked without writing.

import type { Stripe as StripeClient } from "stripe";
import { isAccessError } from "../../billing/stripe/stripe-facts.ts";
import { createStripeClient, type StripeSettings } from "../../billing/stripe/stripe.ts";
import type { Finding } from "./finding.ts";

const CHECK = "payments";
const ONE = { limit: 1 };

const READS: readonly (readonly [
  resource: string,
  read: (stripe: StripeClient) => Promise<unknown>,
])[] = [
  ["Checkout Sessions", (stripe) => stripe.checkout.sessions.list(ONE)],
  ["PaymentIntents", (stripe) => stripe.paymentIntents.list(ONE)],
  ["Customers", (stripe) => stripe.customers.list(ONE)],
  ["SetupIntents", (stripe) => stripe.setupIntents.list(ONE)],
  ["Refunds (Charges)", (stripe) => stripe.refunds.list(ONE)],
  ["Disputes", (stripe) => stripe.disputes.list(ONE)],
];

/** No finding if Stripe is off. */
export async function checkStripe(
  settings: StripeSettings | undefined,
): Promise<readonly Finding[]> {
  if (settings === undefined) return [];
  const problems = await findStripeProblems(settings);
  if (problems.length > 0)
    return problems.map((message) => ({
      status: "fail",
      check: CHECK,
      message,
      effect: "Customers cannot buy credits, and auto top-up fails: accounts run out and get 402.",
    }));
  const webhook =
    settings.webhookSecret === undefined
      ? "; payments are found by polling, without a webhook"
      : "";
  return [{ status: "ok", check: CHECK, message: `Stripe accepts the secret key${webhook}` }];
}

/** Sentences about what is wrong; none if payments can work. */
async function findStripeProblems(settings: StripeSettings): Promise<readonly string[]> {
  const stripe = await createStripeClient({ ...settings, retriesMax: 0 });
  const problems = await Promise.all(
    READS.map(async ([resource, read]) => {
      try {
        await read(stripe);
        return [];
      } catch (error) {
        return [problemOf(resource, error)];
      }
    }),
  );
  const tax = settings.automaticTax ? await findTaxProblems(stripe) : [];
  return [...new Set([...problems.flat(), ...tax])];
}

async function findTaxProblems(stripe: StripeClient): Promise<readonly string[]> {
  try {
    const { status } = await stripe.tax.settings.retrieve();
    return status === "active"
      ? []
      : [
          `STRIPE_AUTOMATIC_TAX is true, but Stripe Tax is ${status}: every payment would be refused. Complete the tax settings in Stripe's dashboard.`,
        ];
  } catch (error) {
    // A restricted key without access to the tax settings can still calculate tax.
    return isAccessError(error) ? [] : [problemOf("tax settings", error)];
  }
}

function problemOf(resource: string, error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  if (status === 401) return "Stripe does not accept STRIPE_SECRET_KEY.";
  if (status === 403)
    return `STRIPE_SECRET_KEY has no read access to ${resource}. Add it in Stripe's dashboard.`;
  return `Stripe did not answer a request for ${resource}: ${text}`;
}
