// Writes the responses of a batch of settlements in a few statements, in the transaction of their charges.

import type { ResponseWrite } from "../../inference/lifecycle/call.ts";
import type { Tx } from "../../store/db.ts";
import {
  finishResponse,
  insertItems,
  insertResponses,
  type StoredResponse,
} from "./response-rows.ts";

export interface ResponseRecord {
  readonly response: StoredResponse;
  /** The ids by which later requests can reference its items. */
  readonly itemIds: readonly string[];
}

export function responseWrite(record: ResponseRecord): ResponseWrite {
  return { record, writeAll };
}

async function writeAll(tx: Tx, writes: readonly ResponseWrite[]): Promise<void> {
  // Safe because only `responseWrite` creates writes with this function.
  const records = writes.map(({ record }) => record as ResponseRecord);
  const background = records.filter(({ response }) => response.background);
  const foreground = records.filter(({ response }) => !response.background);
  await insertResponses(
    tx,
    foreground.map(({ response }) => response),
  );
  const written = [...foreground];
  for (const record of background)
    if (await finishResponse(tx, record.response)) written.push(record);
  await insertItems(
    tx,
    written.flatMap(({ response: { id, accountId }, itemIds }) =>
      itemIds.map((itemId) => ({ accountId, id: itemId, responseId: id })),
    ),
  );
}
