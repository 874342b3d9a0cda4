// The model's name in a passed-through reply: callers get the id of `GET /v1/models`, which they can send again, and not the
// provider's own name. All other bytes stay as they are.

import type { ApiTraits } from "@postern/wires";
import { objectIn } from "../../base/json.ts";
import {
  type MemberSpan,
  memberSpans,
  quoted,
  skipWhitespace,
  stringEnd,
} from "../request/json-edit.ts";

const decoder = new TextDecoder();
/** A response object is longer, and most events are shorter. */
const RESPONSE_EVENT_MIN_BYTES = 150;

/** The id of the model that a provider names so. */
type IdOf = (name: string) => string;

/** The whole reply with the model's id in place of the provider's name. */
export function withModelId(
  text: string,
  reply: unknown,
  idOf: IdOf,
  field: ApiTraits["modelField"] = "model",
): string {
  const name = objectIn(reply)?.[field];
  if (typeof name !== "string") return text;
  const id = idOf(name);
  const span = id === name ? undefined : (onlyMember(text, field) ?? nameSpan(text, 0, [field]));
  return span === undefined ? text : text.slice(0, span.start) + quoted(id) + text.slice(span.end);
}

/**
 * Puts the model's id into the events of one stream. `path` is where an event has the name: only those of Chat Completions and
 * Gemini repeat it, nearly always at the same place, which is looked at first.
 */
export function createModelWriter(
  idOf: IdOf,
  path: readonly string[],
): (raw: Uint8Array) => Uint8Array {
  const isInEveryEvent = path.length === 1;
  let at = -1;
  const key = Buffer.from(quoted(path.at(-1) ?? ""));
  let member = key;
  let written = key;
  return (raw) => {
    if (at !== -1 && isAt(raw, at, member)) return replaceAt(raw, at, member.length, written);
    if (!isInEveryEvent && raw.length < RESPONSE_EVENT_MIN_BYTES) return raw;
    if (!bufferOf(raw).includes(key)) return raw;
    const text = decoder.decode(raw);
    const data = /^data: ?/m.exec(text);
    // An event with several data lines passes through unchanged.
    if (data === null || text.indexOf("\ndata:", data.index + 1) !== -1) return raw;
    const span = nameSpan(text, data.index + data[0].length, path);
    if (span === undefined) return raw;
    const { keyStart, start, end } = span;
    // Safe because the text is a JSON string.
    const name = JSON.parse(text.slice(start, end)) as string;
    member = Buffer.from(text.slice(keyStart, end));
    written = Buffer.from(text.slice(keyStart, start) + quoted(idOf(name)));
    const position = Buffer.byteLength(text.slice(0, keyStart));
    if (isInEveryEvent) at = position;
    return member.equals(written) ? raw : replaceAt(raw, position, member.length, written);
  };
}

/** The member of this name, if the text has the name once: then the text need not be scanned. */
function onlyMember(text: string, field: string): Pick<MemberSpan, "start" | "end"> | undefined {
  const key = quoted(field);
  const at = text.indexOf(key);
  // After a backslash the quote is inside a string.
  if (at < 1 || text.indexOf(key, at + 1) !== -1 || text[at - 1] === "\\") return undefined;
  const colon = skipWhitespace(text, at + key.length);
  const start = skipWhitespace(text, colon + 1);
  return text[colon] === ":" && text[start] === '"'
    ? { start, end: stringEnd(text, start) }
    : undefined;
}

/** Where the string at this path is, with its quotes; undefined without one. */
function nameSpan(json: string, from: number, path: readonly string[]): MemberSpan | undefined {
  try {
    let at = from;
    let span: MemberSpan | undefined;
    for (const name of path) {
      span = memberSpans(json, at)?.members.get(name);
      if (span === undefined) return undefined;
      at = span.start;
    }
    return json[at] === '"' ? span : undefined;
  } catch {
    // Duplicate members or too deep nesting: the reply passes through unchanged.
    return undefined;
  }
}

function isAt(raw: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let index = 0; index < expected.length; index++)
    if (raw[at + index] !== expected[index]) return false;
  return true;
}

function replaceAt(raw: Uint8Array, at: number, length: number, member: Buffer): Uint8Array {
  const bytes = bufferOf(raw);
  const changed = Buffer.allocUnsafe(bytes.length - length + member.length);
  bytes.copy(changed, 0, 0, at);
  member.copy(changed, at);
  bytes.copy(changed, at + member.length, at + length);
  return changed;
}

function bufferOf(raw: Uint8Array): Buffer {
  return Buffer.isBuffer(raw) ? raw : Buffer.from(raw.buffer, raw.byteOffset, raw.length);
}
