import type { CanonicalReply } from "../../canonical/canonical-reply.ts";
import { createReplyCollector } from "../../canonical/collect-reply.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { readBodyEvents } from "./read-gemini-stream.ts";

/** A non-streamed reply has the form of a stream chunk, so it is read as a stream of one chunk. */
export function readReply(body: unknown, context: ReplyReadContext): CanonicalReply {
  const collector = createReplyCollector();
  for (const event of readBodyEvents(body, context)) collector.push(event);
  return collector.reply();
}
