// Mutations of JSON bodies: of the value, and of its text.

import type { Random } from "./random.ts";
import { hostileValue, HOSTILE_TEXTS, isJson } from "./values.ts";

const COPIES_MAX = 2_000;
/** Above, a value is not mutated again: copies of copies would grow to gigabytes. */
const MUTATED_MAX_CHARACTERS = 20_000;
const NESTING_MAX = 200;

export function isMutable(value: unknown): boolean {
  return (JSON.stringify(value) ?? "").length <= MUTATED_MAX_CHARACTERS;
}

/** Replaces, removes, adds, repeats or nests something at a random place. */
export function mutateValue(random: Random, value: unknown): unknown {
  if (random.chance(0.15)) return changed(random, value);
  if (Array.isArray(value) && value.length > 0) {
    const at = random.integer(value.length);
    if (random.chance(0.15)) return withChangedList(random, value, at);
    return value.map((item: unknown, index) => (index === at ? mutateValue(random, item) : item));
  }
  if (!isJson(value)) return changed(random, value);
  const names = Object.keys(value);
  if (names.length === 0 || random.chance(0.1))
    return { ...value, [random.pick(HOSTILE_TEXTS)]: hostileValue(random) };
  const name = random.pickFrom(names) ?? "";
  if (random.chance(0.1))
    return Object.fromEntries(Object.entries(value).filter(([other]) => other !== name));
  return { ...value, [name]: mutateValue(random, value[name]) };
}

function changed(random: Random, value: unknown): unknown {
  switch (random.integer(5)) {
    case 0:
      return [value];
    case 1:
      return { value };
    case 2:
      return typeof value === "string" ? value + random.pick(HOSTILE_TEXTS) : JSON.stringify(value);
    case 3:
      return nested(random.integer(NESTING_MAX), value);
    default:
      return hostileValue(random);
  }
}

function withChangedList(random: Random, list: readonly unknown[], at: number): unknown {
  if (random.chance(0.3)) return list.toSpliced(at, 1);
  const copies = random.chance(0.1) ? random.integer(COPIES_MAX) : random.integer(4);
  return [...list, ...Array.from({ length: copies }, () => list[at])];
}

function nested(depth: number, value: unknown): unknown {
  let outer = value;
  for (let level = 0; level < depth; level++) outer = level % 2 === 0 ? [outer] : { a: outer };
  return outer;
}

const TEXT_EDITS: readonly [
  (random: Random, text: string) => string,
  ...((random: Random, text: string) => string)[],
] = [
  (random, text) => text.slice(0, random.integer(text.length + 1)),
  (random, text) => insertAt(random, text, random.pick(['"', "{", "}", "[", "]", ",", "\\", "\0"])),
  (random, text) => insertAt(random, text, random.pick(HOSTILE_TEXTS)),
  // A repeated member: two parsers may follow different ones.
  (random, text) => text.replace("{", `{"model":"sim/tiny","max_tokens":${random.integer(9)},`),
  (_, text) => text.replace(/\d+/, "1e999"),
  (_, text) => text.replace(/\d+/, "123456789012345678901234567890"),
  (_, text) => text.replace(/"(\w)/, String.raw`"\u005f$1`),
  (_, text) => text.replace(/"(\w)/, String.raw`"\ud800$1`),
  (_, text) => `\ufeff${text}`,
  (_, text) => `${text}${text}`,
  (_, text) => `${text}\n//`,
  (_, text) => text.replaceAll(",", "\u00a0,"),
  (random, text) => "[".repeat(random.integer(5_000)) + text,
  (_, text) => JSON.stringify(text),
  (random, text) => " ".repeat(random.integer(70_000)) + text,
];

export function mutateText(random: Random, text: string): string {
  return random.pick(TEXT_EDITS)(random, text);
}

function insertAt(random: Random, text: string, inserted: string): string {
  const at = random.integer(text.length + 1);
  return text.slice(0, at) + inserted + text.slice(at);
}
