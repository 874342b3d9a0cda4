// A whole reply in the words of the caller's API, with its cost, and with a list of what that API could not say.

import { isObject } from "./canonical-json.ts";
import type { CanonicalReply, JsonObject, Loss } from "./canonical.ts";
import type { InboundWire, ReplyWriteContext } from "./canonical-wire.ts";

export interface WholeAnswer {
  readonly text: string;
  /** What of the provider's reply was left out. */
  readonly dropped: readonly string[];
}

export function writeWhole(
  inbound: InboundWire,
  reply: CanonicalReply,
  context: ReplyWriteContext,
  costUsd: string,
): WholeAnswer {
  const { usage } = reply;
  const report = usage && { ...usage, extras: { cost: Number(costUsd) } };
  const { body, losses } = inbound.writeReply({ ...reply, usage: report }, context);
  const dropped = lostOf(losses);
  return { text: JSON.stringify(withDropped(body, dropped)), dropped };
}

const TOLD_MAX = 64;
const NOTHING: readonly string[] = [];

/** Places within the reply, told apart from those within the request. After so many, the reply itself stands for the rest. */
export function lostOf(losses: readonly Loss[]): readonly string[] {
  if (losses.length === 0) return NOTHING;
  const paths = [...new Set(losses.map(({ path }) => `reply.${path}`))];
  return paths.length > TOLD_MAX ? [...paths.slice(0, TOLD_MAX), "reply"] : paths;
}

// It stands where the cost does, as in a stream, whose headers are gone when it is known.
function withDropped(body: JsonObject, dropped: readonly string[]): JsonObject {
  const { usage } = body;
  return dropped.length === 0 || !isObject(usage)
    ? body
    : { ...body, usage: { ...usage, dropped } };
}
