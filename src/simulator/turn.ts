// A request on its way through, and the ways to end it.

import type { Wrong } from "./ask.ts";
import type { Clock } from "./clock.ts";
import type { Conversations } from "./conversations.ts";
import { bodyOf, droppedBody, isPlain, wholeSteps } from "./delivery.ts";
import { NO_ORDER, orderInHeaders, orderInText, type Order } from "./directives.ts";
import type { PromptCache } from "./prompt-cache.ts";
import type { Headers, Recorder } from "./recorder.ts";
import { JSON_TYPE, type Failure, type Wire } from "./wire.ts";

export interface SimulatorOptions {
  readonly now: () => number;
  /** Demands a key: any key, or exactly this one. */
  readonly requireKey?: boolean | string;
  /** Answers for every model name instead of its own four. */
  readonly anyModel?: boolean;
  /** How many requests are kept to be looked at; 200 unless told. 0 keeps none, which is cheaper. */
  readonly keepRequests?: number;
}

export interface Parts {
  readonly options: SimulatorOptions;
  readonly recorder: Recorder;
  readonly cache: PromptCache;
  readonly conversations: Conversations;
  readonly clock: Clock;
}

/** One request on its way through. */
export interface Turn {
  readonly parts: Parts;
  readonly request: Request;
  readonly id: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  readonly text: string;
}

export function reply(
  turn: Turn,
  wire: Wire,
  made: { readonly order: Order; readonly body: unknown; readonly model: string },
): Response {
  const text = JSON.stringify(made.body);
  if (isPlain(made.order))
    return respond(turn, wire, { order: made.order, type: JSON_TYPE, body: text });
  const sending = turn.parts.recorder.open({ id: turn.id, path: turn.path, model: made.model });
  const body = bodyOf(wholeSteps(text, made.order, wire), sending, turn.parts.clock);
  return respond(turn, wire, { order: made.order, type: JSON_TYPE, body });
}

export interface Body {
  readonly order: Order;
  readonly type: string;
  readonly body: string | ReadableStream<Uint8Array<ArrayBuffer>>;
}

export function respond(turn: Turn, wire: Wire, { order, type, body }: Body): Response {
  const headers: Record<string, string> = {
    "content-type": order["content-type"] ?? type,
    [wire.requestIdHeader]: turn.id,
  };
  if (order.limits !== undefined) Object.assign(headers, wire.limitHeaders(order.limits));
  if (order.gzip !== true) return new Response(body, { headers });
  headers["content-encoding"] = "gzip";
  const plain = new Response(body).body;
  return new Response(plain?.pipeThrough(new CompressionStream("gzip")) ?? null, { headers });
}

/** What is answered instead of a reply. */
export async function answerEarly(
  wire: Wire,
  turn: Turn,
  order: Order,
): Promise<Response | undefined> {
  if (order === NO_ORDER) return undefined;
  if (order.latency !== undefined) await delay(turn, order.latency);
  if (turn.request.signal.aborted) return new Response(null, { status: 499 });
  if (order.drop === true)
    return new Response(
      droppedBody(turn.parts.recorder.open({ id: turn.id, path: turn.path, model: "" })),
    );
  if (order.redirect !== undefined)
    return new Response(null, { status: 307, headers: { location: order.redirect } });
  const status = order.status ?? (order["retry-after"] === undefined ? undefined : 429);
  if (order.html === true) return htmlPage(status ?? 502);
  const failure = { status: status ?? 500, message: order.message ?? "This failure was ordered." };
  if (order["error-body"] === true)
    return respond(turn, wire, {
      order,
      type: JSON_TYPE,
      body: JSON.stringify(wire.failure(failure)),
    });
  return status === undefined ? undefined : fail(wire, turn, failure, order);
}

function delay(turn: Turn, ms: number): Promise<void> {
  const sending = turn.parts.recorder.open({ id: turn.id, path: turn.path, model: "" });
  return new Promise((resolve) => {
    const { signal } = turn.request;
    const leave = (): void => sending.aborted();
    signal.addEventListener("abort", leave, { once: true });
    turn.parts.clock.wait(ms, () => {
      signal.removeEventListener("abort", leave);
      sending.waited();
      resolve();
    });
  });
}

function htmlPage(status: number): Response {
  const page = `<html>\r\n<head><title>${status} Bad Gateway</title></head>\r\n<body>\r\n<center><h1>${status} Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n`;
  return new Response(page, { status, headers: { "content-type": "text/html" } });
}

export function fail(wire: Wire, turn: Turn, failure: Failure, order: Order = NO_ORDER): Response {
  const headers: Record<string, string> = {
    [wire.requestIdHeader]: turn.id,
    ...wire.failureHeaders(failure),
  };
  if (failure.status === 429) Object.assign(headers, wire.limitHeaders(0));
  if (order["retry-after"] !== undefined) headers["retry-after"] = order["retry-after"];
  if (order["content-type"] !== undefined) headers["content-type"] = order["content-type"];
  return Response.json(wire.failure(failure), { status: failure.status, headers });
}

export function orderOf(turn: Turn, userText: string): Order | Wrong {
  const inHeaders = orderInHeaders(turn.headers);
  const inText = orderInText(userText);
  if (inHeaders === undefined && inText === undefined) return NO_ORDER;
  const [mistake] = [...(inHeaders?.mistakes ?? []), ...(inText?.mistakes ?? [])];
  if (mistake !== undefined)
    return {
      wrong: true,
      status: 400,
      message: `The simulator has no directive "${mistake}". docs/simulator.md lists them.`,
    };
  return { ...inHeaders?.order, ...inText?.order };
}
