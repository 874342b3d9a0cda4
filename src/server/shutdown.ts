// The end of a house, in order: what runs is brought to an end that can be charged, what is still in memory is written, and
// the store is closed.

import type { Keys } from "../keys/keys.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Inference } from "../inference/inference.ts";
import type { DeliveryWorker } from "../webhooks/delivery-worker.ts";
import type { HttpClient } from "../http-client/client.ts";
import type { ProviderKeys } from "../provider-keys/provider-keys.ts";
import type { Responses } from "../responses/responses.ts";
import type { Db } from "../store/db.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

/** How long a provider's count is waited for whose reader is gone, where leaving would not end the bill. */
const USAGE_DRAIN_MS = 5_000;

export interface ShutdownDeps {
  readonly db: Db;
  readonly ledger: Pick<Ledger<never>, "idle">;
  readonly keys: Keys;
  readonly deliveryWorker: DeliveryWorker;
  readonly inference: Inference;
  readonly responses: Responses;
  readonly providerKeys: ProviderKeys;
  readonly carrier: HttpClient;
  readonly telemetry: Telemetry | undefined;
}

/** Whatever goes wrong before, the store is closed: its folder must not stay locked. */
export async function shutdown(deps: ShutdownDeps, stopJobs: () => Promise<void>): Promise<void> {
  try {
    await drain(deps, stopJobs);
  } finally {
    await deps.db.close();
  }
}

async function drain(
  {
    ledger,
    keys,
    deliveryWorker,
    inference,
    responses,
    providerKeys,
    carrier,
    telemetry,
  }: ShutdownDeps,
  stopJobs: () => Promise<void>,
): Promise<void> {
  responses.abortAll();
  const drainTimer = setTimeout(inference.forceShutdown, USAGE_DRAIN_MS);
  await inference.whenIdle();
  await responses.whenIdle();
  clearTimeout(drainTimer);
  await Promise.all([stopJobs(), deliveryWorker.stop()]);
  await ledger.idle();
  await Promise.all([keys.flushLastUsed(), providerKeys.flushLastUsed(), telemetry?.shutdown()]);
  carrier.close();
}
