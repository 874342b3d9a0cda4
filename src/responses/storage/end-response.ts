// How a background response ends: its record, and the event that says so, in one transaction.

import { emitEvent } from "../../activity/events.ts";
import type { Tx } from "../../store/db.ts";
import {
  failOrphaned,
  finishResponse,
  type ResponseStatus,
  stopResponse,
  type StoredResponse,
} from "./response-rows.ts";

const EVENTS = {
  completed: "response.completed",
  incomplete: "response.incomplete",
  failed: "response.failed",
  cancelled: "response.cancelled",
} as const satisfies Partial<Record<ResponseStatus, string>>;

type Ended = Pick<StoredResponse, "id" | "accountId"> & { readonly status: keyof typeof EVENTS };

async function emitEnd(tx: Tx, { id, accountId, status }: Ended, now: number): Promise<void> {
  await emitEvent(tx, { type: EVENTS[status], accountId, data: { id }, now });
}

/** Stores the result of a background response; false if it was canceled or deleted meanwhile. */
export async function finishBackground(
  tx: Tx,
  record: StoredResponse,
  now: number,
): Promise<boolean> {
  if (!(await finishResponse(tx, record))) return false;
  const { status } = record;
  if (status !== "queued" && status !== "in_progress")
    await emitEnd(tx, { ...record, status }, now);
  return true;
}

/** Fails or cancels a background response; false if it has already ended. `sealed` replaces what is stored of it. */
export async function stopBackground(
  tx: Tx,
  ended: Ended,
  now: number,
  sealed?: string,
): Promise<boolean> {
  if (!(await stopResponse(tx, ended, sealed))) return false;
  await emitEnd(tx, ended, now);
  return true;
}

/** Fails background responses whose process died. */
export async function failAllOrphaned(tx: Tx, startedBefore: number, now: number): Promise<void> {
  for (const failed of await failOrphaned(tx, startedBefore))
    await emitEnd(tx, { ...failed, status: "failed" }, now);
}
