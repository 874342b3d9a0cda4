// Creates the services of batches.

import { deriveBatchKek } from "../batches/batch-encryption.ts";
import { type BatchRunner, createBatchRunner } from "../batches/batch-runner.ts";
import { type Batches, createBatches } from "../batches/batches.ts";
import { createFiles, type Files } from "../batches/files/files.ts";
import type { Config } from "../config/config.ts";
import { estimateBatchItem } from "../inference/lifecycle/estimate-item.ts";
import { expandPreset } from "../inference/lifecycle/expand-preset.ts";
import { rejectIfFrozen } from "../inference/lifecycle/hold/hold.ts";
import { infer } from "../inference/lifecycle/infer.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import { findFreeze } from "../ledger/freezes.ts";
import type { Core } from "./core.ts";
import { paymentOptions } from "./create-discovery-settings.ts";
import type { ModelCalls } from "./model-calls.ts";
import type { ServerOptions } from "./server-options.ts";

interface BatchContext {
  readonly core: Core;
  readonly modelCalls: ModelCalls;
  readonly overload: NonNullable<ServerOptions["overload"]>;
}

export function createBatchServices(
  config: Config,
  { log, now }: ServerOptions,
  { core: { db, master, epoch }, modelCalls: { inference }, overload }: BatchContext,
): { readonly batches: Batches; readonly batchRunner: BatchRunner; readonly files: Files } {
  const kek = deriveBatchKek(master);
  const { findPreset: find, parse, route, plan, respond, hold } = inference.infer;
  const withoutBatches = new Set<string>();
  const batchRunner = createBatchRunner({
    db,
    kek,
    log,
    now,
    process: config.processName,
    epoch,
    infer: (input) => infer(inference.infer, input),
    findKey: (keyId, at) => findLiveKey(db, keyId, at),
    isFrozen: async (accountId) => (await findFreeze(db, accountId)) !== undefined,
    target: { parse, route, plan, respond, lease: hold.lease },
    onNoBatches: (provider) => withoutBatches.add(provider),
    isBusy: () => overload !== "off" && overload.isBusy(),
  });
  const batches = createBatches({
    db,
    kek,
    now,
    expandPreset: (input) => expandPreset(find, input),
    estimateItem: (input) => estimateBatchItem({ parse, route }, input),
    hasNoBatches: (provider) => withoutBatches.has(provider),
    rejectIfFrozen: (accountId) => rejectIfFrozen(inference.countTokens, accountId),
    paymentOptions: paymentOptions(config),
    wake: () =>
      void batchRunner.claim().catch((cause: unknown) => log.warn("batches wait", { cause })),
  });
  return { batches, batchRunner, files: createFiles({ db, kek }) };
}
