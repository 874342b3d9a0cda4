// How long batches and files are stored, and which keys list them.

import { DAY_MS } from "../base/time.ts";
import type { AuthenticatedKey } from "../http/route.ts";

/** From the creation of a batch. */
export const RESULTS_RETENTION_MS = 30 * DAY_MS;

/** Lists have the ids of what other keys made, so only a key that manages keys sees all of it. */
export function ownKeyOnly({ keyId, granted }: AuthenticatedKey): string | undefined {
  return granted.has("keys:manage") ? undefined : keyId;
}
