// Removes reasoning of other providers from a body that is passed on unchanged. This gateway sealed its signatures, so the
// provider would reject them, which would tie a conversation to one model.

import { isObject, type JsonObject } from "../../base/json.ts";
import { isEncodedBlob } from "../canonical/reasoning.ts";
import type { ParsedRequest } from "../request/parse-request.ts";

export interface KeptHistory {
  /** The field without the foreign reasoning, as JSON text; undefined if nothing was removed. */
  readonly messages?: string;
  readonly input?: string;
  readonly dropped: readonly string[];
}

const UNCHANGED: KeptHistory = { dropped: [] };
/** How a sealed signature, and the empty one of a Gemini text without any, begin in JSON. */
const TRACES = /"pst1\.|"signature":\s*""/;

export function dropForeignReasoning({ api, text, json }: ParsedRequest): KeptHistory {
  if ((api !== "messages" && api !== "responses") || !TRACES.test(text)) return UNCHANGED;
  const dropped: string[] = [];
  if (api === "responses") {
    const { input } = json;
    if (!Array.isArray(input)) return UNCHANGED;
    const kept = keepOwn(input, "input", dropped);
    return dropped.length === 0 ? UNCHANGED : { input: JSON.stringify(kept), dropped };
  }
  const { messages } = json;
  if (!Array.isArray(messages)) return UNCHANGED;
  const kept = messages.flatMap((message: unknown, index) => {
    if (!isObject(message) || !Array.isArray(message["content"])) return [message];
    const content = keepOwn(message["content"], `messages[${index}].content`, dropped);
    // Providers refuse a message without content.
    return content.length === 0 ? [] : [{ ...message, content }];
  });
  return dropped.length === 0 ? UNCHANGED : { messages: JSON.stringify(kept), dropped };
}

function keepOwn(list: readonly unknown[], path: string, dropped: string[]): readonly unknown[] {
  return list.filter((part, index) => {
    const isForeign = isObject(part) && isForeignReasoning(part);
    if (isForeign) dropped.push(`${path}[${index}]`);
    return !isForeign;
  });
}

function isForeignReasoning(part: JsonObject): boolean {
  switch (part["type"]) {
    case "thinking":
      return (
        isEncodedBlob(part["signature"]) || (part["signature"] === "" && part["thinking"] === "")
      );
    case "redacted_thinking":
      return isEncodedBlob(part["data"]);
    case "reasoning":
      return isEncodedBlob(part["encrypted_content"]);
    default:
      return false;
  }
}
