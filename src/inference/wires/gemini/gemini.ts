// Google's generateContent, at the Gemini API and at Vertex AI.
import type { OutboundWire } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readReply } from "./read-reply.ts";
import { createStreamReader } from "./read-stream.ts";
import { writeRequest } from "./write-request.ts";

export const geminiWire: OutboundWire = {
  name: "gemini",
  writeRequest,
  readReply,
  createStreamReader,
  readError,
};
