// Collects the events of a message.

import { arrayIn, isObject, objectIn, parseObject } from "../json-fields.ts";
import {
  append,
  collected,
  type Collected,
  indexOf,
  type StreamCollector,
} from "./stream-collector.ts";

interface CollectedBlock {
  readonly block: Collected;
  /** The input of a tool, which arrives as JSON text. */
  readonly input: { json: string };
}

export function createMessagesCollector(): StreamCollector {
  let message: Collected | undefined;
  const blocks: CollectedBlock[] = [];
  return {
    push: (data) => {
      const { type, delta, usage, message: start, ...others } = data;
      if (type === "message_start") message = collected(start);
      else if (type === "content_block_start")
        blocks[indexOf(data)] = { block: collected(data["content_block"]), input: { json: "" } };
      else if (type === "content_block_delta") addDelta(blocks[indexOf(data)], delta);
      else if (type === "message_delta")
        message = {
          ...message,
          ...objectIn(delta),
          ...others,
          usage: { ...objectIn(message?.["usage"]), ...objectIn(usage) },
        };
    },
    stop: ({ outputTokens, costUsd }) => {
      const usage = { ...objectIn(message?.["usage"]), output_tokens: outputTokens, cost: costUsd };
      message = { ...message, stop_reason: "max_tokens", stop_sequence: null, usage };
    },
    reply: () => message && { ...message, content: blocks.filter(isObject).map(toBlock) },
  };
}

function addDelta(at: CollectedBlock | undefined, delta: unknown): void {
  if (at === undefined || !isObject(delta)) return;
  const { block, input } = at;
  for (const [name, value] of Object.entries(delta)) {
    if (name === "type") continue;
    if (name === "partial_json") append(input, "json", value);
    else if (name === "citation") block["citations"] = [...arrayIn(block["citations"]), value];
    else if (typeof value === "string") append(block, name, value);
    else block[name] = value;
  }
}

/** The input of a call that was cut is no JSON. */
function toBlock({ block, input: { json } }: CollectedBlock): Collected {
  return json === "" ? block : { ...block, input: parseObject(json) ?? block["input"] };
}
