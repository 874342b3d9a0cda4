// OpenAI's Responses API, and the Open Responses specification that others follow.
import type { InboundWire, OutboundWire } from "../../canonical-wire.ts";
import { readError, writeError } from "./map-error.ts";
import { readReply } from "./read-reply.ts";
import { readRequest } from "./read-request.ts";
import { createStreamReader } from "./read-stream.ts";
import { writeReply } from "./write-reply.ts";
import { writeRequest } from "./write-request.ts";
import { createStreamWriter } from "./write-stream.ts";

export const responsesWire: InboundWire & OutboundWire = {
  name: "responses",
  readRequest,
  writeRequest,
  readReply,
  writeReply,
  createStreamReader,
  createStreamWriter,
  readError,
  writeError,
};
