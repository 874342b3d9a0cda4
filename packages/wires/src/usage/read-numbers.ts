// Defensive readers for the usage numbers of providers: every value is validated, and none of them throws.

import { objectIn } from "../json-fields.ts";
import type { FeeMeter, TokenMeter, Usage } from "./usage-meters.ts";

const MAX_COUNT = 1_000_000_000;
const MAX_STATED_USD = 1_000_000;
const MAX_NAME_LENGTH = 256;
const USD_PER_TICK = 1e-10;

export type Path = readonly string[];

/** Collected while one usage object is read. */
export interface ReadNotes {
  /** A value was out of range and was replaced by the nearest valid one. */
  clamped: boolean;
}

export interface UsageFields {
  readonly tokens: Partial<Record<TokenMeter, number>>;
  readonly fees?: Partial<Record<FeeMeter, number>>;
  readonly model?: string | undefined;
  readonly serviceTier?: string | undefined;
  readonly speed?: string | undefined;
  readonly region?: string | undefined;
  readonly imageClass?: string | undefined;
  readonly additional?: readonly Usage[];
  readonly statedCostUsd?: number | undefined;
}

/** An own property: inherited names such as `constructor` are not data. */
export function ownMember(value: unknown, key: string): unknown {
  const object = objectIn(value);
  return object !== undefined && Object.hasOwn(object, key) ? object[key] : undefined;
}

export function valueAt(value: unknown, path: Path): unknown {
  let current: unknown = value;
  for (const key of path) current = ownMember(current, key);
  return current;
}

/** A count. Absent is zero; an invalid value is clamped to the nearest valid count, and noted. */
export function readCount(notes: ReadNotes, value: unknown): number {
  if (value === undefined || value === null) return 0;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT)
    return value;
  notes.clamped = true;
  if (typeof value !== "number" || !(value > 0)) return 0;
  return Math.min(Math.ceil(value), MAX_COUNT);
}

/** The first number found at one of the paths. */
export function firstNumber(value: unknown, paths: readonly Path[]): number | undefined {
  for (const path of paths) {
    const found = valueAt(value, path);
    if (typeof found === "number") return found;
  }
  return undefined;
}

/** Limits a part to its whole. */
export function clampToWhole(notes: ReadNotes, part: number, whole: number): number {
  if (part <= whole) return part;
  notes.clamped = true;
  return whole;
}

export function readName(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, MAX_NAME_LENGTH) : undefined;
}

// Names of the tier that costs the list price. "auto" is only valid in requests, so it names no tier.
const STANDARD_TIERS: ReadonlySet<string> = new Set(["default", "standard", "on_demand"]);

export function readTier(value: unknown): string | undefined {
  const tier = readName(value)?.toLowerCase();
  if (tier === undefined || tier === "auto") return undefined;
  return STANDARD_TIERS.has(tier) ? "standard" : tier;
}

/**
 * The cost that the provider reports: a number, an object with a total (Perplexity), or ticks (xAI). With a key of another
 * provider stored at OpenRouter, it is OpenRouter's fee alone, so the other provider's cost is added.
 */
export function readStatedCost(usage: unknown): number | undefined {
  const cost = ownMember(usage, "cost");
  const ticks = ownMember(usage, "cost_in_usd_ticks");
  const reported =
    typeof ticks === "number" ? ticks * USD_PER_TICK : (valueAt(cost, ["total_cost"]) ?? cost);
  const isOtherKey = ownMember(usage, "is_byok") === true;
  const upstream = isOtherKey ? valueAt(usage, ["cost_details", "upstream_inference_cost"]) : 0;
  if (typeof reported !== "number" || typeof upstream !== "number") return undefined;
  const stated = reported + upstream;
  if (!(stated >= 0) || stated > MAX_STATED_USD) return undefined;
  return stated;
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

/** Always includes `input` and `output`; other meters only if positive, other fields only if defined. */
export function buildUsage(fields: UsageFields, notes: ReadNotes): Usage {
  const { model, serviceTier, speed, region, imageClass, additional, statedCostUsd } = fields;
  const tokens: Partial<Record<TokenMeter, number>> = { input: 0, output: 0 };
  const fees: Partial<Record<FeeMeter, number>> = {};
  copyPositive(tokens, fields.tokens);
  if (fields.fees !== undefined) copyPositive(fees, fields.fees);
  const usage: Writable<Usage> = { tokens, fees };
  if (model !== undefined) usage.model = model;
  if (serviceTier !== undefined) usage.serviceTier = serviceTier;
  if (speed !== undefined) usage.speed = speed;
  if (region !== undefined) usage.region = region;
  if (imageClass !== undefined) usage.imageClass = imageClass;
  if (additional !== undefined && additional.length > 0) usage.additional = additional;
  if (statedCostUsd !== undefined) usage.statedCostUsd = statedCostUsd;
  if (notes.clamped) usage.isClamped = true;
  return usage;
}

function copyPositive<Meter extends string>(
  target: Partial<Record<Meter, number>>,
  counts: Partial<Record<Meter, number>>,
): void {
  for (const meter in counts) {
    const amount = counts[meter];
    if (amount !== undefined && amount > 0) target[meter] = amount;
  }
}
