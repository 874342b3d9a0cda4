// Bedrock's binary frames as server-sent events, so that one relay serves every provider. They are always translated, and so
// need no bytes.

import { createEventFrameParser } from "../base/event-stream.ts";
import type { SseEvent, SseParser } from "../base/sse.ts";
import { eventOfFrame } from "./wires/converse/read-frame.ts";

const NO_BYTES = new Uint8Array(0);

export function createFrameParser(): SseParser {
  const parser = createEventFrameParser();
  return {
    push: (chunk) =>
      parser
        .push(chunk)
        .map((frame): SseEvent => ({ raw: NO_BYTES, ended: true, message: eventOfFrame(frame) })),
    single: () => undefined,
    end: () => [],
  };
}
