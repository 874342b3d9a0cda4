// A provider that is not there: it speaks the providers' APIs, always says the same to the same request, and does on
// order whatever real providers do on bad days. docs/simulator.md is its manual.

import { isWrong, promptTokens, type Ask } from "./ask.ts";
import { createClock } from "./clock.ts";
import { createConversations } from "./conversations.ts";
import { bodyOf, streamSteps } from "./delivery.ts";
import type { Order } from "./directives.ts";
import { embed, embedGemini, isWrongEmbedding } from "./embeddings.ts";
import { hashText } from "./hash.ts";
import { isFields, textOf, type Fields } from "./json.ts";
import { lackOf } from "./lacks.ts";
import {
  anthropicModel,
  anthropicModels,
  geminiModel,
  geminiModels,
  isKnownModel,
  openAiModel,
  openAiModels,
} from "./models.ts";
import { placeOf, type Place } from "./paths.ts";
import { createPromptCache } from "./prompt-cache.ts";
import { createRecorder } from "./recorder.ts";
import { composeReply } from "./reply.ts";
import {
  answerEarly,
  fail,
  orderOf,
  reply,
  respond,
  type Parts,
  type SimulatorOptions,
  type Turn,
} from "./turn.ts";
import type { Arrival, Failure, Wire } from "./wire.ts";

export interface Simulator {
  readonly fetch: (request: Request) => Promise<Response>;
}

const KEPT_REQUESTS = 200;
const KEPT_PROMPTS = 4_096;
const KEPT_CONVERSATIONS = 256;

type Answering = Exclude<Place, { readonly kind: "own" }>;

export function createSimulator(options: SimulatorOptions): Simulator {
  const parts: Parts = {
    options,
    recorder: createRecorder(options.keepRequests ?? KEPT_REQUESTS, options.now),
    cache: createPromptCache(KEPT_PROMPTS),
    conversations: createConversations(KEPT_CONVERSATIONS),
    clock: createClock(),
  };
  let count = 0;
  return {
    async fetch(request) {
      const url = new URL(request.url);
      const place = placeOf(url.pathname);
      if (place === undefined)
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
      if (place.kind === "own") return answerOwn(place.what, request, parts, url);
      count += 1;
      const id = `req_sim_${count}`;
      const body = new Uint8Array(await request.arrayBuffer());
      const headers = [...request.headers];
      parts.recorder.see({
        id,
        at: options.now(),
        method: request.method,
        path: url.pathname + url.search,
        headers,
        body,
      });
      const text = new TextDecoder().decode(body);
      return answer(place, {
        parts,
        request,
        id,
        path: url.pathname,
        query: url.searchParams,
        headers,
        text,
      });
    },
  };
}

function answerOwn(what: string, request: Request, parts: Parts, url: URL): Response {
  switch (`${request.method} ${what}`) {
    case "GET requests":
      return Response.json(
        parts.recorder.requests(Math.max(1, Number(url.searchParams.get("limit") ?? 20) || 20)),
      );
    case "GET stats":
      return Response.json(parts.recorder.stats());
    case "POST reset":
      parts.recorder.reset();
      parts.cache.clear();
      parts.conversations.clear();
      return Response.json({ ok: true });
    default:
      return Response.json(
        { error: "There is GET /sim/requests, GET /sim/stats and POST /sim/reset." },
        { status: 404 },
      );
  }
}

