// A whole reply in the words of the caller's API, with its cost, and with a list of what that API could not say.

import { isObject, type JsonObject } from "../../base/json.ts";
import type { CanonicalReply } from "../canonical/reply.ts";
import type { Loss } from "../canonical/loss.ts";
import type { InboundWire, ReplyWriteContext } from "../canonical/wire.ts";

export interface ClientReply {
  readonly text: string;
  /** What of the provider's reply was left out. */
  readonly dropped: readonly string[];
}

export function translateReply(
  inbound: InboundWire,
  reply: CanonicalReply,
  context: ReplyWriteContext,
  costUsd: string,
): ClientReply {
  const { usage } = reply;
  const report = usage && { ...usage, extras: { cost: Number(costUsd) } };
  const { body, losses } = inbound.writeReply({ ...reply, usage: report }, context);
  const dropped = replyLossPaths(losses);
  return { text: JSON.stringify(withDropped(body, dropped)), dropped };
}

const DROPPED_PATHS_MAX = 64;
const NO_PATHS: readonly string[] = [];

/** Places within the reply, told apart from those within the request. After so many, the reply itself stands for the rest. */
export function replyLossPaths(losses: readonly Loss[]): readonly string[] {
  if (losses.length === 0) return NO_PATHS;
  const paths = [...new Set(losses.map(({ path }) => `reply.${path}`))];
  return paths.length > DROPPED_PATHS_MAX ? [...paths.slice(0, DROPPED_PATHS_MAX), "reply"] : paths;
}

// It stands where the cost does, as in a stream, whose headers are gone when it is known.
function withDropped(body: JsonObject, dropped: readonly string[]): JsonObject {
  const { usage } = body;
  return dropped.length === 0 || !isObject(usage)
    ? body
    : { ...body, usage: { ...usage, dropped } };
}
