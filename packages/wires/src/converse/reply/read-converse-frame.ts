// Converts a frame of `application/vnd.amazon.eventstream` to a stream event.

import type { WireEvent } from "../../canonical/wire-interfaces.ts";
import type { EventFrame } from "../../frames/aws-event-stream.ts";

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
