// OpenAI's Chat Completions API, and the many servers that are compatible with it.
import type { InboundWire, OutboundWire } from "../canonical/wire-interfaces.ts";
import { readError } from "../openai-errors.ts";
import { readReply } from "./reply/read-chat-reply.ts";
import { createStreamReader } from "./reply/read-chat-stream.ts";
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
