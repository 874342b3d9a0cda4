// Some servers give parallel calls of one tool the same index, so that their arguments arrive as one text of several JSON
// objects. Each object becomes a call of its own.

import type { CanonicalEvent, PartHead } from "../canonical-events.ts";
import type { Part, ToolCallPart } from "../canonical-parts.ts";
import type { CanonicalReply } from "../canonical-reply.ts";

type CallHead = Extract<PartHead, { type: "tool_call" }>;

/** The parse state of a text of several JSON objects. */
interface ScanState {
  depth: number;
  isInString: boolean;
  isEscaped: boolean;
  /** The first object is complete. */
  isComplete: boolean;
}

/** The position at which a second object starts; undefined if none starts in this text. */
function nextObjectAt(state: ScanState, text: string): number | undefined {
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (state.isComplete) {
      if (character === "{") return at;
      continue;
    }
    if (state.isEscaped) state.isEscaped = false;
    else if (state.isInString) {
      if (character === "\\") state.isEscaped = true;
      else if (character === '"') state.isInString = false;
    } else if (character === '"') state.isInString = true;
    else if (character === "{" || character === "[") state.depth += 1;
    else if (character === "}" || character === "]") {
      state.depth -= 1;
      state.isComplete = state.depth === 0;
    }
  }
  return undefined;
}

function newScan(): ScanState {
  return { depth: 0, isInString: false, isEscaped: false, isComplete: false };
}

function splitId(id: string, number: number): string {
  return `${id}_${number}`;
}

/** A whole reply with each call's arguments in a call of their own. */
export function splitCalls(reply: CanonicalReply): CanonicalReply {
  const isConcatenated = (part: Part): boolean =>
    part.type === "tool_call" && part.arguments.includes("}") && splitArguments(part).length > 1;
  if (!reply.choices.some(({ parts }) => parts.some(isConcatenated))) return reply;
  const choices = reply.choices.map((choice) => ({
    ...choice,
    parts: choice.parts.flatMap((part): readonly Part[] =>
      part.type === "tool_call" ? splitCall(part) : [part],
    ),
  }));
  return { ...reply, choices };
}

function splitCall(call: ToolCallPart): readonly ToolCallPart[] {
  const [first = call.arguments, ...others] = splitArguments(call);
  const calls: ToolCallPart[] = [{ ...call, arguments: first }];
  for (const text of others) {
    const id = splitId(call.id, calls.length + 1);
    calls.push({ ...call, arguments: text, id, signature: undefined });
  }
  return calls;
}

function splitArguments({ custom, arguments: text }: ToolCallPart): readonly string[] {
  const pieces: string[] = [];
  let rest = text;
  for (;;) {
    const at = custom === true ? undefined : nextObjectAt(newScan(), rest);
    if (at === undefined) return [...pieces, rest];
    pieces.push(rest.slice(0, at).trimEnd());
    rest = rest.slice(at);
  }
}

interface OpenToolCall {
  readonly head: CallHead;
  /** The number of the part in the stream that is written. */
  part: number;
  count: number;
  scan: ScanState;
}

/** The same for a stream; parts after a split are renumbered. */
export function createCallSplitter(): (event: CanonicalEvent) => readonly CanonicalEvent[] {
  const calls = new Map<string, OpenToolCall>();
  const added = new Map<number, number>();
  const numbers = new Map<number, number>();
  return (event) => {
    if (!("part" in event)) return [event];
    const { choice } = event;
    const shift = added.get(choice) ?? 0;
    const key = `${choice} ${event.part}`;
    const call = calls.get(key);
    if (event.type === "part_start") {
      const part = event.part + shift;
      numbers.set(choice, part);
      if (event.head.type === "tool_call" && event.head.custom !== true)
        calls.set(key, { head: event.head, part, count: 1, scan: newScan() });
      return shift === 0 ? [event] : [{ ...event, part }];
    }
    if (call === undefined) return shift === 0 ? [event] : [{ ...event, part: event.part + shift }];
    if (event.type === "part_end") calls.delete(key);
    if (event.type !== "delta") return [{ ...event, part: call.part }];
    return splitDelta(call, event, () => {
      const next = (numbers.get(choice) ?? 0) + 1;
      numbers.set(choice, next);
      added.set(choice, (added.get(choice) ?? 0) + 1);
      return next;
    });
  };
}

function splitDelta(
  call: OpenToolCall,
  event: Extract<CanonicalEvent, { type: "delta" }>,
  nextNumber: () => number,
): readonly CanonicalEvent[] {
  const out: CanonicalEvent[] = [];
  let { text } = event;
  for (;;) {
    const at = nextObjectAt(call.scan, text);
    const piece = at === undefined ? text : text.slice(0, at);
    if (piece !== "") out.push({ ...event, text: piece, part: call.part });
    if (at === undefined) return out;
    text = text.slice(at);
    out.push({ type: "part_end", choice: event.choice, part: call.part });
    call.part = nextNumber();
    call.count += 1;
    call.scan = newScan();
    const head = { ...call.head, id: splitId(call.head.id, call.count), signature: undefined };
    out.push({ type: "part_start", choice: event.choice, part: call.part, head });
  }
}
