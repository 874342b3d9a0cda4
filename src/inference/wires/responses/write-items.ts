import type {
  CanonicalRequest,
  JsonObject,
  Loss,
  ReasoningPart,
  RefusalPart,
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from "../../canonical.ts";
import { createCallIds } from "../../canonical-call-ids.ts";
import type { CallIds } from "../../canonical-call-ids.ts";
import { mayReplay } from "../../canonical-reasoning.ts";
import { nativeFields } from "../../canonical-wire.ts";
import type { Target } from "../../canonical-wire.ts";
import { callHere } from "./namespaces.ts";
import { writeCache, writePart } from "./write-content.ts";
import { joinsReasoning, reasoningItem, writeAnnotation } from "./write-output.ts";

interface Writing {
  readonly tools: readonly Tool[] | undefined;
  readonly target: Target;
  readonly losses: Loss[];
  readonly items: JsonObject[];
  readonly ids: CallIds;
  /** The calls of custom tools, whose results have a type of their own. */
  readonly custom: Set<string>;
  /** Whether reasoning of this provider's own goes back. */
  replays: boolean;
}

export interface WrittenItems {
  readonly items: readonly JsonObject[];
  readonly replays: boolean;
}

export function writeItems(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenItems {
  const writing: Writing = {
    tools: request.tools,
    target,
    losses,
    items: [],
    ids: createCallIds(target.abilities?.callIds ?? "token64"),
    custom: new Set(),
    replays: false,
  };
  for (const [index, turn] of request.turns.entries()) {
    const at = turn.path ?? `${request.names?.turns ?? "messages"}[${index}]`;
    if (turn.name !== undefined)
      losses.push({ path: `${at}.name`, why: "This API has no names for who speaks." });
    if (turn.role === "tool") writeResults(turn, at, writing);
    else if (turn.role === "assistant") {
      if (index === request.turns.length - 1 && target.abilities?.prefill === false)
        losses.push({
          path: at,
          why: "This model does not go on with a trailing assistant message.",
          always: true,
        });
      writeAssistant(turn, at, writing);
    } else writeMessage(turn, at, writing);
  }
  return { items: writing.items, replays: writing.replays };
}

function writeMessage(turn: Turn, at: string, { target, losses, items }: Writing): void {
  const role =
    turn.role === "developer" && target.abilities?.developerRole === false ? "system" : turn.role;
  const extra = nativeFields(turn.native, "responses", at, losses);
  const only = turn.parts[0];
  if (turn.parts.length === 1 && only?.type === "text" && only.cache === undefined) {
    items.push({ type: "message", role, content: only.text, ...extra });
    return;
  }
  let content: JsonObject[] = [];
  const flush = () => {
    if (content.length > 0) items.push({ type: "message", role, content, ...extra });
    content = [];
  };
  for (const [index, part] of turn.parts.entries()) {
    if (part.type === "native" && part.wire === "responses" && !isContent(part.value)) {
      flush();
      items.push(part.value);
      continue;
    }
    const written = writePart(part, part.path ?? `${at}.content[${index}]`, target, losses);
    if (written !== undefined) content.push(written);
  }
  flush();
}

function isContent(value: JsonObject): boolean {
  return typeof value["type"] === "string" && /^(input|output)_/.test(value["type"]);
}

// Every part in the very order in which the model made it.
function writeAssistant(turn: Turn, at: string, writing: Writing): void {
  const extra = nativeFields(turn.native, "responses", at, writing.losses);
  let thoughts: ReasoningPart[] = [];
  for (const [index, part] of turn.parts.entries()) {
    if (part.type === "reasoning") {
      const next = turn.parts[index + 1];
      thoughts.push(part);
      if (next?.type === "reasoning" && joinsReasoning(part, next)) continue;
      writeReasoning(thoughts, at, writing);
      thoughts = [];
    } else if (part.type === "text" || part.type === "refusal")
      writing.items.push({ ...writeSaid(part, at, writing), ...extra });
    else if (part.type === "tool_call") writeCall(part, at, writing);
    else if (part.type === "native" && part.wire === "responses") writing.items.push(part.value);
    else
      writing.losses.push({
        path: part.path ?? at,
        why: `A ${part.type} of the assistant's cannot be given back to this provider.`,
      });
  }
}

// Plain text goes as a string: that is valid without the ids that this API gives its own messages.
function writeSaid(
  part: TextPart | RefusalPart,
  at: string,
  { target, losses }: Writing,
): JsonObject {
  const path = part.path ?? at;
  const phase = part.native?.wire === "responses" ? part.native.fields["phase"] : undefined;
  const message = { type: "message", role: "assistant", ...(phase === undefined ? {} : { phase }) };
  if (part.type === "refusal")
    return { ...message, content: [{ type: "refusal", refusal: part.text }] };
  if (part.signature !== undefined)
    losses.push({
      path,
      why: "A text's signature goes back only to the provider and model that made it.",
      byRule: true,
    });
  // Citations without an address point into nothing that this provider has seen; the text that they stand in is kept.
  const annotations = (part.citations ?? [])
    .map((citation) => writeAnnotation(citation, part.text.length))
    .filter((one) => one !== undefined);
  const cache = writeCache(part.cache, target, path, losses);
  if (annotations.length === 0 && cache === undefined) return { ...message, content: part.text };
  return { ...message, content: [{ type: "output_text", text: part.text, annotations, ...cache }] };
}

// Without its id: a provider that stored nothing knows none, and the encrypted content says it all.
function writeReasoning(parts: readonly ReasoningPart[], at: string, writing: Writing): void {
  const { target, losses, items } = writing;
  const blob = parts.at(-1)?.blob;
  if (blob !== undefined && blob.kind === "encrypted" && mayReplay(blob, "responses", target)) {
    writing.replays = true;
    items.push({ type: "reasoning", ...reasoningItem(parts, blob.data) });
    return;
  }
  const plain = parts.filter((part) => part.text !== "");
  if (blob === undefined && plain.length > 0 && target.abilities?.reasoningField !== undefined)
    items.push({ type: "reasoning", ...reasoningItem(plain, undefined) });
  else
    losses.push({
      path: parts[0]?.path ?? at,
      why: "Earlier reasoning goes back only to the provider and model that made it.",
      byRule: true,
    });
}

function writeCall(part: ToolCallPart, at: string, writing: Writing): void {
  const { tools, target, losses, items, ids, custom } = writing;
  const call = callHere(tools, part);
  const path = call.path ?? at;
  if (call.cache !== undefined) writeCache(call.cache, { ...target, abilities: {} }, path, losses);
  if (call.signature !== undefined)
    losses.push({
      path,
      why: "A call's signature goes back only to the provider and model that made it.",
      byRule: true,
    });
  const head = { call_id: ids.ofCall(call.id), name: call.name };
  const extra = nativeFields(call.native, "responses", path, losses);
  if (call.custom === true) custom.add(call.id);
  else custom.delete(call.id);
  items.push(
    call.custom === true
      ? { type: "custom_tool_call", ...head, input: call.arguments, ...extra }
      : { type: "function_call", ...head, arguments: call.arguments, ...extra },
  );
}

function writeResults(turn: Turn, at: string, writing: Writing): void {
  const { items, ids, custom, losses } = writing;
  for (const part of turn.parts) {
    if (part.type !== "tool_result") continue;
    const path = part.path ?? at;
    items.push({
      type: custom.has(part.callId) ? "custom_tool_call_output" : "function_call_output",
      call_id: ids.ofResult(part.callId),
      output: writeResult(part, path, writing),
      ...nativeFields(part.native, "responses", path, losses),
    });
  }
}

function writeResult(part: ToolResultPart, at: string, { target, losses }: Writing): unknown {
  if (part.isError === true)
    losses.push({
      path: `${at}.is_error`,
      why: "This API has no mark for a failed tool; the result itself says so.",
      byRule: true,
    });
  if (part.cache !== undefined) writeCache(part.cache, { ...target, abilities: {} }, at, losses);
  const [first] = part.content;
  if (first === undefined) return "";
  if (part.content.length === 1 && first.type === "text" && first.cache === undefined)
    return first.text;
  return part.content
    .map((one, index) => writePart(one, one.path ?? `${at}.content[${index}]`, target, losses))
    .filter((one) => one !== undefined);
}
