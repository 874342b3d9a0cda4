// The events of streamed background responses in the store, so that every process can serve them, also after the end. A part
// holds the events of some time, encrypted with the response's own key.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { integer, integerOrNull, type Reader, text, type Tx } from "../../store/db.ts";
import { decryptEvents, type EncryptedResponse } from "../storage/response-encryption.ts";

export interface StreamPart {
  readonly responseId: string;
  readonly part: number;
  /** -1 for the first part, which has no events: it marks the response as streamed. */
  readonly lastSequence: number;
  readonly sealedEvents: string;
}

/** Not if the response was deleted: a deletion would leave the part behind. */
export async function insertStreamPart(tx: Tx, part: StreamPart): Promise<void> {
  if ((await tx.lockMany("stored_response", "id", [part.responseId], "id")).length === 0) return;
  await tx.run(
    `insert into stored_stream (response_id, part, last_sequence, sealed_events) values (?, ?, ?, ?)
     on conflict (response_id, part) do nothing`,
    [part.responseId, part.part, part.lastSequence, part.sealedEvents],
  );
}

export async function isStreamed(reader: Reader, responseId: string): Promise<boolean> {
  const row = await reader.get(
    "select 1 as found from stored_stream where response_id = ? and part = 0",
    [responseId],
  );
  return row !== undefined;
}

/** The last stored event, as JSON text; undefined if there is none. */
export async function readLastEvent(
  reader: Reader,
  kek: DerivedKey,
  stored: EncryptedResponse,
): Promise<string | undefined> {
  const row = await reader.get(
    "select max(last_sequence) as last_sequence from stored_stream where response_id = ?",
    [stored.id],
  );
  const last = row === undefined ? null : integerOrNull(row, "last_sequence");
  if (last === null || last < 0) return undefined;
  return (await readStreamEvents(reader, kek, stored, last)).at(-1);
}

const PARTS_PER_READ = 20;

/** The stored events with a sequence number of at least `from`, as JSON text. Some, not necessarily all. */
export async function readStreamEvents(
  reader: Reader,
  kek: DerivedKey,
  stored: EncryptedResponse,
  from: number,
): Promise<readonly string[]> {
  const rows = await reader.all(
    `select part, last_sequence, sealed_events from stored_stream
     where response_id = ? and last_sequence >= ? order by part limit ${PARTS_PER_READ}`,
    [stored.id, Math.max(0, from)],
  );
  return rows.flatMap((row) => {
    const events = decryptEvents(kek, stored, integer(row, "part"), text(row, "sealed_events"));
    const first = integer(row, "last_sequence") - events.length + 1;
    return events.slice(Math.max(0, from - first));
  });
}
