// The invoice of a paid purchase as PDF. Its amounts are those of the credited payment, as on the receipt.

import { utcDay } from "../../base/time.ts";
import type { OperatorDetails } from "../billing-deps.ts";
import type { Payment } from "../payments/payment-rows.ts";
import { feeOf, formatCents, formatCredits } from "./cents.ts";
import { type Invoice, invoiceNumber } from "./invoices.ts";
import { type PdfText, writePdf } from "./pdf-document.ts";

export interface InvoicePdfProps {
  readonly invoice: Invoice;
  readonly payment: Payment;
  readonly operator: OperatorDetails;
  /** null if the workspace has no name. */
  readonly workspaceName: string | null;
}

const [LEFT, MIDDLE, RIGHT] = [56, 310, 539];
/** A longer name would leave the page. */
const LINE_MAX = 46;

export function invoicePdf(props: InvoicePdfProps): Uint8Array<ArrayBuffer> {
  const { invoice } = props;
  const number = invoiceNumber(invoice);
  const items = lineItems(props);
  const top = 330;
  const texts: readonly PdfText[] = [
    { text: "Invoice", x: LEFT, y: 78, size: 22, isBold: true },
    ...facts(props).flatMap(([name, value], index): readonly PdfText[] => [
      { text: name, x: LEFT, y: 112 + index * 16 },
      { text: value, x: LEFT + 90, y: 112 + index * 16 },
    ]),
    ...party("Seller", sellerLines(props), LEFT),
    ...party("Buyer", buyerLines(props), MIDDLE),
    { text: "Item", x: LEFT, y: top, isBold: true },
    { text: "Amount (USD)", x: RIGHT - 70, y: top, isBold: true },
    ...items.flatMap(({ label, amount, isBold }, index): readonly PdfText[] => [
      { text: label, x: LEFT, y: top + 26 + index * 22, isBold },
      { text: amount, x: RIGHT, y: top + 26 + index * 22, isBold, isRight: true },
    ]),
    ...(props.operator.contact === undefined
      ? []
      : [{ text: `Questions: ${props.operator.contact}`, x: LEFT, y: 790, size: 9 }]),
  ];
  const rule = (y: number) => ({ x1: LEFT, x2: RIGHT, y });
  const lines = [rule(top + 8), ...items.map((_, index) => rule(top + 33 + index * 22))];
  return writePdf({ title: `Invoice ${number}`, texts, lines });
}

function facts({ invoice, payment }: InvoicePdfProps): readonly (readonly [string, string])[] {
  return [
    ["Number", invoiceNumber(invoice)],
    ["Issued and paid", utcDay(payment.paidAt)],
    ["Payment", payment.id],
    ["Reference", invoice.id],
  ];
}

function party(title: string, lines: readonly string[], x: number): readonly PdfText[] {
  return [
    { text: title, x, y: 204, size: 9 },
    ...lines.slice(0, 6).map((line, index): PdfText => ({
      text: line.length > LINE_MAX ? `${line.slice(0, LINE_MAX - 1)}…` : line,
      x,
      y: 222 + index * 15,
      isBold: index === 0,
    })),
  ];
}

function sellerLines({ operator }: InvoicePdfProps): readonly string[] {
  const { name, address, taxId } = operator;
  return [name, ...address, ...(taxId === undefined ? [] : [`Tax ID ${taxId}`])];
}

function buyerLines({ invoice, workspaceName }: InvoicePdfProps): readonly string[] {
  return workspaceName === null ? [invoice.accountId] : [workspaceName, invoice.accountId];
}

interface Item {
  readonly label: string;
  readonly amount: string;
  readonly isBold: boolean;
}

function lineItems({ payment }: InvoicePdfProps): readonly Item[] {
  const { credits, amountCents, taxCents, refundedCents, disputedCents } = payment;
  const purchase = { credits, totalCents: amountCents - taxCents };
  const line = (label: string, amount: string, isBold = false): Item => ({ label, amount, isBold });
  return [
    line(`${credits.toLocaleString("en-US")} credits`, formatCredits(credits)),
    line("Platform fee (5%)", formatCredits(feeOf(purchase))),
    line("Tax", formatCents(taxCents)),
    line("Total", formatCents(amountCents), true),
    ...(refundedCents === 0 ? [] : [line("Refunded", `-${formatCents(refundedCents)}`)]),
    ...(disputedCents === 0 ? [] : [line("Disputed", `-${formatCents(disputedCents)}`)]),
  ];
}
