// Scans the raw bytes of a stream event, so that most events are metered without parsing their JSON: how many bytes of
// text the event carries, and whether it must be parsed.

const QUOTE = 34;
const BACKSLASH = 92;
const COLON = 58;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
const LETTER_N = 110;
const LETTER_U = 117;
const encoder = new TextEncoder();

/** What to scan for on one wire. */
export interface ScanPlan {
  /** Keys that hold text, and the slot to count each in: some providers send the same text under two keys. */
  readonly textSlots: Readonly<Record<string, number>>;
  /** An event with one of these keys must be parsed, unless the value is null. */
  readonly parseKeys: readonly string[];
  /** An event whose outermost `type` is one of these must be parsed. */
  readonly parseTypes: readonly string[];
  /** An event whose outermost `type` is one of these has no text that the model generated. */
  readonly ignoredTypes?: readonly string[];
}

interface ScanKey {
  readonly bytes: Uint8Array;
  /** The slot to count text in, or one of the two constants below. */
  readonly slot: number;
}

const PARSE_EVENT = -1;
const TYPE_KEY = -2;

/** The scanner of one stream: its template, and the scan function, which all streams of the wire share. */
export interface EventScanner extends Template {
  readonly scan: Scan;
}

export function createEventScanner(plan: ScanPlan): EventScanner {
  return { scan: scanFor(plan), event: undefined, slot: 0, textStart: 0, tailBytes: 0 };
}

/** Where the texts of the last scanned event are, by their slot. Module-level, so that no array is allocated per event. */
export const textSpans: { count: number; readonly values: number[] } = { count: 0, values: [] };
const SPAN_NUMBERS = 3;

function addSpan(slot: number, start: number, end: number): void {
  const { values, count } = textSpans;
  const at = count * SPAN_NUMBERS;
  values[at] = slot;
  values[at + 1] = start;
  values[at + 2] = end;
  textSpans.count = count + 1;
}

/** True if the event must be parsed; otherwise its text bytes were added to `slots`, and its texts to `textSpans`. */
export function needsParse(scanner: EventScanner, bytes: Uint8Array, slots: number[]): boolean {
  textSpans.count = 0;
  if (matchesTemplate(scanner, bytes, slots)) return false;
  const mustParse = scanner.scan(bytes, slots, scanner);
  // The scan may have recorded a text before it found what must be parsed.
  if (mustParse) scanner.event = undefined;
  return mustParse;
}

type Scan = (bytes: Uint8Array, slots: number[], template: Template) => boolean;

const scanCache = new WeakMap<ScanPlan, Scan>();

function scanFor(plan: ScanPlan): Scan {
  const cached = scanCache.get(plan);
  if (cached !== undefined) return cached;
  const scan = createScan(plan);
  scanCache.set(plan, scan);
  return scan;
}

function createScan(plan: ScanPlan): Scan {
  const byLength = keysByLength(plan);
  const types = plan.parseTypes.map((type) => encoder.encode(type));
  const ignoredTypes = (plan.ignoredTypes ?? []).map((type) => encoder.encode(type));

  function keyAt(bytes: Uint8Array, start: number, end: number): number | undefined {
    const keys = byLength[end - start];
    if (keys === undefined) return undefined;
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index];
      if (key !== undefined && bytesEqual(bytes, start, key.bytes)) return key.slot;
    }
    return undefined;
  }

  // Whether an event of this type must be parsed; undefined if its other keys decide.
  function needsParseByType(type: Uint8Array): boolean | undefined {
    if (isOneOf(types, type)) return true;
    return isOneOf(ignoredTypes, type) ? false : undefined;
  }

  // Adds to the slots and records the position of the text. An event with several texts cannot be a template.
  return (bytes, slots, template) => {
    let texts = 0;
    let depth = 0;
    let at = 0;
    while (at < bytes.length) {
      const byte = bytes[at];
      if (byte === OPEN_BRACE) depth++;
      else if (byte === CLOSE_BRACE) depth--;
      if (byte !== QUOTE) {
        at++;
        continue;
      }
      const end = closingQuote(bytes, at + 1);
      const colon = skipWhitespace(bytes, end + 1);
      if (bytes[colon] !== COLON) {
        at = end + 1;
        continue;
      }
      const slot = keyAt(bytes, at + 1, end);
      at = skipWhitespace(bytes, colon + 1);
      if (slot === undefined) continue;
      if (slot === PARSE_EVENT) {
        if (bytes[at] !== LETTER_N) return true;
        continue;
      }
      if (bytes[at] !== QUOTE) continue;
      const start = at + 1;
      const valueEnd = closingQuote(bytes, start);
      at = valueEnd + 1;
      if (slot !== TYPE_KEY) {
        addText(slots, slot, unescapedBytes(bytes, start, valueEnd));
        addSpan(slot, start, valueEnd);
        template.event = ++texts === 1 ? bytes : undefined;
        template.slot = slot;
        template.textStart = start;
        template.tailBytes = bytes.length - valueEnd;
        continue;
      }
      const mustParse = depth === 1 ? needsParseByType(bytes.subarray(start, valueEnd)) : undefined;
      if (mustParse === undefined) continue;
      // The count of an ignored event is discarded, so it cannot be a template.
      template.event = undefined;
      if (!mustParse) {
        slots.fill(0);
        textSpans.count = 0;
      }
      return mustParse;
    }
    return false;
  };
}

