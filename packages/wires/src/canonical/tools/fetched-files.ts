// Replaces URLs with the content of files that the gateway fetched, for a provider that takes no URLs.

import type { Part, Source } from "../canonical-parts.ts";
import type { CanonicalRequest } from "../canonical-request.ts";

/** The content as base64, or a sentence that says why there is none. */
export type FetchedFile =
  | { readonly mediaType: string; readonly data: string }
  | { readonly problem: string };

export type FetchedFiles = ReadonlyMap<string, FetchedFile>;

export function withFetchedFiles(request: CanonicalRequest, files: FetchedFiles): CanonicalRequest {
  const replace = <T extends Part>(part: T): T => {
    if (part.type === "tool_result") return { ...part, content: part.content.map(replace) };
    if (part.type !== "image" && part.type !== "file") return part;
    return { ...part, source: sourceFrom(part.source, files) };
  };
  const turns = request.turns.map((turn) => ({ ...turn, parts: turn.parts.map(replace) }));
  return { ...request, turns };
}

function sourceFrom(source: Source, files: FetchedFiles): Source {
  const file = source.kind === "url" ? files.get(source.url) : undefined;
  if (source.kind !== "url" || file === undefined) return source;
  if ("problem" in file) return { ...source, problem: file.problem };
  const { mediaType, data } = file;
  if (!mediaType.startsWith("text/")) return { kind: "base64", mediaType, data };
  return { kind: "text", mediaType, text: Buffer.from(data, "base64").toString("utf8") };
}
