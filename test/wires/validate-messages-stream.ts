// The grammar of this API's streams, as a list of what is wrong with one. Tests run it over every stream that they make.
import { isObject, type JsonObject, objectIn, parseObject } from "../../src/base/json.ts";
import type { WireEvent } from "../../src/inference/canonical/wire.ts";

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
  block: { readonly type: string; deltas: number } | undefined;
}

/** Empty where the stream obeys: start, blocks one after another with dense indices, delta, stop; or an error at the end. */
export function validateMessagesStream(events: readonly WireEvent[]): readonly string[] {
  const seen: ValidatorState = { problems: [], state: "before", nextIndex: 0, block: undefined };
  for (const [at, { name, data }] of events.entries()) {
    const event = parseObject(data);
    if (event === undefined) {
      seen.problems.push(`${at}: no JSON object: ${data.slice(0, 40)}`);
      continue;
    }
    const type = String(event["type"]);
    if (name !== type) seen.problems.push(`${at}: event name ${name} with type ${type}`);
    if (seen.state === "over") seen.problems.push(`${at}: ${type} after the end`);
    if (type === "ping") continue;
    if (type.startsWith("content_block_")) checkBlockEvent(seen, event, at);
    else checkMessageEvent(seen, event, at);
  }
  if (seen.state !== "over") seen.problems.push("the stream has no terminal event");
  return seen.problems;
}

function checkMessageEvent(seen: ValidatorState, event: JsonObject, at: number): void {
  const { problems } = seen;
  switch (event["type"]) {
    case "message_start":
      if (seen.state !== "before") problems.push(`${at}: a second message_start`);
      problems.push(...checkMessage(event["message"], at));
      seen.state = "open";
      return;
    case "message_delta":
      if (seen.state !== "open" && seen.state !== "ending")
        problems.push(`${at}: message_delta outside of the message`);
      if (seen.block !== undefined) problems.push(`${at}: message_delta within a block`);
      if (typeof objectIn(event["usage"])?.["output_tokens"] !== "number")
        problems.push(`${at}: message_delta without usage`);
      if (typeof objectIn(event["delta"])?.["stop_reason"] === "string") seen.state = "ending";
      return;
    case "message_stop":
      if (seen.state !== "ending") problems.push(`${at}: message_stop without stop_reason`);
      seen.state = "over";
      return;
    case "error":
      if (typeof objectIn(event["error"])?.["message"] !== "string")
        problems.push(`${at}: error without message`);
      seen.state = "over";
      return;
    default:
      problems.push(`${at}: unknown event ${String(event["type"])}`);
  }
}

function checkBlockEvent(seen: ValidatorState, event: JsonObject, at: number): void {
  const { problems, block } = seen;
  const type = String(event["type"]);
  if (seen.state !== "open") problems.push(`${at}: ${type} outside of the message`);
  if (event["index"] !== seen.nextIndex)
    problems.push(`${at}: index ${String(event["index"])}, expected ${seen.nextIndex}`);
  if (type === "content_block_start") {
    if (block !== undefined) problems.push(`${at}: a block starts within a block`);
    const kind = objectIn(event["content_block"])?.["type"];
    if (typeof kind !== "string") problems.push(`${at}: a block without type`);
    seen.block = { type: String(kind), deltas: 0 };
    return;
  }
  if (block === undefined) {
    problems.push(`${at}: ${type} without a block`);
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
  seen.block = undefined;
  seen.nextIndex++;
}

function checkMessage(message: unknown, at: number): readonly string[] {
  if (!isObject(message)) return [`${at}: message_start without message`];
  const wrong = MESSAGE_FIELDS.filter((field) => message[field] === undefined).map(
    (field) => `${at}: message without ${field}`,
  );
  const usage = objectIn(message["usage"]);
  for (const field of ["input_tokens", "output_tokens"])
    if (typeof usage?.[field] !== "number") wrong.push(`${at}: message usage without ${field}`);
  return wrong;
}
