// Validates random requests, replies and streams of the chat and messages wires against the published specifications.
// The other wires' tests are in test/wires.

import { describe, expect, test } from "bun:test";
import { type Loss, type CanonicalRequest, INBOUND_WIRES, OUTBOUND_WIRES } from "@postern/wires";
import * as fc from "fast-check";
import { requests as callers } from "../../packages/wires/test/chat-messages/chat-messages-arbitraries.ts";
import { replyToEvents } from "../../packages/wires/test/reply-to-events.ts";
import { replies, requests } from "../../packages/wires/test/responses/responses-arbitraries.ts";
import {
  ORIGIN,
  sseEvents,
  writeContext,
  writeEvents,
} from "../../packages/wires/test/stream-helpers.ts";
import { droppedPaths } from "../../src/inference/translate/losses.ts";
import { runs } from "../support/full.ts";
import { skipUnless } from "../support/skip.ts";
import { hasSpecs, loadSpecs } from "./support/openapi-specs.ts";

const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;
const RUNS = { numRuns: runs(120) };
const TARGET = { ...ORIGIN, maxOutputTokens: 32_000, abilities: { openaiFields: true } } as const;

/** Adds the paths that request readers set on turns and parts. */
function toSendable(request: CanonicalRequest): CanonicalRequest {
  const turns = request.turns.map((turn, index) => ({
    ...turn,
    path: `messages[${index}]`,
    parts: turn.parts.map((part, partIndex) => ({
      ...part,
      path: `messages[${index}].content[${partIndex}]`,
    })),
  }));
  return { ...request, turns };
}

/** Whether the request is sent with `postern.lossy`. */
function isAccepted(request: CanonicalRequest, losses: readonly Loss[]): boolean {
  try {
    droppedPaths(true, request, losses, "m");
    return true;
  } catch {
    return false;
  }
}

const isSkipped = skipUnless(
  hasSpecs,
  "OpenAPI conformance: no specifications (set POSTERN_SPECS to their folder)",
);

describe.skipIf(isSkipped)("OpenAPI specifications (require ../shared/specs)", () => {
  const specs = hasSpecs ? loadSpecs() : undefined;

  for (const wire of ["chat", "messages"] as const) {
    const other = wire === "chat" ? "messages" : "chat";
    for (const [from, arbitrary] of [
      ["responses", requests] as const,
      [other, callers(other)] as const,
    ])
      test(`requests to ${wire} from ${from} are valid`, () => {
        let sent = 0;
        fc.assert(
          fc.property(arbitrary, (random) => {
            const request = toSendable(random);
            const { body, losses } = OUTBOUND_WIRES[wire].writeRequest(request, TARGET);
            if (!isAccepted(request, losses)) return;
            sent += 1;
            expect(specs?.request[wire](jsonRoundTrip(body)) ?? []).toEqual([]);
          }),
          { numRuns: runs(300) },
        );
        console.log(`» ${sent} random requests from ${from} to ${wire} are valid`);
      });

    test(`replies on ${wire} are valid`, () => {
      fc.assert(
        fc.property(replies, (reply) => {
          const { body } = INBOUND_WIRES[wire].writeReply(reply, writeContext());
          expect(specs?.reply[wire](jsonRoundTrip(body)) ?? []).toEqual([]);
        }),
        RUNS,
      );
    });

    test(`streams on ${wire} are valid`, () => {
      fc.assert(
        fc.property(replies, (reply) => {
          const text = writeEvents(INBOUND_WIRES[wire], replyToEvents(reply), writeContext());
          for (const { data } of sseEvents(text))
            if (data !== "[DONE]") expect(specs?.event[wire](JSON.parse(data)) ?? []).toEqual([]);
        }),
        RUNS,
      );
    });
  }
});
