import type {
  OpaqueBlob,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import type { Turn } from "../../canonical/canonical-request.ts";
import { decodeBlob } from "../../canonical/reasoning-blobs.ts";
import { invalid } from "../../invalid-request.ts";
import {
  isObject,
  type JsonObject,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalObject,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { mintCallId } from "../reply/gemini-call-ids.ts";
import { readMedia } from "./read-gemini-media.ts";
import { SIGNATURES_WITHOUT_CHECK } from "./write-gemini-turns.ts";

const CONTENT_FIELDS: ReadonlySet<string> = new Set(["role", "parts"]);
const PART_FIELDS: ReadonlySet<string> = new Set([
  "text",
  "thought",
  "thoughtSignature",
  "functionCall",
  "functionResponse",
  "inlineData",
  "fileData",
  "mediaResolution",
]);
const CALL_FIELDS: ReadonlySet<string> = new Set(["id", "name", "args"]);
const RESPONSE_FIELDS: ReadonlySet<string> = new Set(["id", "name", "response", "parts"]);
const ROLES = ["user", "model", "function", "tool"] as const;

/** The calls of the latest turn of the model that have no result yet. */
type PendingCalls = { readonly id: string; readonly name: string }[];

/**
 * A user's content with results of functions and other parts is two turns. Clients send a streamed reply back as one content for
 * each of its chunks, so adjacent contents of the model are one turn.
 */
export function readTurns(system: unknown, contents: readonly unknown[]): readonly Turn[] {
  const turns: Turn[] = [];
  const instructions = optionalObject(system, "systemInstruction");
  if (instructions !== undefined) {
    const parts = readParts(instructions, "systemInstruction").filter(isNotEmpty);
    if (parts.length > 0) turns.push({ role: "system", parts, path: "systemInstruction" });
  }
  let pending: PendingCalls = [];
  let reply: { readonly parts: Part[]; readonly path: string } | undefined;
  for (const [at, value] of contents.entries()) {
    const path = `contents[${at}]`;
    const content = mustBeObject(value, path);
    const role = oneOf(content["role"] ?? "user", `${path}.role`, ROLES);
    const fields = unknownFields(content, CONTENT_FIELDS);
    const native = fields && ({ wire: "gemini", fields } as const);
    if (role === "model") {
      reply ??= { parts: [], path };
      if (reply.path === path) pending = [];
      addReplyParts(reply.parts, readCalls(content, path, { contents: at, pending }));
      if (reply.path === path) turns.push({ role: "assistant", parts: reply.parts, path, native });
      continue;
    }
    reply = undefined;
    const parts = readParts(content, path, pending).filter(isNotEmpty);
    const results = parts.filter((part) => part.type === "tool_result");
    const others = parts.filter((part) => part.type !== "tool_result");
    if (results.length > 0) turns.push({ role: "tool", parts: results, path });
    if (others.length > 0 || results.length === 0)
      turns.push({ role: "user", parts: others, path, native });
  }
  return turns;
}

function isNotEmpty(part: Part): boolean {
  return part.type !== "text" || part.text !== "";
}

function partsOf(content: JsonObject, path: string): readonly JsonObject[] {
  return (optionalArray(content["parts"], `${path}.parts`) ?? []).map((part, at) =>
    mustBeObject(part, `${path}.parts[${at}]`),
  );
}

function readParts(content: JsonObject, path: string, pending: PendingCalls = []): Part[] {
  return partsOf(content, path).map((part, at) => {
    const partPath = `${path}.parts[${at}]`;
    return part["functionResponse"] === undefined || part["functionResponse"] === null
      ? readPart(part, partPath)
      : readResult(
          mustBeObject(part["functionResponse"], `${partPath}.functionResponse`),
          partPath,
          pending,
        );
  });
}

interface CallPosition {
  readonly contents: number;
  readonly pending: PendingCalls;
}

/** A part of a reply, before those of one text are joined. */
interface ReplyPart {
  readonly part: Part;
  readonly signature: OpaqueBlob | undefined;
}

function readCalls(content: JsonObject, path: string, position: CallPosition): ReplyPart[] {
  return partsOf(content, path).map((part, at): ReplyPart => {
    const partPath = `${path}.parts[${at}]`;
    const call = optionalObject(part["functionCall"], `${partPath}.functionCall`);
    if (call === undefined)
      return { part: readPart(part, partPath), signature: signatureOf(part, partPath) };
    const { contents, pending } = position;
    const id =
      optionalString(call["id"], `${partPath}.functionCall.id`) ||
      mintCallId("", contents, pending.length);
    const read = readCall(call, id, partPath);
    pending.push({ id, name: read.name });
    return { part: withNative(read, part), signature: signatureOf(part, partPath) };
  });
}

/**
 * Texts and thoughts come in pieces, and a signature ends them. What signs reasoning whose text was not shown is at the call or
 * text after it.
 */
function addReplyParts(parts: Part[], read: readonly ReplyPart[]): void {
  for (const { part, signature } of read) {
    if (part.type === "reasoning") {
      addThought(parts, part, signature);
      continue;
    }
    const hidden = reasoningOf(signature, part);
    if (hidden !== undefined) parts.push(hidden);
    const own = hidden === undefined ? signature : undefined;
    if (part.type === "text") addText(parts, part, own);
    else parts.push(own === undefined ? part : withSignature(part, own));
  }
}

function addThought(parts: Part[], part: ReasoningPart, signature: OpaqueBlob | undefined): void {
  const last = parts.at(-1);
  if (last?.type === "reasoning" && last.blob === undefined)
    parts[parts.length - 1] = { ...last, text: last.text + part.text, blob: signature };
  else if (part.text !== "" || signature !== undefined) parts.push({ ...part, blob: signature });
}

function addText(parts: Part[], part: TextPart, signature: OpaqueBlob | undefined): void {
  const last = parts.at(-1);
  if (last?.type === "text" && last.signature === undefined)
    parts[parts.length - 1] = { ...last, text: last.text + part.text, signature };
  else if (part.text !== "" || signature !== undefined) parts.push({ ...part, signature });
}

function reasoningOf(
  blob: OpaqueBlob | undefined,
  { path }: { readonly path?: string | undefined },
) {
  if (blob?.kind !== "signature" && blob?.kind !== "encrypted") return undefined;
  return { type: "reasoning", text: "", blob, path } satisfies ReasoningPart;
}

function withSignature(part: Part, signature: OpaqueBlob): Part {
  return part.type === "tool_call" || part.type === "image" ? { ...part, signature } : part;
}

const KIND_BY_TYPE = { tool_call: "call", image: "image", reasoning: "signature" } as const;

function signatureOf(part: JsonObject, path: string): OpaqueBlob | undefined {
  const text = optionalString(part["thoughtSignature"], `${path}.thoughtSignature`);
  if (text === undefined || text === "" || SIGNATURES_WITHOUT_CHECK.has(text)) return undefined;
  const type = isObject(part["functionCall"])
    ? "tool_call"
    : isObject(part["inlineData"])
      ? "image"
      : part["thought"] === true
        ? "reasoning"
        : undefined;
  return decodeBlob(text, "gemini", type === undefined ? "text" : KIND_BY_TYPE[type]);
}

function readPart(part: JsonObject, path: string): Part {
  const isThought = optionalBoolean(part["thought"], `${path}.thought`) === true;
  if (part["text"] !== undefined && part["text"] !== null) {
    const text = mustBeString(part["text"], `${path}.text`);
    const read: TextPart | ReasoningPart = isThought
      ? { type: "reasoning", text, path }
      : { type: "text", text, path };
    return withNative(read, part);
  }
  if (part["functionCall"] !== undefined && part["functionCall"] !== null)
    throw invalid(
      `${path}.functionCall`,
      "A function call is only allowed in a content of the model.",
    );
  const media = readMedia(part, path);
  if (media !== undefined) return withNative(media, part);
  // A thought without text has only its signature.
  if (isThought) return { type: "reasoning", text: "", path };
  const { thoughtSignature, ...rest } = part;
  if (Object.keys(rest).length > 0) return { type: "native", wire: "gemini", value: part, path };
  if (thoughtSignature !== undefined) return { type: "text", text: "", path };
  throw invalid(path, `\`${path}\` must have content, such as \`text\`.`);
}

function withNative<P extends Exclude<Part, { type: "native" }>>(part: P, source: JsonObject): P {
  const fields = unknownFields(source, PART_FIELDS);
  return fields === undefined ? part : { ...part, native: { wire: "gemini", fields } };
}

function readCall(call: JsonObject, id: string, path: string): ToolCallPart {
  const native = unknownFields(call, CALL_FIELDS);
  return {
    type: "tool_call",
    id,
    name: mustBeName(call["name"], `${path}.functionCall.name`),
    arguments: JSON.stringify(optionalObject(call["args"], `${path}.functionCall.args`) ?? {}),
    native: native && { wire: "gemini", fields: native },
    path,
  };
}

function readResult(result: JsonObject, path: string, pending: PendingCalls): ToolResultPart {
  const at = `${path}.functionResponse`;
  const name = mustBeName(result["name"], `${at}.name`);
  const id = optionalString(result["id"], `${at}.id`);
  const response = optionalObject(result["response"], `${at}.response`) ?? {};
  const { error } = response;
  const isError = error !== undefined && error !== null && Object.keys(response).length === 1;
  const media = partsOf(result, at).map((part, index) => {
    const read = readMedia(part, `${at}.parts[${index}]`);
    if (read !== undefined) return read;
    throw invalid(`${at}.parts[${index}]`, "A part of a function's response must be media.");
  });
  const native = unknownFields(result, RESPONSE_FIELDS);
  return {
    type: "tool_result",
    callId: takeCall(pending, id, name, at),
    name,
    content: [...textsOf(response, `${at}.response`), ...media],
    isError: isError || undefined,
    native: native && { wire: "gemini", fields: native },
    path,
  };
}

/** Google's documented fields of a response are `output` and `error`; any other object is passed on as JSON. */
function textsOf(response: JsonObject, path: string): readonly TextPart[] {
  const names = Object.keys(response);
  const [name = ""] = names;
  const value = response[name];
  const isPlain = names.length === 1 && (name === "output" || name === "error");
  const texts = !isPlain
    ? [JSON.stringify(response)]
    : typeof value === "string"
      ? [value]
      : Array.isArray(value) && value.every((one) => typeof one === "string")
        ? value
        : [JSON.stringify(value)];
  return texts.map((text) => ({ type: "text", text, path }));
}

/** By its id, or else the earliest of this name, because older models and clients match by name and order. */
function takeCall(
  pending: PendingCalls,
  id: string | undefined,
  name: string,
  path: string,
): string {
  const byId = pending.findIndex((call) => call.id === id);
  const found = byId === -1 ? pending.findIndex((call) => call.name === name) : byId;
  const [call] = found === -1 ? [] : pending.splice(found, 1);
  if (call === undefined)
    throw invalid(path, `\`${path}\` answers no function call of the model's content before it.`);
  return call.id;
}
