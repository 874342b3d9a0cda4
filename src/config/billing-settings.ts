// Settings of billing: the seller, purchase limits and payment processors.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { settings, type SettingValues } from "./setting-schemas.ts";

const INVOICE_MIN_CENTS = 50;
/** What the documents and the answer of a 402 suggest to buy; it must always be allowed. */
const SUGGESTED_PURCHASE_CENTS = 1_000;
const INVOICE_MAX_CENTS = 2_500_000;
const CENTS_PER_USD = 100;
const TEXT_MAX = 1_000;

const centsSetting = (min: number, max: number, fallback: number) =>
  z
    .string()
    .regex(/^\d{1,6}(\.\d{1,2})?$/, "must be an amount of US dollars such as 5 or 2.50")
    .transform((usd) => Math.round(Number(usd) * CENTS_PER_USD))
    .refine(
      (amount) => amount >= min && amount <= max,
      `must be from ${min / CENTS_PER_USD} to ${max / CENTS_PER_USD}`,
    )
    .default(fallback);
const textSetting = z.string().max(TEXT_MAX).optional();
const urlSetting = z
  .url({ protocol: /^https?$/, error: "must be an http:// or https:// address" })
  .max(TEXT_MAX)
  .optional();

export const BILLING_SETTINGS = settings({
  POSTERN_INVOICE_MIN_USD: [
    centsSetting(INVOICE_MIN_CENTS, SUGGESTED_PURCHASE_CENTS, CENTS_PER_USD),
    "1",
    "The smallest purchase, in US dollars.",
  ],
  POSTERN_INVOICE_MAX_USD: [
    centsSetting(SUGGESTED_PURCHASE_CENTS, INVOICE_MAX_CENTS, INVOICE_MAX_CENTS),
    "25000",
    "The largest purchase, in US dollars.",
  ],
  POSTERN_OPERATOR_NAME: [
    z.string().max(TEXT_MAX).default("Postern"),
    "Postern",
    "The name of the seller on invoices and receipts.",
  ],
  POSTERN_OPERATOR_ADDRESS: [
    textSetting,
    "",
    "The postal address of the seller for receipts; separate lines with `;`.",
  ],
  POSTERN_OPERATOR_TAX_ID: [textSetting, "", "The tax number of the seller for receipts."],
  POSTERN_OPERATOR_CONTACT: [
    z
      .string()
      .max(TEXT_MAX)
      .regex(/^(https?:\/\/\S+|[^\s@]+@[^\s@]+)$/, "must be an email address or a URL")
      .optional(),
    "",
    "An email address or URL for support and for questions about payments.",
  ],
  POSTERN_TERMS_URL: [
    urlSetting,
    "",
    "The URL of your terms of service, for footers, documents and invoices.",
  ],
  POSTERN_PRIVACY_URL: [urlSetting, "", "The URL of your privacy policy."],
  POSTERN_DPA_URL: [urlSetting, "", "The URL of your data processing agreement."],
  POSTERN_SUBPROCESSORS_URL: [urlSetting, "", "The URL of your list of sub-processors."],
  POSTERN_BANK_DETAILS: [
    textSetting,
    "",
    "Bank details, shown on invoices if no other payment method is set; separate lines with `;`.",
  ],
  STRIPE_SECRET_KEY: [
    z
      .string()
      .regex(
        /^[\x21-\x7e]+$/,
        "contains whitespace or another character that is not valid in a key",
      )
      .refine(
        (key) => !key.startsWith("pk_"),
        "is a publishable key (pk_…): use the secret key (sk_…) or a restricted one (rk_…)",
      )
      .refine(
        (key) => !key.startsWith("whsec_"),
        "is a webhook secret; it belongs into STRIPE_WEBHOOK_SECRET",
      )
      .optional(),
    "",
    "Enables Stripe payments, see `docs/site/billing.md`. A restricted key is enough.",
  ],
  STRIPE_WEBHOOK_SECRET: [
    z
      .string()
      .regex(
        /^whsec_[\x21-\x7e]+$/,
        "must be the signing secret of the webhook endpoint, which begins with whsec_: see the endpoint in Stripe's dashboard",
      )
      .optional(),
    "",
    "The signing secret of the webhook at `/webhooks/stripe`. Without it Postern polls Stripe.",
  ],
  STRIPE_API_BASE: [
    z.url({ protocol: /^https?$/, error: "must be an http:// or https:// address" }).optional(),
    "https://api.stripe.com",
    "The URL of Stripe's API.",
  ],
  STRIPE_AUTOMATIC_TAX: [
    z.enum(["true", "false"], { error: "must be true or false" }).default("false"),
    "false",
    "`true` lets Stripe calculate and add tax.",
  ],
  STRIPE_NETWORK_ID: [
    z
      .string()
      .regex(/^\w{1,200}$/, "must be a profile id such as profile_1MqDcVKA5fEO2tZv")
      .optional(),
    "",
    "Your Stripe Business Network Profile, `profile_…`. Agents can then pay with shared payment tokens, see `docs/site/mpp.md`.",
  ],
});

