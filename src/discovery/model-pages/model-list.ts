// The models on the public pages: their API records, filtered and sorted.

import { formatPercentile } from "../../base/text/format.ts";
import type { Column } from "../../http/pages/components/table.tsx";
import type { ModelRecordJson } from "../../models/model-record.ts";

export const SORT_ORDERS = ["name", "input", "output", "context", "latency", "uptime"] as const;
type SortOrder = (typeof SORT_ORDERS)[number];

export interface ModelListQuery {
  readonly q?: string | undefined;
  readonly provider?: string | undefined;
  readonly ability?: string | undefined;
  readonly sort?: SortOrder | undefined;
  readonly all?: "true" | undefined;
  readonly page?: number | undefined;
}

export const MODELS_PER_PAGE = 100;
const TOKENS_PER_PRICE = 1_000_000;

export function selectModels(
  models: readonly ModelRecordJson[],
  { q = "", provider, ability, sort = "name", all }: ModelListQuery,
): readonly ModelRecordJson[] {
  const text = q.trim().toLowerCase();
  return models
    .filter(
      (model) =>
        (all === "true" || model.available) &&
        (provider === undefined || model.owned_by === provider) &&
        (ability === undefined || abilitiesOf(model).includes(ability)) &&
        `${model.id} ${model.name}`.toLowerCase().includes(text),
    )
    .toSorted((a, b) => compareModels(a, b, sort));
}

function compareModels(a: ModelRecordJson, b: ModelRecordJson, sort: SortOrder): number {
  if (sort === "context") return (b.context_length ?? 0) - (a.context_length ?? 0);
  if (sort === "name") return a.id < b.id ? -1 : 1;
  // Models without figures come last.
  if (sort === "latency") return waitOf(a) - waitOf(b);
  if (sort === "uptime") return (b.measured_24h?.uptime ?? -1) - (a.measured_24h?.uptime ?? -1);
  const meter = sort === "input" ? "prompt" : "completion";
  return Number(a.pricing[meter] ?? 0) - Number(b.pricing[meter] ?? 0);
}

/** Milliseconds to the first token, or to the complete reply for models without streamed calls. */
function waitOf({ measured_24h: measured }: ModelRecordJson): number {
  return measured?.first_token_ms ?? measured?.latency_ms ?? Number.MAX_SAFE_INTEGER;
}

/** `supported` names images as `vision`. */
const VISION_OR_TEXT: ReadonlySet<string> = new Set(["text", "image"]);

export function abilitiesOf(model: ModelRecordJson): readonly string[] {
  const modalities = model.input_modalities.filter((modality) => !VISION_OR_TEXT.has(modality));
  return [...model.supported, ...modalities];
}

/** The first columns of every table of models. */
export const PRICE_COLUMNS: readonly Column[] = [
  { name: "Model" },
  { name: "Provider", isExtra: true },
  { name: "Context", isNumber: true, isExtra: true },
  { name: "Input", isNumber: true },
  { name: "Cached", isNumber: true, isExtra: true },
  { name: "Output", isNumber: true },
];

/** `$2.50` for a price of 0.0000025 per token: the price of a million. */
export function pricePerMillion(price: unknown): string {
  if (typeof price !== "string") return "–";
  const amount = Number((Number(price) * TOKENS_PER_PRICE).toFixed(6));
  const [whole = "0", decimals = ""] = String(amount).split(".");
  return amount === 0 ? "free" : `$${whole}.${decimals.padEnd(2, "0")}`;
}

/** `1M`, `128K`. */
export function tokensShort(tokens: number | null): string {
  return tokens === null
    ? "–"
    : tokens.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 });
}

export function tokensText(tokens: number | null): string {
  return tokens === null ? "–" : tokens.toLocaleString("en-US");
}

export function durationText(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? "–" : formatPercentile(ms);
}

export function uptimeText(share: number | null | undefined): string {
  if (share === null || share === undefined) return "–";
  // Rounded down, so that 100% means no failure.
  return share === 1 ? "100%" : `${(Math.floor(share * 10_000) / 100).toFixed(2)}%`;
}
