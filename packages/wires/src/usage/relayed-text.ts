// The text that a stream has relayed, for a count of its tokens. It is kept as the JSON strings have it, without quotes: most
// events are not decoded, and a copy of their few bytes costs next to nothing.

import { parseJson } from "../json-fields.ts";

export interface RelayedText {
  bytes: Uint8Array;
  length: number;
  /** Bytes that were not kept. */
  omitted: number;
}

/** More than the longest reply of a model: 128,000 tokens of prose have half a megabyte. */
const TEXT_MAX_BYTES = 1_048_576;
const FIRST_BYTES = 256;
/** A loop is faster for a text of some bytes. */
const LOOP_MAX_BYTES = 48;
const EMPTY = new Uint8Array(0);
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function createRelayedText(): RelayedText {
  return { bytes: EMPTY, length: 0, omitted: 0 };
}

/** Keeps a part of an event: the inside of a JSON string. */
export function keepRawText(
  text: RelayedText,
  source: Uint8Array,
  start: number,
  end: number,
): void {
  const { length } = text;
  const total = length + end - start;
  if (total > TEXT_MAX_BYTES) {
    text.omitted += end - start;
    return;
  }
  if (total > text.bytes.length) grow(text, total);
  const { bytes } = text;
  if (end - start > LOOP_MAX_BYTES) bytes.set(source.subarray(start, end), length);
  else
    for (let at = start, to = length; at < end; at++, to++) {
      // Safe because `at` is within the source.
      bytes[to] = source[at] as number;
    }
  text.length = total;
}

export function keepText(text: RelayedText, value: string): void {
  const raw = encoder.encode(JSON.stringify(value));
  keepRawText(text, raw, 1, raw.length - 1);
}

function grow(text: RelayedText, total: number): void {
  const grown = new Uint8Array(Math.max(total, text.bytes.length * 2, FIRST_BYTES));
  grown.set(text.bytes.subarray(0, text.length));
  text.bytes = grown;
}

export function decodeRelayedText({ bytes, length }: RelayedText): string {
  const raw = decoder.decode(bytes.subarray(0, length));
  const text = parseJson(`"${raw}"`);
  return typeof text === "string" ? text : raw;
}
