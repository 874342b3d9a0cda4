import type { OpaqueBlob, Part, TextPart, ToolCallPart } from "../../canonical/canonical-parts.ts";
import type { Effort, Turn } from "../../canonical/canonical-request.ts";
import { invalid } from "../../invalid-request.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  mustBeArray,
  mustBeObject,
  oneOf,
  optionalObject,
  optionalOneOf,
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
  const lastUser = messages.findLastIndex((one) => isObject(one) && one["role"] === "user");
  for (const [at, value] of messages.entries()) {
    const path = `messages[${at}]`;
    const message = mustBeObject(value, path);
    const read =
      message["role"] === "system" ? readSystem(message, path) : readMessage(message, path);
    // No longer shown to the model.
    const isCleared = message["clear_at"] === "next_user_message" && at < lastUser;
    if (!isCleared) turns.push(...read);
  }
  return turns;
}

// The effort in it is read with the request, and may be all that it has.
function readSystem(message: JsonObject, path: string): readonly Turn[] {
  const { output_config: config, clear_at: clearAt, ...rest } = message;
  optionalOneOf(clearAt, `${path}.clear_at`, ["next_user_message", "never"]);
  const { effort: _effort, ...others } = optionalObject(config, `${path}.output_config`) ?? {};
  const hasOthers = Object.keys(others).length > 0;
  const content = rest["content"] ?? (config === undefined ? undefined : []);
  return readMessage(
    { ...rest, content, ...(hasOthers && { output_config: others }) },
    path,
  ).filter(({ parts, native }) => parts.length > 0 || native !== undefined);
}

/** The effort of a system message applies to the user's turn that it follows, with all its tool calls. */
export function readTurnEffort(messages: readonly unknown[]): Effort | undefined {
  let effort: Effort | undefined;
  for (const [at, message] of messages.entries()) {
    if (!isObject(message)) continue;
    if (message["role"] === "user" && !hasOnlyResults(message)) effort = undefined;
    if (message["role"] !== "system") continue;
    const path = `messages[${at}].output_config`;
    const config = optionalObject(message["output_config"], path);
    effort = optionalOneOf(config?.["effort"], `${path}.effort`, MESSAGES_EFFORTS) ?? effort;
  }
  return effort;
}

function hasOnlyResults({ content }: JsonObject): boolean {
  return (
    arrayIn(content).length > 0 &&
    arrayIn(content).every((block) => isObject(block) && block["type"] === "tool_result")
  );
}

export const MESSAGES_EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const;

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
