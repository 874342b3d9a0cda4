// Reads the sources of a text. Gemini's ranges are in UTF-8 bytes of the whole text; here they become UTF-16 positions.

import type { Citation } from "../../canonical/canonical-parts.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../json-fields.ts";
import { SEARCH_QUERIES_FIELD } from "../gemini-web-search.ts";

/** Grounding metadata of a candidate's chunks so far. */
export interface Grounding {
  readonly chunks: unknown[];
  readonly supports: unknown[];
  /** Sources of passages that the model recited. */
  readonly sources: unknown[];
  /** Parts of their own at the end: searches, search suggestions and URL retrieval results. */
  readonly displayFields: Record<string, unknown>;
}

export function addGrounding(grounding: Grounding, candidate: JsonObject): void {
  const metadata = objectIn(candidate["groundingMetadata"]);
  if (metadata !== undefined) {
    grounding.chunks.push(...arrayIn(metadata["groundingChunks"]));
    grounding.supports.push(...arrayIn(metadata["groundingSupports"]));
    const queries = arrayIn(metadata[SEARCH_QUERIES_FIELD]);
    if (queries.length > 0) grounding.displayFields[SEARCH_QUERIES_FIELD] = queries;
  }
  const entry = objectIn(metadata?.["searchEntryPoint"]);
  if (entry !== undefined) grounding.displayFields["searchEntryPoint"] = entry;
  const urlContext = objectIn(candidate["urlContextMetadata"]);
  if (urlContext !== undefined) grounding.displayFields["urlContextMetadata"] = urlContext;
  const recitation = objectIn(candidate["citationMetadata"]);
  if (recitation !== undefined)
    grounding.sources.push(...arrayIn(recitation["citationSources"] ?? recitation["citations"]));
}

/** One citation per passage and source. A source that no passage refers to is cited for the whole text. */
export function citationsOf(grounding: Grounding, text: string): readonly Citation[] {
  const { chunks, supports, sources } = grounding;
  const citations: Citation[] = [];
  const cited = new Set<number>();
  for (const support of supports) {
    if (!isObject(support)) continue;
    const segment = objectIn(support["segment"]) ?? {};
    const range = textRangeOf(segment, text);
    for (const index of arrayIn(support["groundingChunkIndices"])) {
      const chunk = chunks[Number(index)];
      if (!isObject(chunk)) continue;
      cited.add(Number(index));
      citations.push({ ...sourceOf(chunk), citedText: stringIn(segment["text"]), ...range });
    }
  }
  for (const [index, chunk] of chunks.entries())
    if (isObject(chunk) && !cited.has(index)) citations.push(sourceOf(chunk));
  for (const source of sources)
    if (isObject(source))
      citations.push({
        url: stringIn(source["uri"]),
        title: stringIn(source["title"]) ?? stringIn(source["license"]),
        ...textRangeOf(source, text),
      });
  return citations;
}

function sourceOf(chunk: JsonObject): Citation {
  const source =
    objectIn(chunk["web"]) ?? objectIn(chunk["retrievedContext"]) ?? objectIn(chunk["maps"]) ?? {};
  const image = objectIn(chunk["image"]);
  return {
    url: stringIn(source["uri"]) ?? stringIn(image?.["sourceUri"]),
    title: stringIn(source["title"]) ?? stringIn(image?.["title"]),
  };
}

interface TextRange {
  readonly start?: number;
  readonly end?: number;
}

// If the text at the range is not the segment's own text, search for that text instead.
function textRangeOf(segment: JsonObject, text: string): TextRange {
  const endByte = numberIn(segment["endIndex"]);
  if (endByte === undefined) return {};
  const bytes = Buffer.from(text);
  const start = utf16Offset(bytes, text, numberIn(segment["startIndex"]) ?? 0);
  const end = utf16Offset(bytes, text, endByte);
  const passage = stringIn(segment["text"]);
  if (passage === undefined || text.slice(start, end) === passage) return { start, end };
  const found = text.indexOf(passage);
  return found < 0 ? {} : { start: found, end: found + passage.length };
}

function utf16Offset(bytes: Buffer, text: string, byte: number): number {
  return bytes.length === text.length
    ? Math.min(byte, text.length)
    : bytes.subarray(0, byte).toString().length;
}
