// The tables of settings, and schemas of their values: each parses the text of an environment variable.

import { isIP } from "node:net";
import { z } from "zod";
import { type Nano, nanoFromUsd } from "../base/money/money.ts";

/** A setting without a description is not documented. */
type Settings = Readonly<
  Record<string, readonly [schema: z.ZodType, defaultValue?: string, description?: string]>
>;
type Schemas<T extends Settings> = { readonly [K in keyof T]: T[K][0] };
export type SettingValues<T extends Settings> = z.infer<z.ZodObject<Schemas<T>>>;

export function settings<const T extends Settings>(table: T): T {
  return table;
}

export function schemasOf<T extends Settings>(table: T): Schemas<T> {
  // Safe because each entry has the name and the schema of its setting.
  return Object.fromEntries(
    Object.entries(table).map(([name, [schema]]) => [name, schema]),
  ) as unknown as Schemas<T>;
}

export function docsOf(
  table: Settings,
): Readonly<Record<string, { readonly defaultValue: string; readonly description: string }>> {
  return Object.fromEntries(
    Object.entries(table).flatMap(([name, [, defaultValue, description]]) =>
      defaultValue === undefined || description === undefined
        ? []
        : [[name, { defaultValue, description }]],
    ),
  );
}

export const httpUrl = z
  .url({ protocol: /^https?$/, error: "must be an http:// or https:// address" })
  .transform((url) => url.replace(/\/+$/, ""));

// Stricter than Number(): a blank, `0x10` or `1e3` is probably a mistake.
export const integer = (min: number, max: number) => {
  const error = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .trim()
    .regex(/^\d{1,9}$/, { error, abort: true })
    .transform(Number)
    .refine((number) => number >= min && number <= max, error);
};

export const usdAmount = z.string().optional().transform(parseUsd);

export function commaSeparated(list: string): readonly string[] {
  return list
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

/** `10.0.0.1` or `10.0.0.0/8`. */
export function isIpOrCidr(entry: string): boolean {
  const [address = "", bits, rest] = entry.split("/");
  const family = isIP(address);
  if (family === 0 || rest !== undefined) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
  );
}

function parseUsd(usd: string | undefined, context: z.core.$RefinementCtx): Nano | undefined {
  if (usd === undefined) return undefined;
  const amount = nanoFromUsd(usd);
  if (amount === undefined || amount < 0n)
    context.addIssue({
      code: "custom",
      message: "must be an amount of US dollars such as 5 or 2.50",
    });
  return amount;
}
