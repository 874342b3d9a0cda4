// The strings of a request, a reply or an event that guardrails check: all but those that name or identify something. So the texts
// of a new field are checked, too.

import type { GuardPhase } from "../../base/guard.ts";
import { isObject, type JsonObject } from "../../base/json.ts";

/** Members whose strings are no text for or from a model: names, ids, kinds, and data that is not text. */
const SKIPPED: ReadonlySet<string> = new Set([
  "type",
  "object",
  "role",
  "model",
  "status",
  "id",
  "tool_call_id",
  "toolUseId",
  "tool_use_id",
  "call_id",
  "item_id",
  "response_id",
  "responseId",
  "previous_response_id",
  "file_id",
  "encrypted_content",
  "signature",
  "thoughtSignature",
  "thought_signature",
  "data",
  "bytes",
  "b64_json",
  // In base64, if the request asks for it.
  "embedding",
  "partial_image_b64",
  "file_data",
  "media_type",
  "mimeType",
  "mime_type",
  "finish_reason",
  "finishReason",
  "stop_reason",
  "stopReason",
  "system_fingerprint",
  "service_tier",
  "modelVersion",
  "obfuscation",
  // Cannot be changed without the text that they repeat: a changed text loses them.
  "logprobs",
  "logprobsResult",
  "postern",
  "usage",
  "usageMetadata",
]);

/** The members of a reply that repeat its request. */
const REPEATED: ReadonlySet<string> = new Set(["instructions", "tools", "tool_choice", "prompt"]);

/** Members whose objects have the names of a function's own arguments and results: none of them is skipped there. */
const FREE_MEMBERS: ReadonlySet<string> = new Set([
  "args",
  "arguments",
  "input",
  "json",
  "metadata",
  "functionResponse",
  "function_response",
]);

/** All of it, because only a text that is no text needs no check. */
const DATA_URL = /^data:[\w.+/-]{0,200};base64,[A-Za-z0-9+/=]*$/;
/** Members that a URL is in. A text that looks like one is a text. */
const URL_MEMBER = /(?:^|_)(?:url|uri|data)$|Uri$/;
/** Positions by which the events of a stream say what they continue. */
const INDEX_MEMBERS = [
  "index",
  "output_index",
  "content_index",
  "summary_index",
  "choice",
  "part",
] as const;

type Container = Record<string, unknown> | unknown[];

/** A string within JSON, which can be replaced. */
export interface TextField {
  /** `messages[0].content`. */
  readonly path: string;
  /** The path with the positions on it, which is the same for all events that continue one text. */
  readonly key: string;
  readonly text: string;
  readonly container: Container;
  readonly member: string | number;
  /** Whether it is a part of a text that other events continue. */
  readonly isDelta: boolean;
}

export function textFieldsOf(json: unknown, phase: GuardPhase): readonly TextField[] {
  const fields: TextField[] = [];
  collect(json, { path: "", positions: "", isFree: false, isReply: phase === "output" }, fields);
  return fields;
}

interface Place {
  readonly path: string;
  readonly positions: string;
  readonly isFree: boolean;
  readonly isReply: boolean;
}

function collect(value: unknown, at: Place, fields: TextField[]): void {
  if (!isObject(value) && !Array.isArray(value)) return;
  const container = value as Container; // Its members are replaced: the JSON belongs to the check.
  const positions = at.positions + (isObject(value) ? indexesOf(value) : "");
  const entries: Iterable<[string | number, unknown]> = Array.isArray(value)
    ? value.entries()
    : Object.entries(value);
  for (const [member, inner] of entries) {
    if (isSkipped(member, at) && !isTextDocument(value, member)) continue;
    const path = pathTo(at.path, member);
    if (typeof inner !== "string") {
      const isFree = at.isFree || (isObject(inner) && FREE_MEMBERS.has(String(member)));
      collect(inner, { ...at, path, positions, isFree }, fields);
    } else if (inner !== "" && !isDataUrl(member, inner)) {
      const isDelta = isDeltaPath(path) || isDeltaEvent(value, member);
      fields.push({ path, key: `${path} ${positions}`, text: inner, container, member, isDelta });
    }
  }
}

function isDataUrl(member: string | number, text: string): boolean {
  return URL_MEMBER.test(String(member)) && DATA_URL.test(text);
}

function pathTo(path: string, member: string | number): string {
  if (typeof member === "number") return `${path}[${member}]`;
  return path === "" ? member : `${path}.${member}`;
}

/** The source of a document of Anthropic's that is plain text. */
function isTextDocument(value: JsonObject | unknown[], member: string | number): boolean {
  return member === "data" && !Array.isArray(value) && value["type"] === "text";
}

function isSkipped(member: string | number, { isFree, isReply }: Place): boolean {
  if (isFree || typeof member === "number") return false;
  return SKIPPED.has(member) || (isReply && REPEATED.has(member));
}

function indexesOf(object: JsonObject): string {
  let indexes = "";
  for (const name of INDEX_MEMBERS)
    if (typeof object[name] === "number") indexes += `${name}=${object[name]} `;
  return indexes;
}

/** `delta` of OpenAI's and Anthropic's events and of Bedrock's, Google's parts, and the texts of the older completions. */
function isDeltaPath(path: string): boolean {
  return /(?:^|\.)delta(?:\.|$)/.test(path) || /^candidates\[|^choices\[\d+\]\.text$/.test(path);
}

/** Whether the member is the delta of an event, in a reply that the gateway composes of several replies. */
function isDeltaEvent(value: JsonObject | unknown[], member: string | number): boolean {
  return !Array.isArray(value) && value["type"] === "delta" && member === "text";
}

export function replaceText({ container, member }: TextField, text: string): void {
  // An index of an array or a name of an object, as it was found there.
  (container as Record<string | number, unknown>)[member] = text;
}

/** The probabilities of a text repeat its tokens. */
export function dropProbabilities(value: unknown): void {
  if (Array.isArray(value)) for (const inner of value) dropProbabilities(inner);
  if (!isObject(value)) return;
  const object = value as Record<string, unknown>; // The JSON belongs to the check.
  for (const [member, inner] of Object.entries(object))
    if (member === "logprobs" || member === "logprobsResult") delete object[member];
    else dropProbabilities(inner);
}
