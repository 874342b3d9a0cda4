// Edits members of a JSON object within its text, so that all other bytes stay as the caller sent them. Duplicate members
// are rejected: gateway and provider might read different ones, and the gateway's decides the price.

import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { memoize } from "../../base/memoize.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const COLON = 0x3a;
const COMMA = 0x2c;
const DEPTH_MAX = 128;

export interface MemberSpan {
  /** Index of the key's opening quote. */
  readonly keyStart: number;
  readonly start: number;
  readonly end: number;
}

export interface ObjectSpans {
  /** Index of the opening brace. */
  readonly start: number;
  readonly end: number;
  readonly members: ReadonlyMap<string, MemberSpan>;
  /** The members of this object and of all objects in it. */
  readonly memberCount: number;
}

/** Finds the members of the object at `from`; the text must be valid JSON from there on. */
export function memberSpans(text: string, from = 0): ObjectSpans | undefined {
  const open = skipWhitespace(text, from);
  if (text[open] !== "{") return undefined;
  const members = new Map<string, MemberSpan>();
  const nested = { members: 0 };
  let at = skipWhitespace(text, open + 1);
  while (at < text.length && text.charCodeAt(at) === QUOTE) {
    const keyStart = at;
    const keyEnd = stringEnd(text, at);
    const key = parseKey(text, keyStart, keyEnd);
    at = skipWhitespace(text, keyEnd);
    if (text.charCodeAt(at) !== COLON) return undefined;
    const start = skipWhitespace(text, at + 1);
    const end = valueEnd(text, start, nested);
    if (members.has(key)) throw invalid(key, `Duplicate field \`${key}\`. Send it once.`);
    members.set(key, { keyStart, start, end });
    at = skipWhitespace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipWhitespace(text, at + 1);
  }
  return { start: open, end: at + 1, members, memberCount: members.size + nested.members };
}

/** A member of the object that the text is, as it is written. */
export function memberText(text: string, name: string): string | undefined {
  const span = memberSpans(text)?.members.get(name);
  return span && text.slice(span.start, span.end);
}

/** The items of the list that the text is, as they are written. */
export function* itemTexts(list: string): Generator<string, undefined> {
  const end = list.lastIndexOf("]");
  for (let at = skipWhitespace(list, 1); at < end;) {
    const itemEnd = valueEnd(list, at, { members: 0 });
    yield list.slice(at, itemEnd);
    at = skipWhitespace(list, skipComma(list, itemEnd));
  }
  return undefined;
}

/** As JSON text. The names of fields and models repeat. */
export const quoted: (name: string) => string = memoize((name) => JSON.stringify(name));

/** Sets members to raw JSON; undefined removes a member. New members come first. */
export function withMembers(
  text: string,
  spans: ObjectSpans,
  changes: Readonly<Record<string, string | undefined>>,
): string {
  const edits: { at: number; end: number; text: string }[] = [];
  let added = "";
  for (const key in changes) {
    const value = changes[key];
    const span = spans.members.get(key);
    if (span === undefined) {
      if (value !== undefined) added += `${quoted(key)}:${value},`;
    } else if (value === undefined)
      edits.push({ at: span.keyStart, end: skipComma(text, span.end), text: "" });
    else edits.push({ at: span.start, end: span.end, text: value });
  }
  if (added !== "")
    edits.push({
      at: spans.start + 1,
      end: spans.start + 1,
      text: spans.members.size === 0 ? added.slice(0, -1) : added,
    });
  const [only] = edits;
  if (only === undefined) return text;
  if (edits.length === 1 && only.text !== "")
    return text.slice(0, only.at) + only.text + text.slice(only.end);
  // An insertion and the removal of the first member start at the same index: the insertion goes first.
  edits.sort((left, right) => left.at - right.at || left.end - right.end);
  let out = "";
  let from = 0;
  for (const edit of edits) {
    out = `${out}${text.slice(from, edit.at)}${edit.text}`;
    from = edit.end;
  }
  return withoutDanglingComma(out + text.slice(from), edits);
}

interface TextEdit {
  readonly at: number;
  readonly end: number;
  readonly text: string;
}

/**
 * The text for `after`, where `before` is the value of `text`: all that is equal in both keeps its bytes, so no integer loses digits.
 * `renamed` is the name in `after` of a member that is not there by its own.
 */
export function withChanges(
  text: string,
  before: unknown,
  after: unknown,
  renamed: (name: string) => string = (name) => name,
): string {
  const edits: TextEdit[] = [];
  editValue({ text, edits, renamed }, skipWhitespace(text, 0), before, after);
  let out = "";
  let from = 0;
  for (const edit of edits) {
    out = `${out}${text.slice(from, edit.at)}${edit.text}`;
    from = edit.end;
  }
  return out + text.slice(from);
}

interface EditedText {
  readonly text: string;
  readonly edits: TextEdit[];
  readonly renamed: (name: string) => string;
}

/** Adds the edits of the value at `start`, in their order, and returns the end of the value. */
function editValue(edited: EditedText, start: number, before: unknown, after: unknown): number {
  const { text, edits } = edited;
  if (isObject(before) && isObject(after) && before !== after)
    return editObject(edited, start, before, after);
  if (Array.isArray(before) && Array.isArray(after) && before !== after)
    return editArray(edited, start, before, after);
  const [item] = Array.isArray(after) && after.length === 1 ? after : [];
  if (isObject(before) && isObject(item)) {
    edits.push({ at: start, end: start, text: "[" });
    const end = editValue(edited, start, before, item);
    edits.push({ at: end, end, text: "]" });
    return end;
  }
  const end = valueEnd(text, start, { members: 0 });
  if (before !== after) edits.push({ at: start, end, text: JSON.stringify(after) });
  return end;
}

