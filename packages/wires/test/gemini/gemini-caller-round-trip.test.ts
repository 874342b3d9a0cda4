// Writing to Gemini and reading back as a caller's request, or as a provider's reply, is the identity on what the API can express.

import { expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { Turn } from "../../src/canonical/canonical-request.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import {
  outboundContext,
  outboundReplies,
  outboundRequests,
  splitBytes,
} from "../gemini-converse/gemini-converse-arbitraries.ts";
import { replyToEvents } from "../reply-to-events.ts";
import {
  collectReply,
  readPieces,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";

const RUNS = { numRuns: runs(300) };
const CONTEXT = outboundContext("gemini");
const TARGET = { provider: "acme", model: "gemini-3-flash" };
/** The caller asks for thoughts. */
const WRITE_CONTEXT = writeContext({ reasoning: { summary: "auto" } });

const DROPPED = new Set([
  "path",
  "names",
  "strictPath",
  "isDefaultSummary",
  "nativeReason",
  "origin",
  "isSignedLater",
]);
const strip = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => (DROPPED.has(key) ? undefined : inner)),
  );
const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const comparableReply = (reply: CanonicalReply) => strip({ ...reply, usage: undefined });

/** Texts of the model that follow each other are one text. */
function joinTexts(turns: readonly Turn[]): readonly Turn[] {
  return turns.map((turn) => {
    if (turn.role !== "assistant") return turn;
    const parts: Turn["parts"][number][] = [];
    for (const part of turn.parts) {
      const last = parts.at(-1);
      if (part.type === "text" && last?.type === "text" && last.signature === undefined)
        parts[parts.length - 1] = { ...part, text: last.text + part.text };
      else parts.push(part);
    }
    return { ...turn, parts };
  });
}

function cutEvents(reply: CanonicalReply): fc.Arbitrary<CanonicalEvent[]> {
  const cuts = replyToEvents(reply).map((event): fc.Arbitrary<CanonicalEvent[]> => {
    if (event.type !== "delta" || event.text.length < 2) return fc.constant([event]);
    return fc.integer({ min: 1, max: event.text.length - 1 }).map((at) => [
      { ...event, text: event.text.slice(0, at) },
      { ...event, text: event.text.slice(at) },
    ]);
  });
  return fc.tuple(...cuts).map((lists) => lists.flat());
}

test("keeps requests unchanged", () => {
  fc.assert(
    fc.property(outboundRequests("gemini"), (request) => {
      const { body, losses } = geminiWire.writeRequest(request, TARGET);
      expect(losses.filter(({ tolerated }) => tolerated !== true)).toEqual([]);
      const sent = {
        ...(jsonRoundTrip(body) as object),
        model: request.model,
        stream: request.stream,
      };
      const back = geminiWire.readRequest(jsonRoundTrip(sent));
      const summary = request.reasoning && "auto";
      expect(strip(back)).toEqual(
        strip({
          ...request,
          turns: joinTexts(request.turns),
          reasoning: request.reasoning && { ...request.reasoning, summary },
        }),
      );
    }),
    RUNS,
  );
});

test("keeps whole replies unchanged", () => {
  fc.assert(
    fc.property(outboundReplies("gemini"), (reply) => {
      const { body, losses } = geminiWire.writeReply(reply, WRITE_CONTEXT);
      expect(losses).toEqual([]);
      const back = geminiWire.readReply(jsonRoundTrip(body), CONTEXT);
      expect(comparableReply(back)).toEqual(comparableReply(reply));
      expect(jsonRoundTrip(geminiWire.writeReply(back, WRITE_CONTEXT).body)).toMatchObject({
        usageMetadata: (jsonRoundTrip(body) as { usageMetadata: object }).usageMetadata,
      });
    }),
    RUNS,
  );
});

test("keeps streams unchanged, and reads chunks of any size", () => {
  const streams = outboundReplies("gemini").chain((reply) =>
    fc.tuple(
      fc.constant(reply),
      cutEvents(reply),
      fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
    ),
  );
  fc.assert(
    fc.property(streams, ([reply, events, sizes]) => {
      const text = writeEvents(geminiWire, events, WRITE_CONTEXT);
      for (const { data } of sseEvents(text)) {
        const { candidates } = JSON.parse(data) as {
          candidates: { content: { parts: object[] } }[];
        };
        // Google's SDK forgets a streamed reply of which one chunk has no part.
        for (const { content } of candidates)
          expect(Object.keys(content.parts[0] ?? {}).length > 0).toBe(true);
      }
      const pieces = splitBytes(new TextEncoder().encode(text), sizes);
      const read = readPieces(geminiWire.createStreamReader(CONTEXT), pieces);
      expect(validateCanonicalStream(read)).toEqual([]);
      expect(comparableReply(collectReply(read))).toEqual(comparableReply(reply));
    }),
    RUNS,
  );
});
