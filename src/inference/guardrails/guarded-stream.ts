// Guardrails on a stream, between the provider and the relay: an event waits until its text is checked. Parts are checked with some
// text before them, and what could be the beginning of a match waits for more text.

import {
  type BodyStream,
  cancelBodyStream,
  createBodyStream,
  endBodyStream,
  nextChunk,
  pushChunk,
} from "@postern/http-client";
import { readSse, type SseEvent, type SseParser } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { applyEdits, type Guard, type TextEdit } from "../../base/guard.ts";
import { isObject, parseJson } from "../../base/json.ts";
import { withChanges } from "../request/json-edit.ts";
import { dropProbabilities, replaceText, type TextField, textFieldsOf } from "./guarded-texts.ts";

/** Unchecked text of a stream that is sent to a hook or a decisions model at once. */
const REMOTE_PART_LENGTH = 400;
/** A text that was not continued while so much of others arrived has ended. */
const QUIET_LENGTH = 512;
/** An undecided text of this length is checked again once it has grown by an eighth: else each of its parts reads all of it. */
const LONG_UNDECIDED_LENGTH = 512;
const GROWTH_SHARE = 1 / 8;
/** Checked text that a part begins with. */
const CONTEXT_LENGTH = 128;

/** The text of one message, block or argument so far. */
interface StreamText {
  /** Whether further events may continue it. */
  readonly isOpen: boolean;
  /** Without what was decided long ago. */
  text: string;
  /** The position of its first character in the whole. */
  offset: number;
  /** Up to which position the whole is decided. */
  decided: number;
  /** Up to which position it was checked last. */
  checked: number;
  /** The length of all texts of the stream when it was continued last. */
  continuedAt: number;
}

/** A field of an event, and its place in the text that it continues. */
interface Part {
  readonly field: TextField;
  readonly whole: StreamText;
  readonly start: number;
  readonly end: number;
  /** By positions in the field, in order. */
  readonly edits: TextEdit[];
}

interface WaitingEvent {
  readonly event: SseEvent;
  readonly json: unknown;
  readonly parts: readonly Part[];
  isChanged: boolean;
}

const encoder = new TextEncoder();

export interface GuardedStream {
  /** Has server-sent events, whatever framing the provider's has. */
  readonly body: BodyStream;
  /** Called with the events that wait when a guardrail has denied the reply. They, and what follows, are only metered. */
  onDenied: ((waiting: Uint8Array) => void) | undefined;
  /** Why a guardrail denied the reply; undefined if none did. */
  denied: Fault | undefined;
}

interface State extends GuardedStream {
  readonly source: BodyStream;
  readonly parser: SseParser;
  readonly guard: Guard;
  /** By what their events have in common; of texts that are not decided. */
  readonly open: Map<string, StreamText>;
  waiting: WaitingEvent[];
  /** The length of all texts of the stream. */
  length: number;
  /** `length` at the last check. */
  checkedLength: number;
  hasStarted: boolean;
  wake: (() => void) | undefined;
}

export function guardStream(source: BodyStream, parser: SseParser, guard: Guard): GuardedStream {
  const body = createBodyStream({
    pause: () => {},
    resume: () => resume(state),
    cancel: () => {
      cancelBodyStream(source);
      state.wake?.();
    },
  });
  // The relay resumes it when it can end the response: nothing is denied before.
  body.isPaused = true;
  const state: State = {
    body,
    onDenied: undefined,
    denied: undefined,
    source,
    parser,
    guard,
    open: new Map(),
    waiting: [],
    length: 0,
    checkedLength: 0,
    hasStarted: false,
    wake: undefined,
  };
  return state;
}

function resume(state: State): void {
  state.wake?.();
  if (state.hasStarted) return;
  state.hasStarted = true;
  pump(state).then(
    () => endBodyStream(state.body, true),
    () => endBodyStream(state.body, false),
  );
}

async function pump(state: State): Promise<void> {
  const { body, source, parser } = state;
  for (;;) {
    const chunk = await nextChunk(source);
    const isLast = chunk === undefined;
    addEvents(state, isLast ? parser.end() : parser.push(chunk));
    const isDenied = await checkTexts(state, isLast);
    // The relay has canceled it meanwhile.
    if (body.ended !== undefined) return;
    if (isDenied) state.onDenied?.(takeEvents(state, () => true));
    const bytes = takeDecided(state, isLast);
    if (bytes.length > 0) pushChunk(body, bytes);
    if (isLast) return;
    while (body.isPaused && body.ended === undefined)
      await new Promise<void>((resolve) => (state.wake = resolve));
  }
}

