// What the status page shows: availability and latency of the last 90 days by provider and model, from the gateway's own
// measurements, and the incidents of that time. Read at most once a minute; days that are over are read once.

import { DAY_MS, HOUR_MS, MINUTE_MS, utcDay } from "../base/time.ts";
import type { Reader } from "../store/db.ts";
import { percentileMs, sumHistograms } from "../usage/rollup/latency-histogram.ts";
import {
  type ProviderPerformance,
  readProviderPerformance,
  uptimeOf,
} from "../usage/rollup/provider-hours.ts";
import { type Incident, listIncidents } from "./incidents.ts";

export const STATUS_DAYS = 90;
const REFRESH_MS = MINUTE_MS;
/** Roll-ups lag, so a day is complete some time after its end. */
const COMPLETE_AFTER_MS = HOUR_MS;
/** Fewer calls are not representative, and would reveal what single callers do. */
const CALLS_MIN = 5;
const DEGRADED_BELOW = 0.95;
const DOWN_BELOW = 0.5;

export interface Figures {
  /** The share of attempts that the provider completed; undefined with too few. */
  readonly uptime: number | undefined;
  readonly latencyMs: number | undefined;
  readonly firstTokenMs: number | undefined;
}

export interface DayFigures extends Figures {
  /** Such as `2026-11-28`, in UTC. */
  readonly day: string;
}

export interface ModelStatus extends Figures {
  readonly id: string;
  /** Oldest first. */
  readonly days: readonly DayFigures[];
}

export interface ProviderStatus extends ModelStatus {
  readonly name: string;
  /** The state of the last two days; undefined with too few calls. */
  readonly state: "operational" | "degraded" | "down" | undefined;
  readonly models: readonly ModelStatus[];
}

/** A model over all its providers. */
export interface ModelFigures {
  readonly id: string;
  readonly uptime: number | undefined;
  readonly firstTokenP95Ms: number | undefined;
  readonly firstTokenP99Ms: number | undefined;
}

export interface StatusSnapshot {
  readonly at: number;
  /** The models with enough calls. */
  readonly models: readonly ModelFigures[];
  readonly providers: readonly ProviderStatus[];
  readonly incidents: readonly Incident[];
}

export interface StatusOptions {
  readonly db: Reader;
  readonly providerName: (id: string) => string;
}

interface Day {
  readonly start: number;
  readonly rows: readonly ProviderPerformance[];
}

export function createStatus({
  db,
  providerName,
}: StatusOptions): (now: number) => Promise<StatusSnapshot> {
  const past = new Map<number, readonly ProviderPerformance[]>();
  let current: { readonly at: number; readonly snapshot: Promise<StatusSnapshot> } | undefined;
  const read = async (now: number): Promise<StatusSnapshot> => {
    const today = now - (now % DAY_MS);
    const first = today - (STATUS_DAYS - 1) * DAY_MS;
    const isOver = (start: number): boolean => start + DAY_MS + COMPLETE_AFTER_MS <= now;
    const days: Day[] = [];
    for (let start = first; start <= today; start += DAY_MS) {
      // A clock that was ahead may have kept a day that is not over.
      if (!isOver(start)) past.delete(start);
      const rows =
        past.get(start) ?? (await readProviderPerformance(db, { from: start, to: start + DAY_MS }));
      if (isOver(start)) past.set(start, rows);
      days.push({ start, rows });
    }
    for (const start of past.keys()) if (start < first) past.delete(start);
    const incidents = await listIncidents(db, first);
    const models = modelFigures(days.flatMap(({ rows }) => rows));
    return { at: now, models, providers: providersOf(days, providerName), incidents };
  };
  return (now) => {
    if (current === undefined || now < current.at || now - current.at >= REFRESH_MS) {
      const snapshot = read(now);
      current = { at: now, snapshot };
      // A failed read is not kept.
      snapshot.catch(() => (current = undefined));
    }
    return current.snapshot;
  };
}

function providersOf(
  days: readonly Day[],
  providerName: StatusOptions["providerName"],
): readonly ProviderStatus[] {
  const ids = new Set(days.flatMap(({ rows }) => rows.map(({ provider }) => provider)));
  return [...ids]
    .map((id) => providerStatus(id, providerName(id), daysOf(days, "provider", id)))
    .filter(({ uptime }) => uptime !== undefined)
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

function daysOf(days: readonly Day[], field: "provider" | "model", id: string): readonly Day[] {
  return days.map(({ start, rows }) => ({ start, rows: rows.filter((row) => row[field] === id) }));
}

function providerStatus(id: string, name: string, days: readonly Day[]): ProviderStatus {
  const models = new Set(days.flatMap(({ rows }) => rows.map(({ model }) => model)));
  const { uptime } = figuresOf(days.slice(-2).flatMap(({ rows }) => rows));
  return {
    ...statusOf(id, days),
    name,
    state: stateOf(uptime),
    models: [...models]
      .sort()
      .map((model) => statusOf(model, daysOf(days, "model", model)))
      .filter((status) => status.uptime !== undefined),
  };
}

function statusOf(id: string, days: readonly Day[]): ModelStatus {
  return {
    id,
    ...figuresOf(days.flatMap(({ rows }) => rows)),
    days: days.map(dayFigures),
  };
}

function dayFigures({ start, rows }: Day): DayFigures {
  return { day: utcDay(start), ...figuresOf(rows) };
}

function modelFigures(rows: readonly ProviderPerformance[]): readonly ModelFigures[] {
  const byModel = [...Map.groupBy(rows, ({ model }) => model)];
  return byModel
    .map(([id, ofModel]) => {
      const firstToken = sumHistograms(ofModel.map((row) => row.firstToken));
      return {
        id,
        uptime: figuresOf(ofModel).uptime,
        firstTokenP95Ms: percentileMs(firstToken, 0.95),
        firstTokenP99Ms: percentileMs(firstToken, 0.99),
      };
    })
    .filter(({ uptime }) => uptime !== undefined)
    .sort((one, other) => (one.id < other.id ? -1 : 1));
}

function figuresOf(rows: readonly ProviderPerformance[]): Figures {
  const sum = (of: (row: ProviderPerformance) => number): number =>
    rows.reduce((total, row) => total + of(row), 0);
  const completed = sum((row) => row.completed);
  const failures = sum((row) => row.failures);
  if (completed + failures < CALLS_MIN)
    return { uptime: undefined, latencyMs: undefined, firstTokenMs: undefined };
  return {
    uptime: uptimeOf({ completed, failures }),
    latencyMs: percentileMs(sumHistograms(rows.map(({ latency }) => latency)), 0.5),
    firstTokenMs: percentileMs(sumHistograms(rows.map(({ firstToken }) => firstToken)), 0.5),
  };
}

function stateOf(uptime: number | undefined): ProviderStatus["state"] {
  if (uptime === undefined) return undefined;
  if (uptime < DOWN_BELOW) return "down";
  return uptime < DEGRADED_BELOW ? "degraded" : "operational";
}

/** The incidents that are not resolved. */
export function openIncidents({ incidents }: StatusSnapshot): readonly Incident[] {
  return incidents.filter(({ state }) => state !== "resolved");
}
