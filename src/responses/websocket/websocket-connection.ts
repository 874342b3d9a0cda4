// One WebSocket on /v1/responses. Each `response.create` is a call through the request handler, so that keys, limits, holds and
// settlement are those of POST /v1/responses. One response runs at a time; further messages wait. A message costs the gateway
// more than it costs the client, so a client that sends useless or too many messages is disconnected.

import { createSseParser, readSse } from "@postern/wires";
import { errorBody, publicError } from "../../base/error-body.ts";
import { Fault } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import type { JsonObject } from "../../base/json.ts";
import {
  type ResponseSink,
  type ResponseStreamHandlers,
  type SinkFunctions,
  takeStreamHandlers,
} from "../../http/response-stream.ts";
import { toFault } from "../../http/response.ts";
import type { WebSocketConnection, WebSocketHandlers } from "../../http/web-socket.ts";
import {
  BINARY_FAULT,
  type CreateFrame,
  errorEvent,
  LIFETIME_EVENT,
  QUEUE_FULL_FAULT,
  readFrame,
  steerRefusal,
} from "./frames.ts";
import {
  type PreviousResponse,
  terminalResponse,
  toPreviousResponse,
} from "./previous-response.ts";

const QUEUE_MAX = 8;
const QUEUE_MAX_LENGTH = 8_388_608;
/** Rejected messages without a response in between. */
const FAULTS_MAX = 5;
/** Streams of a connection whose last response is kept. */
const STREAMS_MAX = 16;

/** Close codes of RFC 6455 §7.4 and of the IANA registry. */
const CLOSE = { normal: 1000, policy: 1008, internalError: 1011, restart: 1012 } as const;

export interface ConnectionOptions {
  /** Sends the body to POST /v1/responses with the headers of the handshake and of the message. */
  readonly call: (
    frame: Pick<CreateFrame, "body" | "headers">,
    signal: AbortSignal,
  ) => Promise<Response>;
  readonly now: () => number;
  readonly requestId: string;
  readonly onClosed: () => void;
  /** Counts a message in the key's request rate; throws above it. */
  readonly countMessage: () => void;
  /** Counts the characters that the connection keeps in memory between responses; throws above a limit. */
  readonly keepBytes: (bytes: number) => void;
  readonly releaseBytes: (bytes: number) => void;
}

export interface ResponseConnection {
  readonly handlers: WebSocketHandlers;
  /** Closes the connection, after the response in progress. */
  readonly close: (reason: "restart" | "lifetime") => void;
}

interface RunningResponse {
  readonly abort: AbortController;
  sink: EventSink | undefined;
  stream: ResponseStreamHandlers | undefined;
  /** Ends the wait for the stream, whose sink is not used after the client has left. */
  end: (() => void) | undefined;
}

interface State {
  socket: WebSocketConnection | undefined;
  readonly queue: string[];
  queuedLength: number;
  /** Bytes sent and not yet read, as counted by `keepBytes`. */
  unreadBytes: number;
  faults: number;
  turn: RunningResponse | undefined;
  /** The last response of each stream that was not stored; the oldest first. */
  readonly previous: Map<string | undefined, PreviousResponse>;
  closeReason: "restart" | "lifetime" | undefined;
  isClosed: boolean;
}

export function createConnection(options: ConnectionOptions): ResponseConnection {
  const state: State = {
    socket: undefined,
    queue: [],
    queuedLength: 0,
    unreadBytes: 0,
    faults: 0,
    turn: undefined,
    previous: new Map(),
    closeReason: undefined,
    isClosed: false,
  };
  return {
    handlers: {
      onOpen: (socket) => {
        state.socket = socket;
        closeIfDue(options, state);
      },
      onMessage: (text) => onMessage(options, state, text),
      onBinary: () => {
        if (!state.isClosed) rejectMessage(options, state, BINARY_FAULT);
      },
      onPing: () => onPing(options, state),
      onDrain: () => {
        countUnread(options, state);
        state.turn?.sink?.onDrain();
      },
      onClose: () => {
        if (state.isClosed) return;
        state.isClosed = true;
        options.releaseBytes(state.queuedLength + state.unreadBytes + keptBytes(state));
        state.queue.length = 0;
        state.queuedLength = 0;
        state.previous.clear();
        state.turn?.abort.abort();
        state.turn?.stream?.onClientGone();
        state.turn?.sink?.onDrain();
        state.turn?.end?.();
        options.onClosed();
      },
    },
    close: (reason) => {
      state.closeReason ??= reason;
      closeIfDue(options, state);
    },
  };
}

