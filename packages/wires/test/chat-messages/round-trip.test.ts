// Writing to a wire and reading back is the identity on what the wire can express.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import { canReplay } from "../../src/canonical/reasoning-blobs.ts";
import type { InboundWire, OutboundWire, Target } from "../../src/canonical/wire-interfaces.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import {
  collectReply,
  ORIGIN,
  readContext,
  readPieces,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";
import { validateChatStream } from "../validate-chat-stream.ts";
import { validateMessagesStream } from "../validate-messages-stream.ts";
import {
  assistantParts,
  cutEvents,
  replies,
  requests,
  stripPaths,
  type TestedWire,
} from "./chat-messages-arbitraries.ts";

const WIRES: Record<TestedWire, InboundWire & OutboundWire> = {
  chat: chatWire,
  messages: messagesWire,
};
const TARGET: Target = {
  ...ORIGIN,
  abilities: { cacheBreakpointField: "cache_control", reasoningField: "reasoning_content" },
};
const RUNS = { numRuns: runs(300) };

/** Usage is compared separately, in the API's own counts. */
const comparableReply = (reply: CanonicalReply) => stripPaths({ ...reply, usage: undefined });
const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

for (const name of ["chat", "messages"] as const) {
  const wire = WIRES[name];
  const validate = (text: string) =>
    name === "chat"
      ? validateChatStream(sseEvents(text), { usage: true })
      : validateMessagesStream(sseEvents(text));

  describe(name, () => {
    test("keeps requests unchanged, without losses", () => {
      fc.assert(
        fc.property(requests(name), (request) => {
          const { body, losses } = wire.writeRequest(request, TARGET);
          expect(losses).toEqual([]);
          // Usage is always requested.
          const back = { ...wire.readRequest(jsonRoundTrip(body)), includeUsage: undefined };
          expect(stripPaths(back)).toEqual(stripPaths(request));
        }),
        RUNS,
      );
    });

    test("keeps replies unchanged", () => {
      fc.assert(
        fc.property(replies(name), (reply) => {
          const { body, losses } = wire.writeReply(reply, writeContext());
          expect(losses).toEqual([]);
          const back = wire.readReply(jsonRoundTrip(body), readContext(name));
          expect(comparableReply(back)).toEqual(comparableReply(reply));
          expect(wire.writeReply(back, writeContext()).body["usage"]).toEqual(body["usage"]);
        }),
        RUNS,
      );
    });

    test("keeps streams unchanged, writes valid ones, and reads them in chunks of any size", () => {
      const streams = replies(name).chain((reply) =>
        fc.tuple(
          fc.constant(reply),
          cutEvents(reply),
          fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
        ),
      );
      fc.assert(
        fc.property(streams, ([reply, events, sizes]) => {
          const text = writeEvents(wire, events, writeContext());
          expect(validate(text)).toEqual([]);
          const bytes = new TextEncoder().encode(text);
          const pieces: Uint8Array[] = [];
          for (let at = 0; at < bytes.length;) {
            const size = Number(sizes.next().value);
            pieces.push(bytes.subarray(at, at + size));
            at += size;
          }
          const read = readPieces(wire.createStreamReader(readContext(name)), pieces);
          expect(validateCanonicalStream(read)).toEqual([]);
          expect(comparableReply(collectReply(read))).toEqual(comparableReply(reply));
        }),
        RUNS,
      );
    });

    test("returns another provider's reasoning to that provider only", () => {
      const foreign = name === "chat" ? "messages" : "chat";
      fc.assert(
        fc.property(assistantParts(foreign, false), (parts) => {
          const made = parts.map((part) =>
            part.type === "reasoning" && part.blob !== undefined
              ? { ...part, blob: { ...part.blob, origin: ORIGIN } }
              : part,
          );
          const reply: CanonicalReply = { choices: [{ parts: made, finish: { reason: "stop" } }] };
          const body = jsonRoundTrip(wire.writeReply(reply, writeContext()).body) as {
            choices?: { message: unknown }[];
            content?: unknown;
          };
          const message =
            name === "chat"
              ? body.choices?.[0]?.message
              : { role: "assistant", content: body.content };
          const results = parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : []));
          const answers =
            name === "chat"
              ? results.map((id) => ({ role: "tool", tool_call_id: id, content: "x" }))
              : [
                  {
                    role: "user",
                    content: [
                      ...results.map((id) => ({ type: "tool_result", tool_use_id: id })),
                      { type: "text", text: "go on" },
                    ],
                  },
                ];
          const request = wire.readRequest({
            model: "m",
            messages: [{ role: "user", content: "hi" }, message, ...answers],
          });
          const replayable = (list: readonly { type: string }[]) =>
            list.filter((part) => part.type === "reasoning");
          const turn = request.turns.find((one) => one.role === "assistant");
          expect(
            JSON.parse(
              JSON.stringify(replayable(turn?.parts ?? []), (key, value: unknown) =>
                key === "path" || key === "strictPath" ? undefined : value,
              ),
            ),
          ).toEqual(jsonRoundTrip(replayable(made)));
          for (const part of turn?.parts ?? []) {
            if (part.type !== "reasoning" || part.blob === undefined) continue;
            expect(canReplay(part.blob, foreign, ORIGIN)).toBe(true);
            expect(canReplay(part.blob, foreign, { ...ORIGIN, model: "other" })).toBe(false);
            expect(canReplay(part.blob, name, ORIGIN)).toBe(false);
          }
        }),
        RUNS,
      );
    });
  });
}
