// Endpoints of /v1/billing/details: the buyer on invoices, and who gets the receipts.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  type BillingDetails,
  changeBillingDetails,
  CONTACTS_MAX,
  readBillingDetails,
} from "./billing-details.ts";

const FIELDS = {
  name: z.string().nullable().meta({ description: "The legal name of the buyer." }),
  address: z
    .string()
    .nullable()
    .meta({ description: "The postal address: up to six lines, separated by line breaks." }),
  tax_id: z.string().nullable().meta({ description: "The VAT or another tax number." }),
  po_number: z.string().nullable().meta({ description: "The number of your purchase order." }),
  contacts: z.array(z.string()).meta({
    description: `Up to ${CONTACTS_MAX} email addresses that get the receipts, besides the owner, admins and billing members.`,
  }),
};

const BillingDetailsRecord = z
  .object({ object: z.literal("billing_details"), ...FIELDS })
  .meta({ id: "BillingDetails" });

const EXAMPLE = {
  name: "Example Research Ltd",
  address: "1 Example Street\n10115 Berlin\nGermany",
  tax_id: "DE123456789",
  po_number: null,
  contacts: ["invoices@example.com"],
};
const DOC = { tag: "Billing", path: "/v1/billing/details", dialect: "openai" } as const;
const RESPONSES = oneResponse("The current details.", BillingDetailsRecord, {
  object: "billing_details",
  ...EXAMPLE,
});

export function billingDetailsRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [getRoute(db), setRoute()];
}

function getRoute(db: Db): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    id: "getBillingDetails",
    scope: "billing:read",
    summary: "Get the billing details",
    responses: RESPONSES,
    faults: [],
    run: async ({ caller }) => ({
      status: 200,
      body: toRecord(await readBillingDetails(db, caller.accountId)),
    }),
  });
}

function setRoute(): Route {
  return keyWriteRoute({
    ...DOC,
    method: "PATCH",
    id: "changeBillingDetails",
    scope: "billing:write",
    summary: "Change the billing details",
    description:
      "The buyer on invoices that are paid from now on; a paid invoice keeps the details of its payment. A field that is absent stays as it is, and null removes it.",
    body: z.strictObject(FIELDS).partial().meta({ id: "BillingDetailsChange" }),
    requestExample: EXAMPLE,
    responses: RESPONSES,
    faults: [],
    run: async (tx, { caller, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      return { status: 200, body: toRecord(await changeBillingDetails(tx, act, body)) };
    },
  });
}

function toRecord(details: BillingDetails): z.infer<typeof BillingDetailsRecord> {
  return { object: "billing_details", ...details, contacts: [...details.contacts] };
}
