// Overrides fields of a stateful call's reply with our own: id, `store`, `previous_response_id`. Applies to whole replies and
// to every stream event with a response object. The final response is captured for its record.

import { isObject, type JsonObject, objectIn, parseObject } from "../base/json.ts";
import type { StreamTransform } from "../inference/translate/stream-transform.ts";
import type { TransportPlan } from "../inference/translate/transport-plan.ts";

export interface ReplyOverrides {
  /** Our id, if the reply is stored. */
  readonly id: string | undefined;
  readonly previousId: string | undefined;
  readonly background: boolean;
  /** What a queued response says of its batch. */
  readonly fields: JsonObject | undefined;
  /** Whether a reply of this many characters fits the storage limit. */
  readonly canStore: (length: number) => boolean;
}

export interface CapturedResult {
  /** The final response, as sent to the caller. */
  response: JsonObject | undefined;
  /** The same as text, if the reply consists of it. */
  text: string | undefined;
  /** The error of a failed stream's last event. */
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
      const written = plan.writeReply(reply, usage, costUsd);
      const json: unknown = JSON.parse(written.text);
      if (!isObject(json)) return written;
      const { text, dropped } = written;
      const response = applyOverrides(json, overrides, text.length);
      const overridden = JSON.stringify(response);
      if (response["store"] === true) {
        captured.response = response;
        captured.text = overridden;
      }
      return { text: overridden, dropped };
    },
    createStreamTransform: () =>
      transformWithOverrides(plan.createStreamTransform(), overrides, captured),
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
    ...(overrides.background ? { background: true, ...overrides.fields } : {}),
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
        const event = parseObject(data);
        if (event?.["type"] === "response.output_item.done" && isObject(event["item"]))
          items.push(event["item"]);
        if (!isObject(event?.["response"])) return line;
        const complete = withOutput(event["response"], items, TERMINAL_EVENTS.has(event["type"]));
        const response = applyOverrides(complete, overrides, data.length);
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
    finish: (hasTerminalEvent, costUsd) =>
      rewriteChunk(transform.finish(hasTerminalEvent, costUsd)),
    rewriteError: (bytes) => {
      const rewritten = transform.rewriteError(bytes);
      captured.failure = errorIn(rewritten) ?? captured.failure;
      return rewritten;
    },
    errorEvent: (body, latest) => {
      if (isObject(body) && isObject(body["error"])) captured.failure = body["error"];
      return transform.errorEvent(body, latest);
    },
  };
}

/** The error object of an `error` or `response.failed` event. */
function errorIn(bytes: Uint8Array | undefined): JsonObject | undefined {
  const [, data = ""] =
    bytes === undefined ? [] : (/^data: (.*)$/m.exec(decoder.decode(bytes)) ?? []);
  const event = parseObject(data);
  return objectIn(event?.["error"]) ?? objectIn(objectIn(event?.["response"])?.["error"]);
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

// Some providers leave the output items out of the terminal event.
function withOutput(
  response: JsonObject,
  items: readonly JsonObject[],
  isTerminal: boolean,
): JsonObject {
  const { output } = response;
  const isEmpty = !Array.isArray(output) || output.length === 0;
  return isTerminal && isEmpty && items.length > 0 ? { ...response, output: items } : response;
}
