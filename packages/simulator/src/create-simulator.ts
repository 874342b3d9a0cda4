// A simulated provider: it implements the providers' APIs, replies deterministically, and injects faults on request.
// See docs/site/simulator.md.

import { createDelayTimer } from "./faults/delay-timer.ts";
import type { Directives } from "./faults/directives.ts";
import { createBodyStream, streamBodySteps } from "./faults/reply-body.ts";
import { isObject, type JsonObject, stringOrEmpty } from "./json-readers.ts";
import { createRecorder } from "./recorder.ts";
import { composeReply } from "./reply/compose-reply.ts";
import { contextLimitError } from "./reply/context-limit.ts";
import { createConversationStore } from "./reply/conversation-store.ts";
import { hashText } from "./reply/hash.ts";
import {
  type InvalidRequest,
  isInvalid,
  promptTokens,
  type NormalizedRequest,
} from "./reply/normalized-request.ts";
import { createPromptCache } from "./reply/prompt-cache.ts";
import { strictSchemaError } from "./reply/strict-schema.ts";
import { unsupportedFeature } from "./reply/unsupported.ts";
import {
  injectFault,
  respondWithError,
  directivesFor,
  releaseOf,
  respondWithJson,
  respond,
  type SimulatorDeps,
  type SimulatorOptions,
  type SimulatedRequest,
} from "./respond.ts";
import { createSimulatedBatches } from "./simulated-batches.ts";
import {
  anthropicModel,
  anthropicModels,
  contextWindow,
  geminiModel,
  geminiModels,
  isKnownModel,
  openAiModel,
  openAiModels,
} from "./simulated-models.ts";
import { matchRoute, type RouteMatch } from "./simulator-router.ts";
import { jsonOfForm } from "./wires/audio-endpoints.ts";
import { embedGemini, isInvalidEmbedding } from "./wires/embeddings.ts";
import { unknownFieldError } from "./wires/known-fields.ts";
import { SIMPLE_ENDPOINTS } from "./wires/simple-endpoints.ts";
import type { SimpleReply } from "./wires/simple-reply.ts";
import type { RequestMetadata, ApiError, SimulatedWire } from "./wires/simulated-wire.ts";

export interface Simulator {
  readonly fetch: (request: Request) => Promise<Response>;
}

const MAX_RECORDED_REQUESTS = 200;
const MAX_CACHED_PROMPTS = 4_096;
const MAX_CONVERSATIONS = 256;

type ProviderRoute = Exclude<RouteMatch, { readonly kind: "control" }>;

export function createSimulator(options: SimulatorOptions): Simulator {
  const deps: SimulatorDeps = {
    options,
    recorder: createRecorder(options.maxRecordedRequests ?? MAX_RECORDED_REQUESTS, options.now),
    cache: createPromptCache(MAX_CACHED_PROMPTS),
    conversations: createConversationStore(MAX_CONVERSATIONS),
    timer: createDelayTimer(),
    releases: new Map(),
  };
  let count = 0;
  const simulator: Simulator = {
    async fetch(request) {
      const ofBatch = batches.handle(request);
      if (ofBatch !== undefined) return ofBatch;
      const url = new URL(request.url);
      const route = matchRoute(url.pathname);
      if (route === undefined)
        return Response.json(
          {
            error: {
              message: `Invalid URL (${request.method} ${url.pathname})`,
              type: "invalid_request_error",
              param: null,
              code: null,
            },
          },
          { status: 404 },
        );
      if (route.kind === "control") {
        if (route.name === "reset") batches.reset();
        return handleControlRequest(route.name, request, deps, url);
      }
      count += 1;
      const id = `req_sim_${count}`;
      const body = new Uint8Array(await request.arrayBuffer());
      const headers = [...request.headers];
      deps.recorder.recordRequest({
        id,
        at: options.now(),
        method: request.method,
        path: url.pathname + url.search,
        headers,
        body,
      });
      const text = new TextDecoder().decode(body);
      return handleProviderRequest(route, {
        deps,
        request,
        id,
        path: url.pathname,
        query: url.searchParams,
        headers,
        body,
        text,
      });
    },
  };
  const batches = createSimulatedBatches({ now: options.now, fetch: simulator.fetch });
  return simulator;
}

