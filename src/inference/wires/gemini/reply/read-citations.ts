// Where a text comes from. Places are given in UTF-8 bytes of all the text; here they become UTF-16 positions.
import type { Citation } from "../../../canonical/parts.ts";
import {
  type JsonObject,
  arrayIn,
  isObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../../../base/json.ts";

/** What the chunks of a candidate have said so far. */
export interface Grounding {
  readonly chunks: unknown[];
  readonly supports: unknown[];
  /** Passages that the model recited. */
  readonly sources: unknown[];
  /** What only this API can show: the search suggestions, and how fetching each address went. */
  readonly displayFields: Record<string, unknown>;
}

export function addGrounding(grounding: Grounding, candidate: JsonObject): void {
  const metadata = objectIn(candidate["groundingMetadata"]);
  if (metadata !== undefined) {
    grounding.chunks.push(...arrayIn(metadata["groundingChunks"]));
    grounding.supports.push(...arrayIn(metadata["groundingSupports"]));
  }
  const entry = objectIn(metadata?.["searchEntryPoint"]);
  if (entry !== undefined) grounding.displayFields["searchEntryPoint"] = entry;
  const fetched = objectIn(candidate["urlContextMetadata"]);
  if (fetched !== undefined) grounding.displayFields["urlContextMetadata"] = fetched;
  const recited = objectIn(candidate["citationMetadata"]);
  if (recited !== undefined)
    grounding.sources.push(...arrayIn(recited["citationSources"] ?? recited["citations"]));
}

/** A citation for each source of each passage; sources that no passage names are cited for the whole. */
export function citationsOf(grounding: Grounding, text: string): readonly Citation[] {
  const { chunks, supports, sources } = grounding;
  const citations: Citation[] = [];
  const cited = new Set<number>();
  for (const support of supports) {
    if (!isObject(support)) continue;
    const segment = objectIn(support["segment"]) ?? {};
    const place = textRangeOf(segment, text);
    for (const index of arrayIn(support["groundingChunkIndices"])) {
      const chunk = chunks[Number(index)];
      if (!isObject(chunk)) continue;
      cited.add(Number(index));
      citations.push({ ...sourceOf(chunk), citedText: stringIn(segment["text"]), ...place });
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
  const held =
    objectIn(chunk["web"]) ?? objectIn(chunk["retrievedContext"]) ?? objectIn(chunk["maps"]) ?? {};
  const image = objectIn(chunk["image"]);
  return {
    url: stringIn(held["uri"]) ?? stringIn(image?.["sourceUri"]),
    title: stringIn(held["title"]) ?? stringIn(image?.["title"]),
  };
}

interface TextRange {
  readonly start?: number;
  readonly end?: number;
}

// The passage itself is given, too: where it does not stand at its place, it is looked for.
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
