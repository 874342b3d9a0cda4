// Background responses that may wait: the call of each runs as a batch of one.

import type { JsonObject } from "../../base/json.ts";
import type { Tx } from "../../store/db.ts";
import type { CallInput } from "./call.ts";

export interface ResponseQueue {
  /** Throws the fault that the call would have. `write` is a part of the transaction that holds its cost and starts its batch. */
  readonly add: (response: WaitingResponse, write: WriteWaiting) => Promise<void>;
  readonly cancel: (
    tx: Tx,
    batch: { readonly id: string; readonly accountId: string },
  ) => Promise<void>;
}

/** `fields`: what the response says of its batch. */
type WriteWaiting = (
  tx: Tx,
  queued: { readonly batchId: string; readonly fields: JsonObject },
) => Promise<void>;

export interface WaitingResponse {
  readonly input: Pick<CallInput, "caller" | "headers">;
  readonly responseId: string;
  /** The request without what makes it wait, as JSON text. */
  readonly body: string;
  /** Of the request as it was received, for a receipt. */
  readonly requestSha256: string;
  readonly windowMs: number;
}

/** The end of a response that its call has not completed. */
export interface ResponseEnd {
  readonly id: string;
  readonly accountId: string;
  readonly status: "cancelled" | "failed";
  /** Why it failed; undefined if no reason is known. */
  readonly message: string | undefined;
}
