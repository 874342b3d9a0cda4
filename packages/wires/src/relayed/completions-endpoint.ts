// Text completions: OpenAI's older API, which providers of open models and local servers still have.

import { invalid } from "../invalid-request.ts";
import { arrayIn, isObject, isSet, type JsonObject, numberIn, stringIn } from "../json-fields.ts";
import {
  buildUsage,
  ownMember,
  readCount,
  readName,
  type ReadNotes,
  readStatedCost,
  valueAt,
} from "../usage/read-numbers.ts";
import { splitInput } from "../usage/token-breakdown.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { INPUT_ONLY, type RelayedEndpoint } from "./relayed-endpoint.ts";

/** OpenAI's default; other servers have other ones, so it is sent. */
const OUTPUT_TOKENS_DEFAULT = 16;
const OUTPUT_TOKENS_MAX = 1_000_000;
const CHOICES_MAX = 128;

export const COMPLETIONS_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "chat",
  check: checkCompletions,
  textFields: ["prompt", "suffix"],
  knownFields: "stop suffix",
  countTexts: promptsOf,
  outputTokensMax: (json) =>
    promptsOf(json) *
    Math.max(countOf(json, "n", 1), countOf(json, "best_of", 1)) *
    countOf(json, "max_tokens", OUTPUT_TOKENS_DEFAULT),
  readUsage: usageOfCompletion,
  isEmpty: (reply) => textOf(reply) === "" && !hasEnded(reply),
  writeRequest: ({ max_tokens: limit }) =>
    isSet(limit) ? {} : { max_tokens: OUTPUT_TOKENS_DEFAULT },
  stream: {
    isStream: ({ stream }) => stream === true,
    formOf: () => ({ sent: "events", returned: "events" }),
    usageInEvent: usageOfCompletion,
    isLast: ({ usage }) => isObject(usage),
    hasTerminalEvent: true,
    endsIn: hasEnded,
    contentOf: textOf,
  },
};

function textOf({ choices }: JsonObject): string {
  return arrayIn(choices)
    .map((choice) => stringIn(ownMember(choice, "text")) ?? "")
    .join("");
}

function hasEnded({ choices }: JsonObject): boolean {
  return arrayIn(choices).some((choice) => isSet(ownMember(choice, "finish_reason")));
}

function checkCompletions(json: JsonObject): void {
  const { prompt } = json;
  const isList = Array.isArray(prompt) && prompt.length > 0;
  if (!(typeof prompt === "string" && prompt !== "") && !isList)
    throw invalid("prompt", "`prompt` is required: a string, or an array of strings or tokens.");
  for (const [name, max] of [
    ["max_tokens", OUTPUT_TOKENS_MAX],
    ["n", CHOICES_MAX],
    ["best_of", CHOICES_MAX],
  ] as const) {
    const value = json[name];
    const isCount = typeof value === "number" && Number.isInteger(value);
    if (isSet(value) && !(isCount && value >= 1 && value <= max))
      throw invalid(name, `\`${name}\` must be a whole number from 1 to ${max}.`);
  }
}

function countOf(json: JsonObject, name: string, otherwise: number): number {
  return numberIn(json[name]) ?? otherwise;
}

/** An array of numbers is one prompt, given as tokens. */
function promptsOf({ prompt }: JsonObject): number {
  return Array.isArray(prompt) && typeof prompt[0] !== "number" ? Math.max(1, prompt.length) : 1;
}

function usageOfCompletion(reply: JsonObject): Usage | undefined {
  const usage = ownMember(reply, "usage");
  const input = ownMember(usage, "prompt_tokens");
  if (typeof input !== "number") return undefined;
  const notes: ReadNotes = { clamped: false };
  return buildUsage(
    {
      tokens: {
        ...splitInput(notes, {
          total: readCount(notes, input),
          cached: readCount(notes, valueAt(usage, ["prompt_tokens_details", "cached_tokens"])),
        }),
        output: readCount(notes, ownMember(usage, "completion_tokens")),
      },
      model: readName(reply["model"]),
      statedCostUsd: readStatedCost(usage),
    },
    notes,
  );
}
