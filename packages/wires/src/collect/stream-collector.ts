// What makes one whole reply of the events of a stream, in the form of the same wire: for a call whose provider is asked for a
// stream while its caller waits for a whole reply.

import { indexIn, isObject, type JsonObject } from "../json-fields.ts";
import type { CutStream } from "../length-stop.ts";

export interface StreamCollector {
  /** `data`: the JSON of an event. */
  readonly push: (data: JsonObject) => void;
  /** Ends the reply where the stream was cut: as the API does at an output limit. */
  readonly stop: (usage: CutStream["usage"]) => void;
  /** The reply so far; undefined before its first event. */
  readonly reply: () => JsonObject | undefined;
}

/** An object whose members are collected. */
export type Collected = Record<string, unknown>;

/** Adds a piece of text to what has arrived of it. */
export function append(target: Collected | undefined, member: string, piece: unknown): void {
  if (target === undefined || typeof piece !== "string") return;
  const { [member]: before } = target;
  target[member] = typeof before === "string" ? before + piece : piece;
}

/** A copy, so that no event is changed. */
export function collected(value: unknown): Collected {
  return isObject(value) ? { ...value } : {};
}

/** More parts than a reply has; others are one. */
const PARTS_MAX = 1_000;

export function indexOf(data: JsonObject, member = "index"): number {
  return indexIn(data[member], PARTS_MAX) ?? 0;
}
