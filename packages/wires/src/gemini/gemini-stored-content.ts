// Content of a request that Google has stored for the account that calls it: a cache, an uploaded file, or a store of documents.

import { arrayIn, isObject, isSet, type JsonObject, objectIn } from "../json-fields.ts";

const STORED_URI =
  /^\s*(?:gs:|files\/|https?:\/\/(?:[\w.-]+\.)?(?:generativelanguage|storage)\.googleapis\.com[:/])/i;
const STORE_TOOLS = ["fileSearch", "retrieval"] as const;

/** The path of the first such content. */
export function storedGeminiContent(body: JsonObject): string | undefined {
  if (isSet(body["cachedContent"])) return "cachedContent";
  for (const [index, tool] of arrayIn(body["tools"]).entries()) {
    const found = isObject(tool) ? STORE_TOOLS.find((name) => isSet(tool[name])) : undefined;
    if (found !== undefined) return `tools[${index}].${found}`;
  }
  for (const [index, content] of arrayIn(body["contents"]).entries()) {
    const parts = isObject(content) ? arrayIn(content["parts"]) : [];
    const found = parts.findIndex(isStored);
    if (found !== -1) return `contents[${index}].parts[${found}].fileData.fileUri`;
  }
  return undefined;
}

function isStored(part: unknown): boolean {
  const file = isObject(part) ? objectIn(part["fileData"]) : undefined;
  return typeof file?.["fileUri"] === "string" && STORED_URI.test(file["fileUri"]);
}
