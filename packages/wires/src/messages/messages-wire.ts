// Anthropic's Messages API, also on Vertex AI and Bedrock.
import type { InboundWire, OutboundWire } from "../canonical/wire-interfaces.ts";
import { readError } from "./reply/map-messages-error.ts";
import { readReply } from "./reply/read-messages-reply.ts";
import { createStreamReader } from "./reply/read-messages-stream.ts";
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
