/** @jsxImportSource hono/jsx */
// The page of a model: prices, providers with health, and code that calls it. Written as Markdown, like the documentation.

import { raw } from "hono/html";
import type { Child } from "hono/jsx";
import { capitalize } from "../../base/text/format.ts";
import { Details, Figures, Tag } from "../../http/pages/components/content.tsx";
import type { EndpointJson } from "../../models/endpoints-route.ts";
import type { ModelRecordJson } from "../../models/model-record.ts";
import { joinParagraphs, markdownTable } from "../doc-context.ts";
import { renderMarkdown } from "../markdown.ts";
import { renderSite } from "../site/site-frame.tsx";
import { Examples } from "../site/site-page.tsx";
import embeddingSnippets from "./embedding-snippets.md" with { type: "text" };
import {
  abilitiesOf,
  durationText,
  pricePerMillion,
  tokensShort,
  tokensText,
  uptimeText,
} from "./model-list.ts";
import chatSnippets from "./snippets.md" with { type: "text" };

const PER_TOKEN: Readonly<Record<string, string>> = {
  prompt: "Input",
  completion: "Output",
  input_cache_read: "Cached input",
  input_cache_write: "Cache write",
  input_cache_write_1h: "Cache write, one hour (12 at OpenAI)",
  internal_reasoning: "Reasoning",
  audio: "Audio input",
  audio_output: "Audio output",
  image: "Image input",
  input_image_cache: "Cached image input",
  image_output: "Image output",
};

const PER_MILLION = "per million tokens";

export interface ModelPageContent {
  readonly model: ModelRecordJson;
  readonly endpoints: readonly EndpointJson[];
  /** Markdown. */
  readonly history: string;
  readonly providerName: (id: string) => string;
}

export function modelPage(content: ModelPageContent, baseUrl: string): string {
  const { model } = content;
  const { html } = renderMarkdown(detailsMarkdown(content));
  const { html: examples } = renderMarkdown(snippets(model, baseUrl));
  return renderSite({
    title: model.name,
    description: `${model.name} (${model.id}): prices, context, providers and code.`,
    path: "/models",
    markdownUrl: `/models/${model.id}.md`,
    canonicalUrl: `/models/${model.id}`,
    content: (
      <main id="main" tabindex={-1} class="with-examples">
        <div class="docs-text">
          <p class="docs-section">
            <a href="/models">Models</a>
          </p>
          <Intro {...content} />
        </div>
        <Examples html={examples} />
        <article class="docs-text">{raw(html)}</article>
      </main>
    ),
  });
}

function Intro({ model, endpoints }: ModelPageContent): Child {
  const measured = endpoints.find(({ model: id }) => id === model.id)?.measured_24h;
  const { pricing } = model;
  return (
    <>
      <h1>{model.name}</h1>
      <p>
        <code>{model.id}</code>
      </p>
      {raw(renderMarkdown(joinParagraphs(remarks(model))).html)}
      <Figures
        figures={[
          { label: "Input", value: pricePerMillion(pricing["prompt"]), remark: PER_MILLION },
          { label: "Output", value: pricePerMillion(pricing["completion"]), remark: PER_MILLION },
          {
            label: "Context",
            value: tokensShort(model.context_length),
            remark: `output up to ${tokensShort(model.max_output_tokens)}`,
          },
          {
            label: "First token",
            value: durationText(measured?.first_token_ms),
            remark: `uptime ${uptimeText(measured?.uptime)}, last 24 hours`,
          },
        ]}
      />
      <Details
        items={[
          ["Accepts", model.input_modalities.join(", ")],
          ["Returns", model.output_modalities.join(", ")],
          [
            "Abilities",
            abilitiesOf(model).length === 0
              ? "–"
              : abilitiesOf(model).map((ability) => (
                  <>
                    <Tag>{ability.replaceAll("_", " ")}</Tag>{" "}
                  </>
                )),
          ],
          ["Provider's API", model.wires.join(", ")],
        ]}
      />
    </>
  );
}

function remarks(model: ModelRecordJson): readonly string[] {
  return [
    model.available
      ? ""
      : "This gateway has no account at the provider. Add [your own provider key](/docs/byok) to call the model.",
    model.simulated === true
      ? "Simulated: its output is not real. It exists to test programs."
      : "",
    model.shutdown_date === null
      ? ""
      : `Its provider has announced to shut it down on ${model.shutdown_date}.`,
  ];
}

export function modelMarkdown(content: ModelPageContent): string {
  const { model } = content;
  return joinParagraphs([
    `# ${model.name}`,
    `\`${model.id}\``,
    ...remarks(model),
    markdownTable(
      ["Property", "Value"],
      [
        ["Context", `${tokensText(model.context_length)} tokens`],
        ["Longest output", `${tokensText(model.max_output_tokens)} tokens`],
        ["Input", model.input_modalities.join(", ")],
        ["Output", model.output_modalities.join(", ")],
        ["Abilities", abilitiesOf(model).join(", ") || "–"],
        ["Provider's API", model.wires.join(", ")],
      ],
    ),
    detailsMarkdown(content),
  ]);
}

