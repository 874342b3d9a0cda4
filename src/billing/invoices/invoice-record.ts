// The API record of an invoice, and its example.

import { z } from "zod";
import { MPP_PATH, X402_PATH } from "../../base/purchase-steps.ts";
import { timestamp, timestampOrNull } from "../../http/schemas.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { feeOf, usdOfCents, usdOfCredits } from "./cents.ts";
import { type Invoice, INVOICE_STATUSES } from "./invoices.ts";

export const InvoiceRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `inv_`." }),
    object: z.literal("invoice"),
    status: z.enum(INVOICE_STATUSES).meta({
      description:
        "`open`: it can be paid at `pay_url`. `paid`: its credits were added to the balance. `void`: it was canceled. `refunded`: the whole payment was refunded.",
    }),
    amount_usd: z.number().meta({ description: "The price of the credits." }),
    fee_usd: z.number().meta({
      description:
        "The platform fee, 5% of the amount: the total is rounded half up to whole cents. An agent that pays $1.00 for a call gets 952,380 credits, and the fee is 0.04762.",
    }),
    tax_usd: z
      .number()
      .meta({ description: "0 until the invoice is paid: tax depends on the payer's address." }),
    total_usd: z.number().meta({ description: "Amount, fee and tax." }),
    credits: z.int().meta({ description: "The credits that a payment adds to the balance." }),
    pay_url: z.string().meta({
      description:
        "The page where a person pays, without an account; later it shows the receipt. Anyone with this URL can open it.",
    }),
    payment_methods: z
      .array(
        z.object({
          type: z.enum(["page", "x402", "mpp"]),
          url: z.string(),
          why: z.string().meta({ description: "Who can pay there, and how." }),
        }),
      )
      .meta({
        description:
          "How this open invoice can be paid on this gateway. Empty once it is paid, void or refunded.",
      }),
    created_at: z.string(),
    paid_at: z.string().nullable(),
  })
  .meta({ id: "Invoice" });

const PAGE_WHY = "Ask your human to pay at this page. They need no account.";

export const INVOICE_EXAMPLE = {
  id: "inv_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "invoice",
  status: "open",
  amount_usd: 10,
  fee_usd: 0.5,
  tax_usd: 0,
  total_usd: 10.5,
  credits: 10_000_000,
  pay_url:
    "https://gateway.example/pay/01kah5t3mq7d2c9w4e6r8t0yax.Jq3mS0v8Xc2bT5nYw7Rk1Lz4Pd6Hf9Ga0Ue2Io5Vs8M",
  payment_methods: [
    {
      type: "page",
      url: "https://gateway.example/pay/01kah5t3mq7d2c9w4e6r8t0yax.Jq3mS0v8Xc2bT5nYw7Rk1Lz4Pd6Hf9Ga0Ue2Io5Vs8M",
      why: PAGE_WHY,
    },
  ],
  created_at: "2026-11-21T09:30:00.000Z",
  paid_at: null,
};

/** An example of an invoice that can no longer be paid. */
export const CLOSED_INVOICE_EXAMPLE = { ...INVOICE_EXAMPLE, payment_methods: [] };

export type InvoiceLinks = Pick<BillingDeps, "links" | "baseUrl" | "paymentOptions">;

/** How an open invoice can be paid on this gateway. */
function paymentMethodsOf(
  { id, status }: Invoice,
  payUrl: string,
  { baseUrl, paymentOptions }: InvoiceLinks,
): z.infer<typeof InvoiceRecord>["payment_methods"] {
  if (status !== "open") return [];
  const { hasPage, acceptsX402, acceptsMpp } = paymentOptions;
  const urlOf = (path: string): string => baseUrl + path.replace("{id}", id);
  return [
    ...(hasPage ? [{ type: "page" as const, url: payUrl, why: PAGE_WHY }] : []),
    ...(acceptsX402
      ? [
          {
            type: "x402" as const,
            url: urlOf(X402_PATH),
            why: "POST here with your API key and an x402 client to pay from your wallet.",
          },
        ]
      : []),
    ...(acceptsMpp
      ? [
          {
            type: "mpp" as const,
            url: urlOf(MPP_PATH),
            why: "POST here with your API key in x-api-key and an MPP client to pay it yourself.",
          },
        ]
      : []),
  ];
}

export function toInvoiceRecord(
  invoice: Invoice,
  billing: InvoiceLinks,
): z.infer<typeof InvoiceRecord> {
  const payUrl = billing.links.urlFor(invoice.id);
  const { credits, totalCents, taxCents } = invoice;
  return {
    id: invoice.id,
    object: "invoice",
    status: invoice.status,
    amount_usd: usdOfCredits(credits),
    fee_usd: usdOfCredits(feeOf(invoice)),
    tax_usd: usdOfCents(taxCents),
    total_usd: usdOfCents(totalCents + taxCents),
    credits,
    pay_url: payUrl,
    payment_methods: paymentMethodsOf(invoice, payUrl, billing),
    created_at: timestamp(invoice.createdAt),
    paid_at: timestampOrNull(invoice.paidAt),
  };
}

export const InvoicePath = z.object({
  id: z.string().meta({ description: "The invoice's id.", example: INVOICE_EXAMPLE.id }),
});
