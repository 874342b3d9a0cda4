// Translates a stream between two wires event by event: read into the canonical form, written in the caller's API.
// The terminal events are written only after the charge is settled.

import {
  readSse,
  type SseEvent,
  type CanonicalError,
  type CanonicalEvent,
  type UsageReport,
  createCallSplitter,
  type WireStreamReader,
  type WireStreamWriter,
} from "@postern/wires";
import type { JsonObject } from "../../base/json.ts";
import {
  type CostSoFar,
  errorEvent,
  keepAliveBytes,
  nextSequenceNumber,
  type StreamingApi,
  type StreamTransform,
} from "./stream-transform.ts";
import { allLossPaths, replyLossPaths } from "./translate-reply.ts";

export interface StreamTranslation {
  readonly reader: WireStreamReader;
  readonly writer: WireStreamWriter;
  /** Whether the caller sees the usage. */
  readonly showsUsage: boolean;
  /** The request fields that were dropped. */
  readonly dropped: readonly string[];
  /** The error as the caller sees it, in the form of the caller's API. */
  readonly toErrorObject: (error: CanonicalError) => JsonObject;
  /** The id of the model that the provider names. */
  readonly modelIdOf: (name: string) => string;
}

const encoder = new TextEncoder();

export function translationTransform(
  api: StreamingApi,
  {
    reader,
    writer,
    showsUsage,
    dropped: requestLosses,
    toErrorObject,
    modelIdOf,
  }: StreamTranslation,
): StreamTransform {
  const splitCalls = createCallSplitter();
  let report: UsageReport | undefined;
  let failed = false;

  const write = (events: readonly CanonicalEvent[]): string => {
    let out = "";
    for (const event of events) {
      // Usage is written once, at the end: a provider may send several reports.
      if (event.type === "usage") report = event.report;
      else if (event.type === "error") {
        failed = true;
        out += writer.push({
          ...event,
          error: { ...event.error, object: toErrorObject(event.error) },
        });
      } else
        for (const one of splitCalls(withListedModel(event, modelIdOf))) out += writer.push(one);
    }
    return out;
  };
  const translateEvent = (event: SseEvent): Uint8Array | undefined => {
    const message = readSse(event);
    return message === undefined ? undefined : encodeText(write(reader.push(message)));
  };
  const finish = (_hasTerminalEvent: boolean, costUsd: CostSoFar): Uint8Array | undefined => {
    const rest = write(reader.end());
    if (failed) return encodeText(rest);
    const dropped = replyLossPaths(writer.losses);
    const extras = extrasOf(costUsd(), allLossPaths(requestLosses, dropped));
    const usage =
      report === undefined ? "" : writer.push({ type: "usage", report: { ...report, extras } });
    const isShown = showsUsage && report !== undefined;
    const note =
      isShown || dropped.length === 0 ? "" : `: x-postern-dropped: ${dropped.join(", ")}\n\n`;
    return encodeText(rest + usage + note + writer.end());
  };
  return {
    transformEvent: translateEvent,
    transformUsageEvent: translateEvent,
    rewriteError: (bytes) => bytes,
    finish,
    errorEvent: (body, latest) =>
      failed ? undefined : errorEvent(api, body, nextSequenceNumber(latest)),
    keepAlive: keepAliveBytes(api),
  };
}

function extrasOf(cost: string | undefined, dropped: readonly string[]): JsonObject {
  return {
    ...(cost === undefined ? {} : { cost: Number(cost) }),
    ...(dropped.length === 0 ? {} : { dropped }),
  };
}

function withListedModel(
  event: CanonicalEvent,
  modelIdOf: StreamTranslation["modelIdOf"],
): CanonicalEvent {
  return event.type === "start" && event.model !== undefined
    ? { ...event, model: modelIdOf(event.model) }
    : event;
}

function encodeText(text: string): Uint8Array | undefined {
  return text === "" ? undefined : encoder.encode(text);
}
