// Collects the events of a stream into the reply that they add up to.

import type { CanonicalEvent, PartHead } from "./canonical-events.ts";
import type { Part, TextPart } from "./canonical-parts.ts";
import type { CanonicalReply, Choice, Finish, UsageReport } from "./canonical-reply.ts";

export interface ReplyCollector {
  push(event: CanonicalEvent): void;
  /** The reply so far. A choice without `finish` has the reason "error". */
  reply(): CanonicalReply;
}

type CollectedPart = { -readonly [K in keyof TextPart]: TextPart[K] } & {
  head: PartHead;
  deltas: string[];
  blob?: TextPart["signature"];
};

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
