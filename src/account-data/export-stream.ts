// Sends an export as a stream, at the pace of its reader, and limits how many run at once.

import { Fault } from "../base/fault.ts";
import type { Log } from "../base/log.ts";
import { MINUTE_MS } from "../base/time.ts";
import { type ExportContext, exportLines } from "./export.ts";

/** After this time an export no longer blocks another one of its account. */
const RUNNING_MAX_MS = 15 * MINUTE_MS;

export type StartExport = (context: ExportContext) => Response;

/** One export per account and process at a time. */
export function createExports(log: Log): StartExport {
  const running = new Map<string, { readonly since: number }>();
  return (context) => {
    const { accountId, now } = context;
    const other = running.get(accountId);
    if (other !== undefined && now - other.since < RUNNING_MAX_MS)
      throw new Fault("rate_limited", "an export of the account is running", {
        message:
          "Another export of this account is still being downloaded. Try again when it has finished.",
        retryAfterSeconds: 10,
      });
    const own = { since: now };
    running.set(accountId, own);
    const onEnd = (): void => {
      if (running.get(accountId) === own) running.delete(accountId);
    };
    return new Response(exportStream(context, log, onEnd), {
      headers: {
        "content-type": "application/x-ndjson",
        "content-disposition": `attachment; filename="${accountId}.ndjson"`,
        "cache-control": "no-store",
      },
    });
  };
}

function exportStream(
  context: ExportContext,
  log: Log,
  onEnd: () => void,
): ReadableStream<Uint8Array> {
  const lines = exportLines(context);
  const encoder = new TextEncoder();
  // The client can disconnect while a page is read. The stream then accepts no more data.
  let isCanceled = false;
  return new ReadableStream({
    pull: async (controller) => {
      try {
        const { value, done } = await lines.next();
        if (isCanceled) return;
        if (done !== true) {
          controller.enqueue(encoder.encode(value));
          return;
        }
        onEnd();
        controller.close();
      } catch (error) {
        if (isCanceled) return;
        onEnd();
        log.error("export of an account failed", { account: context.accountId, cause: error });
        controller.error(error);
      }
    },
    cancel: async () => {
      isCanceled = true;
      onEnd();
      await lines.return(undefined);
    },
  });
}
