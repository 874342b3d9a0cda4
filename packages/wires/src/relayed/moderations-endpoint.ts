// Moderation: OpenAI's API. It is free there, and reports no usage.

import { invalid } from "../invalid-request.ts";
import type { JsonObject } from "../json-fields.ts";
import { buildUsage, readName } from "../usage/read-numbers.ts";
import { usageOfEmbeddings } from "./embeddings-endpoint.ts";
import { INPUT_ONLY, type RelayedEndpoint } from "./relayed-endpoint.ts";

export const MODERATIONS_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "moderation",
  defaultModel: "openai/omni-moderation-latest",
  check: checkModeration,
  textFields: [],
  knownFields: "",
  countTexts: ({ input }) => (Array.isArray(input) ? Math.max(1, input.length) : 1),
  readUsage: (reply) =>
    usageOfEmbeddings(reply) ??
    buildUsage({ tokens: {}, model: readName(reply["model"]) }, { clamped: false }),
};

function checkModeration({ input }: JsonObject): void {
  if (typeof input === "string" ? input === "" : !Array.isArray(input) || input.length === 0)
    throw invalid("input", "`input` is required: a string, or an array of strings or parts.");
}
