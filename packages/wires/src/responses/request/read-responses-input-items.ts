// Reads the items of `input` as turns. Consecutive items of the model are one turn.

import type {
  OpaqueBlob,
  Part,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import type { Tool, Turn } from "../../canonical/canonical-request.ts";
import { readArguments } from "../../canonical/tools/call-arguments.ts";
import { decodeCallId } from "../../canonical/tools/call-ids.ts";
import { invalid } from "../../invalid-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import {
  generatedImageOf,
  phaseOf,
  readReasoningItem,
  signsNextPart,
} from "../items/read-responses-output-items.ts";
import {
  isClientResult,
  readClientCall,
  readClientResult,
} from "../items/responses-client-items.ts";
import { flatToolName } from "../items/responses-namespaces.ts";
import { readContent } from "./read-responses-content.ts";

const ROLES = ["user", "assistant", "system", "developer"] as const;
const MESSAGE_FIELDS: ReadonlySet<string> = new Set("type role content id status phase".split(" "));
const TOOL_CALL_FIELDS: ReadonlySet<string> = new Set(
  "type id call_id name namespace arguments input status action".split(" "),
);
// A result's tool is known from its call.
const TOOL_RESULT_FIELDS: ReadonlySet<string> = new Set(
  "type id call_id name namespace output status action".split(" "),
);
// Results of native items. Every other native item belongs to an assistant turn.
const USER_ITEM_TYPES: ReadonlySet<string> = new Set([
  "computer_call_output",
  "local_shell_call_output",
  "shell_call_output",
  "apply_patch_call_output",
  "mcp_approval_response",
]);

type MutableTurn = Turn & { readonly parts: Part[] };

interface ReaderState {
  readonly turns: MutableTurn[];
  /** The latest turn that has only native items of the user. */
  nativeUserTurn: MutableTurn | undefined;
  readonly tools: readonly Tool[];
  /** The signature of the next call or image. */
  pendingSignature: OpaqueBlob | undefined;
  /** By the ids that results name: calls of tools that OpenAI defines and the client runs. */
  readonly clientCallIds: Map<unknown, string>;
}

export function readTurns(input: unknown, tools: readonly Tool[] = []): readonly Turn[] {
  if (typeof input === "string")
    return [{ role: "user", parts: readContent(input, "input"), path: "input" }];
  const state: ReaderState = {
    turns: [],
    nativeUserTurn: undefined,
    tools,
    pendingSignature: undefined,
    clientCallIds: new Map(),
  };
  for (const [at, value] of mustBeArray(input, "input").entries()) {
    const path = `input[${at}]`;
    readItem(state, mustBeObject(value, path), path);
  }
  return state.turns;
}

function readItem(state: ReaderState, item: JsonObject, path: string): void {
  const type =
    optionalString(item["type"], `${path}.type`) ??
    (item["role"] === undefined ? "item_reference" : "message");
  if (readAgentItem(state, item, path)) return;
  switch (type) {
    case "message":
      return readMessage(state, item, path);
    case "reasoning":
      return readReasoning(state, item, path);
    case "function_call":
    case "custom_tool_call":
      turnOf(state, "assistant", path).parts.push(readCall(state, item, path));
      return;
    case "function_call_output":
    case "custom_tool_call_output":
      turnOf(state, "tool", path).parts.push(readResult(item, path));
      return;
    case "item_reference":
      throw invalid(path, `\`${path}\` references an item by id. Send the item itself.`);
    default:
      return readOther(state, item, type, path);
  }
}

// The call or result of a tool that the client runs, or an item that only this API has.
function readOther(state: ReaderState, item: JsonObject, type: string, path: string): void {
  const clientPart = clientPartOf(state, item, path);
  if (clientPart !== undefined) {
    turnOf(state, clientPart.type === "tool_call" ? "assistant" : "tool", path).parts.push(
      clientPart,
    );
    return;
  }
  const role = ROLES.find((one) => one === item["role"]);
  const image = generatedImageOf(item);
  const native: Part =
    image === undefined
      ? { type: "native", wire: "responses", value: item, path }
      : { ...image, signature: takeSignature(state, "image"), path };
  if (role !== undefined && role !== "assistant") state.turns.push({ role, parts: [native], path });
  else turnOf(state, USER_ITEM_TYPES.has(type) ? "user" : "assistant", path).parts.push(native);
}

// Consecutive items of the model, tool results or native items of the user are one turn; user messages are separate turns.
function turnOf(
  state: ReaderState,
  role: "assistant" | "tool" | "user",
  path: string,
): MutableTurn {
  const last = state.turns.at(-1);
  if (last?.role === role && (role !== "user" || last === state.nativeUserTurn)) return last;
  const turn: MutableTurn = { role, parts: [], path };
  state.turns.push(turn);
  if (role === "user") state.nativeUserTurn = turn;
  return turn;
}

function readMessage(state: ReaderState, item: JsonObject, path: string): void {
  const role = oneOf(item["role"], `${path}.role`, ROLES);
  const parts = readContent(item["content"], `${path}.content`, phaseOf(item));
  const fields = unknownFields(item, MESSAGE_FIELDS);
  const native = fields && ({ wire: "responses", fields } as const);
  if (role !== "assistant") state.turns.push({ role, parts, native, path });
  else if (native === undefined) turnOf(state, "assistant", path).parts.push(...parts);
  else state.turns.push({ role, parts, native, path });
}

