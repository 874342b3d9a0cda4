// A reply that the gateway composes of several replies, as a stream of canonical events. It is metered and translated like a
// provider's stream.

import type { CanonicalEvent } from "../canonical/canonical-events.ts";
import { parseEvent, type WireStreamReader } from "../canonical/wire-interfaces.ts";
import type { JsonObject } from "../json-fields.ts";
import { isObject, stringIn } from "../json-fields.ts";
import {
  addText,
  addToolCall,
  createUsageMeter,
  type StreamMeter,
  type StreamState,
} from "./stream-meter.ts";
import type { Usage } from "./usage-meters.ts";

/** What only the meter reads. */
export type MeterEvent =
  /** A provider begins another reply: the usage is not final any more. */
  | { readonly type: "turn" }
  /** A call of a tool that the gateway runs, which the caller does not see in this form. */
  | { readonly type: "hidden_call"; readonly name: string }
  | { readonly type: "hidden_text"; readonly text: string }
  /** The usage of all replies so far, as it is billed. */
  | { readonly type: "billed"; readonly usage: Usage }
  | { readonly type: "end" };

export type ComposedEvent = CanonicalEvent | MeterEvent;

const METER_EVENTS: ReadonlySet<unknown> = new Set<MeterEvent["type"]>([
  "turn",
  "hidden_call",
  "hidden_text",
  "billed",
  "end",
]);

export function writeComposedEvent(event: ComposedEvent): string {
  return `data: ${JSON.stringify(event)}\n\n`;
}

export function createComposedReader(): WireStreamReader {
  return {
    push: (event) => {
      const read = parseEvent(event);
      // Written by `writeComposedEvent` in this process.
      return read === undefined || METER_EVENTS.has(read["type"]) ? [] : [read as CanonicalEvent];
    },
    end: () => [],
  };
}

export function createComposedMeter(): StreamMeter {
  return createUsageMeter({ read });
}

function read(state: StreamState, _name: string, data: JsonObject): boolean {
  switch (data["type"]) {
    case "start":
      state.model = stringIn(data["model"]) ?? state.model;
      break;
    case "part_start": {
      const head = isObject(data["head"]) ? data["head"] : {};
      if (head["type"] === "tool_call") addToolCall(state, head["name"]);
      break;
    }
    case "delta":
    case "hidden_text":
      addText(state, data["text"]);
      break;
    case "hidden_call":
      addToolCall(state, data["name"]);
      state.providerCalls = (state.providerCalls ?? 0) + 1;
      break;
    case "turn":
      state.isUsageFinal = false;
      break;
    case "billed":
      // Written by `writeComposedEvent` in this process.
      state.usage = data["usage"] as Usage;
      state.isUsageFinal = true;
      return true;
    case "finish":
      state.hasStopReason = true;
      break;
    case "error":
      state.failed = true;
      break;
    case "end":
      state.finished = true;
  }
  return false;
}
