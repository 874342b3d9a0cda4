// Helpers of the usage tests: read the usage of a reply, or meter a stream of events.

import {
  createStreamMeter,
  type MeteredWire,
  type StreamedWire,
  usageOf,
} from "../../src/usage/provider-usage.ts";
import { readEvent, type StreamMeter } from "../../src/usage/stream-meter.ts";

export const tokensOf = (wire: MeteredWire, body: unknown, provider = "openai") =>
  usageOf(wire, body, provider)?.tokens;
export const feesOf = (wire: MeteredWire, body: unknown, provider = "openai") =>
  usageOf(wire, body, provider)?.fees;
export const chatUsage = (usage: object, provider = "openai") =>
  usageOf("chat", { model: "m", usage }, provider);

/** A meter that has read these events. */
export function meterOfEvents(
  wire: StreamedWire,
  events: readonly (object | string)[],
  provider = "openai",
): StreamMeter {
  const meter = createStreamMeter(wire, provider);
  for (const event of events) readEvent(meter, "", event);
  return meter;
}