/** Whether it was an item of a conversation between agents. */
function readAgentItem(state: ReaderState, item: JsonObject, path: string): boolean {
  switch (item["type"]) {
    case "multi_agent_call": {
      const call = { ...item, name: item["action"], agent: undefined };
      turnOf(state, "assistant", path).parts.push(readCall(state, call, path));
      return true;
    }
    case "multi_agent_call_output":
      turnOf(state, "tool", path).parts.push(readResult({ ...item, agent: undefined }, path));
      return true;
    case "agent_message":
      readAgentMessage(state, item, path);
      return true;
    // The request's settings are read from it.
    case "configuration_update":
      return true;
    default:
      return false;
  }
}

// Messages between agents are text for the agent that reads the conversation.
function readAgentMessage(state: ReaderState, item: JsonObject, path: string): void {
  const author = mustBeName(item["author"], `${path}.author`);
  const recipient = mustBeName(item["recipient"], `${path}.recipient`);
  const parts = readContent(item["content"], `${path}.content`);
  const text = `Message from the agent ${author} to the agent ${recipient}:`;
  const hasText = parts.some((part) => part.type !== "native");
  state.turns.push({
    role: "user",
    parts: hasText ? [{ type: "text", text, path }, ...parts] : parts,
    path,
  });
}

// The signature of another part is reasoning without text: before a call or an image, and after a text.
function readReasoning(state: ReaderState, item: JsonObject, path: string): void {
  const parts = readReasoningItem(item, path);
  const blob = parts[0]?.text === "" ? parts[0].blob : undefined;
  if (signsNextPart(blob)) state.pendingSignature = blob;
  else if (blob?.kind === "text") attachTextSignature(state.turns.at(-1), blob);
  else if (parts.length > 0) turnOf(state, "assistant", path).parts.push(...parts);
}

function takeSignature(state: ReaderState, kind: OpaqueBlob["kind"]): OpaqueBlob | undefined {
  const { pendingSignature } = state;
  state.pendingSignature = undefined;
  return pendingSignature?.kind === kind ? pendingSignature : undefined;
}

function attachTextSignature(turn: MutableTurn | undefined, signature: OpaqueBlob): void {
  const last = turn?.parts.at(-1);
  if (turn?.role === "assistant" && last?.type === "text")
    turn.parts[turn.parts.length - 1] = { ...last, signature };
}

function readCall(state: ReaderState, item: JsonObject, path: string): ToolCallPart {
  const custom = item["type"] === "custom_tool_call";
  const fields = unknownFields(item, TOOL_CALL_FIELDS);
  return {
    type: "tool_call",
    id: decodeCallId(mustBeName(item["call_id"], `${path}.call_id`)),
    name: flatToolName(state.tools, {
      name: mustBeName(item["name"], `${path}.name`),
      namespace: optionalString(item["namespace"], `${path}.namespace`) || undefined,
    }),
    arguments: custom
      ? mustBeString(item["input"], `${path}.input`)
      : readArguments(item["arguments"], `${path}.arguments`),
    custom: custom || undefined,
    signature: takeSignature(state, "call"),
    native: fields && { wire: "responses", fields },
    path,
  };
}

/**
 * The call of a tool that the client runs, or its result; undefined for any other item, and for the result of a call that is
 * not in the conversation.
 */
function clientPartOf(
  state: ReaderState,
  item: JsonObject,
  path: string,
): ToolCallPart | ToolResultPart | undefined {
  const call = readClientCall(item);
  const { id, call_id: callId } = item;
  if (call !== undefined && typeof callId === "string" && callId !== "") {
    const decoded = decodeCallId(callId);
    // A result of `local_shell` can name the item.
    for (const named of [callId, id]) if (named) state.clientCallIds.set(named, decoded);
    return {
      type: "tool_call",
      id: decoded,
      name: call.name,
      arguments: JSON.stringify(call.input),
      signature: takeSignature(state, "call"),
      item,
      path,
    };
  }
  const found = state.clientCallIds.get(callId ?? id);
  if (found === undefined || !isClientResult(item)) return undefined;
  const { output, isError } = readClientResult(item);
  const content = resultContent(output, `${path}.output`);
  return {
    type: "tool_result",
    callId: found,
    content,
    isError: isError || undefined,
    item,
    path,
  };
}

function readResult(item: JsonObject, path: string): ToolResultPart {
  const fields = unknownFields(item, TOOL_RESULT_FIELDS);
  return {
    type: "tool_result",
    callId: decodeCallId(mustBeName(item["call_id"], `${path}.call_id`)),
    content: resultContent(item["output"], `${path}.output`),
    custom: item["type"] === "custom_tool_call_output" || undefined,
    native: fields && { wire: "responses", fields },
    path,
  };
}

function resultContent(output: unknown, path: string): ToolResultPart["content"] {
  const content: ToolResultPart["content"][number][] = [];
  for (const part of readContent(output, path)) {
    if (
      part.type === "refusal" ||
      part.type === "reasoning" ||
      part.type === "tool_call" ||
      part.type === "tool_result"
    )
      throw invalid(
        part.path,
        "A tool result can contain only text, images, files, audio and video.",
      );
    content.push(part);
  }
  return content;
}
