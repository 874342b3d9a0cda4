// Batches and their files: changes of state, and what jobs do with them. Owns the tables batch, batch_item, stored_file and
// stored_file_part.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import type { DerivedKey } from "../base/crypto/encryption.ts";
import { Fault } from "../base/fault.ts";
import { HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { type Reach, REACH_TEXT, wholeAccount } from "../http/reach.ts";
import type { ResponseQueue, WaitingResponse } from "../inference/lifecycle/response-queue.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import { createAccountLimit } from "./account-limit.ts";
import { OPENAI_STATUSES, responseFields } from "./batch-record.ts";
import {
  type Batch,
  cancelBatch,
  deleteBatch,
  findBatch,
  findOldBatches,
  RESULTS_RETENTION_MS,
} from "./batch-rows.ts";
import {
  type CreateBatchDeps,
  discard,
  holdAndStart,
  type NewBatchRequest,
  prepareBatch,
  type PreparedBatch,
} from "./create-batch.ts";
import { deleteFile, findExpiredFiles } from "./files/file-rows.ts";
import { deleteSomeItems } from "./item-rows.ts";

/** Creating a batch takes less. */
const CREATION_MAX_MS = HOUR_MS;
/** Batches of an account that one process creates at a time. Their items are stored before they count as unfinished batches. */
const CREATIONS_MAX = 4;
const SWEEP_ROWS = 20;

export interface BatchRouteDeps {
  readonly batches: Batches;
  readonly baseUrl: string;
}

export interface Batches {
  readonly db: Db;
  readonly kek: DerivedKey;
  readonly prepare: (request: NewBatchRequest) => Promise<PreparedBatch>;
  /** Deletes a prepared batch that was not started. */
  readonly discard: (batch: PreparedBatch) => Promise<void>;
  /** Holds the cost of a prepared batch and starts it. */
  readonly start: (tx: Tx, act: Act, batch: PreparedBatch) => Promise<Batch>;
  readonly cancel: (tx: Tx, act: Act, reach: Reach, id: string) => Promise<Batch>;
  readonly remove: (tx: Tx, act: Act, reach: Reach, id: string) => Promise<void>;
  readonly responses: ResponseQueue;
  /** Deletes old batches, expired files, and what crashes left. */
  readonly sweep: () => Promise<void>;
  /** Looks for a batch to run. */
  readonly wake: () => void;
}

export function createBatches(deps: CreateBatchDeps & Pick<Batches, "wake">): Batches {
  const { db, kek, now, wake } = deps;
  const limited = createAccountLimit(CREATIONS_MAX, "batches that are being created");
  return {
    db,
    kek,
    wake,
    prepare: (request) => limited(request.caller.accountId, () => prepareBatch(deps, request)),
    discard: ({ id }) => discard(db, id),
    start: async (tx, act, batch) => {
      await holdAndStart(tx, deps, batch, now());
      const detail = { requests: batch.requests };
      await recordAuditEntry(tx, { ...act, action: "batch.created", target: batch.id, detail });
      return getBatch(tx, wholeAccount(act.accountId), batch.id);
    },
    cancel: async (tx, act, reach, id) => {
      const batch = await getBatch(tx, reach, id);
      if (batch.endedAt !== null) throw endedFault(batch);
      if (await cancelBatch(tx, batch, act.now))
        await recordAuditEntry(tx, { ...act, action: "batch.cancelled", target: id });
      return getBatch(tx, reach, id);
    },
    remove: async (tx, act, reach, id) => {
      const batch = await getBatch(tx, reach, id);
      if (batch.endedAt === null) throw unfinishedFault(id);
      await deleteBatch(tx, id);
      await recordAuditEntry(tx, { ...act, action: "batch.deleted", target: id });
    },
    responses: {
      add: async (response, write) => {
        const prepared = await prepareBatch(deps, requestOf(response));
        const queued = { batchId: prepared.id, fields: responseFields(prepared) };
        const start = db.write(async (tx) => {
          await holdAndStart(tx, deps, prepared, now());
          await write(tx, queued);
        });
        await start.catch(async (error: unknown) => {
          await discard(db, prepared.id);
          throw error;
        });
        wake();
      },
      cancel: async (tx, batch) => void (await cancelBatch(tx, batch, now())),
    },
    sweep: () => sweep(db, now()),
  };
}

function requestOf(response: WaitingResponse): NewBatchRequest {
  const { input, responseId, requestSha256, body, windowMs } = response;
  const { caller, headers } = input;
  return {
    caller,
    form: "openai",
    endpoint: "/v1/responses",
    headers,
    metadata: null,
    processing: "auto",
    inputFileId: null,
    response: { id: responseId, requestSha256 },
    windowMs,
    items: [{ path: "the request", customId: responseId, body: JSON.parse(body), text: body }],
  };
}

export async function getBatch(reader: Reader, reach: Reach, id: string): Promise<Batch> {
  const batch = await findBatch(reader, reach, id);
  if (batch !== undefined) return batch;
  throw new Fault("not_found", "no such batch", {
    message: `This key has no batch ${id.slice(0, 80)}. Batches are deleted 30 days after they were created. ${REACH_TEXT}`,
    param: "id",
    next: [{ method: "GET", url: "/v1/batches", why: "List the batches that this key reaches." }],
  });
}

function endedFault({ id, status }: Batch): Fault {
  return new Fault("conflict", "batch has ended", {
    message: `The batch ${id} has already ended with status \`${OPENAI_STATUSES[status]}\`.`,
    next: [{ method: "GET", url: `/v1/batches/${id}`, why: "Read the batch." }],
  });
}

export function unfinishedFault(id: string): Fault {
  return new Fault("conflict", "batch has not ended", {
    message: `The batch ${id} has not ended. Wait until it has, or cancel it.`,
    next: [
      { method: "GET", url: `/v1/batches/${id}`, why: "Read the state of the batch." },
      { method: "POST", url: `/v1/batches/${id}/cancel`, why: "Cancel the batch." },
    ],
  });
}

async function sweep(db: Db, now: number): Promise<void> {
  const before = {
    endedBefore: now - RESULTS_RETENTION_MS,
    validatingBefore: now - CREATION_MAX_MS,
  };
  for (let found = SWEEP_ROWS; found === SWEEP_ROWS;) {
    const ids = await findOldBatches(db, before, SWEEP_ROWS);
    for (const id of ids) {
      while (await db.write((tx) => deleteSomeItems(tx, id)))
        await new Promise((resolve) => setImmediate(resolve));
      await db.write((tx) => deleteBatch(tx, id));
    }
    found = ids.length;
  }
  for (let found = SWEEP_ROWS; found === SWEEP_ROWS;) {
    const ids = await findExpiredFiles(db, now, SWEEP_ROWS);
    for (const id of ids) await db.write((tx) => deleteFile(tx, id));
    found = ids.length;
  }
}

export const BATCH_SWEEP_MS = 10 * MINUTE_MS;
