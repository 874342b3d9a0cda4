/** @jsxImportSource hono/jsx */
// /models: the models that can be called now, with prices, as a table to search, filter and sort.

import type { Child } from "hono/jsx";
import { type Column, Table } from "../../http/pages/components/table.tsx";
import type { ModelRecordJson } from "../../models/model-record.ts";
import { renderSite } from "../site/site-frame.tsx";
import {
  abilitiesOf,
  durationText,
  type ModelListQuery,
  MODELS_PER_PAGE,
  PRICE_COLUMNS,
  pricePerMillion,
  selectModels,
  SORT_ORDERS,
  tokensShort,
  tokensText,
  uptimeText,
} from "./model-list.ts";

const ABILITIES = [
  "tools",
  "reasoning",
  "vision",
  "structured_output",
  "web_search",
  "audio",
] as const;
/** Abilities in which models differ. The page of a model lists all of its abilities. */
const LISTED_ABILITIES: ReadonlySet<string> = new Set([
  "tools",
  "reasoning",
  "vision",
  "web_search",
  "audio",
  "video",
]);
const SORT_LABELS = {
  name: "Name",
  input: "Input price",
  output: "Output price",
  context: "Context",
  latency: "Latency",
  uptime: "Uptime",
} as const;

type ProviderName = (id: string) => string;

export function modelsPage(
  models: readonly ModelRecordJson[],
  query: ModelListQuery,
  providerName: ProviderName,
): string {
  const selected = selectModels(models, query);
  const page = query.page ?? 1;
  const shown = selected.slice((page - 1) * MODELS_PER_PAGE, page * MODELS_PER_PAGE);
  return renderSite({
    title: "Models",
    description: "The models that this gateway can call, with their prices.",
    path: "/models",
    canonicalUrl: "/models",
    content: (
      <main id="main" tabindex={-1} class="models">
        <h1>Models</h1>
        <p>
          {query.all === "true" ? "All models of the catalog" : "The models that you can call now"}.
          Prices are the providers' list prices in US dollars per million tokens. Latency and uptime
          are measured by this gateway over the last 24 hours.{" "}
          {query.all === "true" ? (
            <a href="/models">Show callable models only</a>
          ) : (
            <a href="/models?all=true">Show all models</a>
          )}
        </p>
        <Filters models={models} query={query} providerName={providerName} />
        <p role="status">{selected.length === 1 ? "1 model" : `${selected.length} models`}</p>
        {shown.length === 0 ? (
          <p>
            No model matches. <a href="/models?all=true">Show all models</a>, including those that
            need <a href="/docs/byok">your own provider key</a>.
          </p>
        ) : (
          <ModelTable models={shown} showsAll={query.all === "true"} providerName={providerName} />
        )}
        <Pages query={query} page={page} count={Math.ceil(selected.length / MODELS_PER_PAGE)} />
      </main>
    ),
  });
}

interface FiltersProps {
  readonly models: readonly ModelRecordJson[];
  readonly query: ModelListQuery;
  readonly providerName: ProviderName;
}

function Filters({ models, query, providerName }: FiltersProps): Child {
  const providers = [
    ...new Set(
      models
        .filter((model) => query.all === "true" || model.available)
        .map((model) => model.owned_by),
    ),
  ].toSorted();
  return (
    <form class="model-filters" action="/models" method="get">
      <label>
        Search
        <input type="search" name="q" value={query.q ?? ""} autocomplete="off" />
      </label>
      <Choice
        name="provider"
        label="Provider"
        value={query.provider}
        options={providers}
        nameOf={providerName}
      />
      <Choice name="ability" label="Ability" value={query.ability} options={ABILITIES} />
      <label>
        Sort by
        <select name="sort">
          {SORT_ORDERS.map((order) => (
            <option value={order} selected={order === (query.sort ?? "name")}>
              {SORT_LABELS[order]}
            </option>
          ))}
        </select>
      </label>
      {query.all === "true" ? <input type="hidden" name="all" value="true" /> : null}
      <button type="submit">Apply</button>
    </form>
  );
}

interface ChoiceProps {
  readonly name: string;
  readonly label: string;
  readonly value: string | undefined;
  readonly options: readonly string[];
  readonly nameOf?: (option: string) => string;
}

function Choice({ name, label, value, options, nameOf }: ChoiceProps): Child {
  return (
    <label>
      {label}
      <select name={name}>
        <option value="">Any</option>
        {options.map((option) => (
          <option value={option} selected={option === value}>
            {nameOf?.(option) ?? option}
          </option>
        ))}
      </select>
    </label>
  );
}

interface ModelTableProps {
  readonly models: readonly ModelRecordJson[];
  readonly showsAll: boolean;
  readonly providerName: ProviderName;
}

const COLUMNS: readonly Column[] = [
  ...PRICE_COLUMNS,
  {
    name: "First token",
    title: "Median time to the first token, last 24 hours",
    isNumber: true,
    isExtra: true,
  },
  {
    name: "Latency",
    title: "Median time of the whole reply, last 24 hours",
    isNumber: true,
    isExtra: true,
  },
  { name: "Uptime", title: "Calls that succeeded, last 24 hours", isNumber: true, isExtra: true },
  { name: "Abilities", isExtra: true },
];

function ModelTable({ models, showsAll, providerName }: ModelTableProps): Child {
  return (
    <Table
      label="Models"
      columns={[...COLUMNS, ...(showsAll ? [{ name: "Callable" }] : [])]}
      rows={models.map((model) => [
        ...modelCells(model, providerName),
        ...(showsAll ? [model.available ? "yes" : "with your key"] : []),
      ])}
    />
  );
}

function modelCells(model: ModelRecordJson, providerName: ProviderName): readonly Child[] {
  const { pricing, measured_24h: measured } = model;
  return [
    <>
      <a href={`/models/${model.id}`}>{model.name}</a>
      <code>{model.id}</code>
    </>,
    providerName(model.owned_by),
    <span title={`${tokensText(model.context_length)} tokens`}>
      {tokensShort(model.context_length)}
    </span>,
    pricePerMillion(pricing["prompt"]),
    pricePerMillion(pricing["input_cache_read"]),
    pricePerMillion(pricing["completion"]),
    durationText(measured?.first_token_ms),
    durationText(measured?.latency_ms),
    uptimeText(measured?.uptime),
    <div class="abilities">
      {abilitiesOf(model)
        .filter((ability) => LISTED_ABILITIES.has(ability))
        .map((ability) => (
          <span class="tag">{ability.replaceAll("_", " ")}</span>
        ))}
    </div>,
  ];
}

interface PagesProps {
  readonly query: ModelListQuery;
  readonly page: number;
  readonly count: number;
}

function Pages({ query, page, count }: PagesProps): Child {
  if (count <= 1) return null;
  const link = (number: number): string => {
    const fields = Object.entries({ ...query, page: number }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    );
    return `/models?${new URLSearchParams(fields).toString()}`;
  };
  return (
    <nav class="model-pages" aria-label="Pages">
      {page > 1 ? <a href={link(page - 1)}>Previous</a> : null}
      <span>
        Page {page} of {count}
      </span>
      {page < count ? <a href={link(page + 1)}>Next</a> : null}
    </nav>
  );
}
