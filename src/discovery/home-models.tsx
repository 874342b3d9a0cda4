/** @jsxImportSource hono/jsx */
// The models on the home page: the newest models that can be called now, with their prices.

import type { Child } from "hono/jsx";
import { Table } from "../http/pages/components/table.tsx";
import type { Catalog } from "../models/catalog.ts";
import { type ModelRecordJson, toModelRecord } from "../models/model-record.ts";
import { PRICE_COLUMNS, pricePerMillion, tokensShort } from "./model-pages/model-list.ts";

export interface HomeModelDeps {
  readonly catalog: { current(): Catalog };
  readonly isAvailable: (providerId: string) => boolean;
  readonly providerName: (providerId: string) => string;
}

export interface HomeModel {
  readonly model: ModelRecordJson;
  readonly providerName: string;
}

const MODELS_MAX = 6;
const MODELS_PER_PROVIDER = 2;

/** Models that write text, newest first, from several providers. */
export function newestModels(
  { catalog, isAvailable, providerName }: HomeModelDeps,
  now: number,
): readonly HomeModel[] {
  const shown = new Map<string, number>();
  return catalog
    .current()
    .models.filter(({ provider }) => isAvailable(provider))
    .map((model) => toModelRecord(model, true, now))
    .filter(({ supported }) => supported.includes("tools"))
    .toSorted((one, other) => rankOf(other) - rankOf(one))
    .filter(({ owned_by: provider }) => {
      const count = (shown.get(provider) ?? 0) + 1;
      shown.set(provider, count);
      return count <= MODELS_PER_PROVIDER;
    })
    .slice(0, MODELS_MAX)
    .map((model) => ({ model, providerName: providerName(model.owned_by) }));
}

/** Simulated models come last. */
function rankOf({ created, simulated }: ModelRecordJson): number {
  return simulated === true ? -1 : created;
}

export function HomeModels({ models }: { readonly models: readonly HomeModel[] }): Child {
  if (models.length === 0) return null;
  return (
    <section aria-labelledby="models">
      <div class="card-head">
        <h2 id="models">Newest models</h2>
        <a href="/models">All models and prices</a>
      </div>
      <div class="card">
        <Table
          label="Prices of the newest models"
          columns={PRICE_COLUMNS}
          rows={models.map(({ model, providerName }) => [
            <a href={`/models/${model.id}`}>{model.name}</a>,
            providerName,
            tokensShort(model.context_length),
            pricePerMillion(model.pricing["prompt"]),
            pricePerMillion(model.pricing["input_cache_read"]),
            pricePerMillion(model.pricing["completion"]),
          ])}
        />
      </div>
      <p class="note">US dollars per million tokens.</p>
    </section>
  );
}
