// A stream on its way between two wires: each of the provider's events is read into the canonical form and written as the
// caller's API has it, at once. The end is said only when the money is settled.

import { readSse, type SseEvent } from "../base/sse.ts";
import type { CanonicalEvent, JsonObject, UsageReport } from "./canonical.ts";
import type { StreamReader, StreamWriter } from "./canonical-wire.ts";
import { lostOf } from "./translated-reply.ts";
import { errorEvent, keepAliveOf, type StreamedApi, type StreamShape } from "./stream-shape.ts";

export interface Translator {
  readonly reader: StreamReader;
  readonly writer: StreamWriter;
  /** Whether the caller sees the usage. */
  readonly showsUsage: boolean;
  readonly costUsd: () => string | undefined;
  /** Takes keys and names of accounts out of a provider's sentence. */
  readonly clean: (text: string) => string;
}

const encoder = new TextEncoder();

export function translatedShape(
  api: StreamedApi,
  { reader, writer, showsUsage, costUsd, clean }: Translator,
): StreamShape {
  let report: UsageReport | undefined;
  let broken = false;
  let latest: Uint8Array | undefined;

  const write = (events: readonly CanonicalEvent[]): string => {
    let out = "";
    for (const event of events) {
      // Usage is told once, at the end, when it is known to be the last.
      if (event.type === "usage") report = event.report;
      else if (event.type === "error") {
        broken = true;
        out += writer.push({
          ...event,
          error: { ...event.error, message: clean(event.error.message) },
        });
      } else out += writer.push(event);
    }
    return out;
  };
  const pass = (event: SseEvent): Uint8Array | undefined => {
    const message = readSse(event);
    const bytes = message === undefined ? undefined : bytesOf(write(reader.push(message)));
    latest = bytes ?? latest;
    return bytes;
  };
  const last = (): Uint8Array | undefined => {
    const rest = write(reader.end());
    if (broken) return bytesOf(rest);
    const dropped = lostOf(writer.losses);
    const usage =
      report === undefined
        ? ""
        : writer.push({ type: "usage", report: { ...report, extras: extrasOf(dropped) } });
    const isShown = showsUsage && report !== undefined;
    const note =
      isShown || dropped.length === 0 ? "" : `: x-postern-dropped: ${dropped.join(", ")}\n\n`;
    return bytesOf(rest + usage + note + writer.end());
  };
  const extrasOf = (dropped: readonly string[]): JsonObject => {
    const cost = costUsd();
    return {
      ...(cost === undefined ? {} : { cost: Number(cost) }),
      ...(dropped.length === 0 ? {} : { dropped }),
    };
  };
  return {
    plain: pass,
    usage: pass,
    clean: (bytes) => bytes,
    last,
    error: (body) => (broken ? undefined : errorEvent(api, body, latest)),
    keepAlive: keepAliveOf(api),
  };
}

function bytesOf(text: string): Uint8Array | undefined {
  return text === "" ? undefined : encoder.encode(text);
}