function editObject(
  edited: EditedText,
  start: number,
  before: JsonObject,
  after: JsonObject,
): number {
  const { text, edits, renamed } = edited;
  const firstEdit = edits.length;
  const names = new Set<string>();
  let count = 0;
  let hasKept = false;
  let previousEnd = start + 1;
  let at = skipWhitespace(text, start + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const keyEnd = stringEnd(text, at);
    const key = parseKey(text, at, keyEnd);
    const name = hasMember(after, key) ? key : renamed(key);
    names.add(name);
    count++;
    const valueStart = skipWhitespace(text, skipWhitespace(text, keyEnd) + 1);
    const isKept = hasMember(after, name);
    if (name !== key && isKept) edits.push({ at, end: keyEnd, text: quoted(name) });
    const end = isKept
      ? editValue(edited, valueStart, before[key], after[name])
      : valueEnd(text, valueStart, { members: 0 });
    const next = skipWhitespace(text, skipComma(text, end));
    // With the comma before it, or as long as nothing is kept, with the one after it.
    if (!isKept)
      edits.push({ at: hasKept ? previousEnd : at, end: hasKept ? end : next, text: "" });
    hasKept ||= isKept;
    previousEnd = end;
    at = next;
  }
  const added = Object.keys(after).filter((name) => hasMember(after, name) && !names.has(name));
  const members = added.map((name) => `${quoted(name)}:${JSON.stringify(after[name])}`).join(",");
  if (members !== "") {
    const comma = hasKept ? "," : "";
    edits.splice(firstEdit, 0, { at: start + 1, end: start + 1, text: members + comma });
  }
  // Of two members with one name, only the last is in `before`.
  if (names.size < count)
    edits.splice(firstEdit, Infinity, { at: start, end: at + 1, text: JSON.stringify(after) });
  return at + 1;
}

/** JSON has no undefined members. */
function hasMember(object: JsonObject, name: string): boolean {
  return Object.hasOwn(object, name) && object[name] !== undefined;
}

/** Items are added or removed in one range of a list; in lists of one length, each item is compared with its own. */
function editArray(
  edited: EditedText,
  start: number,
  before: readonly unknown[],
  after: readonly unknown[],
): number {
  const { text, edits } = edited;
  const isSameLength = before.length === after.length;
  const items: string[] = [];
  let at = skipWhitespace(text, start + 1);
  for (const [index, item] of before.entries()) {
    const end = isSameLength
      ? editValue(edited, at, item, after[index])
      : valueEnd(text, at, { members: 0 });
    if (!isSameLength) items.push(text.slice(at, end));
    at = skipWhitespace(text, skipComma(text, end));
  }
  if (isSameLength) return at + 1;
  const shorter = Math.min(before.length, after.length);
  let first = 0;
  while (first < shorter && before[first] === after[first]) first++;
  let last = 0;
  while (last < shorter - first && before.at(-1 - last) === after.at(-1 - last)) last++;
  const between = after.slice(first, after.length - last).map((item) => JSON.stringify(item));
  const kept = [...items.slice(0, first), ...between, ...items.slice(before.length - last)];
  edits.push({ at: start, end: at + 1, text: `[${kept.join(",")}]` });
  return at + 1;
}

// Removing the last member leaves the comma before it.
function withoutDanglingComma(text: string, edits: readonly { readonly text: string }[]): string {
  return edits.some((edit) => edit.text === "") ? text.replace(/,(\s*\}\s*)$/, "$1") : text;
}

/** `start` and `end` include the quotes. */
function parseKey(text: string, start: number, end: number): string {
  const key = text.slice(start + 1, end - 1);
  // Safe because the text is valid JSON, and a key is a string.
  return key.includes("\\") ? (JSON.parse(`"${key}"`) as string) : key;
}

export function skipWhitespace(text: string, from: number): number {
  let at = from;
  for (
    let code = text.charCodeAt(at);
    code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
    code = text.charCodeAt(at)
  )
    at++;
  return at;
}

function skipComma(text: string, from: number): number {
  const at = skipWhitespace(text, from);
  return text.charCodeAt(at) === COMMA ? at + 1 : at;
}

export function stringEnd(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at !== -1) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return at + 1;
    at = text.indexOf('"', at + 1);
  }
  return text.length;
}

// Counts the members of the objects in the value: a colon outside a string belongs to a member.
function valueEnd(text: string, start: number, nested: { members: number }): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return stringEnd(text, start);
  if (first !== 0x7b && first !== 0x5b) return scalarEnd(text, start);
  let depth = 0;
  let colons = 0;
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at);
      continue;
    }
    if (code === COLON) colons++;
    else if (code === 0x7b || code === 0x5b) depth++;
    else if ((code === 0x7d || code === 0x5d) && --depth === 0) {
      nested.members += colons;
      return at + 1;
    }
    if (depth > DEPTH_MAX)
      throw invalid(undefined, `The JSON body is nested more than ${DEPTH_MAX} levels deep.`);
    at++;
  }
  return at;
}

function scalarEnd(text: string, start: number): number {
  let at = start;
  for (
    let code = text.charCodeAt(at);
    at < text.length && code !== COMMA && code !== 0x7d && code !== 0x5d && code > 0x20;
    code = text.charCodeAt(at)
  )
    at++;
  return at;
}
