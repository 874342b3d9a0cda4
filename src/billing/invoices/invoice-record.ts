// The API record of an invoice, and its example.

import { z } from "zod";
import { timestamp, timestampOrNull } from "../../http/schemas.ts";
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
    created_at: z.string(),
    paid_at: z.string().nullable(),
  })
  .meta({ id: "Invoice" });

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
  created_at: "2026-11-21T09:30:00.000Z",
  paid_at: null,
};

export function toInvoiceRecord(invoice: Invoice, payUrl: string): z.infer<typeof InvoiceRecord> {
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
    created_at: timestamp(invoice.createdAt),
    paid_at: timestampOrNull(invoice.paidAt),
  };
}
