// Answers a call that a provider has begun to answer: a whole reply once it is settled, or a stream as it comes.

import { Fault } from "../base/fault.ts";
import { usdText } from "../base/money.ts";
import { createSseParser } from "../base/sse.ts";
import { limitsOf } from "../models/catalog.ts";
import type { Answered } from "./attempt.ts";
import {
  type Call,
  contextOf,
  costOf,
  type InferParts,
  ownHeaders,
  passageOf,
  drainMsOf,
} from "./call.ts";
import type { Candidate } from "./candidates.ts";
import { type Charged, chargeFor, estimatedUsage, isEmpty, NOTHING } from "./charge.ts";
import { createFrameParser } from "./frames-as-sse.ts";
import { likelyInput } from "./input-bound.ts";
import { createStreamMeter } from "./meter/meter.ts";
import { usageSoFar } from "./meter/stream.ts";
import { createKeeper, keptReply } from "./kept-reply.ts";
import { faultOfTrouble } from "./provider-error.ts";
import { relayStream, type StreamEnd } from "./relay-stream.ts";
import { settle } from "./settle-call.ts";

export async function answerWhole(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  answered: Answered & { kind: "whole" },
): Promise<Response> {
  const { input } = call;
  const passage = passageOf(call);
  const usage = passage.usageOf(answered.json);
  const charged = usage === undefined ? NOTHING : chargeFor(usage, contextOf(call, candidate));
  const costUsd = usdText(costOf(charged, candidate));
  const { text: body, dropped } = passage.whole(answered, usage, costUsd);
  const outcome = input.signal.aborted ? "client_aborted" : "completed";
  const headers = ownHeaders(call, candidate, answered.headers, dropped);
  headers["content-type"] = "application/json";
  headers["x-postern-cost-usd"] = costUsd;
  await settle(parts, call, candidate, {
    charged,
    outcome,
    status: 200,
    reply: input.idempotent === undefined ? undefined : keptReply(headers, body),
  });
  return new Response(body, { headers });
}

export function answerStream(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  answered: Answered & { kind: "stream" },
): Response {
  const { api } = call.ask;
  if (api === "embeddings") throw new Error("embeddings are not streamed");
  const { provider } = candidate.credential;
  const passage = passageOf(call);
  const { wire } = passage;
  if (wire === "embeddings" || wire === "count_tokens") throw new Error(`${wire} is not streamed`);
  const meter = createStreamMeter(wire, provider.id, call.ask.choices);
  const kept = call.input.idempotent === undefined ? undefined : createKeeper();
  const costUsd = (): string | undefined => {
    const usage = usageSoFar(meter);
    if (usage === undefined) return undefined;
    return usdText(costOf(chargeFor(usage, contextOf(call, candidate)), candidate));
  };
  const stream = relayStream({
    inflow: answered.inflow,
    first: answered.first,
    parser: wire === "converse" ? createFrameParser() : createSseParser(),
    meter,
    readsAll: passage.isTranslated,
    shape: passage.shape(costUsd),
    ticker: parts.ticker,
    timeouts: parts.timeouts,
    now: parts.now,
    endsByClosing: provider.endsByClosing && !passage.isTranslated,
    endsSilently: provider.endsByClosing || wire === "gemini",
    drainMs: drainMsOf(candidate),
    hurried: parts.hurried,
    costUsd,
    settle: (end: StreamEnd, isWhole: boolean) => {
      const charged = chargedAtEnd(call, candidate, { end, meter });
      return settle(parts, call, candidate, {
        charged,
        outcome: end,
        status: 200,
        reply: isWhole ? kept?.reply(headers) : undefined,
        firstTokenMs,
      });
    },
    failure: (end) =>
      parts.errorBody(
        api,
        end === "unsettled"
          ? new Fault("internal", "the call could not be settled")
          : faultOfTrouble(
              candidate.credential,
              end === "upstream_timeout" ? "timed_out" : "garbled",
              end,
            ),
        call.input.requestId,
      ),
    ...(kept === undefined ? {} : { keep: kept.keep }),
  });
  const firstTokenMs = Math.max(0, parts.now() - call.input.now);
  const headers = ownHeaders(call, candidate, answered.headers);
  headers["content-type"] = passage.isTranslated
    ? "text/event-stream; charset=utf-8"
    : answered.contentType;
  headers["cache-control"] = "no-store";
  headers["x-accel-buffering"] = "no";
  return new Response(stream, { headers });
}

interface Ending {
  readonly end: StreamEnd;
  readonly meter: ReturnType<typeof createStreamMeter>;
}

function chargedAtEnd(call: Call, candidate: Candidate, { end, meter }: Ending): Charged {
  const usage = usageSoFar(meter);
  const context = contextOf(call, candidate);
  const final = usage !== undefined && meter.exact;
  if (end === "client_aborted" && !final) {
    const { outputBytes } = meter;
    if (outputBytes === 0 && usage === undefined) return NOTHING;
    const { text, json } = call.ask;
    const inputTokens = (): number => likelyInput(text, json, limitsOf(candidate.model).input);
    const charged = chargeFor(estimatedUsage(usage, outputBytes, inputTokens), context);
    return {
      ...charged,
      exact: false,
      cost: charged.cost > call.held && !candidate.credential.byok ? call.held : charged.cost,
    };
  }
  if (!final || (end !== "completed" && end !== "client_aborted" && isEmpty(usage))) return NOTHING;
  return chargeFor(usage, context);
}