function onMessage(options: ConnectionOptions, state: State, text: string): void {
  // Those that arrived together with the last one are still delivered after the connection was closed.
  if (state.isClosed) return;
  const isFull =
    state.queue.length >= QUEUE_MAX ||
    (state.queue.length > 0 && state.queuedLength + text.length > QUEUE_MAX_LENGTH);
  if (isFull) {
    sendFault(options, state, QUEUE_FULL_FAULT);
    return state.socket?.close(CLOSE.policy, "too many messages wait");
  }
  try {
    options.countMessage();
    const refusal = steerRefusal(text);
    if (refusal !== undefined) return send(options, state, refusal);
    options.keepBytes(text.length);
  } catch (error) {
    return rejectMessage(options, state, toFault(error));
  }
  state.queue.push(text);
  state.queuedLength += text.length;
  if (state.turn === undefined) void runQueue(options, state);
}

// A client that does not read the pongs must not fill the memory with them.
function onPing(options: ConnectionOptions, state: State): void {
  if (state.isClosed) return;
  countUnread(options, state);
  try {
    options.countMessage();
  } catch (error) {
    rejectMessage(options, state, toFault(error));
  }
}

async function runQueue(options: ConnectionOptions, state: State): Promise<void> {
  for (let text = state.queue.shift(); text !== undefined; text = state.queue.shift()) {
    state.queuedLength -= text.length;
    // The request of the call counts its body again.
    options.releaseBytes(text.length);
    const turn: RunningResponse = {
      abort: new AbortController(),
      sink: undefined,
      stream: undefined,
      end: undefined,
    };
    state.turn = turn;
    try {
      await runTurn(options, state, { turn, text });
    } catch (error) {
      rejectMessage(options, state, toFault(error));
    }
    state.turn = undefined;
    if (state.isClosed || closeIfDue(options, state)) return;
  }
}

async function runTurn(
  options: ConnectionOptions,
  state: State,
  { turn, text }: { readonly turn: RunningResponse; readonly text: string },
): Promise<void> {
  const { socket } = state;
  const frame = readFrame(text, (streamId, id) => findPrevious(state, streamId, id));
  if (socket === undefined || frame === undefined) return;
  const { streamId } = frame;
  const previous = state.previous.get(streamId);
  // As at OpenAI, a response cannot be continued again after a continuation of it has failed.
  if (frame.isContinued) keepPrevious(options, state, { streamId, next: undefined });
  if (frame.isWarmUp) return warmUp(options, state, frame);
  const response = await options.call(frame, turn.abort.signal);
  const { body } = response;
  const stream = body === null ? undefined : takeStreamHandlers(body);
  if (response.status !== 200 || stream === undefined)
    return sendError(options, state, { response, streamId }, await response.text());
  if (state.isClosed) return stream.onClientGone();
  const ended = Promise.withResolvers<boolean>();
  turn.stream = stream;
  turn.end = () => ended.resolve(true);
  turn.sink = createEventSink({
    connection: socket,
    streamId,
    onEvent: (data) => {
      const final = terminalResponse(data);
      countUnread(options, state);
      if (final !== undefined) state.faults = 0;
      const next = final && (toPreviousResponse(frame, final) ?? previous);
      if (next !== undefined) keepIfPossible(options, state, { streamId, next });
    },
    onEnd: ended.resolve,
  });
  stream.onStart(turn.sink);
  const isWhole = await ended.promise;
  turn.stream = undefined;
  // An incomplete stream closes an HTTP connection as well.
  if (!isWhole) socket.close(CLOSE.internalError, "the stream broke off");
}

function sendError(
  options: ConnectionOptions,
  state: State,
  { response, streamId }: { readonly response: Response } & Pick<CreateFrame, "streamId">,
  body: string,
): void {
  const { status, headers } = response;
  send(options, state, errorEvent(status, body, headers), streamId);
  // The key was revoked or has expired, so no further message can succeed.
  if (status === 401) state.socket?.close(CLOSE.policy, "the API key is not valid");
  else if (status < 500) countFault(state);
}

/** Keeps the input for the next request. Nothing is called or charged, so a wrong model is reported by that request. */
function warmUp(options: ConnectionOptions, state: State, frame: CreateFrame): void {
  const at = options.now();
  const response = {
    id: newId("resp", at),
    object: "response",
    created_at: Math.floor(at / 1_000),
    model: frame.model,
    output: [],
    store: false,
    error: null,
  };
  const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0, cost: 0 };
  const completed = { ...response, status: "completed", usage };
  const previous = toPreviousResponse(frame, completed);
  if (previous === undefined)
    throw new Fault("payload_too_large", "warm-up above the limit", {
      message: "The input is too large to be kept. Send it with the request that needs it.",
      param: "input",
    });
  const { streamId } = frame;
  keepPrevious(options, state, { streamId, next: previous });
  state.faults = 0;
  const created = { ...response, status: "in_progress", usage: null };
  const first = { type: "response.created", sequence_number: 0, response: created };
  send(options, state, first, streamId);
  const last = { type: "response.completed", sequence_number: 1, response: completed };
  send(options, state, last, streamId);
}

function keptBytes({ previous }: State): number {
  return [...previous.values()].reduce((sum, { items }) => sum + items.length, 0);
}

