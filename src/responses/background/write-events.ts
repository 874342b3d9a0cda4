// Writes the events of a running background response to the store, some at a time.

import type { Log } from "../../base/log.ts";
import type { Db } from "../../store/db.ts";
import type { StoredCall } from "../stored-call.ts";
import type { EventLog } from "./event-log.ts";
import { insertStreamPart, type StreamPart } from "./stream-rows.ts";

const WRITE_EVERY_MS = 500;

/** Marks the response as streamed before it has events. */
export function firstPartOf({ id, encrypt }: StoredCall): StreamPart {
  return { responseId: id, part: 0, lastSequence: -1, sealedEvents: encrypt("events/0", "") };
}

/** Returns a function that stops the writing and resolves when all events are written. */
export function writeEvents(
  { db, log: serverLog }: { readonly db: Db; readonly log: Log },
  { id, encrypt }: StoredCall,
  log: EventLog,
): () => Promise<void> {
  let written = 0;
  let part = 0;
  let work = Promise.resolve();
  const write = async (): Promise<void> => {
    const { events } = log.read(written);
    if (events.length === 0) return;
    part += 1;
    const row = {
      responseId: id,
      part,
      lastSequence: written + events.length - 1,
      sealedEvents: encrypt(`events/${part}`, events.join("\n")),
    };
    written += events.length;
    // A power failure ends the call anyway.
    await db.write((tx) => insertStreamPart(tx, row), "os_cache");
  };
  const writeNext = (): void => {
    work = work.then(write).catch((cause: unknown) =>
      serverLog.error("failed to store events of a background response", {
        response_id: id,
        cause,
      }),
    );
  };
  const timer = setInterval(writeNext, WRITE_EVERY_MS);
  return async () => {
    clearInterval(timer);
    writeNext();
    await work;
  };
}
