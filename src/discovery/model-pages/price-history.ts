// The price history of a model: the prices that the price lists date.

import type { TokenMeter } from "@postern/wires";
import { usdTextOfPico } from "../../base/money/money.ts";
import { SECOND_MS, utcDay } from "../../base/time.ts";
import type { Model } from "../../models/catalog.ts";
import type { DatedCard } from "../../models/price-card.ts";
import { joinParagraphs, markdownTable } from "../doc-context.ts";
import { pricePerMillion } from "./model-list.ts";

const METERS: readonly TokenMeter[] = ["input", "cache_read", "output"];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/** Of `2026-11-21T13:45:00.000Z`. */
const TIME_OF_DAY = [11, 16] as const;

/** Markdown: a table of the dated prices, newest first, or a sentence if no change is known. */
export function priceHistory(
  { prices, checked }: Pick<Model, "prices" | "checked">,
  now: number,
): string {
  const isDated = prices.some(({ fromMs }) => fromMs > 0);
  const summary = isDated
    ? "US dollars per million tokens, as the price lists date them."
    : "No change of this price is known.";
  // Stable, so that the hours of a price stay below it.
  const sorted = prices.toSorted((one, other) => other.fromMs - one.fromMs);
  return joinParagraphs([
    `${summary} Last checked on ${checked}.`,
    prices.length <= 1
      ? ""
      : markdownTable(
          [isDated ? "From" : "Hours", "Input", "Cached input", "Output"],
          sorted.map((price) => priceRow(price, isDated, now)),
        ),
  ]);
}

function priceRow(price: DatedCard, isDated: boolean, now: number): readonly string[] {
  const isOtherHours = !isDated && price.hours === undefined;
  const rates = METERS.map((meter) => {
    const rate = price.card.base[meter];
    return pricePerMillion(rate === undefined ? undefined : usdTextOfPico(rate));
  });
  return [isOtherHours ? "Other hours" : startText(price, now), ...rates];
}

function startText({ fromMs, hours }: DatedCard, now: number): string {
  const start = fromMs === 0 ? "Earliest known" : utcDay(fromMs);
  const planned = fromMs > now ? " (planned)" : "";
  if (hours === undefined) return start + planned;
  const days = hours.weekdays?.map((day) => WEEKDAYS[day] ?? "").join(", ");
  const time = `${timeText(hours.startSeconds)}–${timeText(hours.endSeconds)} UTC`;
  const when = days === undefined ? time : `${days}, ${time}`;
  return fromMs === 0 ? when : `${start}${planned}, ${when}`;
}

function timeText(seconds: number): string {
  return new Date(seconds * SECOND_MS).toISOString().slice(...TIME_OF_DAY);
}
