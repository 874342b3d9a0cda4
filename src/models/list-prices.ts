// Reads our table of list prices, `tables/list-prices.jsonl`, which `npm run prices` makes from several published lists.

import type { ModelKind } from "@postern/wires";
import { z } from "zod";
import { parseJson } from "../base/json.ts";
import { PricingEntry } from "./models-file.ts";
import { datedCard } from "./price-card.ts";
import type { DatedCard, Pricing } from "./price-card.ts";
import builtInText from "./tables/list-prices.jsonl" with { type: "text" };

/** A model as written in the table. */
export interface PriceRow {
  readonly provider: string;
  /** The provider's own name for the model. */
  readonly name: string;
  /** The second part of our model id, if it is not the name. */
  readonly slug?: string | undefined;
  /** Other names that the provider accepts at this price: snapshots, `-latest`. */
  readonly aliases?: readonly string[] | undefined;
  /** Other ways to write its name, which the provider may not accept. */
  readonly spellings?: readonly string[] | undefined;
  readonly title?: string | undefined;
  readonly kind?: "embedding" | undefined;
  readonly context?: number | undefined;
  /** False if it cannot be called: deprecated, for other endpoints, or with output that costs more than text. */
  readonly offered?: false | undefined;
  readonly pricing: readonly Pricing[];
  /** The lists that have this price. */
  readonly sources: readonly string[];
}

export interface PriceTable {
  /** The day on which the lists were compared. */
  readonly checked: string;
  /** The release of each list. */
  readonly sources: Readonly<Record<string, string>>;
  readonly models: readonly PriceRow[];
}

export interface ListedPrice {
  readonly provider: string;
  readonly slug: string;
  readonly name: string;
  readonly aliases: readonly string[];
  readonly spellings: readonly string[];
  readonly title: string;
  readonly kind: ModelKind;
  readonly contextLength: number | null;
  readonly offered: boolean;
  readonly prices: readonly DatedCard[];
  readonly source: string;
  readonly checked: string;
}

const Header = z.strictObject({
  checked: z.iso.date(),
  sources: z.record(z.string(), z.string()),
});
const Row = z.strictObject({
  provider: z.string().min(1),
  name: z.string().min(1),
  slug: z.string().min(1).optional(),
  aliases: z.array(z.string()).optional(),
  spellings: z.array(z.string()).optional(),
  title: z.string().optional(),
  kind: z.literal("embedding").optional(),
  context: z.int().positive().optional(),
  offered: z.literal(false).optional(),
  pricing: z.array(PricingEntry).min(1),
  sources: z.array(z.string()).min(1),
});

/** The table of this release. */
export const PRICE_TABLE = readTable(builtInText);

/** Parses and validates a price table. Throws with the line of the first error. */
export function parsePriceTable(text: string): PriceTable {
  const [header, ...rows] = text.trimEnd().split("\n");
  const parsed = (schema: z.ZodType, line: string, number: number): unknown => {
    const result = schema.safeParse(parseJson(line));
    if (result.success) return result.data;
    throw new Error(
      `Line ${number} of the price table is not valid: ${z.prettifyError(result.error)}`,
    );
  };
  parsed(Header, header ?? "", 1);
  for (const [index, row] of rows.entries()) parsed(Row, row, index + 2);
  return readTable(text);
}

/** The text of a table in JSON Lines: a header, then one model a line, so that a difference of two tables is readable. */
export function priceTableText({ models, ...header }: PriceTable): string {
  return [header, ...models].map((line) => `${JSON.stringify(line)}\n`).join("");
}

// Safe: the text was written by `priceTableText`, or validated by `parsePriceTable`, which a test applies to the built-in
// table. Validating 1,500 rows at each start would double its time.
function readTable(text: string): PriceTable {
  const [header, ...models] = JSON.parse(`[${text.trimEnd().replaceAll("\n", ",")}]`) as [
    Omit<PriceTable, "models">,
    ...PriceRow[],
  ];
  return { ...header, models };
}

/** Every published price that we can bill. */
export function publishedPrices(table: PriceTable): ListedPrice[] {
  return table.models.map((row) => ({
    provider: row.provider,
    slug: row.slug ?? row.name,
    name: row.name,
    aliases: row.aliases ?? [],
    spellings: row.spellings ?? [],
    title: row.title ?? row.name,
    kind: row.kind ?? "chat",
    contextLength: row.context ?? null,
    offered: row.offered ?? true,
    prices: row.pricing.map(datedCard),
    source: row.sources.map((name) => `${name} ${table.sources[name] ?? ""}`).join(", "),
    checked: table.checked,
  }));
}