async function answer(place: Answering, turn: Turn): Promise<Response> {
  const { wire } = place;
  const refused = checkKey(wire, turn);
  if (refused !== undefined) return fail(wire, turn, refused);
  if (place.kind === "models") return listModels(place, turn);
  if (turn.request.method !== "POST")
    return fail(wire, turn, {
      status: 405,
      message: `Not allowed to ${turn.request.method} on ${turn.path}.`,
    });
  const body = parseBody(turn.text);
  if (body === undefined)
    return fail(wire, turn, {
      status: 400,
      message: "We could not parse the JSON body of your request.",
    });
  if (place.kind === "embed") return answerEmbedding(place, turn, body);
  const arrival: Arrival = {
    pathModel: place.pathModel,
    streaming: place.kind === "generate" && place.streaming,
    query: turn.query,
    header: (name) => turn.request.headers.get(name) ?? undefined,
    earlier: turn.parts.conversations.find,
  };
  const ask =
    place.kind === "count" ? place.counting.read(body, arrival) : wire.read(body, arrival);
  if (isWrong(ask)) return fail(wire, turn, ask);
  if (!knows(turn, ask.model)) return fail(wire, turn, wire.unknownModel(ask.model));
  const order = orderOf(turn, ask.userText);
  if ("wrong" in order) return fail(wire, turn, order);
  const early = await answerEarly(wire, turn, order);
  if (early !== undefined) return early;
  const lack = lackOf(ask, order);
  if (lack !== undefined) return fail(wire, turn, lack);
  return place.kind === "count"
    ? reply(turn, wire, { order, body: place.counting.answer(promptTokens(ask)), model: ask.model })
    : generate(wire, turn, ask, order);
}

function generate(wire: Wire, turn: Turn, ask: Ask, order: Order): Response {
  const { parts } = turn;
  const now = parts.options.now();
  const cache = parts.cache.look(ask, now, wire.cachesUnasked);
  const made = composeReply(ask, order, { seed: hashText(turn.text), now, cache });
  parts.recorder.count(made.counts);
  if (wire.keep !== undefined && ask.body["store"] !== false)
    parts.conversations.keep(wire.keep(made));
  if (!ask.stream) return reply(turn, wire, { order, body: wire.whole(made), model: ask.model });
  const sending = parts.recorder.open({ id: turn.id, path: turn.path, model: ask.model });
  const steps = streamSteps(wire.stream(made), order, wire);
  return respond(turn, wire, {
    order,
    type: wire.streamType(ask),
    body: bodyOf(steps, sending, parts.clock),
  });
}

function answerEmbedding(place: Answering, turn: Turn, body: Fields): Promise<Response> | Response {
  const { wire } = place;
  const made = wire.name === "gemini" ? embedGemini(body) : embed(body);
  if (isWrongEmbedding(made)) return fail(wire, turn, made);
  const model = place.pathModel || textOf(body["model"]);
  if (!knows(turn, model)) return fail(wire, turn, wire.unknownModel(model));
  const order = orderOf(turn, made.text);
  if ("wrong" in order) return fail(wire, turn, order);
  turn.parts.recorder.count({
    input: made.tokens,
    output: 0,
    reasoning: 0,
    read: 0,
    write5m: 0,
    write1h: 0,
  });
  return answerEarly(wire, turn, order).then(
    (early) => early ?? reply(turn, wire, { order, body: made.body, model }),
  );
}

function listModels(place: Answering, turn: Turn): Response {
  const id = place.pathModel;
  if (id !== "" && !knows(turn, id)) return fail(place.wire, turn, place.wire.unknownModel(id));
  if (place.wire.name === "gemini")
    return Response.json(id === "" ? geminiModels() : geminiModel(id));
  if (turn.request.headers.has("anthropic-version"))
    return Response.json(id === "" ? anthropicModels() : anthropicModel(id));
  return Response.json(id === "" ? openAiModels() : openAiModel(id));
}

function knows(turn: Turn, model: string): boolean {
  return turn.parts.options.anyModel === true || isKnownModel(model);
}

function checkKey(wire: Wire, turn: Turn): Failure | undefined {
  const wanted = turn.parts.options.requireKey;
  if (wanted === undefined || wanted === false) return undefined;
  const { headers } = turn.request;
  const bearer = headers.get("authorization")?.replace(/^Bearer /i, "");
  const given =
    headers.get("x-api-key") ??
    headers.get("x-goog-api-key") ??
    headers.get("api-key") ??
    turn.query.get("key") ??
    bearer;
  if (given === undefined || given === "") return wire.missingKey;
  return wanted === true || given === wanted ? undefined : wire.wrongKey;
}

function parseBody(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
