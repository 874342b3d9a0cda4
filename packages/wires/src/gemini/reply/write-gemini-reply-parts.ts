// The parts of a reply, and what a candidate says about them: citations, searches and log probabilities.

import { addLoss, addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type {
  Citation,
  FilePart,
  ImagePart,
  MediaPart,
  NativePart,
  OpaqueBlob,
  TokenLogprob,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalRequest } from "../../canonical/canonical-request.ts";
import { encodeBlob } from "../../canonical/reasoning-blobs.ts";
import { arrayIn, isObject, type JsonObject, parseObject, objectIn } from "../../json-fields.ts";
import { SEARCH_QUERIES_FIELD } from "../gemini-web-search.ts";

/** The field of a custom tool's free text, since the functions of this API take objects. */
const CUSTOM_TOOL_INPUT_FIELD = "input";

/** What a candidate has beside its content; grows with its parts. */
export interface CandidateMetadata {
  readonly chunks: JsonObject[];
  readonly supports: JsonObject[];
  readonly fields: Record<string, unknown>;
  urlContext: unknown;
}

export function createMetadata(): CandidateMetadata {
  return { chunks: [], supports: [], fields: {}, urlContext: undefined };
}

/** The fields of a candidate for what was collected. */
export function writeMetadata(metadata: CandidateMetadata): JsonObject {
  const { chunks, supports, fields, urlContext } = metadata;
  const hasGrounding = chunks.length > 0 || Object.keys(fields).length > 0;
  return {
    groundingMetadata: hasGrounding
      ? {
          ...fields,
          groundingChunks: chunks.length === 0 ? undefined : chunks,
          groundingSupports: supports.length === 0 ? undefined : supports,
        }
      : undefined,
    urlContextMetadata: urlContext,
  };
}

/** Thoughts are part of a reply only if the request asks for them, as at Google. */
export function showsThoughts({ reasoning }: CanonicalRequest): boolean {
  return reasoning?.summary !== undefined && reasoning.summary !== "none";
}

export function writeSignature(blob: OpaqueBlob | undefined): JsonObject | undefined {
  return blob && { thoughtSignature: encodeBlob(blob, "gemini") };
}

interface WrittenCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  readonly custom?: true | undefined;
  readonly signature?: OpaqueBlob | undefined;
}

// Arguments that were cut off are not an object; the call is kept with empty arguments.
export function writeCall(call: WrittenCall, path: string, losses: Loss[]): JsonObject {
  const args =
    call.custom === true
      ? { [CUSTOM_TOOL_INPUT_FIELD]: call.arguments }
      : parseObject(call.arguments || "{}");
  if (args === undefined)
    addLoss(losses, `${path}.functionCall.args`, "The arguments are not a complete JSON object.");
  return {
    functionCall: { id: call.id, name: call.name, args: args ?? {} },
    ...writeSignature(call.signature),
  };
}

/** Undefined for what is not a part in this API; what a candidate says of its searches goes to the metadata. */
export function writeWhole(
  part: ImagePart | FilePart | MediaPart | NativePart,
  path: string,
  losses: Loss[],
  metadata: CandidateMetadata,
): JsonObject | undefined {
  if (part.type === "native") {
    if (part.wire !== "gemini") addPartLoss(losses, path, part);
    else if (!isMetadata(part.value, metadata)) return part.value;
    return undefined;
  }
  const { source } = part;
  if (source.kind === "base64") {
    const signature = part.type === "image" ? part.signature : undefined;
    const own = part.native?.wire === "gemini" ? part.native.fields : undefined;
    const inlineData = { mimeType: source.mediaType, data: source.data };
    return { inlineData, ...own, ...writeSignature(signature) };
  }
  if (source.kind === "url")
    return { fileData: { fileUri: source.url, mimeType: source.mediaType } };
  addPartLoss(losses, path, part);
  return undefined;
}

function isMetadata(value: JsonObject, metadata: CandidateMetadata): boolean {
  if (value[SEARCH_QUERIES_FIELD] !== undefined) {
    const earlier = arrayIn(metadata.fields[SEARCH_QUERIES_FIELD]);
    metadata.fields[SEARCH_QUERIES_FIELD] = [...earlier, ...arrayIn(value[SEARCH_QUERIES_FIELD])];
    for (const chunk of arrayIn(value["groundingChunks"]))
      if (isObject(chunk)) chunkIndex(metadata, chunk);
    return true;
  }
  if (value["searchEntryPoint"] !== undefined)
    metadata.fields["searchEntryPoint"] = value["searchEntryPoint"];
  else if (value["urlContextMetadata"] !== undefined)
    metadata.urlContext = joinedPages(metadata.urlContext, value["urlContextMetadata"]);
  else return false;
  return true;
}

/** Pages of several fetches are one list. */
function joinedPages(earlier: unknown, added: unknown): unknown {
  const [first, second] = [earlier, added].map((one) => objectIn(one)?.["urlMetadata"]);
  if (!Array.isArray(first) || !Array.isArray(second)) return added;
  return { ...objectIn(added), urlMetadata: [...arrayIn(first), ...arrayIn(second)] };
}

interface CitedText {
  /** UTF-8 bytes of the candidate's text before the part. */
  readonly startBytes: number;
  readonly text: string;
}

/** Google's ranges are in UTF-8 bytes of the whole text. */
export function addCitation(
  citation: Citation,
  { startBytes, text }: CitedText,
  metadata: CandidateMetadata,
): boolean {
  const { url, title, start, end } = citation;
  if (url === undefined) return false;
  const index = chunkIndex(metadata, { web: { uri: url, title } });
  if (start === undefined || end === undefined) return true;
  const startIndex = startBytes + Buffer.byteLength(text.slice(0, start));
  const segmentText = text.slice(start, end);
  // The segment is the model's text. The cited text is the page's, at some providers.
  metadata.supports.push({
    segment: {
      startIndex,
      endIndex: startIndex + Buffer.byteLength(segmentText),
      text: segmentText,
    },
    groundingChunkIndices: [index],
  });
  return true;
}

function chunkIndex({ chunks }: CandidateMetadata, chunk: JsonObject): number {
  const text = JSON.stringify(chunk);
  const found = chunks.findIndex((one) => JSON.stringify(one) === text);
  return found === -1 ? chunks.push(chunk) - 1 : found;
}

export function writeLogprobs(logprobs: readonly TokenLogprob[]): JsonObject {
  const chosenCandidates = logprobs.map(writeToken);
  const topCandidates = logprobs.map(({ top = [] }) => ({ candidates: top.map(writeToken) }));
  return { logprobsResult: { chosenCandidates, topCandidates } };
}

function writeToken({ token, logprob }: TokenLogprob): JsonObject {
  return { token, logProbability: logprob };
}
