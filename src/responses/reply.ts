// The reply of a call with state: it bears our id and says what is stored here, whatever the provider says, on the whole
// reply and on every event of a stream that carries it. The response that ends a call is kept in hand for its record.

import { isObject, type Json } from "../inference/ask.ts";
import type { Passage } from "../inference/passage.ts";
import type { StreamShape } from "../inference/stream-shape.ts";

export interface ReplyDress {
  /** Our id, where the reply is stored. */
  readonly id: string | undefined;
  readonly previousId: string | undefined;
  readonly background: boolean;
  /** Whether a reply of so many characters is kept; without an id it never is. */
  readonly fits: (length: number) => boolean;
}

export interface Seen {
  /** The response that ended the call, as the caller sees it. */
  response: Json | undefined;
  /** What the last event of a stream that broke said. */
  failure: Json | undefined;
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();
const DATA_LINE = /^data: ?(\{[^\r\n]*\})/gm;
const ENDS: ReadonlySet<unknown> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
]);

export function dressedPassage(passage: Passage, dress: ReplyDress, seen: Seen): Passage {
  return {
    ...passage,
    whole: (reply, usage, costUsd) => {
      const answer = passage.whole(reply, usage, costUsd);
      const json: unknown = JSON.parse(answer.text);
      if (!isObject(json)) return answer;
      const { text, dropped } = answer;
      const response = dressed(json, dress, text.length);
      if (response["store"] === true) seen.response = response;
      return { text: JSON.stringify(response), dropped };
    },
    shape: (costUsd) => dressedShape(passage.shape(costUsd), dress, seen),
  };
}

function dressed(response: Json, dress: ReplyDress, length: number): Json {
  return {
    ...response,
    ...(dress.id === undefined ? {} : { id: dress.id, store: dress.fits(length) }),
    ...(dress.previousId === undefined ? {} : { previous_response_id: dress.previousId }),
    ...(dress.background ? { background: true } : {}),
  };
}

function dressedShape(shape: StreamShape, dress: ReplyDress, seen: Seen): StreamShape {
  const items: Json[] = [];
  const pass = (bytes: Uint8Array | undefined): Uint8Array | undefined => {
    if (bytes === undefined) return undefined;
    const text = decoder.decode(bytes);
    if (!text.includes('"response"') && !text.includes('"response.output_item.done"')) return bytes;
    return encoder.encode(
      text.replaceAll(DATA_LINE, (line, data: string) => {
        const event = eventOf(data);
        if (event?.["type"] === "response.output_item.done" && isObject(event["item"]))
          items.push(event["item"]);
        if (!isObject(event?.["response"])) return line;
        const whole = withOutput(event["response"], items, ENDS.has(event["type"]));
        const response = dressed(whole, dress, data.length);
        if (ENDS.has(event["type"])) note(event["type"], response, seen);
        return `data: ${JSON.stringify({ ...event, response })}`;
      }),
    );
  };
  return {
    ...shape,
    plain: (event) => pass(shape.plain(event)),
    usage: (event, costUsd) => pass(shape.usage(event, costUsd)),
    last: (wasTold) => pass(shape.last(wasTold)),
    error: (body) => {
      if (isObject(body) && isObject(body["error"])) seen.failure = body["error"];
      return shape.error(body);
    },
  };
}

function note(type: unknown, response: Json, seen: Seen): void {
  const { error } = response;
  if (type === "response.failed") seen.failure = isObject(error) ? error : undefined;
  else if (response["store"] === true) seen.response = response;
}

// Some providers send the items of a stream once, and leave them out of its end.
function withOutput(response: Json, items: readonly Json[], ends: boolean): Json {
  const { output } = response;
  const isEmpty = !Array.isArray(output) || output.length === 0;
  return ends && isEmpty && items.length > 0 ? { ...response, output: items } : response;
}

function eventOf(data: string): Json | undefined {
  try {
    const event: unknown = JSON.parse(data);
    return isObject(event) ? event : undefined;
  } catch {
    return undefined;
  }
}
