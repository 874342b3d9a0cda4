// Validation that all inbound wires share. Each error is a 400 that names the caller's own field.

import { invalid } from "../invalid-request.ts";
import { isObject, type JsonObject } from "../json-fields.ts";
import type { Part, ToolResultPart } from "./canonical-parts.ts";
import {
  type CanonicalRequest,
  isInstruction,
  type Tool,
  type ToolChoice,
  type Turn,
} from "./canonical-request.ts";
import { checkMediaSources } from "./media-sources.ts";

const SCHEMA_TYPES: ReadonlySet<unknown> = new Set([
  "object",
  "array",
  "string",
  "number",
  "integer",
  "boolean",
  "null",
]);
const SCHEMA_DEPTH_MAX = 64;
/** Per tool or output schema. OpenAI accepts 5,000 properties. */
const SUBSCHEMAS_MAX = 10_000;
const TURNS_MAX = 20_000;
const TOOLS_MAX = 2_048;
const TOOL_NAME = /^[A-Za-z0-9_.:/-]{1,256}$/;

/**
 * The request with each tool result directly after the turn with its call, and with its tool's name. `schemaField` is the
 * caller's name for a tool's parameters.
 */
export function checkRequest(
  request: CanonicalRequest,
  schemaField = "parameters",
): CanonicalRequest {
  if (request.turns.length > TURNS_MAX)
    throw invalid("messages", `A conversation can have at most ${TURNS_MAX} messages.`);
  const turns = omitEmptyTurns(request.turns);
  for (const turn of turns) checkTurn(turn);
  if (turns.every(isInstruction)) {
    throw invalid(
      request.names?.turns ?? "messages",
      "At least one message that is not an instruction is required.",
    );
  }
  checkTools(request, schemaField);
  return { ...request, turns: reorderToolResults(turns) };
}

// Clients send back replies without content, and instructions that are empty; most providers reject a message without any.
function omitEmptyTurns(turns: readonly Turn[]): readonly Turn[] {
  const kept = turns.filter(({ parts, native }) => parts.length > 0 || native !== undefined);
  return kept.some(({ role }) => role === "user" || role === "tool") ? kept : turns;
}

function checkTurn(turn: Turn): void {
  if (turn.parts.length === 0 && turn.native === undefined)
    throw invalid(turn.path, `${pathLabel(turn.path)} has no content.`);
  checkMediaSources(turn.parts, turn.path);
  const calls = new Set<string>();
  for (const part of turn.parts) {
    if ((part.type === "tool_result") !== (turn.role === "tool"))
      throw invalid(part.path ?? turn.path, "A tool result is only allowed in a tool message.");
    if (part.type !== "tool_call") continue;
    if (turn.role !== "assistant")
      throw invalid(part.path ?? turn.path, "A tool call is only allowed in an assistant message.");
    if (part.id === "") throw invalid(part.path, `${pathLabel(part.path)} must have an id.`);
    if (calls.has(part.id))
      throw invalid(part.path, `The tool call id ${quoted(part.id)} is used twice in one message.`);
    calls.add(part.id);
  }
}

interface PendingCalls {
  /** The parts of the turn with the calls. */
  parts: Part[];
  readonly calls: Map<string, { readonly name: string; readonly path: string | undefined }>;
  /** The results that have arrived so far, as parts of the turn after the calls. */
  results: ToolResultPart[];
}

// Callers send the results of parallel calls in any order, over several messages and with text between them. A result
// belongs to the latest call with its id; an id can be reused after its result.
function reorderToolResults(turns: readonly Turn[]): readonly Turn[] {
  const reordered: Turn[] = [];
  const pending: PendingCalls = { parts: [], calls: new Map(), results: [] };
  for (const turn of turns) {
    if (turn.role === "tool") {
      const first = pending.results.length === 0;
      matchResults(pending, turn);
      if (first)
        reordered[reordered.findLastIndex((one) => one.role === "tool")] = {
          ...turn,
          parts: pending.results,
        };
      continue;
    }
    if (turn.role !== "assistant") {
      reordered.push(turn);
      continue;
    }
    if (joinsUnansweredCalls(pending, turn, reordered)) continue;
    rejectUnansweredCalls(pending);
    pending.parts = [...turn.parts];
    reordered.push({ ...turn, parts: pending.parts });
    for (const part of turn.parts)
      if (part.type === "tool_call")
        pending.calls.set(part.id, { name: part.name, path: part.path ?? turn.path });
    pending.results = [];
    if (pending.calls.size > 0) reordered.push({ role: "tool", parts: pending.results });
  }
  rejectUnansweredCalls(pending);
  return reordered;
}

// Some clients send each parallel call as a message, and all results after the last one: these calls become one turn.
function joinsUnansweredCalls(
  pending: PendingCalls,
  turn: Turn,
  reordered: readonly Turn[],
): boolean {
  if (pending.calls.size === 0 || pending.results.length > 0) return false;
  if (reordered.at(-2)?.role !== "assistant" || turn.native !== undefined) return false;
  const calls = turn.parts.filter((part) => part.type === "tool_call");
  if (calls.length === 0 || calls.some(({ id }) => pending.calls.has(id))) return false;
  for (const { id, name, path } of calls) pending.calls.set(id, { name, path: path ?? turn.path });
  for (const part of turn.parts) pending.parts.push(part);
  return true;
}

