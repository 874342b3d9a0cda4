import type { CanonicalReply } from "../../canonical/canonical-reply.ts";
import { createReplyCollector } from "../../canonical/collect-reply.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { objectIn } from "../../json-fields.ts";
import { readBodyEvents } from "./read-chat-stream.ts";

/** A reply is read as a stream of one chunk, which has messages instead of deltas. */
export function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const collector = createReplyCollector();
  for (const event of readBodyEvents(body, context)) collector.push(event);
  const usage = context.readUsage(body);
  return { ...collector.reply(), usage: usage && { usage } };
}
