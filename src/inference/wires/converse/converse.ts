// AWS Bedrock's Converse and ConverseStream. Signing is the transport's affair.
import type { OutboundWire } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";
import { writeRequest } from "./write-request.ts";

export const converseWire: OutboundWire = {
  name: "converse",
  writeRequest,
  readReply,
  createStreamReader,
  readError,
};
