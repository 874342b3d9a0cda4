// The request that counts the input tokens of another request: each provider's API has one, which costs nothing.

import type { JsonObject } from "./json-fields.ts";
import type { UpstreamWireName } from "./wire-traits.ts";

export interface CountRequest {
  readonly wire: UpstreamWireName;
  /** What follows the path of the wire. */
  readonly path: string;
  readonly body: JsonObject;
}

interface CallToCount {
  readonly body: JsonObject;
  /** What follows the path of the wire in the call. */
  readonly path: string;
  /** The account at Google is a project: Vertex AI, whose count takes the contents themselves. */
  readonly isVertex: boolean;
}

const WRITERS: Readonly<
  Partial<Record<UpstreamWireName, (call: CallToCount) => Omit<CountRequest, "wire">>>
> = {
  responses: ({ body }) => ({ path: "/input_tokens", body: pick(body, RESPONSES_FIELDS) }),
  gemini: ({ body, path, isVertex }) => {
    const [name = ""] = path.split(/:\w*generateContent/i);
    const counted = pick(body, GEMINI_FIELDS);
    return {
      path: `${name}:countTokens`,
      body: isVertex
        ? counted
        : { generateContentRequest: { model: name.replace(/^\//, ""), ...counted } },
    };
  },
  converse: ({ body, path }) => ({
    path: path.replace(/converse(-stream)?$/, "count-tokens"),
    body: { input: { converse: pick(body, CONVERSE_FIELDS) } },
  }),
  messages: ({ body }) => ({ path: "", body: pick(body, MESSAGES_FIELDS) }),
};

const RESPONSES_FIELDS =
  "model input instructions tools tool_choice text reasoning truncation parallel_tool_calls";
const GEMINI_FIELDS = "contents systemInstruction tools toolConfig generationConfig";
const CONVERSE_FIELDS = "messages system toolConfig additionalModelRequestFields";
const MESSAGES_FIELDS =
  "model messages system tools tool_choice thinking output_config mcp_servers context_management anthropic_version";

/** Undefined on a wire without such a request. */
export function writeCountRequest(
  wire: UpstreamWireName,
  call: CallToCount,
): CountRequest | undefined {
  const written = WRITERS[wire]?.(call);
  return written && { wire: wire === "messages" ? "count_tokens" : wire, ...written };
}

/** Undefined if the reply has no count. */
export function readCount(reply: JsonObject): number | undefined {
  const { input_tokens, totalTokens, inputTokens } = reply;
  const count = input_tokens ?? totalTokens ?? inputTokens;
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : undefined;
}

function pick(body: JsonObject, fields: string): JsonObject {
  const known = new Set(fields.split(" "));
  return Object.fromEntries(Object.entries(body).filter(([name]) => known.has(name)));
}