function handleControlRequest(
  name: string,
  request: Request,
  deps: SimulatorDeps,
  url: URL,
): Response {
  switch (`${request.method} ${name}`) {
    case "GET requests":
      return Response.json(
        deps.recorder.recentRequests(
          Math.max(1, Number(url.searchParams.get("limit") ?? 20) || 20),
        ),
      );
    case "GET stats":
      return Response.json(deps.recorder.stats());
    case "POST release":
      releaseOf(deps, url.searchParams.get("wait") ?? "").resolve();
      return Response.json({ ok: true });
    case "POST reset":
      deps.recorder.reset();
      deps.cache.clear();
      deps.conversations.clear();
      deps.releases.clear();
      return Response.json({ ok: true });
    default:
      return Response.json(
        {
          error:
            "Not found. Use GET /sim/requests, GET /sim/stats, POST /sim/release or POST /sim/reset.",
        },
        { status: 404 },
      );
  }
}

async function handleProviderRequest(
  route: ProviderRoute,
  context: SimulatedRequest,
): Promise<Response> {
  const { wire } = route;
  const keyError = checkKey(wire, context);
  if (keyError !== undefined) return respondWithError(wire, context, keyError);
  if (route.kind === "models") return listModels(route, context);
  if (context.request.method !== "POST")
    return respondWithError(wire, context, {
      status: 405,
      message: `Not allowed to ${context.request.method} on ${context.path}.`,
    });
  const body = await readBody(context);
  if (body === undefined)
    return respondWithError(wire, context, {
      status: 400,
      message: "We could not parse the JSON body of your request.",
    });
  const unknownField = unknownFieldOf(route, context, body);
  if (unknownField !== undefined) return respondWithError(wire, context, unknownField);
  if (route.kind === "simple") return handleSimple(route, context, body);
  const metadata: RequestMetadata = {
    pathModel: route.pathModel,
    isStreaming: route.kind === "generate" && route.isStreaming,
    query: context.query,
    header: (name) => context.request.headers.get(name) ?? undefined,
    findConversation: context.deps.conversations.find,
  };
  const request =
    route.kind === "count"
      ? route.tokenCounting.parseRequest(body, metadata)
      : wire.parseRequest(body, metadata);
  if (isInvalid(request)) return respondWithError(wire, context, request);
  if (!isKnownHere(context, request.model))
    return respondWithError(wire, context, wire.modelNotFound(request.model));
  const directives = directivesFor(context, request.userText);
  if ("invalid" in directives) return respondWithError(wire, context, directives);
  const faultResponse = await injectFault(wire, context, directives);
  if (faultResponse !== undefined) return faultResponse;
  const rejection = rejectionByModel(route, request, directives);
  if (rejection !== undefined) return respondWithError(wire, context, rejection);
  return route.kind === "count"
    ? respondWithJson(context, wire, {
        directives,
        body: route.tokenCounting.countBody(promptTokens(request)),
        model: request.model,
      })
    : generate(wire, context, request, directives);
}

// Before the request is parsed: a misspelled name is both an unknown and a missing field, and the error names what was sent.
// With any model, the simulator stands for any provider, and providers have fields of their own.
function unknownFieldOf(
  route: ProviderRoute,
  { deps }: SimulatedRequest,
  body: JsonObject,
): ApiError | undefined {
  if (deps.options.acceptsAnyModel === true) return undefined;
  const api = route.kind === "simple" ? route.api : undefined;
  return unknownFieldError(api ?? route.wire.name, body);
}

/** What the model itself does not take; counting tokens has no context limit. */
function rejectionByModel(
  { kind, wire }: ProviderRoute,
  request: NormalizedRequest,
  directives: Directives,
): ApiError | undefined {
  const limit = directives.context ?? contextWindow(request.model);
  return (
    unsupportedFeature(request, directives) ??
    strictSchemaError(wire.name, request) ??
    (kind === "generate" ? contextLimitError(wire.name, request, limit) : undefined)
  );
}

