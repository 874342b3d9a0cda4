// Google's generateContent, at the Gemini API and at Vertex AI.

import type { CanonicalReply } from "../canonical/canonical-reply.ts";
import { createReplyCollector } from "../canonical/collect-reply.ts";
import type { InboundWire, OutboundWire, ReplyReadContext } from "../canonical/wire-interfaces.ts";
import { readError } from "./reply/map-gemini-error.ts";
import { createStreamReader, readBodyEvents } from "./reply/read-gemini-stream.ts";
import { createStreamWriter, writeReply } from "./reply/write-gemini-stream.ts";
import { readRequest } from "./request/read-gemini-request.ts";
import { writeRequest } from "./request/write-gemini-request.ts";

export const geminiWire: InboundWire & OutboundWire = {
  name: "gemini",
  readRequest,
  writeRequest,
  readReply,
  writeReply,
  createStreamReader,
  createStreamWriter,
  readError,
};

/** A non-streamed reply has the form of a stream chunk, so it is read as a stream of one chunk. */
function readReply(body: unknown, context: ReplyReadContext): CanonicalReply {
  const collector = createReplyCollector();
  for (const event of readBodyEvents(body, context)) collector.push(event);
  return collector.reply();
}
