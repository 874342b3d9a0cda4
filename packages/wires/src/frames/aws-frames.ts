// Reads Bedrock's binary frames as server-sent events, so that one relay serves all providers. Their replies are always
// translated, so the events carry no bytes.

import type { WireEvent } from "../canonical/wire-interfaces.ts";
import { createEventFrameParser, type EventFrame } from "./aws-event-stream.ts";
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

const decoder = new TextDecoder();

/** Events and exceptions name their type in a header; a transport error has its code and message in headers. */
export function frameToEvent({ headers, payload }: EventFrame): WireEvent {
  const code = headers.get(":error-code");
  if (headers.get(":message-type") === "error" && code !== undefined)
    return {
      name: code.endsWith("Exception") ? code : `${code}Exception`,
      data: JSON.stringify({ message: headers.get(":error-message") }),
    };
  const name = headers.get(":event-type") ?? headers.get(":exception-type") ?? "";
  return { name, data: decoder.decode(payload) };
}
