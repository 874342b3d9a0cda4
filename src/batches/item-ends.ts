// How an item ends: with the settlement of its call, or in an error without a charge.

import { Fault } from "../base/fault.ts";
import type { BatchItem } from "../inference/lifecycle/batch-item.ts";
import { shrinkBatchHold } from "../ledger/batch-holds.ts";
import type { Db } from "../store/db.ts";
import type { Sealer } from "./batch-encryption.ts";
import { responseFields } from "./batch-record.ts";
import type { Batch } from "./batch-rows.ts";
import { itemErrorBody } from "./item-call.ts";
import { endItem, type PendingItem } from "./item-rows.ts";

const RESULT_MAX_LENGTH = 8 * 1_048_576;

export interface OpenBatch {
  readonly batch: Batch;
  readonly sealer: Sealer;
}

type OpenBatchItem = Pick<OpenBatch, "sealer"> & {
  readonly batch: Pick<
    Batch,
    "id" | "endpoint" | "provider" | "responseId" | "requestSha256" | "createdAt" | "expiresAt"
  >;
};

export function toBatchItem(
  { batch, sealer }: OpenBatchItem,
  { position, share }: Pick<PendingItem, "position" | "share">,
): BatchItem {
  const { responseId, requestSha256 } = batch;
  return {
    holdId: batch.id,
    share,
    hasNoCall: batch.provider !== null,
    response:
      responseId === null
        ? undefined
        : { id: responseId, fields: responseFields(batch), requestSha256 },
    toSettlement: ({ requestId, status, cost, body, fault }) => {
      if (body === undefined && cost === 0n) return undefined;
      const isResult = body !== undefined && body.length <= RESULT_MAX_LENGTH;
      const result = isResult
        ? body
        : itemErrorBody(
            batch.endpoint,
            body === undefined ? (fault ?? FAILED) : TOO_LONG,
            requestId,
          );
      return {
        batchId: batch.id,
        position,
        requestId,
        status: isResult ? "succeeded" : "errored",
        httpStatus: isResult ? status : (fault ?? FAILED).status,
        cost,
        // The stored response has it.
        sealedResult:
          isResult && responseId !== null ? null : sealer.seal(`result/${position}`, result),
      };
    },
  };
}

const FAILED = new Fault("upstream_error", "the call of an item failed");
const TOO_LONG = new Fault("upstream_error", "result of an item too long", {
  message: `The reply is longer than ${RESULT_MAX_LENGTH} characters, which a batch does not store. Send the request alone.`,
});

/** Ends an item without a charge. */
export async function endInError(
  db: Db,
  { batch, sealer }: OpenBatch,
  { position, share }: Pick<PendingItem, "position" | "share">,
  { fault, requestId }: { readonly fault: Fault; readonly requestId: string },
): Promise<void> {
  const result = itemErrorBody(batch.endpoint, fault, requestId);
  const ended = {
    batchId: batch.id,
    position,
    requestId,
    status: "errored",
    httpStatus: fault.status,
    cost: 0n,
    sealedResult: sealer.seal(`result/${position}`, result),
  } as const;
  await db.write(async (tx) => {
    if (await endItem(tx, ended)) await shrinkBatchHold(tx, batch, share);
  });
}
