// OpenAI's Responses API, and the Open Responses specification of compatible providers.

import type { InboundWire, OutboundWire } from "../canonical/wire-interfaces.ts";
import { readError } from "../openai-errors.ts";
import { readReply } from "./reply/read-responses-reply.ts";
import { createStreamReader } from "./reply/read-responses-stream.ts";
import { writeReply } from "./reply/write-responses-reply.ts";
import { createStreamWriter } from "./reply/write-responses-stream.ts";
import { readRequest } from "./request/read-responses-request.ts";
import { writeRequest } from "./request/write-responses-request.ts";

export const responsesWire: InboundWire & OutboundWire = {
  name: "responses",
  readRequest,
  writeRequest,
  readReply,
  writeReply,
  createStreamReader,
  createStreamWriter,
  readError,
};
