import type { Citation } from "../../canonical/canonical-parts.ts";
import { isObject, stringIn } from "../../json-fields.ts";

export function readCitation(value: unknown): Citation | undefined {
  if (!isObject(value)) return undefined;
  const web = value["type"] === "web_search_result_location";
  return {
    url: web ? stringIn(value["url"]) : undefined,
    title: stringIn(value["title"]) ?? stringIn(value["document_title"]),
    citedText: stringIn(value["cited_text"]),
    native: { wire: "messages", fields: value },
  };
}
