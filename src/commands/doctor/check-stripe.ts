// `doctor` on Stripe: whether the secret key works and has the permissions that can be checked by reading.

import { findStripeProblems } from "../../billing/stripe/stripe-check.ts";
import type { StripeSettings } from "../../billing/stripe/stripe.ts";
import type { Finding } from "./finding.ts";

const CHECK = "payments";

/** No finding if Stripe is off. */
export async function checkStripe(
  settings: StripeSettings | undefined,
): Promise<readonly Finding[]> {
  if (settings === undefined) return [];
  const problems = await findStripeProblems(settings);
  if (problems.length > 0)
    return problems.map((message) => ({ status: "fail", check: CHECK, message }));
  const webhook =
    settings.webhookSecret === undefined
      ? "; payments are found by polling, without a webhook"
      : "";
  return [{ status: "ok", check: CHECK, message: `Stripe accepts the secret key${webhook}` }];
}
