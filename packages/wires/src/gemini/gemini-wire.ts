// Google's generateContent, at the Gemini API and at Vertex AI.
import type { OutboundWire } from "../canonical/wire-interfaces.ts";
import { readError } from "./reply/map-gemini-error.ts";
import { readReply } from "./reply/read-gemini-reply.ts";
import { createStreamReader } from "./reply/read-gemini-stream.ts";
import { writeRequest } from "./request/write-gemini-request.ts";

export const geminiWire: OutboundWire = {
  name: "gemini",
  writeRequest,
  readReply,
  createStreamReader,
  readError,
};
