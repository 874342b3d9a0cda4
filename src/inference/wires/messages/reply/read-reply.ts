import type { OpaqueBlob, Citation, Part } from "../../../canonical/parts.ts";
import type { CanonicalReply } from "../../../canonical/reply.ts";
import { type JsonObject, arrayIn, isObject, objectIn, stringIn } from "../../../../base/json.ts";
import { mintCallId } from "../../../canonical/call-ids.ts";
import type { ReplyReadContext } from "../../../canonical/wire.ts";
import { readFinish } from "./map-finish-reason.ts";

export function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const parts = arrayIn(body["content"])
    .filter(isObject)
    .filter((block) => typeof block["type"] === "string")
    .map((block, at) => readReplyBlock(block, context, mintCallId(stringIn(body["id"]) ?? "", at)));
  const calls = parts.some((part) => part.type === "tool_call");
  const usage = context.readUsage(body);
  return {
    id: stringIn(body["id"]),
    model: stringIn(body["model"]),
    choices: [
      {
        parts,
        finish: readFinish(
          stringIn(body["stop_reason"]),
          stringIn(body["stop_sequence"]),
          stringIn(objectIn(body["stop_details"])?.["explanation"]),
          calls,
        ),
      },
    ],
    usage: usage && { usage },
    serviceTier: tierOf(body["usage"]),
  };
}

export function readReplyBlock(block: JsonObject, context: ReplyReadContext, mintedId = ""): Part {
  switch (block["type"]) {
    case "text": {
      const citations = arrayIn(block["citations"])
        .map(readCitation)
        .filter((one): one is Citation => one !== undefined);
      return {
        type: "text",
        text: stringIn(block["text"]) ?? "",
        citations: citations.length > 0 ? citations : undefined,
      };
    }
    case "thinking":
      return {
        type: "reasoning",
        text: stringIn(block["thinking"]) ?? "",
        blob: blobOf(block["signature"], "signature", context),
      };
    case "redacted_thinking":
      return { type: "reasoning", text: "", blob: blobOf(block["data"], "encrypted", context) };
    case "tool_use": {
      const name = stringIn(block["name"]) ?? "";
      const text = JSON.stringify(block["input"] ?? {});
      if (name === context.emulation?.outputTool) return { type: "text", text };
      return { type: "tool_call", id: stringIn(block["id"]) || mintedId, name, arguments: text };
    }
    default:
      return { type: "native", wire: "messages", value: block };
  }
}

export function blobOf(
  data: unknown,
  kind: OpaqueBlob["kind"],
  { origin }: ReplyReadContext,
): OpaqueBlob | undefined {
  return typeof data === "string" && data !== ""
    ? { wire: "messages", kind, data, origin }
    : undefined;
}

export function readCitation(value: unknown): Citation | undefined {
  if (!isObject(value)) return undefined;
  const web = value["type"] === "web_search_result_location";
  return {
    url: web ? stringIn(value["url"]) : undefined,
    title: stringIn(value["title"]) ?? stringIn(value["document_title"]),
    citedText: stringIn(value["cited_text"]),
    native: { wire: "messages", fields: value },
  };
}

/** This API's `standard` is what the others call `default`. */
export function tierOf(usage: unknown): string | undefined {
  const tier = stringIn(objectIn(usage)?.["service_tier"]);
  return tier === "standard" ? "default" : tier;
}