function generate(
  wire: SimulatedWire,
  context: SimulatedRequest,
  request: NormalizedRequest,
  directives: Directives,
): Response {
  const { deps } = context;
  const now = deps.options.now();
  const cache = deps.cache.lookUp(request, now, wire.cachesImplicitly);
  const reply = composeReply(request, directives, {
    seed: hashText(context.text),
    now,
    cache,
    scripted: request.tools.length > 0 ? deps.options.script?.(request) : undefined,
  });
  deps.recorder.addUsage(reply.counts);
  if (wire.toConversation !== undefined && request.body["store"] !== false)
    deps.conversations.save(wire.toConversation(reply));
  if (!request.isStream)
    return respondWithJson(context, wire, {
      directives,
      body: wire.replyBody(reply),
      model: request.model,
    });
  const tracker = deps.recorder.trackReply({
    id: context.id,
    path: context.path,
    model: request.model,
  });
  const steps = streamBodySteps(wire.streamReply(reply), directives, wire);
  return respond(context, wire, {
    directives,
    type: wire.streamContentType(request),
    body: createBodyStream(steps, tracker, deps.timer),
  });
}

function handleSimple(
  route: Extract<ProviderRoute, { readonly kind: "simple" }>,
  context: SimulatedRequest,
  body: JsonObject,
): Promise<Response> | Response {
  const { wire, api } = route;
  const reply: SimpleReply | InvalidRequest =
    api === undefined ? embedGemini(body) : SIMPLE_ENDPOINTS[api](body);
  if (isInvalidEmbedding(reply)) return respondWithError(wire, context, reply);
  const model = route.pathModel || stringOrEmpty(body["model"]);
  if (!isKnownHere(context, model))
    return respondWithError(wire, context, wire.modelNotFound(model));
  const directives = directivesFor(context, reply.text);
  if ("invalid" in directives) return respondWithError(wire, context, directives);
  context.deps.recorder.addUsage({
    input: reply.tokens,
    output: reply.outputTokens ?? 0,
    reasoning: 0,
    cacheRead: 0,
    cacheWrite5m: 0,
    cacheWrite1h: 0,
  });
  return injectFault(wire, context, directives).then(
    (faultResponse) =>
      faultResponse ??
      (reply.stream === undefined
        ? respondWithJson(context, wire, { directives, body: reply.body, model })
        : respondWithStream(route, context, { directives, model, stream: reply.stream })),
  );
}

function respondWithStream(
  { wire }: ProviderRoute,
  context: SimulatedRequest,
  {
    directives,
    model,
    stream,
  }: {
    readonly directives: Directives;
    readonly model: string;
    readonly stream: NonNullable<SimpleReply["stream"]>;
  },
): Response {
  const { deps, id, path } = context;
  const tracker = deps.recorder.trackReply({ id, path, model });
  const steps = streamBodySteps(stream.frames, directives, wire);
  return respond(context, wire, {
    directives,
    type: stream.contentType,
    body: createBodyStream(steps, tracker, deps.timer),
  });
}

async function readBody({
  text,
  body,
  request,
}: SimulatedRequest): Promise<JsonObject | undefined> {
  const contentType = request.headers.get("content-type") ?? "";
  return contentType.startsWith("multipart/") ? jsonOfForm(body, contentType) : parseBody(text);
}

function listModels(route: ProviderRoute, context: SimulatedRequest): Response {
  const id = route.pathModel;
  if (id !== "" && !isKnownHere(context, id))
    return respondWithError(route.wire, context, route.wire.modelNotFound(id));
  if (route.wire.name === "gemini")
    return Response.json(id === "" ? geminiModels() : geminiModel(id));
  if (context.request.headers.has("anthropic-version"))
    return Response.json(id === "" ? anthropicModels() : anthropicModel(id));
  return Response.json(id === "" ? openAiModels() : openAiModel(id));
}

function isKnownHere(context: SimulatedRequest, model: string): boolean {
  return context.deps.options.acceptsAnyModel === true || isKnownModel(model);
}

function checkKey(wire: SimulatedWire, context: SimulatedRequest): ApiError | undefined {
  const requiredKey = context.deps.options.requireKey;
  if (requiredKey === undefined || requiredKey === false) return undefined;
  const { headers } = context.request;
  const bearer = headers.get("authorization")?.replace(/^Bearer /i, "");
  const providedKey =
    headers.get("x-api-key") ??
    headers.get("x-goog-api-key") ??
    headers.get("api-key") ??
    context.query.get("key") ??
    bearer;
  if (providedKey === undefined || providedKey === "") return wire.missingKeyError;
  return requiredKey === true || providedKey === requiredKey ? undefined : wire.invalidKeyError;
}

function parseBody(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
