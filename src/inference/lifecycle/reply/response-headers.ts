// The headers of a model call's response: the gateway's own, and those of the provider that are of use to the caller.

import { CORS_HEADERS } from "../../../http/response.ts";
import type { HeldCall } from "../call.ts";

/** Together, Node's HTTP client accepts headers of up to 16 KiB. */
const DROPPED_HEADER_MAX_LENGTH = 4_000;
/** A field of the caller's own may have a name of any length. */
const PATH_MAX_LENGTH = 500;

/** `replyLosses`: what of the reply the caller's API cannot express. All at once, since setting headers one by one is slow. */
export function responseHeaders(
  { input, candidate, plan, outputMax }: HeldCall,
  providerHeaders: Readonly<Record<string, string>>,
  replyLosses: readonly string[] = [],
): Record<string, string> {
  const headers: Record<string, string> = {
    ...CORS_HEADERS,
    "x-request-id": input.requestId,
    "x-postern-provider": candidate.credential.provider.id,
    "x-postern-model": candidate.model.id,
    "x-postern-byok": candidate.credential.byok ? "true" : "false",
  };
  // Anthropic's SDKs read the id from this header.
  if (input.api === "messages") headers["request-id"] = input.requestId;
  for (const name in providerHeaders) headers[name] = providerHeaders[name] ?? "";
  if (plan.dropped.length + replyLosses.length > 0)
    headers["x-postern-dropped"] = joinPaths([...plan.dropped, ...replyLosses]);
  if (outputMax !== undefined) headers["x-postern-max-tokens"] = String(outputMax);
  return headers;
}

// Every message of a long conversation may have lost the same field.
function joinPaths(paths: readonly string[]): string {
  const all = [...new Set(paths)];
  let text = "";
  for (const [index, rawPath] of all.entries()) {
    const path = headerSafe(rawPath);
    if (text.length + path.length > DROPPED_HEADER_MAX_LENGTH)
      return `${text}, and ${all.length - index} more`;
    text += index === 0 ? path : `, ${path}`;
  }
  return text;
}

// Field names may contain characters that no header can: they are escaped as in JSON.
function headerSafe(path: string): string {
  const cut = path.length > PATH_MAX_LENGTH ? `${path.slice(0, PATH_MAX_LENGTH)}...` : path;
  return cut.replaceAll(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
