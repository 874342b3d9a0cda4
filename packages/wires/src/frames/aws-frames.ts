// Reads Bedrock's binary frames as server-sent events, so that one relay serves all providers. Their replies are always
// translated, so the events carry no bytes.

import { frameToEvent } from "../converse/reply/read-converse-frame.ts";
import { createEventFrameParser } from "./aws-event-stream.ts";
import type { SseEvent, SseParser } from "./sse.ts";

const NO_BYTES = new Uint8Array(0);

export function createAwsFrameParser(): SseParser {
  const parser = createEventFrameParser();
  return {
    isBetweenEvents: false,
    maxEventBytes: 0,
    hasCutEvent: false,
    push: (chunk) =>
      parser.push(chunk).map((frame): SseEvent => ({
        raw: NO_BYTES,
        isComplete: true,
        message: frameToEvent(frame),
      })),
    end: () => [],
  };
}
