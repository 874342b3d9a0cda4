// The list price of a call, from the price lines of its record: what a call on a caller's own provider key costs there.

import { type Nano, nanoFromPico } from "../base/money/money.ts";
import type { PricedLine } from "./usage.ts";

const PICO_DIGITS = 12;

export function listPriceOf(lines: readonly PricedLine[]): Nano {
  return nanoFromPico(
    lines.reduce((sum, { count, usd }) => sum + BigInt(Math.ceil(count)) * picoFromUsd(usd), 0n),
  );
}

/** Prices in records have at most twelve decimals. */
function picoFromUsd(usd: string): bigint {
  const [units = "0", fraction = ""] = usd.split(".");
  return BigInt(units + fraction.padEnd(PICO_DIGITS, "0"));
}