function addText(slots: number[], slot: number, bytes: number): void {
  slots[slot] = (slots[slot] ?? 0) + bytes;
}

/** The last scanned event with exactly one text. Most events that follow differ from it only in the text. */
interface Template {
  event: Uint8Array | undefined;
  slot: number;
  textStart: number;
  /** Bytes from the closing quote of the text to the end of the event. */
  tailBytes: number;
}

// True if the event equals the template before and after the text, and the first unescaped quote of the text is its last
// byte but the tail: then a full scan could find nothing else, and only the length of the text is counted.
function matchesTemplate(template: Template, bytes: Uint8Array, slots: number[]): boolean {
  const { event, slot, textStart, tailBytes } = template;
  if (event === undefined) return false;
  const textEnd = bytes.length - tailBytes;
  for (let at = 0; at < textStart; at++) if (bytes[at] !== event[at]) return false;
  const shift = event.length - bytes.length;
  for (let at = textEnd; at < bytes.length; at++) if (bytes[at] !== event[at + shift]) return false;
  if (closingQuote(bytes, textStart) !== textEnd) return false;
  addText(slots, slot, unescapedBytes(bytes, textStart, textEnd));
  addSpan(slot, textStart, textEnd);
  return true;
}

function keysByLength(plan: ScanPlan): readonly (readonly ScanKey[] | undefined)[] {
  const byLength: ScanKey[][] = [];
  const add = (name: string, slot: number): void => {
    const bytes = encoder.encode(name);
    (byLength[bytes.length] ??= []).push({ bytes, slot });
  };
  for (const [name, slot] of Object.entries(plan.textSlots)) add(name, slot);
  for (const name of plan.parseKeys) add(name, PARSE_EVENT);
  if (plan.parseTypes.length + (plan.ignoredTypes ?? []).length > 0) add("type", TYPE_KEY);
  return byLength;
}

function isOneOf(names: readonly Uint8Array[], name: Uint8Array): boolean {
  return names.some((known) => known.length === name.length && bytesEqual(name, 0, known));
}

function bytesEqual(bytes: Uint8Array, start: number, expected: Uint8Array): boolean {
  for (let index = 0; index < expected.length; index++) {
    if (bytes[start + index] !== expected[index]) return false;
  }
  return true;
}

// The index of the closing quote, or the length of the bytes if there is none.
function closingQuote(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return Math.min(at, bytes.length);
}

function skipWhitespace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (bytes[at] === 32 || bytes[at] === 10 || bytes[at] === 13 || bytes[at] === 9) at++;
  return at;
}

// The UTF-8 length of the string after resolving its escapes.
function unescapedBytes(bytes: Uint8Array, start: number, end: number): number {
  let total = 0;
  let at = start;
  while (at < end) {
    if (bytes[at] !== BACKSLASH) {
      total++;
      at++;
    } else if (bytes[at + 1] === LETTER_U) {
      total += escapeBytes(bytes, at + 2);
      at += 6;
    } else {
      total++;
      at += 2;
    }
  }
  return total;
}

// Each half of a surrogate pair counts for two of the character's four bytes.
function escapeBytes(bytes: Uint8Array, at: number): number {
  const code = Number.parseInt(String.fromCharCode(...bytes.subarray(at, at + 4)), 16);
  if (!(code >= 0x80)) return 1;
  if (code < 0x8_00) return 2;
  return code >= 0xd8_00 && code <= 0xdf_ff ? 2 : 3;
}
