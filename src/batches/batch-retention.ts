// How long batches and files are stored.

import { DAY_MS } from "../base/time.ts";

/** From the creation of a batch. */
export const RESULTS_RETENTION_MS = 30 * DAY_MS;
