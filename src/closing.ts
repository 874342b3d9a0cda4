// The end of a house, in order: what runs is brought to an end that can be charged, what is still in memory is written, and
// the store is closed.

import type { Keys } from "./keys/keys.ts";
import type { Ledger } from "./ledger/ledger.ts";
import type { Inference } from "./inference/inference.ts";
import type { Postman } from "./events/postman.ts";
import type { Carrier } from "./outbound/carrier.ts";
import type { ProviderKeys } from "./provider-keys/provider-keys.ts";
import type { Responses } from "./responses/responses.ts";
import type { Db } from "./store/db.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";

/** How long a provider's count is waited for whose reader is gone, where leaving would not end the bill. */
const LAST_COUNTS_MS = 5_000;

export interface Closing {
  readonly db: Db;
  readonly ledger: Pick<Ledger<never>, "idle">;
  readonly keys: Keys;
  readonly postman: Postman;
  readonly inference: Inference;
  readonly responses: Responses;
  readonly providerKeys: ProviderKeys;
  readonly carrier: Carrier;
  readonly telemetry: Telemetry | undefined;
}

/** Whatever goes wrong before, the store is closed: its folder must not stay locked. */
export async function closeHouse(closing: Closing, stopClocks: () => Promise<void>): Promise<void> {
  try {
    await lastWork(closing, stopClocks);
  } finally {
    await closing.db.close();
  }
}

async function lastWork(
  { ledger, keys, postman, inference, responses, providerKeys, carrier, telemetry }: Closing,
  stopClocks: () => Promise<void>,
): Promise<void> {
  responses.stopAll();
  const late = setTimeout(inference.hurry, LAST_COUNTS_MS);
  await inference.idle();
  await responses.idle();
  clearTimeout(late);
  await Promise.all([stopClocks(), postman.stop()]);
  await ledger.idle();
  await Promise.all([keys.flushLastUsed(), providerKeys.flushLastUsed(), telemetry?.stop()]);
  carrier.close();
}
