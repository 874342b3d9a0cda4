// Shared functions of the stream writers of the three APIs.

import type { CanonicalEvent } from "./canonical/canonical-events.ts";
import { addLoss, type Loss } from "./canonical/canonical-losses.ts";
import type { WireStreamWriter } from "./canonical/wire-interfaces.ts";

export type PartEvent = Extract<CanonicalEvent, { part: number }>;

/** A writer that writes nothing after an error. */
export function createWriter(
  losses: Loss[],
  write: (event: CanonicalEvent) => string,
  end: () => string,
): WireStreamWriter {
  let failed = false;
  return {
    push: (event) => {
      if (failed) return "";
      failed = event.type === "error";
      return write(event);
    },
    end: () => (failed ? "" : end()),
    losses,
  };
}

/**
 * For an API with one choice and one open part at a time: the events of a part that starts before the open part ends wait
 * until it does.
 */
export function createPartSequencer(
  losses: Loss[],
  write: (event: PartEvent) => string,
): (event: PartEvent) => string {
  const waiting = new Map<number, PartEvent[]>();
  let openPart: number | undefined;
  const writeNow = (event: PartEvent): string => {
    if (event.type === "part_start") openPart = event.part;
    else if (event.type === "part_end") openPart = undefined;
    return write(event);
  };
  const writeWaiting = (): string => {
    let out = "";
    for (const [part, events] of waiting) {
      if (openPart !== undefined) break;
      waiting.delete(part);
      for (const event of events) out += writeNow(event);
    }
    return out;
  };
  return (event) => {
    if (event.choice !== 0) {
      if (event.type === "part_start")
        addLoss(losses, `choices[${event.choice}]`, "Replies of this API have only one choice.");
      return "";
    }
    const isNext = openPart === undefined ? event.type === "part_start" : openPart === event.part;
    if (isNext) return writeNow(event) + writeWaiting();
    const events = waiting.get(event.part);
    if (events === undefined) waiting.set(event.part, [event]);
    else events.push(event);
    return "";
  };
}
