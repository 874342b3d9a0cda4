/** @jsxImportSource hono/jsx */
// The page of a model: prices, providers with health, and code that calls it. Written as Markdown, like the documentation.

import { raw } from "hono/html";
import type { EndpointJson } from "../../models/endpoints-route.ts";
import type { ModelRecordJson } from "../../models/api-record.ts";
import { joinParagraphs, markdownTable } from "../doc-context.ts";
import { renderMarkdown } from "../markdown.ts";
import { renderSite } from "../site/site-frame.tsx";
import embeddingSnippets from "./embedding-snippets.md" with { type: "text" };
import chatSnippets from "./snippets.md" with { type: "text" };
import {
  abilitiesOf,
  durationText,
  pricePerMillion,
  tokensText,
  uptimeText,
} from "./model-list.ts";

const PER_TOKEN: Readonly<Record<string, string>> = {
  prompt: "Input",
  completion: "Output",
  input_cache_read: "Cached input",
  input_cache_write: "Cache write",
  input_cache_write_1h: "Cache write, one hour",
  internal_reasoning: "Reasoning",
  audio: "Audio input",
  audio_output: "Audio output",
  image: "Image input",
  image_output: "Image output",
};

export interface ModelPageContent {
  readonly model: ModelRecordJson;
  readonly endpoints: readonly EndpointJson[];
  /** Markdown. */
  readonly history: string;
}

export function modelPage(content: ModelPageContent, baseUrl: string): string {
  const { model } = content;
  const { html } = renderMarkdown(modelMarkdown(content));
  const { html: examples } = renderMarkdown(snippets(model, baseUrl));
  return renderSite({
    title: model.name,
    description: `${model.name} (${model.id}): prices, context, providers and code.`,
    path: "/models",
    markdownUrl: `/models/${model.id}.md`,
    content: (
      <main id="main" tabindex={-1} class="with-examples">
        <article class="docs-text">
          <p class="docs-section">
            <a href="/models">Models</a>
          </p>
          {raw(html)}
        </article>
        <aside class="docs-examples" aria-label="Examples">
          {raw(examples)}
        </aside>
      </main>
    ),
  });
}

export function modelMarkdown({ model, endpoints, history }: ModelPageContent): string {
  return joinParagraphs([
    `# ${model.name}`,
    `\`${model.id}\``,
    model.available
      ? ""
      : "This gateway has no account at the provider. Add [your own provider key](/docs/byok) to call the model.",
    model.simulated === true
      ? "Simulated: its output is not real. It exists to test programs."
      : "",
    markdownTable(
      ["Property", "Value"],
      [
        ["Context", `${tokensText(model.context_length)} tokens`],
        ["Longest output", `${tokensText(model.max_output_tokens)} tokens`],
        ["Input", model.input_modalities.join(", ")],
        ["Output", model.output_modalities.join(", ")],
        ["Abilities", abilitiesOf(model).join(", ") || "–"],
        ["Served by its provider with", model.wires.join(", ")],
      ],
    ),
    "## Prices",
    "The provider's list prices in US dollars. Token prices are per million.",
    markdownTable(["Price", "USD"], priceRows(model), ["USD"]),
    "## Providers",
    "Medians and uptime are those of the last 24 hours through this gateway, on its own provider accounts. Status and throughput are those of one process in the last 30 minutes. A dash means that there were too few calls.",
    markdownTable(
      ["Provider", "Status", "First token", "Latency", "Throughput", "Uptime", "Input", "Output"],
      endpoints.map((endpoint) => [
        `[${endpoint.provider}](/models/${endpoint.model})`,
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
    "## Price history",
    history,
    `Also as JSON: \`GET /v1/models/${model.id}\` and \`GET /v1/models/${model.id}/endpoints\`.`,
  ]);
}

function priceRows({ pricing }: ModelRecordJson): readonly (readonly string[])[] {
  const { prompt, completion, ...others } = pricing;
  const rows = Object.entries({ prompt, completion, ...others }).flatMap(([name, price]) =>
    typeof price !== "string"
      ? []
      : [
          name in PER_TOKEN
            ? [PER_TOKEN[name] ?? name, pricePerMillion(price)]
            : [`${capitalized(name.replaceAll("_", " "))}, each`, priceEach(price)],
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

function capitalized(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

function priceEach(price: string): string {
  return Number(price) === 0 ? "free" : `$${price}`;
}

/** Code that calls this model. */
function snippets({ id, wires }: ModelRecordJson, baseUrl: string): string {
  const source = wires.every((wire) => wire === "embeddings") ? embeddingSnippets : chatSnippets;
  return source.replaceAll(/(?<!_)BASE_URL/g, () => baseUrl).replaceAll("MODEL_ID", () => id);
}
