// Ends a reply at the first stop sequence, whole or streamed.

import type { CanonicalEvent } from "../canonical/canonical-events.ts";
import type { Part, TokenLogprob } from "../canonical/canonical-parts.ts";
import type { CanonicalReply, Finish } from "../canonical/canonical-reply.ts";
import type { WireStreamReader } from "../canonical/wire-interfaces.ts";

interface FoundStop {
  readonly at: number;
  readonly stop: string;
}

/**
 * The stop sequence that is complete first, as where a provider stops: so a stream ends at the same place however it is split. Of
 * two that are complete at the same place, the longer one.
 */
function findStop(text: string, stops: readonly string[]): FoundStop | undefined {
  let found: FoundStop | undefined;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at === -1) continue;
    const later = found === undefined ? -1 : at + stop.length - (found.at + found.stop.length);
    if (later < 0 || (later === 0 && stop.length > (found?.stop.length ?? 0))) found = { at, stop };
  }
  return found;
}

function stoppedBy(finish: Finish, stop: string): Finish {
  return { ...finish, reason: "stop_sequence", stopSequence: stop };
}

export function cutReply(reply: CanonicalReply, stops: readonly string[]): CanonicalReply {
  if (stops.length === 0) return reply;
  const choices = reply.choices.map((choice) => {
    const kept: Part[] = [];
    for (const part of choice.parts) {
      const found = part.type === "text" ? findStop(part.text, stops) : undefined;
      if (found === undefined || part.type !== "text") {
        kept.push(part);
        continue;
      }
      const { at, stop } = found;
      if (at > 0) kept.push({ type: "text", text: part.text.slice(0, at) });
      return { ...choice, parts: kept, finish: stoppedBy(choice.finish, stop) };
    }
    return choice;
  });
  return { ...reply, choices };
}

/** The longest end of the text that may begin a stop sequence. */
function heldLength(text: string, stops: readonly string[]): number {
  let held = 0;
  for (const stop of stops)
    for (let length = Math.min(stop.length - 1, text.length); length > held; length--)
      if (stop.startsWith(text.slice(-length))) held = length;
  return held;
}

interface ChoiceState {
  /** The open parts, with the text that is held back of a text part. */
  readonly open: Map<number, HeldText | undefined>;
  /** The stop sequence that ended the choice. */
  stop: string | undefined;
}

interface HeldText {
  text: string;
  logprobs: readonly TokenLogprob[];
}

export function cutStream(reader: WireStreamReader, stops: readonly string[]): WireStreamReader {
  if (stops.length === 0) return reader;
  const choices = new Map<number, ChoiceState>();
  const change = (event: CanonicalEvent): readonly CanonicalEvent[] => {
    if (!("choice" in event)) return [event];
    const known = choices.get(event.choice);
    const state: ChoiceState = known ?? { open: new Map(), stop: undefined };
    if (known === undefined) choices.set(event.choice, state);
    if (event.type === "finish")
      return [
        state.stop === undefined
          ? event
          : { ...event, finish: stoppedBy(event.finish, state.stop) },
      ];
    return state.stop === undefined ? changePart(event, state, stops) : [];
  };
  return {
    push: (event) => reader.push(event).flatMap(change),
    end: () => reader.end().flatMap(change),
  };
}

type PartEvent = Extract<CanonicalEvent, { readonly part: number }>;

function changePart(
  event: PartEvent,
  state: ChoiceState,
  stops: readonly string[],
): readonly CanonicalEvent[] {
  const { choice, part } = event;
  if (event.type === "part_start") {
    state.open.set(part, event.head.type === "text" ? { text: "", logprobs: [] } : undefined);
    return [event];
  }
  const held = state.open.get(part);
  const position = { choice, part };
  if (event.type === "part_end") {
    state.open.delete(part);
    return held === undefined ? [event] : [...released(position, held, held.text.length), event];
  }
  if (event.type !== "delta" || held === undefined) return [event];
  held.text += event.text;
  held.logprobs = held.logprobs.concat(event.logprobs ?? []);
  const found = findStop(held.text, stops);
  if (found === undefined)
    return released(position, held, held.text.length - heldLength(held.text, stops));
  state.stop = found.stop;
  const open = [...state.open.keys()];
  return [
    ...released(position, held, found.at),
    ...open.map((one): CanonicalEvent => ({ type: "part_end", choice, part: one })),
  ];
}

/** The first `length` characters that were held back. */
function released(
  position: { readonly choice: number; readonly part: number },
  held: HeldText,
  length: number,
): readonly CanonicalEvent[] {
  const text = held.text.slice(0, length);
  const { logprobs } = held;
  if (text === "" && logprobs.length === 0) return [];
  held.text = held.text.slice(length);
  held.logprobs = [];
  return [{ type: "delta", ...position, text, ...(logprobs.length === 0 ? {} : { logprobs }) }];
}
