// The billing details of an account: what its invoices say about the buyer, and who gets its receipts.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { invalid } from "../base/fault.ts";
import { emailError, foldEmail } from "../base/text/email.ts";
import { type Reader, text, textOrNull, type Tx } from "../store/db.ts";
import { authorize, byActor } from "./members.ts";

export interface BillingDetails {
  /** The legal name of the buyer. */
  readonly name: string | null;
  /** Lines of a postal address. */
  readonly address: string | null;
  readonly tax_id: string | null;
  readonly po_number: string | null;
  /** Email addresses that get the receipts, besides the members who pay. */
  readonly contacts: readonly string[];
}

const NO_BILLING_DETAILS: BillingDetails = {
  name: null,
  address: null,
  tax_id: null,
  po_number: null,
  contacts: [],
};

const NAME_MAX = 200;
const ADDRESS_MAX = 500;
const ADDRESS_LINES_MAX = 6;
const NUMBER_MAX = 50;
export const CONTACTS_MAX = 5;

export async function readBillingDetails(
  reader: Reader,
  accountId: string,
): Promise<BillingDetails> {
  const row = await reader.get("select * from billing_details where account_id = ?", [accountId]);
  if (row === undefined) return NO_BILLING_DETAILS;
  return {
    name: textOrNull(row, "name"),
    address: textOrNull(row, "address"),
    tax_id: textOrNull(row, "tax_id"),
    po_number: textOrNull(row, "po_number"),
    contacts: text(row, "contacts")
      .split("\n")
      .filter((contact) => contact !== ""),
  };
}

export type BillingDetailsChange = {
  readonly [Name in keyof BillingDetails]?: BillingDetails[Name] | undefined;
};

/** Fields that are absent stay as they are. The details are on invoices that are paid from now on. */
export async function changeBillingDetails(
  tx: Tx,
  act: Act,
  change: BillingDetailsChange,
): Promise<BillingDetails> {
  await authorize(tx, act, "billing.buy");
  await tx.lockMany("account", "id", [act.accountId]);
  const before = await readBillingDetails(tx, act.accountId);
  const details: BillingDetails = {
    name: changed(change.name, before.name, (value) => line("name", value, NAME_MAX)),
    address: changed(change.address, before.address, parseAddress),
    tax_id: changed(change.tax_id, before.tax_id, (value) => line("tax_id", value, NUMBER_MAX)),
    po_number: changed(change.po_number, before.po_number, (value) =>
      line("po_number", value, NUMBER_MAX),
    ),
    contacts: change.contacts === undefined ? before.contacts : parseContacts(change.contacts),
  };
  const { name, address, tax_id, po_number, contacts } = details;
  await tx.run(
    `insert into billing_details (account_id, name, address, tax_id, po_number, contacts) values (?, ?, ?, ?, ?, ?)
     on conflict (account_id) do update set name = excluded.name, address = excluded.address, tax_id = excluded.tax_id,
       po_number = excluded.po_number, contacts = excluded.contacts`,
    [act.accountId, name, address, tax_id, po_number, contacts.join("\n")],
  );
  const fields = [
    ["name", before.name !== name],
    ["address", before.address !== address],
    ["tax_id", before.tax_id !== tax_id],
    ["po_number", before.po_number !== po_number],
    ["contacts", before.contacts.join() !== contacts.join()],
  ] as const;
  const names = fields.flatMap(([field, isChanged]) => (isChanged ? [field] : []));
  if (names.length > 0) {
    const detail = { fields: names.join(", "), ...(await byActor(tx, act)) };
    await recordAuditEntry(tx, { ...act, action: "billing_details.changed", target: null, detail });
  }
  return details;
}

function changed(
  value: string | null | undefined,
  before: string | null,
  parse: (value: string) => string | null,
): string | null {
  return value === undefined ? before : parse(value ?? "");
}

function line(field: string, value: string, max: number): string | null {
  const trimmed = value.trim();
  if (trimmed.length > max || /\p{Cc}/u.test(trimmed))
    throw invalid(field, `\`${field}\` must be one line of at most ${max} characters.`);
  return trimmed === "" ? null : trimmed;
}

function parseAddress(value: string): string | null {
  const lines = value
    .split(/\r?\n/)
    .map((each) => each.trim())
    .filter((each) => each !== "");
  const address = lines.join("\n");
  if (lines.length > ADDRESS_LINES_MAX || address.length > ADDRESS_MAX)
    throw invalid(
      "address",
      `\`address\` must have at most ${ADDRESS_LINES_MAX} lines and ${ADDRESS_MAX} characters.`,
    );
  if (lines.some((each) => /\p{Cc}/u.test(each)))
    throw invalid("address", "`address` must be text, with line breaks between its lines.");
  return address === "" ? null : address;
}

function parseContacts(contacts: readonly string[]): readonly string[] {
  const folded = [...new Set(contacts.map((contact) => foldEmail(contact.trim())))];
  if (folded.length > CONTACTS_MAX)
    throw invalid("contacts", `\`contacts\` can have at most ${CONTACTS_MAX} email addresses.`);
  for (const contact of folded) {
    const problem = emailError(contact);
    if (problem !== undefined)
      throw invalid("contacts", `Each of \`contacts\` ${problem}: “${contact.slice(0, 100)}”.`);
  }
  return folded;
}

/** The buyer as an invoice names it: the billing details at the time of the payment. */
export interface Buyer extends Omit<BillingDetails, "contacts"> {
  readonly account_id: string;
  /** null if the workspace has no name. */
  readonly workspace: string | null;
}

/** The lines of the address block of an invoice; the first one is the name. */
export function buyerLines({
  name,
  address,
  tax_id,
  account_id,
  workspace,
}: Buyer): readonly string[] {
  const names = [name, workspace === name ? null : workspace].filter((each) => each !== null);
  return [
    ...names.slice(0, 1),
    ...(address === null ? [] : address.split("\n")),
    ...(tax_id === null ? [] : [`Tax ID ${tax_id}`]),
    ...names.slice(1).map((each) => `Workspace ${each}`),
    account_id,
  ];
}
