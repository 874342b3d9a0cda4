// The fake Stripe refuses what Stripe's documentation forbids, so that no test passes with a request that Stripe refuses.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { Stripe } from "stripe";
import { STRIPE_API_VERSION } from "../../../src/billing/stripe/stripe-facts.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";

let fake: FakeStripe;
beforeAll(() => {
  fake = startFakeStripe();
});
afterAll(() => fake.stop());

const CHARGE = {
  amount: "1050",
  currency: "usd",
  customer: "cus_1",
  payment_method: "pm_1",
  off_session: "true",
  confirm: "true",
};
const NO_REDIRECTS = {
  "automatic_payment_methods[enabled]": "true",
  "automatic_payment_methods[allow_redirects]": "never",
};

async function post(
  path: string,
  params: Readonly<Record<string, string>>,
  version: string = STRIPE_API_VERSION,
) {
  const response = await fetch(`${fake.url}/v1/${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${fake.env["STRIPE_SECRET_KEY"]}`,
      "stripe-version": version,
      "content-type": "application/x-www-form-urlencoded",
    },
    body: new URLSearchParams(params).toString(),
  });
  const { error } = (await response.json()) as {
    error?: { readonly message: string; readonly param?: string };
  };
  return { status: response.status, message: error?.message, param: error?.param };
}

test("the rules are those of the API version that the pinned package sends", () => {
  expect(STRIPE_API_VERSION).toBe(Stripe.API_VERSION as typeof STRIPE_API_VERSION);
});

test("a payment off session needs a return URL or no redirects", async () => {
  const refused = await post("payment_intents", CHARGE);
  expect(refused).toMatchObject({ status: 400, param: "return_url" });
  expect(refused.message).toContain("`automatic_payment_methods[allow_redirects]` to `never`");
  // Accepted by the rules; the method does not exist.
  expect(await post("payment_intents", { ...CHARGE, ...NO_REDIRECTS })).toMatchObject({
    status: 404,
    message: "No such PaymentMethod: 'pm_1'",
  });
});

test("amounts, unknown parameters, versions and paths that Stripe does not accept are refused", async () => {
  const charge = { ...CHARGE, ...NO_REDIRECTS };
  const wrong: readonly (readonly [Record<string, string>, string])[] = [
    [{ ...charge, amount: "49" }, "amount"],
    [{ ...charge, amount: "100000000" }, "amount"],
    [{ ...charge, amount: "10.5" }, "amount"],
    // Removed in 2026-09-30.endive.
    [{ ...charge, "payment_method_types[0]": "card" }, "payment_method_types[0]"],
    [{ ...charge, shared_payment_granted_token: "spt_1" }, "shared_payment_granted_token"],
    [{ ...charge, [`metadata[${"k".repeat(41)}]`]: "v" }, `metadata[${"k".repeat(41)}]`],
    [{ ...charge, "metadata[k]": "v".repeat(501) }, "metadata[k]"],
  ];
  for (const [params, param] of wrong)
    expect(await post("payment_intents", params)).toMatchObject({ status: 400, param });
  expect((await post("payment_intents", charge, "2020-08-27")).message).toContain("API version");
  expect((await post("sources", {})).message).toContain("Unrecognized request URL");
  expect(await post("checkout/sessions", { mode: "setup", success_url: fake.url })).toMatchObject({
    status: 400,
    param: "currency",
  });
});
