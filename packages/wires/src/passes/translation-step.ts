// A step of a translation changes a request so that a provider of another API takes it. It is undone in the reply, whether whole
// or streamed: calls take the form of the caller's tools again.

import type { CanonicalEvent, PartHead } from "../canonical/canonical-events.ts";
import type { Loss } from "../canonical/canonical-losses.ts";
import type {
  ImagePart,
  NativePart,
  Part,
  ToolCallPart,
  WireName,
} from "../canonical/canonical-parts.ts";
import type { CanonicalReply } from "../canonical/canonical-reply.ts";
import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import type { Abilities, Target, WireStreamReader } from "../canonical/wire-interfaces.ts";
import type { TranslatedWire } from "../wire-traits.ts";
import { cutReply, cutStream } from "./cut-at-stops.ts";

/** What a request is translated from and to. */
export interface Translation {
  readonly caller: WireName;
  readonly provider: TranslatedWire;
  readonly target: Target;
  readonly abilities: Abilities;
  readonly losses: Loss[];
}

export interface TranslationStep {
  readonly name: string;
  readonly applies: (translation: Translation) => boolean;
  readonly change: (request: CanonicalRequest, step: StepContext) => ChangedRequest;
  /** Why a field is dropped. Steps without it list losses of their own. */
  readonly loss?: string;
}

export interface StepContext extends Translation {
  /** Lists a field that is dropped for the reason of the step. */
  readonly drop: (path: string) => void;
}

export interface ChangedRequest {
  readonly request: CanonicalRequest;
  readonly createUndo?: ((replyId: string) => Undo) | undefined;
}

export type CallHead = Extract<PartHead, { type: "tool_call" }>;

/** Created for each reply. */
export interface Undo {
  /** The caller's name of a tool that the provider knows by another one. */
  readonly originalName?: (name: string) => string | undefined;
  /** A call in the form of the caller's tool; undefined for any other call. */
  readonly openCall?: (head: CallHead) => OpenCall | undefined;
  /** The parts that the caller's API has for a part of the provider's; undefined if it is not about the tool. */
  readonly translatePart?: (part: Part) => readonly (NativePart | ImagePart)[] | undefined;
  /** Only the first call of a choice is kept. */
  readonly keepsFirstCall?: true;
  /** The reply ends where one of these begins. */
  readonly stops?: readonly string[];
}

export interface OpenCall {
  /** Absent if it depends on the arguments: then the call is passed on when it is complete. */
  readonly head?: CallHead;
  /** The caller's part of this text of the arguments. */
  push(text: string): string;
  end(): { readonly head: CallHead; readonly text: string };
}

export function undoReply(reply: CanonicalReply, undos: readonly Undo[]): CanonicalReply {
  if (undos.length === 0) return reply;
  const keepsFirstCall = undos.some((undo) => undo.keepsFirstCall === true);
  const choices = reply.choices.map((choice) => ({
    ...choice,
    parts: (keepsFirstCall ? withFirstCall(choice.parts) : choice.parts).flatMap(
      (part): readonly Part[] =>
        part.type === "tool_call"
          ? [undoCall(part, undos)]
          : (translatedPart(part, undos) ?? [part]),
    ),
  }));
  return cutReply({ ...reply, choices }, stopsOf(undos));
}

function withFirstCall(parts: readonly Part[]): readonly Part[] {
  const first = parts.findIndex(({ type }) => type === "tool_call");
  return parts.filter(({ type }, index) => type !== "tool_call" || index === first);
}

function stopsOf(undos: readonly Undo[]): readonly string[] {
  return undos.flatMap(({ stops = [] }) => stops);
}

function undoCall(sent: ToolCallPart, undos: readonly Undo[]): ToolCallPart {
  const part = withOriginalName(sent, undos);
  const call = openCall(part, undos);
  if (call === undefined) return part;
  const pushed = call.push(part.arguments);
  const { head, text } = call.end();
  return { ...part, custom: head.custom, item: head.item, arguments: pushed + text };
}

