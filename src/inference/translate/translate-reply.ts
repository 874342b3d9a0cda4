// Writes a non-streamed reply in the caller's API, with its cost and a list of what that API cannot express.

import {
  type Loss,
  type CanonicalReply,
  splitCalls,
  type InboundWire,
  type ReplyWriteContext,
} from "@postern/wires";
import { isObject, type JsonObject } from "../../base/json.ts";

export interface ClientReply {
  readonly text: string;
  /** JSON by default. */
  readonly contentType?: string;
  /** The paths of the provider's reply that were dropped. */
  readonly dropped: readonly string[];
}

export function translateReply(
  inbound: InboundWire,
  reply: CanonicalReply,
  context: ReplyWriteContext,
  { costUsd, dropped: requestLosses, modelIdOf }: ReplyReport,
): ClientReply {
  const { usage, model } = reply;
  const changed = {
    ...splitCalls(reply),
    model: model && modelIdOf(model),
    usage: usage && { ...usage, extras: { cost: Number(costUsd) } },
  };
  const { body, losses } = inbound.writeReply(changed, context);
  const dropped = replyLossPaths(losses);
  const listed = allLossPaths(requestLosses, dropped);
  return { text: JSON.stringify(withDropped(body, listed)), dropped };
}

/** The fields of the request and of the reply that were dropped, each once. */
export function allLossPaths(
  request: readonly string[],
  reply: readonly string[],
): readonly string[] {
  if (request.length === 0) return reply;
  return [...new Set(request)].slice(0, DROPPED_PATHS_MAX).concat(reply);
}

/** What the reply says about the call. */
export interface ReplyReport {
  readonly costUsd: string;
  /** The request fields that were dropped. */
  readonly dropped: readonly string[];
  /** The id of the model that the provider names. */
  readonly modelIdOf: (name: string) => string;
}

const DROPPED_PATHS_MAX = 64;
const NO_PATHS: readonly string[] = [];

/** Paths within the reply, prefixed to tell them from request paths. Beyond the limit, one entry `reply` covers the rest. */
export function replyLossPaths(losses: readonly Loss[]): readonly string[] {
  if (losses.length === 0) return NO_PATHS;
  const paths = [...new Set(losses.map(({ path }) => `reply.${path}`))];
  return paths.length > DROPPED_PATHS_MAX ? [...paths.slice(0, DROPPED_PATHS_MAX), "reply"] : paths;
}

// Listed in the usage object beside the cost, as in a stream, where headers are already sent when the losses are known.
function withDropped(body: JsonObject, dropped: readonly string[]): JsonObject {
  const field = isObject(body["usageMetadata"]) ? "usageMetadata" : "usage";
  const usage = body[field];
  return dropped.length === 0 || !isObject(usage)
    ? body
    : { ...body, [field]: { ...usage, dropped } };
}
