// Meters the stream of an endpoint without a conversation: events whose last one has the usage, or the bytes of a file.

import type { SseEvent, SseMessage, SseParser } from "../frames/sse.ts";
import { stringIn } from "../json-fields.ts";
import { createUsageMeter, detectError, type StreamMeter } from "../usage/stream-meter.ts";
import type { RelayedContext, RelayedStream } from "./relayed-endpoint.ts";

export function createRelayedMeter(
  {
    usageInEvent,
    usageOfBytes,
    isLast,
    hasTerminalEvent,
    endsIn = isLast,
    contentOf,
  }: RelayedStream,
  context: RelayedContext,
): StreamMeter {
  return createUsageMeter({
    read: (state, name, data) => {
      if (name === BYTES_NAME) {
        state.hasStopReason = true;
        state.usage ??= usageOfBytes?.(context);
        return false;
      }
      detectError(state, name, data);
      state.outputBytes += contentOf(data)?.length ?? 0;
      if (endsIn(data)) state.hasStopReason = true;
      if (!isLast(data)) return false;
      state.finished = hasTerminalEvent !== true;
      state.usage = usageInEvent(data, context);
      state.isUsageFinal = state.usage !== undefined;
      return state.usage !== undefined;
    },
  });
}

/** The bytes of a file are whole when their connection was closed in the right way. */
export function endOfBytes(meter: StreamMeter): void {
  meter.finished = meter.hasStopReason;
  meter.isUsageFinal = meter.usage !== undefined;
}

const BYTES_NAME = "bytes";
const BYTES_MESSAGE: SseMessage = { name: BYTES_NAME, data: "", json: {} };

/** Makes an event of each chunk, so that bytes take the same way as events. */
export function createBytesParser(): SseParser {
  return {
    isBetweenEvents: false,
    maxEventBytes: Infinity,
    hasCutEvent: false,
    push: (raw) => [{ raw, isComplete: true, message: BYTES_MESSAGE }],
    end: () => [],
  };
}

/** The bytes of a file in an event. */
export function bytesIn({ contentOf }: RelayedStream, event: SseEvent): Uint8Array | undefined {
  const { message } = event;
  if (message === undefined || message === BYTES_MESSAGE) return event.raw;
  const { json } = message;
  const content =
    typeof json === "object" && json !== null ? stringIn(contentOf({ ...json })) : undefined;
  return content === undefined ? undefined : Buffer.from(content, "base64");
}
