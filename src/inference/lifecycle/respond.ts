// Answers a call that a provider has begun to answer: a whole reply once it is settled, or a stream as it comes.

import { errorBody, errorFormat, publicError } from "../../base/error-body.ts";
import { Fault } from "../../base/fault.ts";
import { usdText } from "../../base/money.ts";
import { createSseParser } from "../../base/streams/sse.ts";
import { limitsOf } from "../../models/catalog.ts";
import type { UpstreamReply } from "../upstream/attempt.ts";
import {
  type HeldCall,
  chargeContext,
  billedCost,
  type InferDeps,
  responseHeaders,
  planOf,
  drainMsOf,
} from "./call.ts";
import type { Candidate } from "../routing/candidates.ts";
import {
  type UsageCharge,
  chargeFor,
  estimatedUsage,
  isEmptyUsage,
  NO_CHARGE,
} from "../metering/charge.ts";
import { createAwsFrameParser } from "../upstream/aws-frames.ts";
import { estimateInputTokens } from "../metering/input-bound.ts";
import { createStreamMeter } from "../metering/usage/usage.ts";
import { usageSoFar } from "../metering/usage/stream-meter.ts";
import { createReplyRecorder, toStoredReply } from "./idempotent-reply.ts";
import { upstreamFault } from "../upstream/provider-error.ts";
import { relayStream, type StreamOutcome } from "../streaming/relay.ts";
import { settle } from "./settle.ts";

export async function respondWhole(
  deps: InferDeps,
  call: HeldCall,
  candidate: Candidate,
  reply: UpstreamReply & { kind: "whole" },
): Promise<Response> {
  const { input } = call;
  const plan = planOf(call);
  const usage = plan.readUsage(reply.json);
  const charge = usage === undefined ? NO_CHARGE : chargeFor(usage, chargeContext(call, candidate));
  const costUsd = usdText(billedCost(charge, candidate));
  const { text: body, dropped } = plan.writeReply(reply, usage, costUsd);
  const outcome = input.signal.aborted ? "client_aborted" : "completed";
  const headers = responseHeaders(call, candidate, reply.headers, dropped);
  headers["content-type"] = "application/json";
  headers["x-postern-cost-usd"] = costUsd;
  await settle(deps, call, candidate, {
    charge,
    outcome,
    status: 200,
    reply: input.idempotent === undefined ? undefined : toStoredReply(headers, body),
  });
  return new Response(body, { headers });
}

export function respondStream(
  deps: InferDeps,
  call: HeldCall,
  candidate: Candidate,
  reply: UpstreamReply & { kind: "stream" },
): Response {
  const { api } = call.request;
  if (api === "embeddings") throw new Error("embeddings are not streamed");
  const { provider } = candidate.credential;
  const plan = planOf(call);
  const { wire } = plan;
  if (wire === "embeddings" || wire === "count_tokens") throw new Error(`${wire} is not streamed`);
  const meter = createStreamMeter(wire, provider.id, call.request.choices);
  const recorder = call.input.idempotent === undefined ? undefined : createReplyRecorder();
  const costUsd = (): string | undefined => {
    const usage = usageSoFar(meter);
    if (usage === undefined) return undefined;
    return usdText(billedCost(chargeFor(usage, chargeContext(call, candidate)), candidate));
  };
  const stream = relayStream({
    body: reply.body,
    first: reply.first,
    parser: wire === "converse" ? createAwsFrameParser() : createSseParser(),
    meter,
    parsesAllEvents: plan.isTranslated,
    transform: plan.createStreamTransform(costUsd),
    timer: deps.timer,
    timeouts: deps.timeouts,
    now: deps.now,
    endsStreamByClosing: provider.endsStreamByClosing && !plan.isTranslated,
    lacksTerminalEvent: provider.endsStreamByClosing || wire === "gemini",
    drainMs: drainMsOf(candidate),
    shutdownSignal: deps.shutdownSignal,
    costUsd,
    settle: (outcome: StreamOutcome, isWhole: boolean) => {
      const charge = streamCharge(call, candidate, { outcome, meter });
      return settle(deps, call, candidate, {
        charge,
        outcome: outcome,
        status: 200,
        reply: isWhole ? recorder?.reply(headers) : undefined,
        firstTokenMs,
      });
    },
    errorBody: (end) =>
      errorBody(
        errorFormat(api),
        publicError(
          end === "unsettled"
            ? new Fault("internal", "the call could not be settled")
            : upstreamFault(
                candidate.credential,
                end === "upstream_timeout" ? "timed_out" : "truncated",
                end,
              ),
        ),
        call.input.requestId,
      ),
    ...(recorder === undefined ? {} : { record: recorder.record }),
  });
  const firstTokenMs = Math.max(0, deps.now() - call.input.now);
  const headers = responseHeaders(call, candidate, reply.headers);
  headers["content-type"] = plan.isTranslated
    ? "text/event-stream; charset=utf-8"
    : reply.contentType;
  headers["cache-control"] = "no-store";
  headers["x-accel-buffering"] = "no";
  return new Response(stream, { headers });
}

interface StreamResult {
  readonly outcome: StreamOutcome;
  readonly meter: ReturnType<typeof createStreamMeter>;
}

function streamCharge(
  call: HeldCall,
  candidate: Candidate,
  { outcome, meter }: StreamResult,
): UsageCharge {
  const usage = usageSoFar(meter);
  const context = chargeContext(call, candidate);
  const isFinal = usage !== undefined && meter.isUsageFinal;
  if (outcome === "client_aborted" && !isFinal) {
    const { outputBytes } = meter;
    if (outputBytes === 0 && usage === undefined) return NO_CHARGE;
    const { text, json } = call.request;
    const inputTokens = (): number =>
      estimateInputTokens(text, json, limitsOf(candidate.model).input);
    const charge = chargeFor(estimatedUsage(usage, outputBytes, inputTokens), context);
    return {
      ...charge,
      exact: false,
      cost: charge.cost > call.held && !candidate.credential.byok ? call.held : charge.cost,
    };
  }
  if (!isFinal || (outcome !== "completed" && outcome !== "client_aborted" && isEmptyUsage(usage)))
    return NO_CHARGE;
  return chargeFor(usage, context);
}
