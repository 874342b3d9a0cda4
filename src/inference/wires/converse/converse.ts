// Amazon Bedrock's Converse and ConverseStream. Requests are signed in providers/, not here.
import type { OutboundWire } from "../../canonical/wire.ts";
import { readError } from "./reply/map-error.ts";
import { readReply } from "./reply/read-reply.ts";
import { createStreamReader } from "./reply/read-stream.ts";
import { writeRequest } from "./request/write-request.ts";

export const converseWire: OutboundWire = {
  name: "converse",
  writeRequest,
  readReply,
  createStreamReader,
  readError,
};
