// Rerank: documents in the order of their relevance to a query. Cohere, Jina and Voyage have nearly the same API; a reply of
// the gateway has the members of all of them, so clients of Cohere's v2 API read it as well.

import { invalid } from "../invalid-request.ts";
import { arrayIn, isObject, isSet, type JsonObject, numberIn, objectIn } from "../json-fields.ts";
import {
  buildUsage,
  firstNumber,
  readCount,
  readName,
  type ReadNotes,
} from "../usage/read-numbers.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { usageOfEmbeddings } from "./embeddings-endpoint.ts";
import {
  fieldsWithout,
  INPUT_ONLY,
  type MemberChanges,
  type RelayedContext,
  type RelayedEndpoint,
} from "./relayed-endpoint.ts";

const DOCUMENTS_MAX = 1_000;
/** A search unit is a query with so many documents, and a longer document counts once for each chunk. */
const DOCUMENTS_PER_SEARCH = 100;
const CHUNK_TOKENS = 500;

const BEDROCK_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "query",
  "documents",
  "top_n",
  "return_documents",
  "postern",
]);

export const RERANK_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "rerank",
  check: checkRerank,
  textFields: ["query", "documents"],
  knownFields: "max_tokens_per_doc priority rank_fields return_documents top_k top_n truncation",
  countTexts: ({ documents }) => Math.max(1, arrayIn(documents).length),
  repeatedBytes: ({ query, documents }) => bytesOf(query) * arrayIn(documents).length,
  unitsMax: (json) => ({ search_unit: searchUnitsMax(json) }),
  readUsage: usageOfRerank,
  writeRequest: writeRerank,
  writeReply: writeRerankReply,
  // Bedrock's models of Cohere and Amazon have Cohere's API, and report no usage.
  translations: {
    bedrock: {
      wire: "converse",
      pathOf: (name) => `/model/${encodeURIComponent(name)}/invoke`,
      write: ({ query, documents, top_n: limit }) => ({
        query,
        documents: arrayIn(documents).map(textOf),
        ...(isSet(limit) ? { top_n: limit } : {}),
        api_version: 2,
      }),
      dropped: (json) => fieldsWithout(json, BEDROCK_FIELDS),
    },
  },
};

function checkRerank({ query, documents, top_n: limit, return_documents: returns }: JsonObject) {
  if (typeof query !== "string" || query === "")
    throw invalid("query", "`query` is required: the text to compare the documents with.");
  if (!Array.isArray(documents) || documents.length === 0 || documents.length > DOCUMENTS_MAX)
    throw invalid("documents", `\`documents\` must be an array of 1 to ${DOCUMENTS_MAX} texts.`);
  for (const [index, document] of documents.entries())
    if (textOf(document) === undefined)
      throw invalid(
        `documents[${index}]`,
        `\`documents[${index}]\` must be a string or an object with \`text\`.`,
      );
  if (isSet(limit) && !(typeof limit === "number" && Number.isInteger(limit) && limit >= 1))
    throw invalid("top_n", "`top_n` must be a whole number of at least 1.");
  if (isSet(returns) && typeof returns !== "boolean")
    throw invalid("return_documents", "`return_documents` must be true or false.");
}

function textOf(document: unknown): string | undefined {
  const text = isObject(document) ? document["text"] : document;
  return typeof text === "string" ? text : undefined;
}

function bytesOf(text: unknown): number {
  // A UTF-16 unit takes at most three bytes in UTF-8.
  return typeof text === "string" ? text.length * 3 : 0;
}

/** No text has more tokens than bytes. */
function searchUnitsMax({ query, documents }: JsonObject): number {
  const chunks = arrayIn(documents).map((document) =>
    Math.max(1, Math.ceil((bytesOf(textOf(document)) + bytesOf(query)) / CHUNK_TOKENS)),
  );
  return Math.ceil(chunks.reduce((sum, count) => sum + count, 0) / DOCUMENTS_PER_SEARCH);
}

function usageOfRerank(reply: JsonObject, context: RelayedContext): Usage | undefined {
  if (!context.isPriced("search_unit")) return usageOfEmbeddings(reply);
  const notes: ReadNotes = { clamped: false };
  const stated = firstNumber(reply, [
    ["meta", "billed_units", "search_units"],
    ["usage", "search_units"],
  ]);
  const least = Math.ceil(arrayIn(context.request["documents"]).length / DOCUMENTS_PER_SEARCH);
  // A search is never free, so a reply that does not count it has at least the units of short documents.
  const search_unit = stated === undefined ? least : readCount(notes, stated);
  return buildUsage({ tokens: {}, fees: { search_unit }, model: readName(reply["model"]) }, notes);
}

/** The gateway returns the documents itself: not every provider can. */
function writeRerank(json: JsonObject, { form }: RelayedContext): MemberChanges {
  const { documents, top_n: limit } = json;
  const hasObjects = arrayIn(documents).some(isObject);
  return {
    ...(json["return_documents"] === undefined ? {} : { return_documents: undefined }),
    ...(hasObjects ? { documents: arrayIn(documents).map(textOf) } : {}),
    ...(form === "voyage" && limit !== undefined
      ? { top_n: undefined, top_k: limit ?? undefined }
      : {}),
  };
}

function writeRerankReply(reply: JsonObject, json: JsonObject, usage: Usage): JsonObject {
  const documents = arrayIn(json["documents"]);
  const results = arrayIn(reply["results"] ?? reply["data"]).flatMap((result) => {
    const index = isObject(result) ? numberIn(result["index"]) : undefined;
    if (!isObject(result) || index === undefined) return [];
    const text = textOf(documents[index]);
    const document = json["return_documents"] === true ? { document: { text } } : {};
    return [{ index, relevance_score: result["relevance_score"], ...document }];
  });
  const units = usage.fees.search_unit;
  const tokens = usage.tokens.input ?? 0;
  const billed = units === undefined ? { input_tokens: tokens } : { search_units: units };
  return {
    id: reply["id"],
    object: "list",
    model: json["model"],
    results,
    meta: { ...objectIn(reply["meta"]), api_version: { version: "2" }, billed_units: billed },
    usage: units === undefined ? { total_tokens: tokens } : billed,
  };
}
