// The invoice of a paid purchase as PDF. Its amounts are those of the credited payment, as on the receipt.

import { readFileSync } from "node:fs";
import boldFont from "dejavu-fonts-ttf/ttf/DejaVuSans-Bold.ttf" with { type: "file" };
import regularFont from "dejavu-fonts-ttf/ttf/DejaVuSans.ttf" with { type: "file" };
import { type Buyer, buyerLines } from "../../accounts/billing-details.ts";
import { importedFile } from "../../base/imported-file.ts";
import { lazy } from "../../base/lazy.ts";
import { utcDay } from "../../base/time.ts";
import type { OperatorDetails } from "../billing-deps.ts";
import type { Payment } from "../payments/payment-rows.ts";
import { feeOf, formatCents, formatCredits } from "./cents.ts";
import { type Invoice, invoiceNumber } from "./invoices.ts";

export interface InvoicePdfProps {
  readonly invoice: Invoice;
  readonly payment: Payment;
  readonly operator: OperatorDetails;
  /** As of the payment. */
  readonly buyer: Buyer;
}

type Document = PDFKit.PDFDocument;

const MARGIN = 56;
const WIDTH = 595 - 2 * MARGIN;
const COLUMN = 230;
const RIGHT = MARGIN + WIDTH;
const AMOUNT_WIDTH = 130;
const MUTED = "#5a605c";
const TEXT = "#1b1d1c";
const RULE = "#d5d8d6";

// Not the standard fonts of PDF: they have only the letters of Western Europe.
const fonts = lazy(() => ({
  regular: readFileSync(importedFile(regularFont)),
  bold: readFileSync(importedFile(boldFont)),
}));

export async function invoicePdf(props: InvoicePdfProps): Promise<Uint8Array<ArrayBuffer>> {
  const { default: PDFDocument } = await import("pdfkit");
  const { invoice, payment, operator } = props;
  const number = invoiceNumber(invoice);
  const { regular, bold } = fonts();
  const document = new PDFDocument({
    size: "A4",
    margin: MARGIN,
    lang: "en",
    // The type of the font is too narrow: a buffer is a font, too.
    font: regular as unknown as string,
    info: {
      Title: `Invoice ${number}`,
      Author: operator.name,
      CreationDate: new Date(payment.paidAt),
    },
  });
  const chunks: Uint8Array[] = [];
  const ended = new Promise((resolve) => document.on("end", resolve));
  document.on("data", (chunk: Uint8Array) => chunks.push(chunk));
  document.registerFont("regular", regular);
  document.registerFont("bold", bold);
  writeHeader(document, props, number);
  writeItems(document, lineItems(props));
  writeFooter(document, operator);
  document.end();
  await ended;
  return Uint8Array.from(Buffer.concat(chunks));
}

function writeHeader(document: Document, props: InvoicePdfProps, number: string): void {
  const { invoice, payment, operator, buyer } = props;
  document.font("bold").fontSize(20).fillColor(TEXT).text("Invoice", MARGIN, MARGIN);
  document.fontSize(10).moveDown(0.8).lineGap(2);
  const facts = [
    ["Number", number],
    ["Issued and paid", utcDay(payment.paidAt)],
    ...(buyer.po_number === null ? [] : [["PO number", buyer.po_number]]),
    ["Payment", payment.id],
    ["Reference", invoice.id],
  ] as const;
  for (const [name, value] of facts) {
    const { y } = document;
    document
      .font("regular")
      .fillColor(MUTED)
      .text(name ?? "", MARGIN, y, { width: 110 });
    document.fillColor(TEXT).text(value ?? "", MARGIN + 110, y, { width: WIDTH - 110 });
  }
  const top = document.y + 22;
  const seller = [
    operator.name,
    ...operator.address,
    ...(operator.taxId === undefined ? [] : [`Tax ID ${operator.taxId}`]),
  ];
  const ends = [
    writeParty(document, ["Seller", ...seller], { x: MARGIN, y: top }),
    writeParty(document, ["Buyer", ...buyerLines(buyer)], { x: RIGHT - COLUMN, y: top }),
  ];
  document.y = Math.max(...ends) + 30;
}

/** Returns where the text ends. */
function writeParty(
  document: Document,
  [title = "", name = "", ...lines]: readonly string[],
  { x, y }: { readonly x: number; readonly y: number },
): number {
  document.font("regular").fontSize(9).fillColor(MUTED).text(title, x, y, { width: COLUMN });
  document.fontSize(10).fillColor(TEXT).moveDown(0.3);
  document.font("bold").text(name, { width: COLUMN });
  document.font("regular");
  for (const line of lines) document.text(line, { width: COLUMN });
  return document.y;
}

interface Item {
  readonly label: string;
  readonly amount: string;
  readonly isTotal?: boolean;
}

function lineItems({ payment }: InvoicePdfProps): readonly Item[] {
  const { credits, amountCents, taxCents, refundedCents, disputedCents } = payment;
  const totalCents = amountCents - taxCents;
  return [
    { label: `${credits.toLocaleString("en-US")} credits`, amount: formatCredits(credits) },
    { label: "Platform fee (5%)", amount: formatCredits(feeOf({ credits, totalCents })) },
    { label: "Subtotal", amount: formatCents(totalCents) },
    { label: "Tax", amount: formatCents(taxCents) },
    { label: "Total", amount: formatCents(amountCents), isTotal: true },
    { label: "Paid", amount: formatCents(amountCents) },
    ...(refundedCents === 0
      ? []
      : [{ label: "Refunded", amount: `−${formatCents(refundedCents)}` }]),
    ...(disputedCents === 0
      ? []
      : [{ label: "Disputed", amount: `−${formatCents(disputedCents)}` }]),
  ];
}

function writeItems(document: Document, items: readonly Item[]): void {
  const heading: Item = { label: "Item", amount: "Amount (USD)" };
  for (const { label, amount, isTotal = false } of [heading, ...items] satisfies readonly Item[]) {
    const { y } = document;
    const isHeading = label === heading.label;
    document
      .font(isTotal || isHeading ? "bold" : "regular")
      .fontSize(isHeading ? 9 : 10)
      .fillColor(isHeading ? MUTED : TEXT);
    document.text(label, MARGIN, y, { width: WIDTH - AMOUNT_WIDTH });
    document.text(amount, RIGHT - AMOUNT_WIDTH, y, { width: AMOUNT_WIDTH, align: "right" });
    const bottom = document.y + 5;
    document.moveTo(MARGIN, bottom).lineTo(RIGHT, bottom).lineWidth(0.6).stroke(RULE);
    document.y = bottom + 7;
  }
}

function writeFooter(document: Document, { contact, termsUrl }: OperatorDetails): void {
  const lines = [
    "Credits are prepaid and pay for language model calls at the providers' list prices.",
    ...(contact === undefined ? [] : [`Questions: ${contact}`]),
    ...(termsUrl === undefined ? [] : [`Terms: ${termsUrl}`]),
  ];
  document.font("regular").fontSize(8.5).fillColor(MUTED);
  // Above the bottom margin: a line below it would begin another page.
  document.text(lines.join("\n"), MARGIN, 842 - MARGIN - lines.length * 12, { width: WIDTH });
}
