// A stream of server-sent events as one JSON array that grows, the form of Google's streams without `alt=sse`.

import { createSseParser, readSse } from "@postern/wires";
import {
  type ResponseSink,
  streamResponse,
  takeStreamHandlers,
} from "../../http/response-stream.ts";
import type { SentForm, StreamWriter } from "../lifecycle/call.ts";

/** What `asJsonArray` makes of a reply. */
export const JSON_ARRAY_FORM: SentForm = { whole: (text) => text, stream: createArrayWriter };

const encoder = new TextEncoder();
const EVENT_STREAM = /^text\/event-stream\b/i;

/** Any other response is returned as it is. */
export async function asJsonArray(response: Response): Promise<Response> {
  if (!EVENT_STREAM.test(response.headers.get("content-type") ?? "")) return response;
  const headers = new Headers(response.headers);
  headers.set("content-type", "application/json");
  const { body, status } = response;
  const handlers = body === null ? undefined : takeStreamHandlers(body);
  if (handlers === undefined) {
    const array = createArrayWriter();
    const text = array.push(new Uint8Array(await response.arrayBuffer())) + array.end();
    return new Response(text, { status, headers });
  }
  const stream = streamResponse({
    onStart: (sink) => handlers.onStart(arraySink(sink)),
    onClientGone: handlers.onClientGone,
  });
  return new Response(stream, { status, headers });
}

interface ArraySink extends ResponseSink {
  readonly inner: ResponseSink;
  readonly array: StreamWriter;
}

function arraySink(inner: ResponseSink): ArraySink {
  const { functions } = inner;
  const array = createArrayWriter();
  return {
    inner,
    array,
    // Safe because a sink is given to its own functions only.
    functions: {
      write: (_sink, bytes) => functions.write(inner, encoder.encode(array.push(bytes))),
      end: () => {
        void functions.write(inner, encoder.encode(array.end()));
        functions.end(inner);
      },
      abort: () => functions.abort(inner),
    },
  };
}

/** A comment, which keeps the connection open, becomes whitespace. */
function createArrayWriter(): StreamWriter {
  const parser = createSseParser();
  let isEmpty = true;
  const write = (events: ReturnType<typeof parser.push>): string => {
    let text = "";
    for (const event of events) {
      const data = readSse(event)?.data;
      if (data === undefined) continue;
      text += (isEmpty ? "[" : ",\r\n") + data;
      isEmpty = false;
    }
    return text;
  };
  return {
    push: (bytes) => write(parser.push(bytes)) || "\n",
    end: () => `${write(parser.end())}${isEmpty ? "[]" : "]"}`,
  };
}
