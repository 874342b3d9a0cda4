// The context of one request, and the responses that end it: JSON, an error, or an injected fault.

import type { DelayTimer } from "./faults/delay-timer.ts";
import {
  NO_DIRECTIVES,
  directivesInHeaders,
  directivesInText,
  type Directives,
} from "./faults/directives.ts";
import {
  createBodyStream,
  createDroppedBody,
  isUnmodified,
  jsonBodySteps,
} from "./faults/reply-body.ts";
import type { HeaderList, Recorder } from "./recorder.ts";
import type { Script } from "./reply/compose-reply.ts";
import type { ConversationStore } from "./reply/conversation-store.ts";
import type { InvalidRequest } from "./reply/normalized-request.ts";
import type { PromptCache } from "./reply/prompt-cache.ts";
import { JSON_CONTENT_TYPE, type ApiError, type SimulatedWire } from "./wires/simulated-wire.ts";

const WAIT_MAX_MS = 600_000;
const MAX_RELEASES = 1_024;

export interface SimulatorOptions {
  readonly now: () => number;
  /** Requires any API key (true), or exactly this one. */
  readonly requireKey?: boolean | string;
  /** Accepts every model name, not only those of the simulator. */
  readonly acceptsAnyModel?: boolean;
  /** The number of requests to keep for `GET /sim/requests`. Default 200; 0 keeps none, which is cheaper. */
  readonly maxRecordedRequests?: number;
  /** Plays an agent: decides the turns of requests that have tools. */
  readonly script?: Script;
}

export interface SimulatorDeps {
  readonly options: SimulatorOptions;
  readonly recorder: Recorder;
  readonly cache: PromptCache;
  readonly conversations: ConversationStore;
  readonly timer: DelayTimer;
  /** What replies with `wait` wait for, by name. */
  readonly releases: Map<string, PromiseWithResolvers<void>>;
}

export interface SimulatedRequest {
  readonly deps: SimulatorDeps;
  readonly request: Request;
  readonly id: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: HeaderList;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly text: string;
}

export function respondWithJson(
  context: SimulatedRequest,
  wire: SimulatedWire,
  result: { readonly directives: Directives; readonly body: unknown; readonly model: string },
): Response {
  const text = JSON.stringify(result.body);
  if (isUnmodified(result.directives))
    return respond(context, wire, {
      directives: result.directives,
      type: JSON_CONTENT_TYPE,
      body: text,
    });
  const tracker = context.deps.recorder.trackReply({
    id: context.id,
    path: context.path,
    model: result.model,
  });
  const body = createBodyStream(
    jsonBodySteps(text, result.directives, wire),
    tracker,
    context.deps.timer,
  );
  return respond(context, wire, { directives: result.directives, type: JSON_CONTENT_TYPE, body });
}

export interface ResponseBody {
  readonly directives: Directives;
  readonly type: string;
  readonly body: string | ReadableStream<Uint8Array<ArrayBuffer>>;
}

export function respond(
  context: SimulatedRequest,
  wire: SimulatedWire,
  { directives, type, body }: ResponseBody,
): Response {
  const headers: Record<string, string> = {
    "content-type": directives["content-type"] ?? type,
    [wire.requestIdHeader]: context.id,
  };
  if (directives.limits !== undefined)
    Object.assign(headers, wire.rateLimitHeaders(directives.limits));
  if (directives.gzip !== true) return new Response(body, { headers });
  headers["content-encoding"] = "gzip";
  const plain = new Response(body).body;
  return new Response(plain?.pipeThrough(new CompressionStream("gzip")) ?? null, { headers });
}

/** The response to send instead of a reply, if a directive asks for one. */
export async function injectFault(
  wire: SimulatedWire,
  context: SimulatedRequest,
  directives: Directives,
): Promise<Response | undefined> {
  if (directives === NO_DIRECTIVES) return undefined;
  if (directives.latency !== undefined) await delay(context, directives.latency);
  if (directives.wait !== undefined)
    await delay(context, WAIT_MAX_MS, releaseOf(context.deps, directives.wait).promise);
  if (context.request.signal.aborted) return new Response(null, { status: 499 });
  if (directives.drop === true)
    return new Response(
      createDroppedBody(
        context.deps.recorder.trackReply({ id: context.id, path: context.path, model: "" }),
      ),
    );
  if (directives.redirect !== undefined)
    return new Response(null, { status: 307, headers: { location: directives.redirect } });
  const status = directives.status ?? (directives["retry-after"] === undefined ? undefined : 429);
  if (directives.html === true) return htmlPage(status ?? 502);
  const failure = {
    status: status ?? 500,
    message: directives.message ?? "This error was requested by a directive.",
  };
  if (directives["error-body"] === true)
    return respond(context, wire, {
      directives,
      type: JSON_CONTENT_TYPE,
      body: JSON.stringify(wire.errorBody(failure)),
    });
  return status === undefined ? undefined : respondWithError(wire, context, failure, directives);
}

export function releaseOf({ releases }: SimulatorDeps, name: string): PromiseWithResolvers<void> {
  const release = releases.get(name) ?? Promise.withResolvers<void>();
  releases.set(name, release);
  for (const oldest of releases.keys()) {
    if (releases.size <= MAX_RELEASES) break;
    releases.delete(oldest);
  }
  return release;
}

/** Waits for this time, or until it is released. */
function delay(context: SimulatedRequest, ms: number, release?: Promise<void>): Promise<void> {
  const tracker = context.deps.recorder.trackReply({
    id: context.id,
    path: context.path,
    model: "",
  });
  return new Promise((resolve) => {
    const { signal } = context.request;
    const onAbort = (): void => tracker.aborted();
    signal.addEventListener("abort", onAbort, { once: true });
    const end = (): void => {
      signal.removeEventListener("abort", onAbort);
      tracker.delayCompleted();
      resolve();
    };
    const cancel = context.deps.timer.schedule(ms, end);
    void release?.then(() => {
      cancel();
      end();
    });
  });
}

function htmlPage(status: number): Response {
  const page = `<html>\r\n<head><title>${status} Bad Gateway</title></head>\r\n<body>\r\n<center><h1>${status} Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n`;
  return new Response(page, { status, headers: { "content-type": "text/html" } });
}

export function respondWithError(
  wire: SimulatedWire,
  context: SimulatedRequest,
  failure: ApiError,
  directives: Directives = NO_DIRECTIVES,
): Response {
  const headers: Record<string, string> = {
    [wire.requestIdHeader]: context.id,
    ...wire.errorHeaders(failure),
  };
  if (failure.status === 429) Object.assign(headers, wire.rateLimitHeaders(0));
  if (directives["retry-after"] !== undefined) headers["retry-after"] = directives["retry-after"];
  if (directives["content-type"] !== undefined)
    headers["content-type"] = directives["content-type"];
  return Response.json(wire.errorBody(failure), { status: failure.status, headers });
}

export function directivesFor(
  context: SimulatedRequest,
  userText: string,
): Directives | InvalidRequest {
  const inHeaders = directivesInHeaders(context.headers);
  const inText = directivesInText(userText);
  if (inHeaders === undefined && inText === undefined) return NO_DIRECTIVES;
  const [error] = [...(inHeaders?.errors ?? []), ...(inText?.errors ?? [])];
  if (error !== undefined)
    return {
      invalid: true,
      status: 400,
      message: `Unknown directive or invalid value: "${error}". See docs/site/simulator.md for the directives.`,
    };
  return { ...inHeaders?.directives, ...inText?.directives };
}
