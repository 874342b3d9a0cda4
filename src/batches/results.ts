// The results of a batch as JSON lines, in the form of the API that asks: read from its items, page by page.

import type { DerivedKey } from "../base/crypto/encryption.ts";
import { type JsonObject, parseObject } from "../base/json.ts";
import type { Reader } from "../store/db.ts";
import { openSealer } from "./batch-encryption.ts";
import type { Batch, BatchForm } from "./batch-rows.ts";
import { type EndedItem, readResults } from "./item-rows.ts";

const PAGE_ITEMS = 50;

export interface ResultsRequest {
  readonly batch: Batch;
  readonly form: BatchForm;
  /** Only results, or only items without one. */
  readonly only?: "output" | "errors";
}

/** A JSONL response that reads as its client does. */
export function resultsResponse(
  reader: Reader,
  kek: DerivedKey,
  request: ResultsRequest,
): Response {
  const encoder = new TextEncoder();
  const lines = resultLines(reader, kek, request);
  const stream = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const next = await lines.next();
      if (next.done === true) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    cancel: async () => void (await lines.return(undefined)),
  });
  return new Response(stream, {
    headers: { "content-type": "application/x-jsonl", "cache-control": "no-store" },
  });
}

/** Yields the lines of one page at a time. */
async function* resultLines(
  reader: Reader,
  kek: DerivedKey,
  { batch, form, only }: ResultsRequest,
): AsyncGenerator<string, undefined> {
  const sealer = openSealer(kek, batch, batch.dataKey);
  for (let after = -1; ;) {
    const page = await readResults(reader, batch.id, { after, limit: PAGE_ITEMS });
    const lines = page
      .filter(
        ({ status }) => only === undefined || (status === "succeeded") === (only === "output"),
      )
      .map((item) => {
        const { position, sealedResult } = item;
        const result =
          sealedResult === null ? undefined : sealer.open(`result/${position}`, sealedResult);
        const body = result === undefined ? undefined : parseObject(result);
        const line =
          form === "messages" ? messagesLine(item, body) : openaiLine(batch.id, item, body);
        return `${JSON.stringify(line)}\n`;
      });
    if (lines.length > 0) yield lines.join("");
    const last = page.at(-1);
    if (last === undefined) return undefined;
    after = last.position;
  }
}

const ENDED: Readonly<Record<string, JsonObject>> = {
  expired: {
    code: "batch_expired",
    message: "This request was not run before the completion window of the batch ended.",
  },
  canceled: {
    code: "batch_cancelled",
    message: "This request was not run before the batch was canceled.",
  },
  errored: {
    code: "result_lost",
    message: "The result of this request was lost by a failure of the gateway's store.",
  },
};

function openaiLine(batchId: string, item: EndedItem, body: JsonObject | undefined): JsonObject {
  const { position, customId, status, httpStatus, requestId } = item;
  const response =
    body === undefined ? null : { status_code: httpStatus, request_id: requestId, body };
  const error = response === null ? (ENDED[status] ?? null) : null;
  return { id: `${batchId}_${position}`, custom_id: customId, response, error };
}

function messagesLine({ customId, status }: EndedItem, body: JsonObject | undefined): JsonObject {
  const lost = {
    type: "error",
    error: { type: "api_error", message: ENDED["errored"]?.["message"] },
  };
  const result =
    status === "succeeded"
      ? { type: "succeeded", message: body }
      : status === "errored"
        ? { type: "errored", error: body ?? lost }
        : { type: status };
  return { custom_id: customId, result };
}
