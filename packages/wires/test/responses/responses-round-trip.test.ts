// Writing to Responses and reading back is the identity on what the API can express.

import { expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { ReplyReadContext, Target } from "../../src/canonical/wire-interfaces.ts";
import { responsesWire } from "../../src/responses/responses-wire.ts";
import { usageOf } from "../../src/usage/provider-usage.ts";
import {
  collectReply,
  ORIGIN,
  readPieces,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";
import { validateResponse, validateResponsesStream } from "../validate-responses-stream.ts";
import { cutEvents, replies, requests } from "./responses-arbitraries.ts";

const RUNS = { numRuns: runs(300) };
const TARGET: Target = {
  ...ORIGIN,
  abilities: { cacheBreakpointField: "prompt_cache_breakpoint" },
};
const CONTEXT: ReplyReadContext = {
  origin: ORIGIN,
  readUsage: (body) => usageOf("responses", body, "openai"),
};

/** Without fields that are not part of equality. */
const stripPaths = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner: unknown) =>
      ["path", "names", "strictPath"].includes(key) ? undefined : inner,
    ),
  );
const comparableReply = (reply: CanonicalReply) => stripPaths({ ...reply, usage: undefined });
const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test("keeps requests unchanged, without losses", () => {
  fc.assert(
    fc.property(requests, (request) => {
      const { body, losses } = responsesWire.writeRequest(request, TARGET);
      expect(losses).toEqual([]);
      const { store, ...back } = responsesWire.readRequest(jsonRoundTrip(body));
      expect(store).toBe(false);
      expect(stripPaths(back)).toEqual(stripPaths(request));
    }),
    RUNS,
  );
});

test("keeps replies unchanged", () => {
  fc.assert(
    fc.property(replies, (reply) => {
      const { body, losses } = responsesWire.writeReply(reply, writeContext());
      expect(losses).toEqual([]);
      expect(validateResponse(jsonRoundTrip(body) as Record<string, unknown>)).toEqual([]);
      const back = responsesWire.readReply(jsonRoundTrip(body), CONTEXT);
      expect(comparableReply(back)).toEqual(comparableReply(reply));
      expect(responsesWire.writeReply(back, writeContext()).body["usage"]).toEqual(body["usage"]);
    }),
    RUNS,
  );
});

test("keeps streams unchanged, writes valid ones that end in the full response, and reads chunks of any size", () => {
  const streams = replies.chain((reply) =>
    fc.tuple(
      fc.constant(reply),
      cutEvents(reply),
      fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
    ),
  );
  fc.assert(
    fc.property(streams, ([reply, events, sizes]) => {
      const text = writeEvents(responsesWire, events, writeContext());
      const written = sseEvents(text);
      expect(validateResponsesStream(written)).toEqual([]);
      const last = JSON.parse(written.at(-1)?.data ?? "{}") as { response: unknown };
      const whole = responsesWire.writeReply(reply, writeContext()).body;
      expect(last.response).toEqual(jsonRoundTrip(whole));
      const bytes = new TextEncoder().encode(text);
      const pieces: Uint8Array[] = [];
      for (let at = 0; at < bytes.length;) {
        const size = Number(sizes.next().value);
        pieces.push(bytes.subarray(at, at + size));
        at += size;
      }
      const read = readPieces(responsesWire.createStreamReader(CONTEXT), pieces);
      expect(validateCanonicalStream(read)).toEqual([]);
      expect(comparableReply(collectReply(read))).toEqual(comparableReply(reply));
    }),
    RUNS,
  );
});

test("reads the same events from a stream cut at any byte", () => {
  const [reply] = fc.sample(replies, { seed: 7, numRuns: 1 });
  if (reply === undefined) throw new Error("no sample");
  const [events] = fc.sample(cutEvents(reply), 1);
  const bytes = new TextEncoder().encode(writeEvents(responsesWire, events ?? [], writeContext()));
  const whole = readPieces(responsesWire.createStreamReader(CONTEXT), [bytes]);
  for (let at = 1; at < bytes.length; at++) {
    const pieces = [bytes.subarray(0, at), bytes.subarray(at)];
    expect(readPieces(responsesWire.createStreamReader(CONTEXT), pieces)).toEqual(whole);
  }
  const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
  expect(readPieces(responsesWire.createStreamReader(CONTEXT), single)).toEqual(whole);
});
