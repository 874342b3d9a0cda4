// Writes the usage record and the stored reply of a settled call, in the transaction of its charge.

import { Fault } from "../base/fault.ts";
import { settleItems } from "../batches/item-rows.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { SettledCall, StoredReply } from "../inference/lifecycle/call.ts";
import { withoutUncoveredReply } from "../inference/lifecycle/uncovered-call.ts";
import type { IdempotentModelCall } from "../inference/lifecycle/with-idempotency.ts";
import type { BatchCharges } from "../ledger/call-charges.ts";
import type { PromptLog } from "../prompt-log/prompt-log.ts";
import { queueForSinks } from "../sinks/sinks.ts";
import type { Tx } from "../store/db.ts";
import { insertUsage } from "../usage/insert-usage.ts";
import type { RollupQueue } from "../usage/rollup/rollup-queue.ts";

interface CallRecords {
  readonly records: readonly SettledCall[];
  /** `calls` has the order of the records. */
  readonly charges: BatchCharges;
}

interface CallRecordDeps {
  readonly idempotency: Idempotency;
  readonly promptLog: PromptLog;
  readonly rollupQueue?: RollupQueue | undefined;
}

/** Whether no statement of `writeCallRecords` waits for the reply to another one: only its usage record is written. */
export function isWrittenAtOnce(record: SettledCall): boolean {
  return Object.entries(record).every(
    ([name, value]) => name === "usage" || value === undefined || value === false,
  );
}

/**
 * Stores replayable replies and releases the idempotency keys of failed and uncovered calls. Throws if a call has lost its
 * key, so that it is not charged: a retry may have been charged already.
 */
export async function writeCallRecords(
  tx: Tx,
  { records: settled, charges }: CallRecords,
  { idempotency, promptLog, rollupQueue }: CallRecordDeps,
): Promise<void> {
  const { calls } = charges;
  const records = calls.some(({ isUncovered }) => isUncovered)
    ? settled.map((call, index) => withoutUncoveredReply(call, calls[index]))
    : settled;
  await insertUsage(
    tx,
    records.map((record) => record.usage),
    charges,
    rollupQueue,
  );
  const responses = records.flatMap(({ response, usage: { createdAt, latencyMs } }) =>
    response === undefined
      ? []
      : {
          record: response.record,
          writeAll: response.writeAll,
          endedAt: createdAt + latencyMs,
        },
  );
  await responses[0]?.writeAll(tx, responses);
  await settleItems(
    tx,
    records.flatMap(({ item }) => item ?? []),
  );
  await promptLog.insert(
    tx,
    records.flatMap(({ usage: { id, accountId, createdAt }, prompt }) =>
      prompt === undefined ? [] : [{ texts: prompt, id, accountId, createdAt }],
    ),
  );
  await queueForSinks(
    tx,
    records.flatMap(({ usage: { id, accountId, createdAt, latencyMs }, isExported }) =>
      isExported === true ? [{ id, accountId, at: createdAt + latencyMs }] : [],
    ),
  );
  for (const { usage, idempotent } of records) {
    if (idempotent === undefined) continue;
    const call = { ...idempotent.call, holdId: usage.id };
    if (idempotent.reply === undefined) await idempotency.release(tx, call);
    else await storeReply(tx, idempotency, call, idempotent.reply);
  }
}

/** Throws if a repetition took the key over, which may have been charged already. */
export async function storeReply(
  tx: Tx,
  { finish }: Idempotency,
  call: IdempotentModelCall,
  reply: StoredReply,
): Promise<void> {
  if (!(await finish(tx, call, reply)))
    throw new Fault("overloaded", `the idempotency key of ${call.holdId} was taken over`);
}
