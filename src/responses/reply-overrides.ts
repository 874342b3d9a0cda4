// The reply of a call with state: it bears our id and says what is stored here, whatever the provider says, on the whole
// reply and on every event of a stream that carries it. The response that ends a call is kept in hand for its record.

import { isObject, type JsonObject } from "../base/json.ts";
import type { TransportPlan } from "../inference/translate/plan.ts";
import type { StreamTransform } from "../inference/translate/stream-transform.ts";

export interface ReplyOverrides {
  /** Our id, where the reply is stored. */
  readonly id: string | undefined;
  readonly previousId: string | undefined;
  readonly background: boolean;
  /** Whether a reply of so many characters is kept; without an id it never is. */
  readonly canStore: (length: number) => boolean;
}

export interface CapturedResult {
  /** The response that ended the call, as the caller sees it. */
  response: JsonObject | undefined;
  /** What the last event of a stream that broke said. */
  failure: JsonObject | undefined;
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();
const DATA_LINE = /^data: ?(\{[^\r\n]*\})/gm;
const TERMINAL_EVENTS: ReadonlySet<unknown> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
]);

export function withReplyOverrides(
  plan: TransportPlan,
  overrides: ReplyOverrides,
  captured: CapturedResult,
): TransportPlan {
  return {
    ...plan,
    writeReply: (reply, usage, costUsd) => {
      const answer = plan.writeReply(reply, usage, costUsd);
      const json: unknown = JSON.parse(answer.text);
      if (!isObject(json)) return answer;
      const { text, dropped } = answer;
      const response = applyOverrides(json, overrides, text.length);
      if (response["store"] === true) captured.response = response;
      return { text: JSON.stringify(response), dropped };
    },
    createStreamTransform: (costUsd) =>
      transformWithOverrides(plan.createStreamTransform(costUsd), overrides, captured),
  };
}

function applyOverrides(
  response: JsonObject,
  overrides: ReplyOverrides,
  length: number,
): JsonObject {
  return {
    ...response,
    ...(overrides.id === undefined ? {} : { id: overrides.id, store: overrides.canStore(length) }),
    ...(overrides.previousId === undefined ? {} : { previous_response_id: overrides.previousId }),
    ...(overrides.background ? { background: true } : {}),
  };
}

function transformWithOverrides(
  transform: StreamTransform,
  overrides: ReplyOverrides,
  captured: CapturedResult,
): StreamTransform {
  const items: JsonObject[] = [];
  const rewriteChunk = (bytes: Uint8Array | undefined): Uint8Array | undefined => {
    if (bytes === undefined) return undefined;
    const text = decoder.decode(bytes);
    if (!text.includes('"response"') && !text.includes('"response.output_item.done"')) return bytes;
    return encoder.encode(
      text.replaceAll(DATA_LINE, (line, data: string) => {
        const event = parseEvent(data);
        if (event?.["type"] === "response.output_item.done" && isObject(event["item"]))
          items.push(event["item"]);
        if (!isObject(event?.["response"])) return line;
        const whole = withOutput(event["response"], items, TERMINAL_EVENTS.has(event["type"]));
        const response = applyOverrides(whole, overrides, data.length);
        if (TERMINAL_EVENTS.has(event["type"]))
          captureTerminalResponse(event["type"], response, captured);
        return `data: ${JSON.stringify({ ...event, response })}`;
      }),
    );
  };
  return {
    ...transform,
    transformEvent: (event) => rewriteChunk(transform.transformEvent(event)),
    transformUsageEvent: (event, costUsd) =>
      rewriteChunk(transform.transformUsageEvent(event, costUsd)),
    finish: (wasTold) => rewriteChunk(transform.finish(wasTold)),
    errorEvent: (body) => {
      if (isObject(body) && isObject(body["error"])) captured.failure = body["error"];
      return transform.errorEvent(body);
    },
  };
}

function captureTerminalResponse(
  type: unknown,
  response: JsonObject,
  captured: CapturedResult,
): void {
  const { error } = response;
  if (type === "response.failed") captured.failure = isObject(error) ? error : undefined;
  else if (response["store"] === true) captured.response = response;
}

// Some providers send the items of a stream once, and leave them out of its end.
function withOutput(
  response: JsonObject,
  items: readonly JsonObject[],
  isTerminal: boolean,
): JsonObject {
  const { output } = response;
  const isEmpty = !Array.isArray(output) || output.length === 0;
  return isTerminal && isEmpty && items.length > 0 ? { ...response, output: items } : response;
}

function parseEvent(data: string): JsonObject | undefined {
  try {
    const event: unknown = JSON.parse(data);
    return isObject(event) ? event : undefined;
  } catch {
    return undefined;
  }
}