/** The last response of the stream, or of another one that the stream forks; undefined if it has another id. */
function findPrevious(
  { previous }: State,
  streamId: string | undefined,
  id: unknown,
): PreviousResponse | undefined {
  const own = previous.get(streamId);
  return own?.id === id ? own : [...previous.values()].find((one) => one.id === id);
}

interface KeptResponse extends Pick<CreateFrame, "streamId"> {
  readonly next: PreviousResponse | undefined;
}

function keepPrevious(
  { keepBytes, releaseBytes }: ConnectionOptions,
  { previous, isClosed }: State,
  { streamId, next }: KeptResponse,
): void {
  const forget = (stream: string | undefined): void => {
    releaseBytes(previous.get(stream)?.items.length ?? 0);
    previous.delete(stream);
  };
  forget(streamId);
  if (next === undefined || isClosed) return;
  if (previous.size >= STREAMS_MAX) forget([...previous.keys()][0]);
  keepBytes(next.items.length);
  previous.set(streamId, next);
}

// The response was sent already: its continuation has to send the whole conversation.
function keepIfPossible(options: ConnectionOptions, state: State, kept: KeptResponse): void {
  try {
    keepPrevious(options, state, kept);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
  }
}

function rejectMessage(options: ConnectionOptions, state: State, fault: Fault): void {
  sendFault(options, state, fault);
  countFault(state);
}

function countFault(state: State): void {
  state.faults += 1;
  if (state.faults >= FAULTS_MAX && !state.isClosed)
    state.socket?.close(CLOSE.policy, "too many rejected messages");
}

function sendFault(options: ConnectionOptions, state: State, fault: Fault): void {
  const body = JSON.stringify(errorBody("openai", publicError(fault), options.requestId));
  const { retryAfterSeconds } = fault.options;
  const headers = new Headers(
    retryAfterSeconds === undefined
      ? {}
      : { "retry-after": String(Math.max(1, Math.ceil(retryAfterSeconds))) },
  );
  send(options, state, errorEvent(fault.status, body, headers));
}

function send(
  options: ConnectionOptions,
  state: State,
  event: JsonObject,
  streamId?: string,
): void {
  if (state.isClosed) return;
  state.socket?.send(inStream(JSON.stringify(event), streamId));
  countUnread(options, state);
}

/** Counts what the client has not read in the key's memory; disconnects a client that has too much of it. */
function countUnread(options: ConnectionOptions, state: State): void {
  const { socket } = state;
  if (socket === undefined || state.isClosed) return;
  const unread = socket.unreadBytes();
  const added = unread - state.unreadBytes;
  try {
    if (added > 0) options.keepBytes(added);
    else options.releaseBytes(-added);
    state.unreadBytes = unread;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    socket.close(CLOSE.policy, "too many unread messages");
  }
}

function closeIfDue(options: ConnectionOptions, state: State): boolean {
  const { socket, closeReason, turn } = state;
  if (socket === undefined || closeReason === undefined || turn !== undefined) return false;
  if (closeReason === "lifetime") send(options, state, LIFETIME_EVENT);
  if (closeReason === "restart") socket.close(CLOSE.restart, "the gateway restarts");
  else socket.close(CLOSE.normal, "the connection has reached its limit of 60 minutes");
  return true;
}

// Writes a call's stream to a WebSocket: each event is one message. The relay waits for a client that reads slowly.

interface EventSink extends ResponseSink {
  /** To be called when the client has read what was sent, and when the connection has closed. */
  readonly onDrain: () => void;
}

interface EventSinkOptions {
  readonly connection: WebSocketConnection;
  /** The stream that the events name. */
  readonly streamId: string | undefined;
  /** Called with the JSON of each event, after it was sent. */
  readonly onEvent: (data: string) => void;
  readonly onEnd: (isWhole: boolean) => void;
}

/** An event as JSON text, with the stream that it belongs to. */
function inStream(data: string, streamId: string | undefined): string {
  return streamId === undefined
    ? data
    : `${data.slice(0, data.lastIndexOf("}"))},"stream_id":${JSON.stringify(streamId)}}`;
}

function createEventSink({ connection, streamId, onEvent, onEnd }: EventSinkOptions): EventSink {
  const parser = createSseParser();
  let drained: PromiseWithResolvers<void> | undefined;
  const functions: SinkFunctions<unknown> = {
    write: (_, bytes) => {
      for (const event of parser.push(bytes)) {
        const data = readSse(event)?.data;
        // Comments keep HTTP connections alive; here the server pings. `[DONE]` is no event of this API.
        if (data === undefined || !data.startsWith("{")) continue;
        connection.send(inStream(data, streamId));
        onEvent(data);
      }
      if (connection.unreadBytes() === 0) return undefined;
      drained ??= Promise.withResolvers<void>();
      return drained.promise;
    },
    end: () => onEnd(true),
    abort: () => onEnd(false),
  };
  return {
    functions,
    onDrain: () => {
      drained?.resolve();
      drained = undefined;
    },
  };
}