function withOriginalName<T extends { readonly name: string }>(call: T, undos: readonly Undo[]): T {
  for (const undo of undos) {
    const name = undo.originalName?.(call.name);
    if (name !== undefined) return { ...call, name };
  }
  return call;
}

function openCall(head: CallHead, undos: readonly Undo[]): OpenCall | undefined {
  for (const undo of undos) {
    const call = undo.openCall?.(head);
    if (call !== undefined) return call;
  }
  return undefined;
}

function translatedPart(
  part: Part,
  undos: readonly Undo[],
): ReturnType<NonNullable<Undo["translatePart"]>> {
  for (const undo of undos) {
    const parts = undo.translatePart?.(part);
    if (parts !== undefined) return parts;
  }
  return undefined;
}

interface OpenPart {
  /** The number of the part in the stream that is written: a part may become several or none. */
  readonly part: number;
  readonly call: OpenCall | undefined;
}

export function undoStream(reader: WireStreamReader, undos: readonly Undo[]): WireStreamReader {
  return undos.length === 0 ? reader : cutStream(undoParts(reader, undos), stopsOf(undos));
}

function undoParts(reader: WireStreamReader, undos: readonly Undo[]): WireStreamReader {
  const counts = new Map<number, number>();
  const open = new Map<string, OpenPart>();
  const keepsFirstCall = undos.some((undo) => undo.keepsFirstCall === true);
  const called = new Set<number>();
  const nextNumber = (choice: number): number => {
    const count = counts.get(choice) ?? 0;
    counts.set(choice, count + 1);
    return count;
  };
  const change = (event: CanonicalEvent): readonly CanonicalEvent[] => {
    if (!("part" in event)) return [event];
    const { choice } = event;
    const key = `${choice} ${event.part}`;
    if (event.type === "part_start") {
      const head =
        event.head.type === "tool_call" ? withOriginalName(event.head, undos) : event.head;
      const parts = head.type === "whole" ? translatedPart(head.value, undos) : undefined;
      if (parts !== undefined)
        return parts.flatMap((value) => wholePart(value, choice, nextNumber(choice)));
      // Without an entry in `open`, the rest of the part is left out, too.
      if (head.type === "tool_call" && keepsFirstCall && called.has(choice)) return [];
      if (head.type === "tool_call") called.add(choice);
      const call = head.type === "tool_call" ? openCall(head, undos) : undefined;
      const part = nextNumber(choice);
      open.set(key, { part, call });
      if (call === undefined) return [{ ...event, part, head }];
      return call.head === undefined ? [] : [{ ...event, part, head: call.head }];
    }
    const found = open.get(key);
    if (found === undefined) return [];
    if (event.type === "part_end") open.delete(key);
    return found.call === undefined
      ? [{ ...event, part: found.part }]
      : continueCall(found.call, { ...event, part: found.part });
  };
  return {
    push: (event) => reader.push(event).flatMap(change),
    end: () => reader.end().flatMap(change),
  };
}

function wholePart(
  value: NativePart | ImagePart,
  choice: number,
  part: number,
): readonly CanonicalEvent[] {
  return [
    { type: "part_start", choice, part, head: { type: "whole", value } },
    { type: "part_end", choice, part },
  ];
}

function continueCall(
  call: OpenCall,
  event: Exclude<Extract<CanonicalEvent, { part: number }>, { type: "part_start" }>,
): readonly CanonicalEvent[] {
  const { choice, part } = event;
  const delta = (text: string): readonly CanonicalEvent[] =>
    text === "" ? [] : [{ type: "delta", choice, part, text }];
  if (event.type === "delta") return delta(call.push(event.text));
  if (event.type !== "part_end") return call.head === undefined ? [] : [event];
  const { head, text } = call.end();
  return call.head === undefined
    ? [{ type: "part_start", choice, part, head }, ...delta(text), event]
    : [...delta(text), event];
}
