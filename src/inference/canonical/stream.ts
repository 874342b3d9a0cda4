// A stream and a reply are two forms of one thing: each can be made into the other.
import type {
  CanonicalEvent,
  CanonicalReply,
  Choice,
  Finish,
  Part,
  PartHead,
  TextPart,
  UsageReport,
} from "./canonical.ts";

/** The events that say what a whole reply says. */
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

export interface ReplyCollector {
  push(event: CanonicalEvent): void;
  /** The reply as far as it has come. A choice that never finished has reason "error". */
  reply(): CanonicalReply;
}

type CollectedPart = { -readonly [K in keyof TextPart]: TextPart[K] } & {
  head: PartHead;
  deltas: string[];
  blob?: TextPart["signature"];
};

/** Builds the reply that a stream adds up to. */
export function createReplyCollector(): ReplyCollector {
  let start: Extract<CanonicalEvent, { type: "start" }> | undefined;
  let usage: UsageReport | undefined;
  const choices: { parts: CollectedPart[]; finish?: Finish }[] = [];
  const choiceAt = (index: number) => (choices[index] ??= { parts: [] });
  const push = (event: CanonicalEvent) => {
    if (event.type === "start") start = event;
    else if (event.type === "usage") usage = event.report;
    else if (event.type === "finish") choiceAt(event.choice).finish = event.finish;
    else if (event.type === "part_start")
      choiceAt(event.choice).parts[event.part] = {
        type: "text",
        text: "",
        head: event.head,
        deltas: [],
      };
    else if (event.type !== "error") addToPart(choiceAt(event.choice).parts[event.part], event);
  };
  const reply = (): CanonicalReply => ({
    id: start?.id,
    model: start?.model,
    createdSeconds: start?.createdSeconds,
    serviceTier: start?.serviceTier,
    choices: (choices.length === 0 ? [{ parts: [] }] : choices).map((choice): Choice => ({
      parts: choice.parts.map(toPart),
      finish: choice.finish ?? { reason: "error" },
    })),
    usage,
  });
  return { push, reply };
}

function addToPart(part: CollectedPart | undefined, event: CanonicalEvent): void {
  if (part === undefined) return;
  if (event.type === "delta") {
    part.deltas.push(event.text);
    if (event.logprobs !== undefined) part.logprobs = [...(part.logprobs ?? []), ...event.logprobs];
  } else if (event.type === "blob") part.blob = event.blob;
  else if (event.type === "citation") part.citations = [...(part.citations ?? []), event.citation];
}

function toPart({ head, deltas, blob, citations, logprobs }: CollectedPart): Part {
  const text = deltas.join("");
  switch (head.type) {
    case "text":
      return { type: "text", text, citations, logprobs, signature: blob };
    case "refusal":
      return { type: "refusal", text, logprobs };
    case "reasoning":
      return { ...head, text, blob };
    case "tool_call":
      return { ...head, arguments: text };
    case "whole":
      return head.value;
  }
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
