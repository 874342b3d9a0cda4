// Anthropic's Messages API, also on Vertex AI and Bedrock.
import type { InboundWire, OutboundWire } from "../../canonical/wire.ts";
import { readError } from "./reply/map-error.ts";
import { readReply } from "./reply/read-reply.ts";
import { createStreamReader } from "./reply/read-stream.ts";
import { writeReply } from "./reply/write-reply.ts";
import { createStreamWriter } from "./reply/write-stream.ts";
import { readRequest } from "./request/read-request.ts";
import { writeRequest } from "./request/write-request.ts";

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
