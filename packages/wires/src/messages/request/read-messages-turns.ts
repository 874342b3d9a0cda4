import type { OpaqueBlob, Part, TextPart, ToolCallPart } from "../../canonical/canonical-parts.ts";
import type { Turn } from "../../canonical/canonical-request.ts";
import { invalid } from "../../invalid-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeObject,
  oneOf,
  unknownFields,
} from "../../json-fields.ts";
import { readBlocks, readText } from "./read-messages-blocks.ts";

const MESSAGE_FIELDS: ReadonlySet<string> = new Set(["role", "content"]);

/** `system` is the first turn; a user message with tool results and other content is two turns. */
export function readTurns(system: unknown, messages: readonly unknown[]): readonly Turn[] {
  const turns: Turn[] = [];
  if (system !== undefined && system !== null && system !== "") {
    const parts =
      typeof system === "string"
        ? [readText(system, "system")]
        : readBlocks(mustBeArray(system, "system"), "system");
    if (parts.length > 0) turns.push({ role: "system", parts, path: "system" });
  }
  for (const [at, message] of messages.entries())
    turns.push(...readMessage(mustBeObject(message, `messages[${at}]`), `messages[${at}]`));
  return turns;
}

function readMessage(message: JsonObject, path: string): readonly Turn[] {
  const role = oneOf(message["role"], `${path}.role`, ["user", "assistant", "system"]);
  const { content } = message;
  if (content === undefined || content === null)
    throw invalid(`${path}.content`, `\`${path}.content\` is required.`);
  const fields = unknownFields(message, MESSAGE_FIELDS);
  const native = fields && ({ wire: "messages", fields } as const);
  const parts =
    typeof content === "string"
      ? content === ""
        ? []
        : [readText(content, `${path}.content`)]
      : readBlocks(mustBeArray(content, `${path}.content`), `${path}.content`);
  if (role !== "user" || !parts.some(isToolResult))
    return [
      { role, parts: role === "assistant" ? attachCallSignatures(parts) : parts, path, native },
    ];
  const rest = parts.filter((part) => !isToolResult(part));
  const results: Turn = { role: "tool", parts: parts.filter(isToolResult), path };
  return rest.length === 0
    ? [{ ...results, native }]
    : [results, { role: "user", parts: rest, path, native }];
}

function isToolResult(part: Part): boolean {
  return part.type === "tool_result";
}

// The signature of a call or a text comes as a thinking block without text, before it. That of a streamed text may come
// after it, because it is not known earlier. A block without text and signature was reserved for a signature that never came.
function attachCallSignatures(parts: readonly Part[]): readonly Part[] {
  const attached: Part[] = [];
  let pending: OpaqueBlob | undefined;
  for (const [index, part] of parts.entries()) {
    const signature = partSignatureIn(part);
    if (part.type === "reasoning" && part.text === "" && part.blob === undefined) continue;
    if (signature?.kind === "text" && parts[index + 1]?.type !== "text")
      attachToLastText(attached, part, signature);
    else if (signature !== undefined) pending = signature;
    else if (pending !== undefined && takesSignature(part, pending)) {
      attached.push({ ...part, signature: pending });
      pending = undefined;
    } else attached.push(part);
  }
  return attached;
}

function partSignatureIn(part: Part): OpaqueBlob | undefined {
  const blob = part.type === "reasoning" ? part.blob : undefined;
  return blob?.kind === "call" || blob?.kind === "text" ? blob : undefined;
}

function takesSignature(part: Part, { kind }: OpaqueBlob): part is ToolCallPart | TextPart {
  return part.type === (kind === "call" ? "tool_call" : "text");
}

function attachToLastText(attached: Part[], part: Part, signature: OpaqueBlob): void {
  const last = attached.at(-1);
  if (last?.type === "text") attached[attached.length - 1] = { ...last, signature };
  else attached.push(part);
}
