// Anthropic's Messages API, also on Vertex AI and Bedrock.

import type { CanonicalReply } from "../canonical/canonical-reply.ts";
import { createReplyCollector } from "../canonical/collect-reply.ts";
import type { InboundWire, OutboundWire, ReplyReadContext } from "../canonical/wire-interfaces.ts";
import { objectIn } from "../json-fields.ts";
import { readError } from "./reply/map-messages-error.ts";
import { createStreamReader, readMessageEvents } from "./reply/read-messages-stream.ts";
import { writeReply } from "./reply/write-messages-reply.ts";
import { createStreamWriter } from "./reply/write-messages-stream.ts";
import { readRequest } from "./request/read-messages-request.ts";
import { writeRequest } from "./request/write-messages-request.ts";

export const messagesWire: InboundWire & OutboundWire = {
  name: "messages",
  readRequest,
  writeRequest,
  readReply,
  writeReply,
  createStreamReader,
  createStreamWriter,
  readError,
};

/** A reply is read as a stream that is complete in its first event. */
function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const collector = createReplyCollector();
  for (const event of readMessageEvents(body, context)) collector.push(event);
  const usage = context.readUsage(body);
  return { ...collector.reply(), usage: usage && { usage } };
}
