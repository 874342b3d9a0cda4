// The measured figures of all models, read from the store at most once a minute.

import { MINUTE_MS } from "../base/time.ts";
import type { MeasuredFigures, MeasuredModels } from "../models/measured.ts";
import type { Reader } from "../store/db.ts";
import { percentileMs } from "../usage/rollup/latency-histogram.ts";
import {
  type ProviderPerformance,
  readProviderPerformance,
  startOfLastDay,
  uptimeOf,
} from "../usage/rollup/provider-hours.ts";

const REFRESH_MS = MINUTE_MS;
/** Fewer calls are not representative, and would reveal what single callers do. */
const CALLS_MIN = 5;

const NOTHING_MEASURED: MeasuredModels = () => undefined;

export function createMeasuredModels(reader: Reader): (now: number) => Promise<MeasuredModels> {
  let current: Promise<MeasuredModels> = Promise.resolve(NOTHING_MEASURED);
  let readAt: number | undefined;
  return (now) => {
    if (readAt !== undefined && now - readAt < REFRESH_MS && now >= readAt) return current;
    readAt = now;
    const previous = current;
    // The catalog is also shown while the store is unavailable.
    current = readMeasured(reader, now).catch(() => previous);
    return current;
  };
}

async function readMeasured(reader: Reader, now: number): Promise<MeasuredModels> {
  const rows = await readProviderPerformance(reader, { from: startOfLastDay(now), to: now + 1 });
  const figures = new Map(
    rows
      .filter(({ completed, failures }) => completed + failures >= CALLS_MIN)
      .map((row) => [`${row.provider} ${row.model}`, toFigures(row)]),
  );
  return ({ provider, id }) => figures.get(`${provider} ${id}`);
}

function toFigures(row: ProviderPerformance): MeasuredFigures {
  return {
    uptime: uptimeOf(row),
    latencyMs: percentileMs(row.latency, 0.5),
    firstTokenMs: percentileMs(row.firstToken, 0.5),
  };
}
