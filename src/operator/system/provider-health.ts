// The state of each provider, for the providers page.

import type { Nano } from "../../base/money/money.ts";
import { DAY_MS } from "../../base/time.ts";
import type { Reader } from "../../store/db.ts";
import {
  type CredentialFigures,
  readCredentialFigures,
} from "../../usage/rollup/credential-hours.ts";
import { sumHistograms } from "../../usage/rollup/latency-histogram.ts";
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

/** One of several keys of the gateway at a provider; figures of the last 24 hours. */
export interface KeyHealth {
  readonly provider: string;
  readonly name: string;
  readonly weight: number;
  readonly calls: number;
  readonly failures: number;
  readonly cost: Nano;
  readonly openCircuits: number;
}

export interface ProviderHealth extends Omit<ModelHealth, "model"> {
  readonly models: readonly ModelHealth[];
  readonly openCircuits: readonly OpenCircuit[];
  /** Empty if there is only one. */
  readonly keys: readonly KeyHealth[];
  /** Since 00:00 UTC. */
  readonly costToday: Nano;
}

/** The providers with an account of the gateway or with calls, the busiest first. */
export async function readProviderHealth(
  reader: Reader,
  { callableModels, keysAt }: Pick<SystemState, "callableModels" | "keysAt">,
  now: number,
): Promise<readonly ProviderHealth[]> {
  const to = now + 1;
  const dayBefore = { from: startOfLastDay(now), to };
  const lastDay = await readProviderPerformance(reader, dayBefore);
  const addedKeys = await readCredentialFigures(reader, dayBefore);
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
      const totals = sumFigures(models);
      const openCircuits = ofProvider(circuits);
      const { calls, failures, cost } = totals;
      return {
        provider,
        calls,
        failures,
        cost,
        models,
        openCircuits,
        keys: keyHealth(keysAt(provider), {
          provider,
          totals,
          openCircuits,
          added: ofProvider(addedKeys),
        }),
        costToday: ofProvider(today).reduce((sum, { cost }) => sum + cost, 0n),
        completed: models.reduce((sum, { completed }) => sum + completed, 0),
        latency: sumHistograms(models.map(({ latency }) => latency)),
        firstToken: sumHistograms(models.map(({ firstToken }) => firstToken)),
      };
    })
    .sort((one, other) => other.calls - one.calls || (one.provider < other.provider ? -1 : 1));
}

type Figures = Pick<ModelHealth, "calls" | "failures" | "cost">;

function sumFigures(rows: readonly Figures[]): Figures {
  return {
    calls: rows.reduce((sum, { calls }) => sum + calls, 0),
    failures: rows.reduce((sum, { failures }) => sum + failures, 0),
    cost: rows.reduce((sum, { cost }) => sum + cost, 0n),
  };
}

interface KeyFigures {
  readonly provider: string;
  readonly totals: Figures;
  readonly added: readonly CredentialFigures[];
  readonly openCircuits: readonly OpenCircuit[];
}

/** What no key of the models file did was done with the key in the settings. */
function keyHealth(
  keys: ReturnType<SystemState["keysAt"]>,
  { provider, totals, added, openCircuits }: KeyFigures,
): readonly KeyHealth[] {
  if (keys.length < 2) return [];
  const named = sumFigures(added);
  const rest = {
    calls: totals.calls - named.calls,
    failures: totals.failures - named.failures,
    cost: totals.cost - named.cost,
  };
  return keys.map(({ name, weight, isFromSettings }): KeyHealth => {
    const own = added.filter(({ credential }) => credential === name);
    return {
      provider,
      name,
      weight,
      ...(isFromSettings ? rest : sumFigures(own)),
      openCircuits: openCircuits.filter(({ account }) => account === name).length,
    };
  });
}

/** Undefined without attempts. */
export function errorRateOf(
  figures: Pick<ModelHealth, "completed" | "failures">,
): number | undefined {
  const uptime = uptimeOf(figures);
  return uptime === undefined ? undefined : 1 - uptime;
}
