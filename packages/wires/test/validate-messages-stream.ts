// Validates a written stream: returns its violations of the API's event order.

import {
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../../src/base/json.ts";
import type { WireEvent } from "../src/canonical/wire-interfaces.ts";

const DELTAS: Readonly<Record<string, readonly string[]>> = {
  text: ["text_delta", "citations_delta"],
  thinking: ["thinking_delta", "signature_delta"],
  tool_use: ["input_json_delta"],
  server_tool_use: ["input_json_delta"],
  mcp_tool_use: ["input_json_delta"],
  compaction: ["compaction_delta"],
};
const MESSAGE_FIELDS = [
  "id",
  "type",
  "role",
  "model",
  "content",
  "stop_reason",
  "stop_sequence",
  "usage",
] as const;

interface ValidatorState {
  readonly problems: string[];
  state: "before" | "open" | "ending" | "over";
  nextIndex: number;
  /** The open blocks by index: one, or a text and the thinking block with its signature. */
  readonly blocks: Map<unknown, { readonly type: string; deltas: number }>;
}

/** The stream has a start, consecutive blocks with dense indices, a delta and a stop, or an error at its end. */
export function validateMessagesStream(events: readonly WireEvent[]): readonly string[] {
  const validator: ValidatorState = {
    problems: [],
    state: "before",
    nextIndex: 0,
    blocks: new Map(),
  };
  for (const [at, { name, data }] of events.entries()) {
    const event = parseObject(data);
    if (event === undefined) {
      validator.problems.push(`${at}: no JSON object: ${data.slice(0, 40)}`);
      continue;
    }
    const type = String(event["type"]);
    if (name !== type) validator.problems.push(`${at}: event name ${name} with type ${type}`);
    if (validator.state === "over") validator.problems.push(`${at}: ${type} after the end`);
    if (type === "ping") continue;
    if (type.startsWith("content_block_")) checkBlockEvent(validator, event, at);
    else checkMessageEvent(validator, event, at);
  }
  if (validator.state !== "over") validator.problems.push("the stream has no terminal event");
  return validator.problems;
}

function checkMessageEvent(validator: ValidatorState, event: JsonObject, at: number): void {
  const { problems } = validator;
  switch (event["type"]) {
    case "message_start":
      if (validator.state !== "before") problems.push(`${at}: a second message_start`);
      problems.push(...checkMessage(event["message"], at));
      validator.state = "open";
      return;
    case "message_delta":
      if (validator.state !== "open" && validator.state !== "ending")
        problems.push(`${at}: message_delta outside of the message`);
      if (validator.blocks.size > 0) problems.push(`${at}: message_delta within a block`);
      if (typeof objectIn(event["usage"])?.["output_tokens"] !== "number")
        problems.push(`${at}: message_delta without usage`);
      if (typeof objectIn(event["delta"])?.["stop_reason"] === "string") validator.state = "ending";
      return;
    case "message_stop":
      if (validator.state !== "ending") problems.push(`${at}: message_stop without stop_reason`);
      validator.state = "over";
      return;
    case "error":
      if (typeof objectIn(event["error"])?.["message"] !== "string")
        problems.push(`${at}: error without message`);
      validator.state = "over";
      return;
    default:
      problems.push(`${at}: unknown event ${String(event["type"])}`);
  }
}

function checkBlockEvent(validator: ValidatorState, event: JsonObject, at: number): void {
  const { problems, blocks } = validator;
  const { type: eventType, index } = event;
  const type = String(eventType);
  if (validator.state !== "open") problems.push(`${at}: ${type} outside of the message`);
  if (type === "content_block_start") {
    const kind = stringIn(objectIn(event["content_block"])?.["type"]) ?? "no type";
    if (index !== validator.nextIndex)
      problems.push(`${at}: index ${String(index)}, expected ${validator.nextIndex}`);
    const pair = [...blocks.values(), { type: kind }].map((block) => block.type).toSorted();
    if (pair.length > 1 && pair.join() !== "text,thinking")
      problems.push(`${at}: a block starts within a block`);
    if (kind === "no type") problems.push(`${at}: a block without type`);
    blocks.set(validator.nextIndex++, { type: kind, deltas: 0 });
    return;
  }
  const block = blocks.get(index);
  if (block === undefined) {
    problems.push(`${at}: ${type} of ${String(index)}, which is not open`);
    return;
  }
  if (type === "content_block_delta") {
    block.deltas++;
    const kind = String(objectIn(event["delta"])?.["type"]);
    if (!(DELTAS[block.type] ?? []).includes(kind))
      problems.push(`${at}: ${kind} in a ${block.type} block`);
    return;
  }
  if (block.type === "tool_use" && block.deltas === 0)
    problems.push(`${at}: a tool_use block without input_json_delta`);
  // Clients that show the block that ends last must get the text.
  if (block.type === "text" && blocks.size > 1)
    problems.push(`${at}: the text ends before the block of its signature`);
  blocks.delete(index);
}

function checkMessage(message: unknown, at: number): readonly string[] {
  if (!isObject(message)) return [`${at}: message_start without message`];
  const problems = MESSAGE_FIELDS.filter((field) => message[field] === undefined).map(
    (field) => `${at}: message without ${field}`,
  );
  const usage = objectIn(message["usage"]);
  for (const field of ["input_tokens", "output_tokens"])
    if (typeof usage?.[field] !== "number") problems.push(`${at}: message usage without ${field}`);
  return problems;
}
