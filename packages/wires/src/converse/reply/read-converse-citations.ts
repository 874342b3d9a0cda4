import type { Citation } from "../../canonical/canonical-parts.ts";
import { arrayIn, type JsonObject, objectIn, stringIn } from "../../json-fields.ts";

/** The citation's source. Its range is the text before it, which the caller adds. */
export function readCitation(citation: JsonObject): Citation {
  const web = objectIn(objectIn(citation["location"])?.["web"]);
  const passages = arrayIn(citation["sourceContent"])
    .map((passage) => stringIn(objectIn(passage)?.["text"]) ?? "")
    .join("");
  const source = stringIn(citation["source"]);
  return {
    url: stringIn(web?.["url"]) ?? (source?.startsWith("http") === true ? source : undefined),
    title: stringIn(citation["title"]) ?? stringIn(web?.["domain"]),
    citedText: passages === "" ? undefined : passages,
    native: { wire: "converse", fields: citation },
  };
}
