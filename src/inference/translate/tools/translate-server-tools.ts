// Translates tools that the provider runs, such as a web search, between two APIs: the tool in the request, and its calls in
// the reply.

import {
  API_TRAITS,
  isForeignCall,
  type CanonicalEvent,
  addHintLoss,
  addLoss,
  type Loss,
  type Part,
  type WireName,
  type CanonicalReply,
  type CanonicalRequest,
  type Turn,
  type Target,
  type WireStreamReader,
  chatSearch,
  SERVER_TOOLS,
  type ToolDirection,
  type TranslatePart,
} from "@postern/wires";
import { searchesOnlyOnResponses } from "../abilities.ts";
import { isStreamingApi, type StreamingApi } from "../stream-transform.ts";

export interface ServerToolTranslation {
  readonly request: CanonicalRequest;
  /** Translates calls in the reply; undefined if no tool was translated. */
  readonly createPartTranslation: ((replyId: string) => TranslatePart) | undefined;
}

export function translateServerTools(
  original: CanonicalRequest,
  direction: ToolDirection,
  target: Target,
  losses: Loss[],
): ServerToolTranslation {
  const { caller, provider } = direction;
  let request = withoutForeignCalls(original, provider, losses);
  if (caller === provider) {
    if (isStreamingApi(caller)) rejectSearchField(request, caller, target, losses);
    return { request, createPartTranslation: undefined };
  }
  // All are read before one is written, because writing drops fields of the caller's API.
  const used = SERVER_TOOLS.flatMap((tool) => {
    const found = tool.isOfferedBy(provider, target) ? tool.read(request, direction) : undefined;
    if (found === undefined) return [];
    request = found.rest;
    return [{ tool, write: found.write }];
  });
  for (const { write } of used) request = write(request, target, losses);
  const createPartTranslation = (replyId: string): TranslatePart => {
    const nextId = callIdsOf(replyId);
    const translations = used.map(({ tool }) => tool.createPartTranslation(direction, nextId));
    return (part) => {
      for (const translate of translations) {
        const parts = translate(part);
        if (parts !== undefined) return parts;
      }
      return undefined;
    };
  };
  return { request, createPartTranslation: used.length === 0 ? undefined : createPartTranslation };
}

function callIdsOf(replyId: string): () => string {
  const base = replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24);
  let count = 0;
  return () => `${base}_${count++}`;
}

function rejectSearchField(
  request: CanonicalRequest,
  caller: StreamingApi,
  { abilities = {} }: Target,
  losses: Loss[],
): void {
  if (API_TRAITS[caller].searchField === undefined || !searchesOnlyOnResponses(abilities)) return;
  const search = chatSearch.read?.(request)?.tool;
  if (search !== undefined)
    addLoss(losses, search.path, "This model searches only on the Responses API.");
}

const HISTORY_REASON =
  "Results of a tool belong to the provider that ran it; the text that the model wrote from them is sent.";

function withoutForeignCalls(
  request: CanonicalRequest,
  wire: WireName,
  losses: Loss[],
): CanonicalRequest {
  const isForeign = (part: Part): boolean => part.type === "native" && isForeignCall(part, wire);
  if (!request.turns.some(({ parts }) => parts.some(isForeign))) return request;
  const turns = request.turns.flatMap((turn): readonly Turn[] => {
    const parts = turn.parts.filter((part) => {
      if (!isForeign(part) || part.type !== "native") return true;
      addHintLoss(losses, part.path ?? "messages", HISTORY_REASON);
      return false;
    });
    return parts.length === 0 && turn.parts.length > 0 && turn.native === undefined
      ? []
      : [{ ...turn, parts }];
  });
  return { ...request, turns };
}

export function withTranslatedCalls(
  reply: CanonicalReply,
  translate: TranslatePart,
): CanonicalReply {
  const choices = reply.choices.map((choice) => ({
    ...choice,
    parts: choice.parts.flatMap((part): readonly Part[] => translate(part) ?? [part]),
  }));
  return { ...reply, choices };
}

/** The same for a stream. A call may become several parts or none, so all parts are numbered anew. */
export function readerWithTranslatedCalls(
  reader: WireStreamReader,
  translate: TranslatePart,
): WireStreamReader {
  const counts = new Map<number, number>();
  const numbers = new Map<string, number>();
  const nextNumber = (choice: number): number => {
    const count = counts.get(choice) ?? 0;
    counts.set(choice, count + 1);
    return count;
  };
  const restore = (event: CanonicalEvent): readonly CanonicalEvent[] => {
    if (!("part" in event)) return [event];
    const { choice } = event;
    const key = `${choice} ${event.part}`;
    if (event.type === "part_start") {
      const parts = event.head.type === "whole" ? translate(event.head.value) : undefined;
      if (parts !== undefined)
        return parts.flatMap((value): readonly CanonicalEvent[] => {
          const part = nextNumber(choice);
          return [
            { type: "part_start", choice, part, head: { type: "whole", value } },
            { type: "part_end", choice, part },
          ];
        });
      numbers.set(key, nextNumber(choice));
    }
    const part = numbers.get(key);
    return part === undefined ? [] : [{ ...event, part }];
  };
  return {
    push: (event) => reader.push(event).flatMap(restore),
    end: () => reader.end().flatMap(restore),
  };
}