function detailsMarkdown({ model, endpoints, history, providerName }: ModelPageContent): string {
  return joinParagraphs([
    "## Prices",
    "The provider's list prices in US dollars. Token prices are per million.",
    markdownTable(["Price", "USD"], priceRows(model), ["USD"]),
    "## Providers",
    "Medians and uptime are those of the last 24 hours through this gateway, on its own provider accounts. Status and throughput are those of one process in the last 30 minutes. A dash means that there were too few calls.",
    markdownTable(
      ["Provider", "Status", "First token", "Latency", "Throughput", "Uptime", "Input", "Output"],
      endpoints.map((endpoint) => [
        `[${providerName(endpoint.provider)}](/models/${endpoint.model})`,
        endpoint.available ? endpoint.status : "with your key",
        durationText(endpoint.measured_24h?.first_token_ms),
        durationText(endpoint.measured_24h?.latency_ms),
        endpoint.throughput === null ? "–" : `${endpoint.throughput} tokens/s`,
        uptimeText(endpoint.measured_24h?.uptime),
        pricePerMillion(endpoint.pricing["prompt"]),
        pricePerMillion(endpoint.pricing["completion"]),
      ]),
      ["First token", "Latency", "Throughput", "Uptime", "Input", "Output"],
    ),
    ...parametersMarkdown(model),
    "## Data",
    "What each provider publishes about the data of API calls. See [data policy](/docs/data-policy).",
    markdownTable(
      ["Provider", "Stores", "Trains", "Region", "Source"],
      endpoints.map(({ provider, data_policy: policy }) => [
        providerName(provider),
        policy.retention_days === null
          ? "unknown"
          : policy.retention_days === 0
            ? "nothing"
            : `up to ${policy.retention_days} days`,
        policy.training === null ? "unknown" : takesText(policy.training),
        policy.region ?? "unknown",
        policy.source?.startsWith("https:") === true
          ? `[${policy.checked ?? ""}](${policy.source})`
          : (policy.source ?? "–"),
      ]),
    ),
    "## Price history",
    history,
    `Also as JSON: \`GET /v1/models/${model.id}\` and \`GET /v1/models/${model.id}/endpoints\`.`,
  ]);
}

/** What the provider accepts; see docs/site/abilities.md. */
function parametersMarkdown({ abilities }: ModelRecordJson): readonly string[] {
  if (abilities === null) return [];
  const { sources, tools, efforts, service_tiers: tiers, reasoning, ...flags } = abilities;
  const functions = Object.entries(tools).map(([wire, takes]) =>
    takes === true ? wire : `${wire} (${takesText(takes)})`,
  );
  const rows = [
    ["Reasoning", reasoning === null ? "–" : `by ${reasoning}`],
    ["Efforts", efforts === null ? "any" : efforts.join(", ") || "–"],
    ["Functions", functions.join(", ") || "–"],
    ...Object.entries(flags).map(([name, value]) => [`\`${name}\``, takesText(value)]),
    ["Service tiers", tiers.join(", ") || "–"],
  ];
  return [
    "## Parameters",
    "What the provider accepts. Postern [adapts](/docs/abilities) the rest.",
    markdownTable(["Parameter", "Accepted"], rows),
    ...sources.map(({ source, checked }) =>
      source.startsWith("https:")
        ? `Source: <${source}>, ${checked}.`
        : `Source: ${source}, ${checked}.`,
    ),
  ];
}

function takesText(value: boolean | string): string {
  return typeof value === "string" ? value.replaceAll("_", " ") : value ? "yes" : "no";
}

function priceRows({ pricing }: ModelRecordJson): readonly (readonly string[])[] {
  const { prompt, completion, ...others } = pricing;
  const rows = Object.entries({ prompt, completion, ...others }).flatMap(([name, price]) =>
    typeof price !== "string"
      ? []
      : [
          name in PER_TOKEN
            ? [PER_TOKEN[name] ?? name, pricePerMillion(price)]
            : [`${capitalize(name.replaceAll("_", " "))}, each`, priceEach(price)],
        ],
  );
  const tiers = (pricing.tiers ?? []).flatMap(({ above_input_tokens: above, prices }) =>
    Object.entries(prices).map(([name, price]) => [
      `${PER_TOKEN[name] ?? name}, prompts above ${tokensText(above)} tokens`,
      pricePerMillion(price),
    ]),
  );
  return [...rows, ...tiers];
}

function priceEach(price: string): string {
  return Number(price) === 0 ? "free" : `$${price}`;
}

/** Code that calls this model. */
function snippets({ id, wires }: ModelRecordJson, baseUrl: string): string {
  const source = wires.every((wire) => wire === "embeddings") ? embeddingSnippets : chatSnippets;
  return source.replaceAll(/(?<!_)BASE_URL/g, () => baseUrl).replaceAll("MODEL_ID", () => id);
}
