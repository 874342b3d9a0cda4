// Graceful shutdown: finish the calls in flight so that they can be charged, write what is in memory, close the store.

import { isUnavailable } from "../store/db.ts";
import type { Services } from "./services.ts";

/** How long to wait for a provider's usage after its caller has left, if hanging up does not stop the billing. */
const USAGE_DRAIN_MS = 5_000;

/** Closes the store even if draining fails: its folder must not stay locked. */
export async function shutdown(
  services: Services,
  stopJobs: () => Promise<void>,
  now: () => number,
): Promise<void> {
  try {
    await drain(services, stopJobs, now);
  } finally {
    services.core.connectionGuard?.stop();
    services.modelCalls.metrics.stop();
    await services.core.db.close();
  }
}

async function drain(
  {
    core: { db, ledger, keys, refusedCalls, rollupQueue, endEpoch },
    modelCalls,
    deliveryWorker,
    auditStreamWorker,
    sinkWorker,
    batchRunner,
  }: Services,
  stopJobs: () => Promise<void>,
  now: () => number,
): Promise<void> {
  const { inference, responses, providerKeys, httpClient, telemetry } = modelCalls;
  responses.abortAll();
  batchRunner.stop();
  const drainTimer = setTimeout(inference.forceShutdown, USAGE_DRAIN_MS);
  await inference.whenIdle();
  await responses.whenIdle();
  await unlessUnavailable(batchRunner.whenIdle());
  clearTimeout(drainTimer);
  await Promise.all([
    stopJobs(),
    deliveryWorker.stop(),
    auditStreamWorker.stop(),
    sinkWorker.stop(),
  ]);
  ledger.returnLeases();
  await ledger.idle();
  await unlessUnavailable(endEpoch());
  await Promise.all([
    keys.flushLastUsed(),
    providerKeys.flushLastUsed(),
    refusedCalls.flush(),
    unlessUnavailable(rollupQueue?.flush(db, now()) ?? Promise.resolve()),
    telemetry?.shutdown(),
  ]);
  httpClient.close();
}

/** Without a store, other processes learn of the end by the heartbeat. */
async function unlessUnavailable(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isUnavailable(error)) throw error;
  }
}
