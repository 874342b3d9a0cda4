// Bedrock's binary frames as server-sent events, so that one relay serves every provider.

import { createEventFrameParser } from "../base/event-stream.ts";
import { formatSse, type SseEvent, type SseParser } from "../base/sse.ts";
import { eventOfFrame } from "./wires/converse/read-frame.ts";

const encoder = new TextEncoder();

export function createFrameParser(): SseParser {
  const parser = createEventFrameParser();
  return {
    push: (chunk) =>
      parser.push(chunk).map((frame): SseEvent => {
        const { name, data } = eventOfFrame(frame);
        return { raw: encoder.encode(formatSse({ event: name, data })), ended: true };
      }),
    end: () => [],
  };
}
