// What the price lines of a record add up to: the list price of a call, which a call on a caller's own provider key costs there.

import { type Nano, nanoFromPico, type Pico } from "../base/money/money.ts";
import { pluralize } from "../base/text/format.ts";
import type { PricedLine } from "./usage.ts";

const PICO_DIGITS = 12;
/** Seconds of audio and pixels have fractions. They are charged up to a millionth. */
const COUNT_SCALE = 1_000_000;

export function listPriceOf(lines: readonly PricedLine[]): Nano {
  return nanoFromPico(picoOf(lines));
}

/** `count` × `usd` of all lines, rounded up once. */
export function picoOf(lines: readonly PricedLine[]): Pico {
  const scaled = lines.reduce(
    (sum, { count, usd }) => sum + BigInt(Math.ceil(count * COUNT_SCALE)) * picoFromUsd(usd),
    0n,
  );
  return (scaled + BigInt(COUNT_SCALE - 1)) / BigInt(COUNT_SCALE);
}

/** Prices in records have at most twelve decimals. */
function picoFromUsd(usd: string): Pico {
  const [units = "0", fraction = ""] = usd.split(".");
  return BigInt(units + fraction.padEnd(PICO_DIGITS, "0"));
}

/** What models without a price for tokens read, and what they make. */
const UNITS = {
  input: { audio_second: "second", character: "character", search_unit: "search unit" },
  output: { image_generation: "image", megapixel: "megapixel" },
} as const;

/** The units of a call, such as `2 images`; undefined if it has none. */
export function unitsOf(
  lines: readonly PricedLine[],
  side: keyof typeof UNITS,
): string | undefined {
  const nouns: Readonly<Record<string, string>> = UNITS[side];
  const units = lines.flatMap(({ meter, count }) => {
    const noun = Object.hasOwn(nouns, meter) ? nouns[meter] : undefined;
    return noun === undefined ? [] : [pluralize(count, noun)];
  });
  return units.length === 0 ? undefined : units.join(", ");
}
