// A web search that the provider runs, for a provider of another API: the request's tool, and the calls in the reply.

import type { CanonicalEvent } from "../canonical/events.ts";
import { addHintLoss, addLoss, type Loss } from "../canonical/loss.ts";
import type { NativePart, Part, WireName } from "../canonical/parts.ts";
import type { CanonicalReply } from "../canonical/reply.ts";
import type { CanonicalRequest, Turn } from "../canonical/request.ts";
import type { SearchReplyForm, SearchRequestForm } from "../canonical/web-search.ts";
import type { Target, WireStreamReader } from "../canonical/wire.ts";
import { chatSearch, chatSearchReply } from "../wires/chat/web-search.ts";
import { geminiSearch, geminiSearchReply } from "../wires/gemini/web-search.ts";
import {
  isForeignSearch,
  messagesSearch,
  messagesSearchReply,
} from "../wires/messages/web-search.ts";
import { responsesSearch, responsesSearchReply } from "../wires/responses/web-search.ts";
import { searchesOnlyOnResponses } from "./abilities.ts";

const REQUEST_FORMS: Readonly<Partial<Record<WireName, SearchRequestForm>>> = {
  chat: chatSearch,
  responses: responsesSearch,
  messages: messagesSearch,
  gemini: geminiSearch,
};

const REPLY_FORMS: Readonly<Partial<Record<WireName, SearchReplyForm>>> = {
  chat: chatSearchReply,
  responses: responsesSearchReply,
  messages: messagesSearchReply,
  gemini: geminiSearchReply,
};

export interface SearchDirection {
  readonly caller: WireName;
  readonly provider: WireName;
}

export interface SearchTranslation {
  readonly request: CanonicalRequest;
  /** Set if the provider runs a search whose calls have to be translated. */
  readonly direction: SearchDirection | undefined;
}

export function translateSearch(
  original: CanonicalRequest,
  direction: SearchDirection,
  target: Target,
  losses: Loss[],
): SearchTranslation {
  const { caller, provider } = direction;
  const request = withoutForeignSearches(original, provider, losses);
  const read = REQUEST_FORMS[caller]?.read?.(request);
  if (read === undefined) return { request, direction: undefined };
  if (caller === provider) {
    if (caller === "chat" && searchesOnlyOnResponses(target.abilities ?? {}))
      addLoss(losses, read.search.path, "This model searches only on the Responses API.");
    return { request, direction: undefined };
  }
  const written = REQUEST_FORMS[provider]?.write?.(read.rest, read.search, target, losses);
  if (written === undefined) return { request, direction: undefined };
  losses.push(...read.search.losses);
  return { request: written, direction };
}

const HISTORY_REASON =
  "Results of an earlier search belong to the provider that ran it; the text that the model wrote from them is sent.";

function withoutForeignSearches(
  request: CanonicalRequest,
  wire: WireName,
  losses: Loss[],
): CanonicalRequest {
  const isForeign = (part: Part): boolean =>
    part.type === "native" &&
    isSearchPart(part) &&
    (part.wire !== wire || (wire === "messages" && isForeignSearch(part.value)));
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

function isSearchPart({ wire, value }: NativePart): boolean {
  const { type, name } = value;
  if (wire === "responses") return type === "web_search_call";
  return (
    wire === "messages" &&
    (type === "web_search_tool_result" || (type === "server_tool_use" && name === "web_search"))
  );
}

/** The parts that the caller's API has for a part of the provider's; undefined if it is not about a search. */
type TranslatePart = (part: Part) => readonly NativePart[] | undefined;

function createPartTranslation(
  { caller, provider }: SearchDirection,
  replyId: string,
): TranslatePart {
  const read = REPLY_FORMS[provider]?.createReader();
  const base = replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24);
  let count = 0;
  return (part) => {
    if (part.type !== "native" || part.wire !== provider) return undefined;
    const report = read?.(part);
    if (report === undefined) return undefined;
    if (report.kind === "pending") return [];
    return REPLY_FORMS[caller]?.writeCall(report.call, `${base}_${count++}`) ?? [];
  };
}

export function withSearchCalls(
  reply: CanonicalReply,
  direction: SearchDirection,
  replyId: string,
): CanonicalReply {
  const translate = createPartTranslation(direction, replyId);
  const choices = reply.choices.map((choice) => ({
    ...choice,
    parts: choice.parts.flatMap((part): readonly Part[] => translate(part) ?? [part]),
  }));
  return { ...reply, choices };
}

/** The same for a stream. A search may become several parts or none, so all parts are numbered anew. */
export function readerWithSearchCalls(
  reader: WireStreamReader,
  direction: SearchDirection,
  replyId: string,
): WireStreamReader {
  const translate = createPartTranslation(direction, replyId);
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
