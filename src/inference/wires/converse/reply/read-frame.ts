// A frame of `application/vnd.amazon.eventstream` as the event that the stream reader takes.
import type { EventFrame } from "../../../../base/streams/aws-event-stream.ts";
import type { WireEvent } from "../../../canonical/wire.ts";

const decoder = new TextDecoder();

/** Events and exceptions say their type in a header; an error that no model made says code and message there. */
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
