// The state of each provider, for the providers page.

import type { Nano } from "../../base/money/money.ts";
import { DAY_MS } from "../../base/time.ts";
import type { Reader } from "../../store/db.ts";
import {
  type ProviderPerformance,
  readProviderPerformance,
  startOfLastDay,
  uptimeOf,
} from "../../usage/rollup/provider-hours.ts";
import { type OpenCircuit, readOpenCircuits } from "./open-circuits.ts";
import type { SystemState } from "./system-state.ts";

/** Figures of the last 24 hours. */
export type ModelHealth = ProviderPerformance;

export interface ProviderHealth extends Omit<ModelHealth, "model"> {
  readonly models: readonly ModelHealth[];
  readonly openCircuits: readonly OpenCircuit[];
  /** Since 00:00 UTC. */
  readonly costToday: Nano;
}

/** The providers with an account of the gateway or with calls, the busiest first. */
export async function readProviderHealth(
  reader: Reader,
  { callableModels }: Pick<SystemState, "callableModels">,
  now: number,
): Promise<readonly ProviderHealth[]> {
  const to = now + 1;
  const lastDay = await readProviderPerformance(reader, { from: startOfLastDay(now), to });
  const today = await readProviderPerformance(reader, { from: now - (now % DAY_MS), to });
  const circuits = await readOpenCircuits(reader, now);
  const names = new Set([
    ...callableModels().map(({ provider }) => provider),
    ...lastDay.map(({ provider }) => provider),
    ...circuits.map(({ provider }) => provider),
  ]);
  return [...names]
    .map((provider): ProviderHealth => {
      const ofProvider = <T extends { readonly provider: string }>(rows: readonly T[]) =>
        rows.filter((row) => row.provider === provider);
      const models = ofProvider(lastDay);
      return {
        provider,
        models,
        openCircuits: ofProvider(circuits),
        costToday: ofProvider(today).reduce((sum, { cost }) => sum + cost, 0n),
        calls: models.reduce((sum, { calls }) => sum + calls, 0),
        completed: models.reduce((sum, { completed }) => sum + completed, 0),
        failures: models.reduce((sum, { failures }) => sum + failures, 0),
        cost: models.reduce((sum, { cost }) => sum + cost, 0n),
        latency: sumHistograms(models.map(({ latency }) => latency)),
        firstToken: sumHistograms(models.map(({ firstToken }) => firstToken)),
      };
    })
    .sort((one, other) => other.calls - one.calls || (one.provider < other.provider ? -1 : 1));
}

/** Undefined without attempts. */
export function errorRateOf(
  figures: Pick<ModelHealth, "completed" | "failures">,
): number | undefined {
  const uptime = uptimeOf(figures);
  return uptime === undefined ? undefined : 1 - uptime;
}

function sumHistograms(histograms: readonly (readonly number[])[]): readonly number[] {
  const [first = [], ...others] = histograms;
  return first.map((count, bucket) =>
    others.reduce((sum, histogram) => sum + (histogram[bucket] ?? 0), count),
  );
}
