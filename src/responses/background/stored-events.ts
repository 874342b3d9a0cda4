// The events of a background response that runs in another process, or has ended: read from the store.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { parseObject } from "../../base/json.ts";
import type { Reader } from "../../store/db.ts";
import { toResponseRecord } from "../response-record.ts";
import { decryptStored } from "../storage/history.ts";
import { findResponse, type StoredResponse } from "../storage/response-rows.ts";
import { isTerminalEvent } from "./event-log.ts";
import type { EventSource } from "./event-streams.ts";
import { readLastEvent, readStreamEvents } from "./stream-rows.ts";

const POLL_MS = 500;
/** After the status of a response says that it has ended, its last events may take this many polls. */
const LAST_POLLS = 4;

export interface StoredEventsOptions {
  readonly db: Reader;
  readonly kek: DerivedKey;
  readonly stored: StoredResponse;
  readonly now: () => number;
}

export function storedEvents({ db, kek, stored, now }: StoredEventsOptions): EventSource {
  const { id, accountId } = stored;
  let pollsAfterEnd = 0;
  return {
    read: async (from) => {
      const events = await readStreamEvents(db, kek, stored, from);
      if (events.length > 0) return { events, isEnd: false };
      const current = await findResponse(db, accountId, id, now());
      if (current === undefined) return { events: [], isEnd: true };
      if (current.status === "in_progress") return { events: [], isEnd: false };
      const last = parseObject((await readLastEvent(db, kek, stored)) ?? "");
      if (last !== undefined && isTerminalEvent(last)) return { events: [], isEnd: true };
      pollsAfterEnd += 1;
      if (pollsAfterEnd < LAST_POLLS) return { events: [], isEnd: false };
      return { events: pollsAfterEnd === LAST_POLLS ? endOf(current) : [], isEnd: true };
    },
    waitForMore: () => new Promise((resolve) => setTimeout(resolve, POLL_MS)),
  };

  // The process that ran the response died before it wrote the last event.
  function endOf(current: StoredResponse): readonly string[] {
    if (current.status === "cancelled" || current.status === "in_progress") return [];
    const decrypted = decryptStored(kek, current);
    const response = toResponseRecord({ stored: current, decrypted, usage: undefined });
    return [JSON.stringify({ type: `response.${current.status}`, response })];
  }
}
