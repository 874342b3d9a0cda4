// Compares two price tables, so that the effect of an update is visible before it is taken.

import type { PriceRow, PriceTable } from "./list-prices.ts";
import type { Pricing } from "./price-card.ts";

export interface PriceDifference {
  /** Our model id. */
  readonly id: string;
  readonly change: "added" | "removed" | "changed";
  /** The prices that differ: "input 2 → 3 (+50%)". */
  readonly details: readonly string[];
}

/** Models whose price is in only one of the tables, or differs. */
export function comparePrices(before: PriceTable, after: PriceTable): PriceDifference[] {
  const old = byId(before);
  const updated = byId(after);
  const differences: PriceDifference[] = [];
  for (const [id, row] of updated) {
    const previous = old.get(id);
    if (previous === undefined)
      differences.push({ id, change: "added", details: [currentText(row)] });
    else {
      const details = changedPrices(previous, row);
      if (details.length > 0) differences.push({ id, change: "changed", details });
    }
  }
  for (const [id, row] of old)
    if (!updated.has(id)) differences.push({ id, change: "removed", details: [currentText(row)] });
  return differences.toSorted((left, right) => (left.id < right.id ? -1 : 1));
}

/** One line per difference, changes first. */
export function differenceText(differences: readonly PriceDifference[]): string {
  if (differences.length === 0) return "No price differs.";
  const lines = (["changed", "added", "removed"] as const).flatMap((change) =>
    differences
      .filter((difference) => difference.change === change)
      .map(({ id, details }) => `${change.padEnd(8)} ${id}: ${details.join("; ")}`),
  );
  return lines.join("\n");
}

function byId({ models }: PriceTable): ReadonlyMap<string, PriceRow> {
  return new Map(models.map((row) => [`${row.provider}/${row.slug ?? row.name}`, row]));
}

function changedPrices(before: PriceRow, after: PriceRow): string[] {
  const old = flatten(before.pricing);
  const updated = flatten(after.pricing);
  const names = [...new Set([...old.keys(), ...updated.keys()])];
  return names.flatMap((name) => {
    const from = old.get(name);
    const to = updated.get(name);
    return from === to
      ? []
      : [`${name} ${from ?? "none"} → ${to ?? "none"}${percentText(from, to)}`];
  });
}

function percentText(from: string | undefined, to: string | undefined): string {
  if (from === undefined || to === undefined || Number(from) === 0) return "";
  const percent = Math.round((Number(to) / Number(from) - 1) * 100);
  return ` (${percent > 0 ? "+" : ""}${percent}%)`;
}

function currentText(row: PriceRow): string {
  const { input = "0", output = "0" } = row.pricing.at(-1)?.tokens ?? {};
  return `input ${input}, output ${output}`;
}

/** Every price by a readable name: "from 2026-12-01 output above 200000". */
function flatten(steps: readonly Pricing[]): ReadonlyMap<string, string> {
  const prices = new Map<string, string>();
  for (const step of steps) {
    const from = step.from === undefined ? "" : `from ${step.from} `;
    const hours = step.hours === undefined ? "" : `${step.hours.start}–${step.hours.end} `;
    const add = (table: Readonly<Record<string, unknown>> | undefined, suffix: string): void => {
      for (const [name, price] of Object.entries(table ?? {}))
        prices.set(`${from}${hours}${name}${suffix}`, String(price));
    };
    add(step.tokens, "");
    add(step.fees, "");
    add(step.service_tiers, " tier");
    add(step.speeds, " speed");
    add(step.regions, " region");
    add(step.request_fees, " request");
    for (const [size, fees] of Object.entries(step.image_fees?.usd ?? {})) add(fees, ` of ${size}`);
    for (const tier of step.tiers ?? []) add(tier.tokens, ` above ${tier.above_input_tokens}`);
  }
  return prices;
}
