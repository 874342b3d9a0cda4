// OpenAI's Chat Completions, and what many other servers make of it.
import type { InboundWire, OutboundWire } from "../../canonical-wire.ts";
import { readError, writeError } from "./map-error.ts";
import { readReply } from "./read-reply.ts";
import { readRequest } from "./read-request.ts";
import { createStreamReader } from "./read-stream.ts";
import { writeReply } from "./write-reply.ts";
import { writeRequest } from "./write-request.ts";
import { createStreamWriter } from "./write-stream.ts";

export const chatWire: InboundWire & OutboundWire = {
  name: "chat",
  readRequest,
  writeRequest,
  readReply,
  writeReply,
  createStreamReader,
  createStreamWriter,
  readError,
  writeError,
};
