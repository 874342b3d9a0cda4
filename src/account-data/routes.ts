// Routes of an account's data: its export.

import { keyRoute, type Route } from "../http/route.ts";
import type { Reader } from "../store/db.ts";
import { EXPORTED_TYPES } from "./export.ts";
import type { StartExport } from "./export-stream.ts";

export interface AccountDataDeps {
  readonly db: Reader;
  readonly startExport: StartExport;
  readonly payUrl: (invoiceId: string) => string;
}

export function accountDataRoutes(deps: AccountDataDeps): readonly Route[] {
  return [exportRoute(deps)];
}

const EXPORT_EXAMPLE = `{"type":"key","data":{"id":"key_01kah5t3mq7d2c9w4e6r8t0yax","object":"api_key","name":"ci"}}
{"type":"end","data":{"records":1}}
`;

function exportRoute({ db, startExport, payUrl }: AccountDataDeps): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/account/export",
    id: "exportAccount",
    scope: "account:export",
    tag: "Accounts",
    summary: "Export all data of the account",
    description: `Streams newline-delimited JSON: one object a line, with \`type\` and \`data\`. The types are ${EXPORTED_TYPES.map((type) => `\`${type}\``).join(", ")}; each record has the form of its endpoint. The last line has the type \`end\` and the number of records; without it the export is not complete. Secrets are not included. One export of an account runs at a time.`,
    dialect: "openai",
    isLongRunning: true,
    responses: {
      200: {
        description: "The records, one JSON object a line.",
        contentType: "application/x-ndjson",
        example: EXPORT_EXAMPLE,
      },
    },
    faults: [],
    run: ({ caller, now }) => startExport({ db, accountId: caller.accountId, now, payUrl }),
  });
}
