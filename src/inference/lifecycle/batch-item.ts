// An item of a batch is a call like any other. The hold of its batch covers it, and its result is written with its charge.

import type { Fault } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Nano } from "../../base/money/money.ts";

/** What a call knows of the item that it runs for. */
export interface BatchItem {
  /** The hold of the batch. */
  readonly holdId: string;
  /** What that hold has for the item. */
  readonly share: Nano;
  /** Set if its provider ran it, in a batch of its own. */
  readonly hasNoCall?: boolean;
  /** The background response that its result completes, and what the gateway writes into it. */
  readonly response?: ItemResponse | undefined;
  /** The item's result, to be written with its charge; undefined if the item is run again. */
  readonly toSettlement: (result: ItemResult) => ItemSettlement | undefined;
}

interface ItemResponse {
  readonly id: string;
  readonly fields: JsonObject;
  /** Of its request as it was received. */
  readonly requestSha256: string | null;
}

export interface ItemResult {
  readonly requestId: string;
  readonly status: number;
  readonly cost: Nano;
  /** Undefined for a call that failed. */
  readonly body: string | undefined;
  readonly fault: Fault | undefined;
}

/** The end of an item as it is stored. */
export interface ItemSettlement {
  readonly batchId: string;
  readonly position: number;
  readonly requestId: string;
  readonly status: "succeeded" | "errored";
  readonly httpStatus: number;
  readonly cost: Nano;
  /** Null if the result was lost. */
  readonly sealedResult: Uint8Array | null;
}
