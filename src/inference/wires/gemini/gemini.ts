// Google's generateContent, at the Gemini API and at Vertex AI.
import type { OutboundWire } from "../../canonical/wire.ts";
import { readError } from "./reply/map-error.ts";
import { readReply } from "./reply/read-reply.ts";
import { createStreamReader } from "./reply/read-stream.ts";
import { writeRequest } from "./request/write-request.ts";

export const geminiWire: OutboundWire = {
  name: "gemini",
  writeRequest,
  readReply,
  createStreamReader,
  readError,
};
