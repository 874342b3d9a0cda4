// OpenAI's Chat Completions API, and the many servers that are compatible with it.
import type { InboundWire, OutboundWire } from "../../canonical/wire.ts";
import { readError } from "../openai-errors.ts";
import { readReply } from "./reply/read-reply.ts";
import { createStreamReader } from "./reply/read-stream.ts";
import { writeReply } from "./reply/write-reply.ts";
import { createStreamWriter } from "./reply/write-stream.ts";
import { readRequest } from "./request/read-request.ts";
import { writeRequest } from "./request/write-request.ts";

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