export interface BillingConfig {
  readonly minCents: number;
  readonly maxCents: number;
  readonly operator: {
    readonly name: string;
    readonly address: readonly string[];
    readonly taxId: string | undefined;
    readonly contact: string | undefined;
    readonly termsUrl: string | undefined;
    readonly privacyUrl: string | undefined;
    readonly dpaUrl: string | undefined;
    readonly subprocessorsUrl: string | undefined;
  };
  readonly bankDetails: string | undefined;
  readonly stripe?: {
    readonly secretKey: Secret;
    readonly webhookSecret?: Secret;
    readonly apiBase?: string;
    readonly automaticTax: boolean;
    readonly networkId?: string;
  };
}

/** Errors that concern several settings. */
export function billingConfigErrors(
  env: SettingValues<typeof BILLING_SETTINGS>,
): readonly string[] {
  if (env.STRIPE_NETWORK_ID === undefined) return [];
  return [
    ...(env.STRIPE_SECRET_KEY === undefined
      ? ["STRIPE_SECRET_KEY must be set if STRIPE_NETWORK_ID is"]
      : []),
    ...(env.STRIPE_AUTOMATIC_TAX === "true"
      ? [
          "STRIPE_NETWORK_ID must not be set with STRIPE_AUTOMATIC_TAX=true: the tax of a shared payment token is unknown before it is charged",
        ]
      : []),
  ];
}

export function billingConfigFrom(env: SettingValues<typeof BILLING_SETTINGS>): BillingConfig {
  const { STRIPE_SECRET_KEY: key, STRIPE_WEBHOOK_SECRET: hook, STRIPE_API_BASE: base } = env;
  const { STRIPE_NETWORK_ID: networkId } = env;
  return {
    minCents: env.POSTERN_INVOICE_MIN_USD,
    maxCents: env.POSTERN_INVOICE_MAX_USD,
    operator: {
      name: env.POSTERN_OPERATOR_NAME,
      address: splitLines(env.POSTERN_OPERATOR_ADDRESS),
      taxId: env.POSTERN_OPERATOR_TAX_ID,
      contact: env.POSTERN_OPERATOR_CONTACT,
      termsUrl: env.POSTERN_TERMS_URL,
      privacyUrl: env.POSTERN_PRIVACY_URL,
      dpaUrl: env.POSTERN_DPA_URL,
      subprocessorsUrl: env.POSTERN_SUBPROCESSORS_URL,
    },
    bankDetails:
      env.POSTERN_BANK_DETAILS === undefined
        ? undefined
        : splitLines(env.POSTERN_BANK_DETAILS).join("\n"),
    ...(key === undefined
      ? {}
      : {
          stripe: {
            secretKey: secret(key),
            automaticTax: env.STRIPE_AUTOMATIC_TAX === "true",
            ...(hook === undefined ? {} : { webhookSecret: secret(hook) }),
            ...(base === undefined ? {} : { apiBase: base }),
            ...(networkId === undefined ? {} : { networkId }),
          },
        }),
  };
}

function splitLines(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split(";")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
