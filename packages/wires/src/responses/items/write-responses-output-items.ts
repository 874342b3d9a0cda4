// Writes items that are both in a reply's output and in the history sent to a provider.

import type { Citation, ReasoningPart, TokenLogprob } from "../../canonical/canonical-parts.ts";
import type { JsonObject } from "../../json-fields.ts";

/**
 * Whether a reasoning part belongs to the same item as the part before it. An item has one id, its summaries come before its
 * text, and it ends with its blob.
 */
export function continuesReasoningItem(
  before: Pick<ReasoningPart, "id" | "summary"> & { readonly blob?: unknown },
  part: Pick<ReasoningPart, "id" | "summary">,
): boolean {
  return (
    before.blob === undefined &&
    before.id === part.id &&
    !(part.summary === true && before.summary !== true)
  );
}

/** The reasoning item of these parts, without its id. */
export function reasoningItem(
  parts: readonly Pick<ReasoningPart, "summary" | "text">[],
  encrypted: string | undefined,
): JsonObject {
  const summary = parts
    .filter((part) => part.summary === true && part.text !== "")
    .map(({ text }) => ({ type: "summary_text", text }));
  const content = parts
    .filter((part) => part.summary !== true && part.text !== "")
    .map(({ text }) => ({ type: "reasoning_text", text }));
  return {
    summary,
    ...(content.length > 0 ? { content } : undefined),
    ...(encrypted === undefined ? undefined : { encrypted_content: encrypted }),
  };
}

/** `length` is that of the cited text. */
export function writeAnnotation(citation: Citation, length: number): JsonObject | undefined {
  const { url, title, start = 0, end = length, native } = citation;
  if (native?.wire === "responses") return native.fields;
  if (url === undefined) return undefined;
  return { type: "url_citation", url, title: title ?? "", start_index: start, end_index: end };
}

export function writeLogprobs(list: readonly TokenLogprob[] | undefined): readonly JsonObject[] {
  return (list ?? []).map(({ token, logprob, bytes, top }) => ({
    token,
    logprob,
    bytes: bytes ?? [],
    top_logprobs: (top ?? []).map((one) => ({
      token: one.token,
      logprob: one.logprob,
      bytes: one.bytes ?? [],
    })),
  }));
}
