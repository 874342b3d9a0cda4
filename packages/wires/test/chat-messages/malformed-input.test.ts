// Malformed input: a caller's body is read or rejected with a 400, a provider's reply is always read.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { InboundWire, OutboundWire } from "../../src/canonical/wire-interfaces.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { InvalidRequest } from "../../src/invalid-request.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import { replyToEvents } from "../reply-to-events.ts";
import {
  ORIGIN,
  readContext,
  readEvents,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";
import { validateChatStream } from "../validate-chat-stream.ts";
import { validateMessagesStream } from "../validate-messages-stream.ts";
import { replies, requests, type TestedWire } from "./chat-messages-arbitraries.ts";

const WIRES: Record<TestedWire, InboundWire & OutboundWire> = {
  chat: chatWire,
  messages: messagesWire,
};
const RUNS = { numRuns: runs(400) };
const randomValue = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    -1,
    1e308,
    "",
    "x",
    [],
    {},
    [null],
    [{}],
    { type: 5 },
    { type: "x" },
  ),
  fc.jsonValue({ maxDepth: 2 }),
);

/** The value with one part replaced, which `seed` selects. */
function corrupt(value: unknown, seed: number, by: unknown): unknown {
  if (typeof value !== "object" || value === null || seed % 5 === 0) return by;
  const keys = Object.keys(value);
  const key = keys[seed % Math.max(1, keys.length)];
  if (key === undefined) return by;
  const copy = structuredClone(value) as Record<string, unknown>;
  copy[key] = corrupt(copy[key], Math.floor(seed / 7), by);
  return copy;
}

const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

for (const name of ["chat", "messages"] as const) {
  const wire = WIRES[name];
  const check = (text: string) =>
    name === "chat"
      ? validateChatStream(sseEvents(text), { usage: true })
      : validateMessagesStream(sseEvents(text));

  describe(name, () => {
    test("reads a corrupted request for every wire, or rejects it with a 400", () => {
      fc.assert(
        fc.property(requests(name), fc.nat(), randomValue, (request, seed, by) => {
          const body = corrupt(jsonRoundTrip(wire.writeRequest(request, ORIGIN).body), seed, by);
          try {
            const read = wire.readRequest(body);
            for (const out of Object.values(WIRES))
              JSON.stringify(out.writeRequest(read, ORIGIN).body);
          } catch (error) {
            if (!(error instanceof InvalidRequest)) throw error;
            expect(error.message).not.toBe("");
          }
        }),
        RUNS,
      );
    });

    test("reads a corrupted reply", () => {
      fc.assert(
        fc.property(replies(name), fc.nat(), randomValue, (reply, seed, by) => {
          const body = corrupt(
            jsonRoundTrip(wire.writeReply(reply, writeContext()).body),
            seed,
            by,
          );
          const read = wire.readReply(body, readContext(name));
          expect(read.choices.length).toBeGreaterThan(0);
          for (const out of Object.values(WIRES)) out.writeReply(read, writeContext());
          expect(wire.readError(500, body).status).toBeGreaterThanOrEqual(400);
        }),
        RUNS,
      );
    });

    test("reads a stream with corrupted, missing and repeated events, and writes it as a valid one", () => {
      fc.assert(
        fc.property(
          replies(name),
          fc.tuple(fc.nat(), fc.nat(), fc.nat()),
          randomValue,
          (reply, [at, twice, seed], by) => {
            const events = sseEvents(writeEvents(wire, replyToEvents(reply), writeContext()));
            const hit = at % events.length;
            const corrupted = events.flatMap((event, index) => {
              if (index !== hit)
                return index === twice % (2 * events.length) ? [event, event] : [event];
              if (seed % 3 === 0 || event.data === "[DONE]") return [];
              return [
                { ...event, data: JSON.stringify(corrupt(JSON.parse(event.data), seed, by)) },
              ];
            });
            const read = readEvents(wire, corrupted, readContext(name));
            expect(validateCanonicalStream(read)).toEqual([]);
            const usage = read.some((event) => event.type === "usage");
            expect(
              validateChatStream(sseEvents(writeEvents(chatWire, read, writeContext())), {
                usage: usage && !read.some((event) => event.type === "error"),
              }),
            ).toEqual([]);
            expect(
              validateMessagesStream(sseEvents(writeEvents(messagesWire, read, writeContext()))),
            ).toEqual([]);
          },
        ),
        RUNS,
      );
    });

    test("the stream validator finds missing and misplaced events", () => {
      const reply = {
        choices: [
          {
            parts: [
              { type: "text", text: "ab" } as const,
              { type: "tool_call", id: "a", name: "f", arguments: "{}" } as const,
            ],
            finish: { reason: "tool_calls" } as const,
          },
        ],
        usage: { usage: { tokens: { input: 1 }, fees: {} } },
      };
      const text = writeEvents(wire, replyToEvents(reply), writeContext());
      expect(check(text)).toEqual([]);
      const frames = text.split("\n\n").filter((frame) => frame !== "");
      const deltas = /text_delta|"content":"ab"|"arguments":"{}"/;
      for (const [at, frame] of frames.entries()) {
        const without = frames.toSpliced(at, 1).join("\n\n");
        if (!deltas.test(frame))
          expect([frame, check(`${without}\n\n`).length > 0]).toEqual([frame, true]);
        const swapped = frames
          .toSpliced(at, 2, ...frames.slice(at, at + 2).toReversed())
          .join("\n\n");
        if (at + 1 < frames.length && !deltas.test(frame) && !deltas.test(frames[at + 1] ?? ""))
          expect([frame, check(`${swapped}\n\n`).length > 0]).toEqual([frame, true]);
      }
    });
  });
}
