// Writes a call's stream to a WebSocket: each event is one message. The relay waits for a client that reads slowly.

import { createSseParser, readSse } from "@postern/wires";
import type { ResponseSink, SinkFunctions } from "../../http/response-stream.ts";
import type { WebSocketConnection } from "../../http/web-socket.ts";

export interface EventSink extends ResponseSink {
  /** To be called when the client has read what was sent, and when the connection has closed. */
  readonly onDrain: () => void;
}

export interface EventSinkOptions {
  readonly connection: WebSocketConnection;
  /** The stream that the events name. */
  readonly streamId: string | undefined;
  /** Called with the JSON of each event, after it was sent. */
  readonly onEvent: (data: string) => void;
  readonly onEnd: (isWhole: boolean) => void;
}

/** An event as JSON text, with the stream that it belongs to. */
export function inStream(data: string, streamId: string | undefined): string {
  return streamId === undefined
    ? data
    : `${data.slice(0, data.lastIndexOf("}"))},"stream_id":${JSON.stringify(streamId)}}`;
}

export function createEventSink({
  connection,
  streamId,
  onEvent,
  onEnd,
}: EventSinkOptions): EventSink {
  const parser = createSseParser();
  let drained: PromiseWithResolvers<void> | undefined;
  const functions: SinkFunctions<unknown> = {
    write: (_, bytes) => {
      for (const event of parser.push(bytes)) {
        const data = readSse(event)?.data;
        // Comments keep HTTP connections alive; here the server pings. `[DONE]` is no event of this API.
        if (data === undefined || !data.startsWith("{")) continue;
        connection.send(inStream(data, streamId));
        onEvent(data);
      }
      if (connection.unreadBytes() === 0) return undefined;
      drained ??= Promise.withResolvers<void>();
      return drained.promise;
    },
    end: () => onEnd(true),
    abort: () => onEnd(false),
  };
  return {
    functions,
    onDrain: () => {
      drained?.resolve();
      drained = undefined;
    },
  };
}
