import type { CanonicalEvent } from "../../canonical/canonical-events.ts";
import type { CanonicalReply } from "../../canonical/canonical-reply.ts";
import { createReplyCollector } from "../../canonical/collect-reply.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { arrayIn, isObject, type JsonObject, objectIn, stringIn } from "../../json-fields.ts";
import { readFinish } from "./map-converse-finish-reason.ts";
import {
  addNative,
  addToBlock,
  createMessageState,
  endBlock,
  endMessage,
  type MessageState,
  startBlock,
} from "./read-converse-stream-blocks.ts";
import { guardrailMessage, stopSequenceOf } from "./read-converse-stream.ts";

/** Replays the reply's blocks as stream events, so that streams and replies are read by the same code. */
export function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const sink: { out: CanonicalEvent[] } = { out: [] };
  const message = createMessageState(sink, context);
  const content = objectIn(objectIn(body["output"])?.["message"])?.["content"];
  for (const [index, block] of arrayIn(content).entries())
    if (isObject(block)) readBlock(message, index, block);
  endMessage(message);
  const stop = {
    reason: stringIn(body["stopReason"]),
    stopSequence: stopSequenceOf(body["additionalModelResponseFields"]),
    detail: guardrailMessage(body),
  };
  const finish = readFinish(stop, message.hasToolCalls);
  const collector = createReplyCollector();
  for (const event of [...sink.out, { type: "finish", choice: 0, finish } as const])
    collector.push(event);
  const usage = context.readUsage(body);
  const router = objectIn(objectIn(body["trace"])?.["promptRouter"]);
  return {
    model: stringIn(router?.["invokedModelId"]),
    choices: collector.reply().choices,
    usage: usage && { usage },
    serviceTier: stringIn(objectIn(body["serviceTier"])?.["type"]),
  };
}

function readBlock(message: MessageState, index: number, block: JsonObject): void {
  const cited = objectIn(block["citationsContent"]);
  const use = objectIn(block["toolUse"]);
  const reasoning = objectIn(block["reasoningContent"]);
  if (typeof block["text"] === "string") addToBlock(message, index, { text: block["text"] });
  else if (cited !== undefined) readCitationsContent(message, index, cited);
  else if (use !== undefined) {
    startBlock(message, index, { toolUse: use });
    const input = JSON.stringify(use["input"] ?? {});
    addToBlock(message, index, { toolUse: { input } });
  } else if (reasoning !== undefined) {
    const delta = objectIn(reasoning["reasoningText"]) ?? reasoning;
    addToBlock(message, index, { reasoningContent: delta });
  } else if (isObject(block["toolResult"])) {
    startBlock(message, index, block);
    addToBlock(message, index, { toolResult: block["toolResult"]["content"] });
  } else if (isObject(block["image"])) startBlock(message, index, block);
  else addNative(message, block);
  endBlock(message);
}

function readCitationsContent(message: MessageState, index: number, cited: JsonObject): void {
  for (const content of arrayIn(cited["content"]))
    addToBlock(message, index, { text: stringIn(objectIn(content)?.["text"]) ?? "" });
  for (const citation of arrayIn(cited["citations"])) addToBlock(message, index, { citation });
}
