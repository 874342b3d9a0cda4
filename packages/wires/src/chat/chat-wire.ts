// OpenAI's Chat Completions API, and the many servers that are compatible with it.

import type { CanonicalReply } from "../canonical/canonical-reply.ts";
import { createReplyCollector } from "../canonical/collect-reply.ts";
import type { InboundWire, OutboundWire, ReplyReadContext } from "../canonical/wire-interfaces.ts";
import { objectIn } from "../json-fields.ts";
import { readError } from "../openai-errors.ts";
import { createStreamReader, readBodyEvents } from "./reply/read-chat-stream.ts";
import { writeReply } from "./reply/write-chat-reply.ts";
import { createStreamWriter } from "./reply/write-chat-stream.ts";
import { readRequest } from "./request/read-chat-request.ts";
import { writeRequest } from "./request/write-chat-request.ts";

export const chatWire: InboundWire & OutboundWire = {
  name: "chat",
  readRequest,
  writeRequest,
  readReply,
  writeReply,
  createStreamReader,
  createStreamWriter,
  readError,
};

/** A reply is read as a stream of one chunk, which has messages instead of deltas. */
function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const collector = createReplyCollector();
  for (const event of readBodyEvents(body, context)) collector.push(event);
  const usage = context.readUsage(body);
  return { ...collector.reply(), usage: usage && { usage } };
}
