import type { CanonicalEvent, PartHead } from "../src/canonical/canonical-events.ts";
import type { Part } from "../src/canonical/canonical-parts.ts";
import type { CanonicalReply } from "../src/canonical/canonical-reply.ts";

/** The events of a stream with the same content as the reply. */
export function replyToEvents(reply: CanonicalReply): readonly CanonicalEvent[] {
  const { id, model, createdSeconds, serviceTier } = reply;
  const events: CanonicalEvent[] = [{ type: "start", id, model, createdSeconds, serviceTier }];
  for (const [choice, { parts, finish }] of reply.choices.entries()) {
    for (const [part, value] of parts.entries()) pushPartEvents(events, choice, part, value);
    events.push({ type: "finish", choice, finish });
  }
  if (reply.usage !== undefined) events.push({ type: "usage", report: reply.usage });
  return events;
}

function pushPartEvents(events: CanonicalEvent[], choice: number, part: number, value: Part): void {
  const head = partHeadOf(value);
  if (head === undefined) return;
  events.push({ type: "part_start", choice, part, head });
  if (value.type === "tool_call") {
    if (value.arguments !== "") events.push({ type: "delta", choice, part, text: value.arguments });
  } else if (value.type === "text" || value.type === "refusal") {
    if (value.text !== "" || value.logprobs !== undefined)
      events.push({ type: "delta", choice, part, text: value.text, logprobs: value.logprobs });
  } else if (value.type === "reasoning" && value.text !== "")
    events.push({ type: "delta", choice, part, text: value.text });
  if (value.type === "text") {
    for (const citation of value.citations ?? [])
      events.push({ type: "citation", choice, part, citation });
    if (value.signature !== undefined)
      events.push({ type: "blob", choice, part, blob: value.signature });
  } else if (value.type === "reasoning" && value.blob !== undefined)
    events.push({ type: "blob", choice, part, blob: value.blob });
  events.push({ type: "part_end", choice, part });
}

function partHeadOf(part: Part): PartHead | undefined {
  switch (part.type) {
    case "text":
    case "refusal":
      return { type: part.type };
    case "reasoning":
      return { type: "reasoning", summary: part.summary, id: part.id };
    case "tool_call":
      return {
        type: "tool_call",
        id: part.id,
        name: part.name,
        custom: part.custom,
        signature: part.signature,
        native: part.native,
      };
    case "tool_result":
      return undefined;
    case "image":
    case "file":
    case "audio":
    case "video":
    case "native":
      return { type: "whole", value: part };
  }
}
