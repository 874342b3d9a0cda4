// Amazon Bedrock's Converse and ConverseStream. Requests are signed in providers/, not here.

import type { OutboundWire } from "../canonical/wire-interfaces.ts";
import { readError } from "./reply/map-converse-error.ts";
import { readReply } from "./reply/read-converse-reply.ts";
import { createStreamReader } from "./reply/read-converse-stream.ts";
import { writeRequest } from "./request/write-converse-request.ts";

export const converseWire: OutboundWire = {
  name: "converse",
  writeRequest,
  readReply,
  createStreamReader,
  readError,
};
