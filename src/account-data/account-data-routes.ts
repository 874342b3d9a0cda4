// Routes of an account's data: its export, and its end.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import type { InvoiceLinks } from "../billing/invoices/invoice-record.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { timestamp } from "../http/schemas.ts";
import type { Reader } from "../store/db.ts";
import { closeAccount, GRACE_DAYS, reopenAccount } from "./closing.ts";
import type { StartExport } from "./export-stream.ts";
import { EXPORTED_TYPES } from "./export.ts";

export interface AccountDataDeps {
  readonly db: Reader;
  readonly startExport: StartExport;
  readonly billing: InvoiceLinks;
}

export function accountDataRoutes(deps: AccountDataDeps): readonly Route[] {
  return [exportRoute(deps), closeRoute(), reopenRoute()];
}

const EXPORT_EXAMPLE = `{"type":"key","data":{"id":"key_01kah5t3mq7d2c9w4e6r8t0yax","object":"api_key","name":"ci"}}
{"type":"end","data":{"records":1}}
`;

function exportRoute({ db, startExport, billing }: AccountDataDeps): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/account/export",
    id: "exportAccount",
    scope: "account:export",
    tag: "Accounts",
    summary: "Export all data of the account",
    description: `Streams newline-delimited JSON: one object per line, with \`type\` and \`data\`. The types are ${EXPORTED_TYPES.map((type) => `\`${type}\``).join(", ")}; each record has the form of its endpoint. The last line has the type \`end\` and the number of records; without it the export is not complete. Secrets are not included. One export of an account runs at a time.`,
    dialect: "openai",
    isLongRunning: true,
    responses: {
      200: {
        description: "The records, one JSON object per line.",
        contentType: "application/x-ndjson",
        example: EXPORT_EXAMPLE,
      },
    },
    faults: [],
    run: ({ caller, now }) => startExport({ db, accountId: caller.accountId, now, billing }),
  });
}

const ClosingRecord = z
  .object({
    id: z.string(),
    status: z.enum(["active", "closing"]),
    closing_since: z.string().nullable(),
    erased_from: z.string().nullable().meta({
      description:
        "When personal data begins to be erased; until then the account can be reopened.",
    }),
  })
  .meta({ id: "AccountClosing" });

const CLOSING_EXAMPLE = {
  id: "acct_01kah5t3mq7d2c9w4e6r8t0yax",
  status: "closing",
  closing_since: "2026-11-21T09:30:00.000Z",
  erased_from: "2026-12-05T09:30:00.000Z",
};

function closeRoute(): Route {
  return keyWriteRoute({
    method: "DELETE",
    path: "/v1/account",
    id: "closeAccount",
    scope: "account:close",
    tag: "Accounts",
    summary: "Close the account",
    description: `Refuses model calls and purchases at once. For ${GRACE_DAYS} days everything can be read and exported, and POST /v1/account/reopen undoes it. Then emails, names, webhooks, stored responses and provider keys are erased for good; transfers are kept without them, and paid invoices keep the buyer that they name. The balance is not paid out by this request. A workspace that a person owns is closed in the console.`,
    dialect: "openai",
    responses: oneResponse("The account is closing.", ClosingRecord, CLOSING_EXAMPLE),
    faults: ["forbidden"],
    run: async (tx, { caller, clientIp, now }) => {
      const { since, erasedFrom } = await closeAccount(tx, keyAct(caller, { clientIp, now }));
      const times = { closing_since: timestamp(since), erased_from: timestamp(erasedFrom) };
      return { status: 200, body: { id: caller.accountId, status: "closing", ...times } };
    },
  });
}

function reopenRoute(): Route {
  return keyWriteRoute({
    method: "POST",
    path: "/v1/account/reopen",
    id: "reopenAccount",
    scope: "account:close",
    tag: "Accounts",
    summary: "Reopen an account that is closing",
    dialect: "openai",
    responses: oneResponse("The account is active.", ClosingRecord, {
      ...CLOSING_EXAMPLE,
      status: "active",
      closing_since: null,
      erased_from: null,
    }),
    faults: ["forbidden", "conflict"],
    run: async (tx, { caller, clientIp, now }) => {
      await reopenAccount(tx, keyAct(caller, { clientIp, now }));
      const times = { closing_since: null, erased_from: null };
      return { status: 200, body: { id: caller.accountId, status: "active", ...times } };
    },
  });
}
