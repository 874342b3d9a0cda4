// `npm run prices`: makes our price table from the newest published lists, and prints what changes. `npm run prices -- --check`
// only prints. Also lists where LiteLLM, models.dev
// or pi-ai say otherwise of a model's abilities. Fails if a provider sells a model of its own that is neither in our tables nor left out for a reason.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { utcDay } from "../../../src/base/time.ts";
import { builtInModels, catalogOf } from "../../../src/models/catalog.ts";
import {
  parsePriceTable,
  priceTableText,
  type PriceTable,
} from "../../../src/models/list-prices.ts";
import { comparePrices, differenceText } from "../../../src/models/price-differences.ts";
import { ROOT } from "../source/source-files.ts";
import { abilityDifferences } from "./ability-differences.ts";
import { mergePrices, type Disagreement } from "./merge.ts";
import { missingModels } from "./missing-models.ts";
import { REVIEWED, REVIEWED_ON } from "./reviewed.ts";
import { downloadSources } from "./sources.ts";

const TABLE_FILE = path.join(ROOT, "src/models/tables/list-prices.jsonl");
const DISAGREEMENTS_FILE = path.join(ROOT, "docs/price-disagreements.md");

/** The reviewed prices with the lists that have them. */
function reviewedRows({ models }: PriceTable): readonly string[] {
  return REVIEWED.map(({ id, input, cacheRead, output, page }) => {
    const slash = id.indexOf("/");
    const name = id.slice(slash + 1);
    const found = models.find(
      (row) =>
        row.provider === id.slice(0, slash) &&
        [row.name, row.slug, ...(row.aliases ?? []), ...(row.spellings ?? [])].includes(name),
    );
    const lists = found?.sources.join(", ") ?? "";
    return `| \`${id}\` | ${input} | ${cacheRead} | ${output} | ${lists} | ${page ?? ""} |`;
  });
}

function disagreementsText(found: readonly Disagreement[], table: PriceTable): string {
  const { checked, sources } = table;
  const lists = Object.entries(sources).map(([name, version]) => `${name} ${version}`);
  const rows = found.map(({ id, meter, prices, price, reason }) => {
    const stated = Object.entries(prices).map(([source, amount]) => `${source} ${amount}`);
    return `| \`${id}\` | ${meter.replace(">", " above ")} | ${stated.join(", ")} | ${price} | ${reason} |`;
  });
  return `# Where price lists disagree

Written by \`npm run prices\` on ${checked} from ${lists.join(", ")}. Prices are US dollars per million tokens. The decisions are in
\`test/support/prices/decisions.ts\`; how prices are chosen is in [models and prices](site/models.md#where-models-come-from).

| Model | Meter | Lists | Price used | Reason |
| --- | --- | --- | --- | --- |
${rows.join("\n")}

## Reviewed prices

Prices that were once wrong or missing. A test compares them with the table. The pages of providers were read on ${REVIEWED_ON}.

| Model | Input | Cache read | Output | Lists with this price | Page of the provider |
| --- | --- | --- | --- | --- | --- |
${reviewedRows(table).join("\n")}
`;
}

const sources = await downloadSources();
const today = utcDay(Date.now());
const { table, disagreements } = mergePrices(sources, today);
const before = readFileSync(TABLE_FILE, "utf8");
const text = priceTableText(table);
console.log(differenceText(comparePrices(parsePriceTable(before), parsePriceTable(text))));
console.log(`${table.models.length} prices, ${disagreements.length} disagreements`);
const missing = missingModels(sources, table, today);
for (const { id, rates, lists } of missing) console.log(`missing  ${id}: ${rates} (${lists})`);
for (const { id, ability, ours, list } of abilityDifferences(
  sources,
  catalogOf(builtInModels(table)),
))
  console.log(
    `ability  ${id}: ${ability} is ${ours ? "" : "not "}supported here, not so in ${list}`,
  );
if (missing.length > 0) process.exitCode = 1;
if (!process.argv.includes("--check")) {
  writeFileSync(TABLE_FILE, text);
  writeFileSync(DISAGREEMENTS_FILE, disagreementsText(disagreements, table));
}