function matchResults(pending: PendingCalls, turn: Turn): void {
  for (const part of turn.parts) {
    if (part.type !== "tool_result") continue;
    const call = pending.calls.get(part.callId);
    if (call === undefined)
      throw invalid(
        part.path ?? turn.path,
        `${quoted(part.callId)} matches no pending tool call of the assistant message before it.`,
      );
    pending.calls.delete(part.callId);
    pending.results.push({ ...part, name: call.name });
  }
}

function rejectUnansweredCalls(pending: PendingCalls): void {
  for (const [id, call] of pending.calls)
    throw invalid(call.path, `The tool call ${quoted(id)} has no result in the messages after it.`);
}

function checkTools(request: CanonicalRequest, schemaField: string): void {
  const { tools = [], toolChoice: choice } = request;
  const path = request.names?.tools ?? "tools";
  if (tools.length > TOOLS_MAX)
    throw invalid(path, `A request can have at most ${TOOLS_MAX} tools.`);
  const names = new Set<string>();
  for (const tool of tools) {
    checkTool(tool, tool.path ?? path, names);
    if (tool.type === "function" && tool.parameters !== undefined)
      checkToolSchema(tool.parameters, `${tool.path ?? path}.${schemaField}`);
    names.add(tool.name);
  }
  if (choice !== undefined) checkChoice(choice, names, request.names?.toolChoice ?? "tool_choice");
}

function checkChoice(choice: ToolChoice, names: ReadonlySet<string>, path: string): void {
  if (choice.type === "required" && names.size === 0)
    throw invalid(path, "A tool call cannot be required without tools.");
  const wanted =
    choice.type === "tool" ? [choice.name] : choice.type === "allowed" ? choice.names : [];
  for (const name of wanted)
    if (!names.has(name)) throw invalid(path, `No tool is named ${quoted(name)}.`);
}

function checkTool(tool: Tool, path: string, names: ReadonlySet<string>): void {
  if (tool.type === "native") return;
  if (!TOOL_NAME.test(tool.name))
    throw invalid(`${path}.name`, `${quoted(tool.name)} is not a valid tool name.`);
  if (names.has(tool.name))
    throw invalid(path, `The tool name ${quoted(tool.name)} is used twice.`);
}

function checkToolSchema(schema: JsonObject, path: string): void {
  checkSchema(schema, path);
  if (schema["type"] !== undefined && schema["type"] !== "object")
    throw invalid(`${path}.type`, `\`${path}.type\` must be "object".`);
}

/** Rejects what is invalid in every draft of JSON Schema; further limits are the provider's to report. */
export function checkSchema(schema: unknown, path: string): void {
  checkSubschema(schema, path, { path, depth: 0, counted: { subschemas: 0 } });
}

interface SchemaPosition {
  /** The path of the whole schema. */
  readonly path: string;
  readonly depth: number;
  readonly counted: { subschemas: number };
}

function checkSubschema(schema: unknown, path: string, position: SchemaPosition): void {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) throw invalid(path, `\`${path}\` must be a JSON schema object.`);
  if (position.depth > SCHEMA_DEPTH_MAX)
    throw invalid(path, `A schema can be nested at most ${SCHEMA_DEPTH_MAX} levels deep.`);
  if (++position.counted.subschemas > SUBSCHEMAS_MAX)
    throw invalid(
      position.path,
      `\`${position.path}\` can have at most ${SUBSCHEMAS_MAX} schemas of properties and items. Send a smaller schema, or split the tool.`,
    );
  const inner = { ...position, depth: position.depth + 1 };
  const { type, required, properties, items, $defs: definitions } = schema;
  if (type !== undefined && !isSchemaType(type))
    throw invalid(`${path}.type`, `\`${path}.type\` must be a JSON Schema type.`);
  if (required !== undefined && !isStringArray(required))
    throw invalid(`${path}.required`, `\`${path}.required\` must be an array of strings.`);
  if (properties !== undefined) checkSchemas(properties, `${path}.properties`, inner);
  if (definitions !== undefined) checkSchemas(definitions, `${path}.$defs`, inner);
  if (items !== undefined && !Array.isArray(items)) checkSubschema(items, `${path}.items`, inner);
  for (const key of ["anyOf", "oneOf", "allOf"])
    if (schema[key] !== undefined) checkAlternatives(schema[key], `${path}.${key}`, inner);
}

function checkAlternatives(list: unknown, path: string, position: SchemaPosition): void {
  if (!Array.isArray(list) || list.length === 0)
    throw invalid(path, `\`${path}\` must be a non-empty array.`);
  for (const [at, schema] of list.entries()) checkSubschema(schema, `${path}[${at}]`, position);
}

function checkSchemas(schemas: unknown, path: string, position: SchemaPosition): void {
  if (!isObject(schemas)) throw invalid(path, `\`${path}\` must be an object.`);
  for (const [name, schema] of Object.entries(schemas))
    checkSubschema(schema, `${path}.${name}`, position);
}

// Google's uppercase types are accepted, because callers copy such schemas between APIs.
function isSchemaType(type: unknown): boolean {
  return Array.isArray(type)
    ? type.every(isSchemaType)
    : typeof type === "string" && SCHEMA_TYPES.has(type.toLowerCase());
}

function isStringArray(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

function pathLabel(path: string | undefined): string {
  return path === undefined ? "A message" : `\`${path}\``;
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
