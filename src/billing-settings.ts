// The settings of billing: who sells the credits, how much may be bought at once, and the processors.

import { z } from "zod";
import { type Secret, secret } from "./base/secret.ts";

interface Documented {
  readonly fallback: string;
  readonly means: string;
}

export const BILLING_SETTINGS: Readonly<Record<string, Documented>> = {
  POSTERN_INVOICE_MIN_USD: { fallback: "1", means: "The least that may be bought at once." },
  POSTERN_INVOICE_MAX_USD: { fallback: "25000", means: "The most that may be bought at once." },
  POSTERN_OPERATOR_NAME: {
    fallback: "Postern",
    means: "Who sells the credits, on invoices and receipts.",
  },
  POSTERN_OPERATOR_ADDRESS: {
    fallback: "",
    means: "Its postal address for receipts, with `;` between the lines.",
  },
  POSTERN_OPERATOR_TAX_ID: { fallback: "", means: "Its tax number for receipts." },
  POSTERN_OPERATOR_CONTACT: {
    fallback: "",
    means: "An address at which a human answers questions about payments.",
  },
  POSTERN_BANK_DETAILS: {
    fallback: "",
    means:
      "Where bank transfers go, with `;` between the lines; shown on invoices where there is no other way to pay.",
  },
  STRIPE_SECRET_KEY: {
    fallback: "",
    means: "Takes payments with Stripe, see `docs/billing.md`; a restricted key will do.",
  },
  STRIPE_WEBHOOK_SECRET: {
    fallback: "",
    means: "The signing secret of the webhook at `/webhooks/stripe`; without one Stripe is asked.",
  },
  STRIPE_API_BASE: { fallback: "https://api.stripe.com", means: "Where Stripe's API is." },
  STRIPE_AUTOMATIC_TAX: {
    fallback: "false",
    means: "`true` lets Stripe work out the tax and add it.",
  },
};

const LEAST_CENTS = 50;
/** What the documents and the answer of a 402 suggest to buy; it must always be allowed. */
const SUGGESTED_CENTS = 1_000;
const MOST_CENTS = 2_500_000;
const CENTS_PER_USD = 100;
const LINE_MAX = 1_000;

const cents = (least: number, most: number, fallback: number) =>
  z
    .string()
    .regex(/^\d{1,6}(\.\d{1,2})?$/, "must be an amount of US dollars such as 5 or 2.50")
    .transform((usd) => Math.round(Number(usd) * CENTS_PER_USD))
    .refine(
      (amount) => amount >= least && amount <= most,
      `must be from ${least / CENTS_PER_USD} to ${most / CENTS_PER_USD}`,
    )
    .default(fallback);
const line = z.string().max(LINE_MAX).optional();

export const BILLING_ENVIRONMENT = {
  POSTERN_INVOICE_MIN_USD: cents(LEAST_CENTS, SUGGESTED_CENTS, CENTS_PER_USD),
  POSTERN_INVOICE_MAX_USD: cents(SUGGESTED_CENTS, MOST_CENTS, MOST_CENTS),
  POSTERN_OPERATOR_NAME: z.string().max(LINE_MAX).default("Postern"),
  POSTERN_OPERATOR_ADDRESS: line,
  POSTERN_OPERATOR_TAX_ID: line,
  POSTERN_OPERATOR_CONTACT: line,
  POSTERN_BANK_DETAILS: line,
  STRIPE_SECRET_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, "has white space or another character that no key has")
    .optional(),
  STRIPE_WEBHOOK_SECRET: z.string().optional(),
  STRIPE_API_BASE: z
    .url({ protocol: /^https?$/, error: "must be an http:// or https:// address" })
    .optional(),
  STRIPE_AUTOMATIC_TAX: z
    .enum(["true", "false"], { error: "must be true or false" })
    .default("false"),
};

const Environment = z.object(BILLING_ENVIRONMENT);

export interface BillingConfig {
  readonly leastCents: number;
  readonly mostCents: number;
  readonly operator: {
    readonly name: string;
    readonly address: readonly string[];
    readonly taxId: string | undefined;
    readonly contact: string | undefined;
  };
  readonly bankDetails: string | undefined;
  readonly stripe?: {
    readonly secretKey: Secret;
    readonly webhookSecret?: Secret;
    readonly apiBase?: string;
    readonly automaticTax: boolean;
  };
}

export function billingOf(env: z.infer<typeof Environment>): BillingConfig {
  const { STRIPE_SECRET_KEY: key, STRIPE_WEBHOOK_SECRET: hook, STRIPE_API_BASE: base } = env;
  return {
    leastCents: env.POSTERN_INVOICE_MIN_USD,
    mostCents: env.POSTERN_INVOICE_MAX_USD,
    operator: {
      name: env.POSTERN_OPERATOR_NAME,
      address: linesOf(env.POSTERN_OPERATOR_ADDRESS),
      taxId: env.POSTERN_OPERATOR_TAX_ID,
      contact: env.POSTERN_OPERATOR_CONTACT,
    },
    bankDetails:
      env.POSTERN_BANK_DETAILS === undefined
        ? undefined
        : linesOf(env.POSTERN_BANK_DETAILS).join("\n"),
    ...(key === undefined
      ? {}
      : {
          stripe: {
            secretKey: secret(key),
            automaticTax: env.STRIPE_AUTOMATIC_TAX === "true",
            ...(hook === undefined ? {} : { webhookSecret: secret(hook) }),
            ...(base === undefined ? {} : { apiBase: base }),
          },
        }),
  };
}

function linesOf(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split(";")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}
