// Reads a whole reply with the stream meter of its wire: what it contains, if its usage does not tell.

import { arrayIn, type JsonObject, objectIn } from "../json-fields.ts";
import { createStreamMeter, type StreamedWire } from "./provider-usage.ts";
import { ownMember, valueAt } from "./read-numbers.ts";
import { readEvent, type StreamMeter } from "./stream-meter.ts";

export function meterWholeReply(
  wire: StreamedWire,
  provider: string,
  reply: JsonObject,
): StreamMeter {
  const meter = createStreamMeter(wire, provider);
  for (const event of EVENTS[wire](reply)) readEvent(meter, "", event);
  return meter;
}

/** A stream's events with the same content. */
const EVENTS: Readonly<Record<StreamedWire, (reply: JsonObject) => readonly JsonObject[]>> = {
  chat: (reply) => [
    {
      ...reply,
      choices: arrayIn(reply["choices"]).map((choice) =>
        Object.assign({}, choice, { delta: ownMember(choice, "message") }),
      ),
    },
  ],
  messages: (reply) => [
    ...arrayIn(reply["content"]).flatMap((block) => [
      { type: "content_block_start", content_block: block },
      { type: "content_block_delta", delta: { ...objectIn(block), partial_json: inputOf(block) } },
    ]),
    { type: "message_delta", delta: { stop_reason: reply["stop_reason"] } },
  ],
  gemini: (reply) => [reply],
  converse: (reply) => [
    ...arrayIn(valueAt(reply, ["output", "message", "content"])).map((block) => ({
      contentBlockDelta: {
        delta: {
          ...objectIn(block),
          reasoningContent: valueAt(block, ["reasoningContent", "reasoningText"]),
          toolUse: { input: inputOf(ownMember(block, "toolUse")) },
        },
      },
    })),
    ...(reply["stopReason"] === undefined ? [] : [{ messageStop: {} }]),
  ],
  responses: (reply) => [
    ...arrayIn(reply["output"]).flatMap(itemEvents),
    { type: "response.completed", response: reply },
  ],
};

function itemEvents(item: unknown): readonly JsonObject[] {
  const parts = [...arrayIn(ownMember(item, "content")), ...arrayIn(ownMember(item, "summary"))];
  const texts = parts.map((part) => ownMember(part, "text") ?? ownMember(part, "refusal"));
  const added = { type: "response.output_item.added", item };
  return [
    added,
    ...[ownMember(item, "arguments"), ...texts].map((delta) => ({
      type: "response.output_text.delta",
      delta,
    })),
  ];
}

function inputOf(block: unknown): string | undefined {
  const input = ownMember(block, "input");
  return input === undefined ? undefined : JSON.stringify(input);
}