function addEvents(state: State, events: readonly SseEvent[]): void {
  for (const event of events) {
    const data = readSse(event)?.data;
    const json = data === undefined ? undefined : parseJson(data);
    const fields = state.denied === undefined ? textFieldsOf(json, "output") : [];
    const parts = fields.map((field) => addPart(state, field));
    state.waiting.push({ event, json, parts, isChanged: false });
  }
}

function addPart(state: State, field: TextField): Part {
  const whole = textOf(state, field);
  const start = whole.offset + whole.text.length;
  whole.text += field.text;
  state.length += field.text.length;
  whole.continuedAt = state.length;
  return { field, whole, start, end: start + field.text.length, edits: [] };
}

function textOf({ open, length }: State, { isDelta, key }: TextField): StreamText {
  const known = isDelta ? open.get(key) : undefined;
  if (known !== undefined) return known;
  const whole = { isOpen: isDelta, text: "", offset: 0, decided: 0, checked: 0, continuedAt: 0 };
  // A text that is whole in one event, such as one that repeats others, is not continued.
  open.set(isDelta ? key : `${key} ${length}`, whole);
  return whole;
}

/** Checks the texts, if they are due. Returns whether a guardrail denies them. */
async function checkTexts(state: State, isLast: boolean): Promise<boolean> {
  const { guard, open, length } = state;
  const isDue = !guard.isRemote || length - state.checkedLength >= REMOTE_PART_LENGTH || isLast;
  if (!isDue || state.denied !== undefined) return false;
  state.checkedLength = length;
  try {
    for (const [key, whole] of open) {
      const isEnded = isLast || !whole.isOpen || length - whole.continuedAt >= QUIET_LENGTH;
      await checkText(state, whole, isEnded);
      if (isEnded) open.delete(key);
    }
    return false;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    state.denied = error;
    return true;
  }
}

async function checkText(state: State, whole: StreamText, isLast: boolean): Promise<void> {
  const { text, offset } = whole;
  const end = offset + text.length;
  const undecided = end - whole.decided;
  if (undecided === 0 || (!isLast && isSoonAgain(undecided, end - whole.checked))) return;
  whole.checked = end;
  const checked = whole.decided - offset;
  const { edits, decided } = await state.guard.checkPart({ text, checked, isLast });
  applyToWaiting(state, whole, edits);
  whole.decided = offset + decided;
  const unneeded = Math.max(0, decided - CONTEXT_LENGTH);
  whole.text = text.slice(unneeded);
  whole.offset += unneeded;
}

function isSoonAgain(undecided: number, grown: number): boolean {
  return undecided > LONG_UNDECIDED_LENGTH && grown < undecided * GROWTH_SHARE;
}

function applyToWaiting({ waiting }: State, whole: StreamText, edits: readonly TextEdit[]): void {
  for (const event of waiting)
    for (const part of event.parts) {
      if (part.whole !== whole) continue;
      const own = edits
        .map(({ start, end, text }) => ({
          start: start + whole.offset - part.start,
          end: end + whole.offset - part.start,
          text,
        }))
        .filter(({ start, end }) => end > 0 && start < part.field.text.length);
      if (own.length === 0) continue;
      part.edits.push(...own);
      replaceText(part.field, applyEdits(part.field.text, part.edits));
      event.isChanged = true;
    }
}

function takeDecided(state: State, isLast: boolean): Uint8Array {
  const isPassed = isLast || state.denied !== undefined;
  let isOpen = false;
  return takeEvents(state, (event) => {
    isOpen ||= !isPassed && event.parts.some(({ whole, end }) => end > whole.decided);
    // A keep-alive says nothing about the reply, and its absence would look like a silent provider.
    return !isOpen || isPing(event);
  });
}

function takeEvents(state: State, isTaken: (event: WaitingEvent) => boolean): Uint8Array {
  const taken: Uint8Array[] = [];
  state.waiting = state.waiting.filter((event) => {
    if (!isTaken(event)) return true;
    taken.push(bytesOf(event));
    return false;
  });
  return Buffer.concat(taken);
}

function isPing({ event, json }: WaitingEvent): boolean {
  return readSse(event) === undefined || (isObject(json) && json["type"] === "ping");
}

function bytesOf({ event, json, isChanged }: WaitingEvent): Uint8Array {
  if (!isChanged && event.raw.length > 0) return event.raw;
  if (isChanged) dropProbabilities(json);
  const { name = "", data = "" } = readSse(event) ?? {};
  const text = isChanged ? withChanges(data, parseJson(data), json) : data;
  return encoder.encode(`${name === "" ? "" : `event: ${name}\n`}data: ${text}\n\n`);
}
