import type { CanonicalEvent, JsonObject } from "../../canonical.ts";
import { cutStream } from "../../canonical-error.ts";
import { arrayIn, objectIn, parseObject, stringIn } from "../../canonical-json.ts";
import type { ReplyReadContext, StreamReader, WireEvent } from "../../canonical-wire.ts";
import { readError } from "./map-error.ts";
import { readFinish } from "./map-finish-reason.ts";
import { readHead } from "./read-reply.ts";
import { createItems } from "./stream-items.ts";

export function createStreamReader(context: ReplyReadContext): StreamReader {
  let id: string | undefined;
  let started = false;
  let over = false;
  const items = createItems(() => id, context);

  function start(out: CanonicalEvent[], response: JsonObject): void {
    if (started) return;
    started = true;
    const head = readHead(response);
    id = head.id;
    out.push({ type: "start", ...head });
  }

  function finish(out: CanonicalEvent[], response: JsonObject): void {
    over = true;
    start(out, response);
    items.settle(out, arrayIn(response["output"]));
    items.close(out);
    const usage = context.readUsage(response);
    if (usage !== undefined) out.push({ type: "usage", report: { usage } });
    const failed = response["status"] === "failed" || objectIn(response["error"]) !== undefined;
    if (failed) out.push({ type: "error", error: readError(200, response) });
    else
      out.push({
        type: "finish",
        choice: 0,
        finish: readFinish(response, { calls: items.calls, refusal: items.refused }),
      });
  }

  function read(out: CanonicalEvent[], type: string, event: JsonObject): void {
    switch (type) {
      case "response.created":
      case "response.in_progress":
      case "response.queued":
        return start(out, objectIn(event["response"]) ?? {});
      case "response.output_item.added":
        start(out, {});
        return items.add(out, event);
      case "response.output_item.done":
        start(out, {});
        return items.done(out, event);
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        return items.callDelta(out, event);
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
        return items.callDone(out, event);
      case "response.output_text.annotation.added":
        return items.cite(out, event);
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
      case "response.cancelled": {
        const response = objectIn(event["response"]) ?? {};
        const status = type.slice("response.".length);
        return finish(out, response["status"] === undefined ? { ...response, status } : response);
      }
      case "error":
        over = true;
        out.push({ type: "error", error: readError(200, event) });
        return;
      default: {
        const slot = SLOTS[type];
        if (slot === undefined) return;
        start(out, {});
        if (type.endsWith(".delta")) items.delta(out, event, slot);
        else items.whole(out, event, slot);
      }
    }
  }

  return {
    push({ name, data }: WireEvent) {
      const out: CanonicalEvent[] = [];
      const event = over ? undefined : parseObject(data);
      if (event === undefined) return out;
      const type = stringIn(event["type"]) ?? name;
      // Gateways in between put their own errors into the stream, without a type.
      read(out, type === "" && objectIn(event["error"]) !== undefined ? "error" : type, event);
      return out;
    },
    end() {
      if (over) return [];
      over = true;
      return [{ type: "error", error: cutStream() }];
    },
  };
}

// The Open Responses specification calls the text of reasoning `reasoning`, OpenAI `reasoning_text`.
const SLOTS: Readonly<Record<string, "text" | "refusal" | "summary" | "thought">> = {
  "response.output_text.delta": "text",
  "response.output_text.done": "text",
  "response.refusal.delta": "refusal",
  "response.refusal.done": "refusal",
  "response.reasoning_summary_text.delta": "summary",
  "response.reasoning_summary_text.done": "summary",
  "response.reasoning_text.delta": "thought",
  "response.reasoning_text.done": "thought",
  "response.reasoning.delta": "thought",
  "response.reasoning.done": "thought",
};
