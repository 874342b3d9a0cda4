// The tables of docs/site/abilities.md, from the abilities in the records of the models.

import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { builtInModels, catalogOf } from "../../../src/models/catalog.ts";
import { type AbilityRecordJson, toAbilityRecord } from "../../../src/models/model-abilities.ts";

/** Those that make the models they sell; a host's models have the restrictions of their maker, or fewer. */
const MAKERS = ["openai", "anthropic", "google", "mistral", "xai", "deepseek", "moonshot", "zai"];
const SNAPSHOT = /[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4})$/;
const HEAD =
  "| Models | Efforts | Sampling | Functions | Forced tools | Schema | Stop | Seed, `n`, logprobs, prefill |";

export function abilityTables(): string {
  const { models } = catalogOf(builtInModels());
  return MAKERS.map((provider) => {
    const rows = new Map<string, string[]>();
    for (const model of models) {
      if (model.provider !== provider || SNAPSHOT.test(model.name)) continue;
      const abilities = toAbilityRecord(model, undefined);
      if (abilities === null) continue;
      const cells = cellsOf(abilities);
      rows.set(cells, [...(rows.get(cells) ?? []), `\`${model.name}\``]);
    }
    const name = PROVIDERS.find(({ id }) => id === provider)?.name ?? provider;
    const lines = [...rows].map(([cells, names]) => `| ${names.join(", ")} | ${cells} |`);
    return `### ${name}\n\n${HEAD}\n| ${"--- | ".repeat(8).trim()}\n${lines.join("\n")}`;
  }).join("\n\n");
}

function cellsOf(abilities: NonNullable<AbilityRecordJson>): string {
  const { reasoning, efforts, sampling, tools, seed, n, logprobs, prefill } = abilities;
  const functions = Object.entries(tools).map(([wire, takes]) =>
    takes === true ? wire : `${wire} ${wordOf(takes)}`,
  );
  const others = Object.entries({ seed, n, logprobs, prefill }).flatMap(([name, has]) =>
    has ? [name] : [],
  );
  return [
    reasoning === "budget" ? "budget" : reasoning === null ? "–" : (efforts?.join(", ") ?? "any"),
    wordOf(sampling),
    functions.join(", ") || "–",
    wordOf(abilities.forced_tools),
    abilities.json_schema ? "yes" : "asked for",
    abilities.stop,
    others.join(", ") || "–",
  ].join(" | ");
}

function wordOf(value: boolean | string): string {
  return typeof value === "string" ? value.replaceAll("_", " ") : value ? "yes" : "no";
}
