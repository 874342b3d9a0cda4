// Removes reasoning and tool calls of other providers from a body that is passed on unchanged. This gateway sealed the
// signatures and wrote the calls, so the provider would reject them, which would tie a conversation to one model.

import { API_TRAITS, type ApiName } from "../api-traits.ts";
import { decodeBlob, isEncodedBlob } from "../canonical/reasoning-blobs.ts";
import { SKIP_SIGNATURE_CHECK } from "../gemini/request/write-gemini-turns.ts";
import { arrayIn, isObject, type JsonObject } from "../json-fields.ts";
import { isForeignCallBlock, isServerCallBlock } from "../messages/messages-server-calls.ts";
import { isForeignRun } from "../responses/responses-server-calls.ts";

/** A request as its caller wrote it. */
export interface PassedRequest {
  readonly api: ApiName;
  readonly text: string;
  readonly json: JsonObject;
}

export interface KeptHistory {
  /** The field without what is foreign, as JSON text; undefined if nothing was removed. */
  readonly messages?: string;
  readonly input?: string;
  readonly contents?: string;
  readonly dropped: readonly string[];
}

const UNCHANGED: KeptHistory = { dropped: [] };
/** How they begin in JSON: a sealed signature, the empty one of a Gemini text, a call and a citation of its results. */
const TRACES = /"pst1\.|"signature":\s*""|"(?:srvtoolu|mcptoolu|cntr)_pst_|"encrypted_index":\s*""/;

export function dropForeignHistory({ api, text, json }: PassedRequest): KeptHistory {
  const { foreignParts } = API_TRAITS[api];
  if (foreignParts === undefined || !TRACES.test(text)) return UNCHANGED;
  const dropped: string[] = [];
  if (foreignParts === "items") {
    const { input } = json;
    if (!Array.isArray(input)) return UNCHANGED;
    const kept = keepOwn(input, "input", dropped);
    return dropped.length === 0 ? UNCHANGED : { input: JSON.stringify(kept), dropped };
  }
  if (foreignParts === "parts") {
    const { contents } = json;
    const kept = arrayIn(contents).map((content, index) => ownContent(content, index, dropped));
    const isSame = kept.every((content, index) => content === arrayIn(contents)[index]);
    return isSame ? UNCHANGED : { contents: JSON.stringify(kept), dropped };
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
  return list.flatMap((part: unknown, index) => {
    if (!isObject(part)) return [part];
    if (isForeign(part)) {
      dropped.push(`${path}[${index}]`);
      return [];
    }
    const { citations } = part;
    if (!Array.isArray(citations)) return [part];
    const own = citations.filter((one: unknown) => !isForeignCitation(one));
    if (own.length === citations.length) return [part];
    dropped.push(`${path}[${index}].citations`);
    return [{ ...part, citations: own.length === 0 ? undefined : own }];
  });
}

/** The content with Google's own signatures. A call of another model gets Google's text for one without a signature. */
function ownContent(content: unknown, index: number, dropped: string[]): unknown {
  if (!isObject(content) || !Array.isArray(content["parts"])) return content;
  const sent = content["parts"];
  const parts = sent.flatMap((part: unknown, at): readonly unknown[] => {
    if (!isObject(part) || !isEncodedBlob(part["thoughtSignature"])) return [part];
    const { thoughtSignature, ...rest } = part;
    const blob = decodeBlob(String(thoughtSignature), "gemini", "signature");
    if (blob.wire === "gemini") return [{ ...rest, thoughtSignature: blob.data }];
    dropped.push(`contents[${index}].parts[${at}].thoughtSignature`);
    if (part["functionCall"] !== undefined)
      return [{ ...rest, thoughtSignature: SKIP_SIGNATURE_CHECK }];
    return part["thought"] === true || part["text"] === "" ? [] : [rest];
  });
  if (parts.length === sent.length && parts.every((part, at) => part === sent[at])) return content;
  // Google refuses a content without parts.
  return { ...content, parts: parts.length === 0 ? [{ text: "" }] : parts };
}

function isForeign(part: JsonObject): boolean {
  switch (part["type"]) {
    case "thinking":
      return (
        isEncodedBlob(part["signature"]) || (part["signature"] === "" && part["thinking"] === "")
      );
    case "redacted_thinking":
      return isEncodedBlob(part["data"]);
    case "reasoning":
      return isEncodedBlob(part["encrypted_content"]);
    case "code_interpreter_call":
      return isForeignRun(part);
    default:
      return isServerCallBlock(part) && isForeignCallBlock(part);
  }
}

/** Without Anthropic's reference to its search result. */
function isForeignCitation(citation: unknown): boolean {
  return isObject(citation) && citation["encrypted_index"] === "";
}
