// A provider's stream that closes after any of its events: the caller's stream ends whole where nothing of the answer can
// be missing, and with the API's own error event everywhere else, at no cost where no usage came.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createSimulator } from "../../src/simulator/simulator.ts";
import { integer } from "../../src/store/db.ts";
import { isCompleteStream, usageRecordOf } from "../inference/support/harness.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import {
  APIS,
  callApi,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
  type Harness,
} from "./support/harness.ts";

let harness: Harness;

beforeAll(async () => {
  harness = await startHarness();
});
afterAll(async () => {
  await checkExchanges(harness, "streams cut after every event");
  await harness.stop();
});

const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
const TEXT = "[[sim: chunks=4 reasoning=2]] one two three four";
/** How many of the last events may be missing: the end alone, where usage came before it. */
const TRAILING_EVENTS: Readonly<Record<Wire, number>> = {
  chat: 1,
  responses: 0,
  messages: 1,
  gemini: 0,
  converse: 0,
};

/** The events of a whole answer, as the bytes that each is. */
async function eventsOf(request: Request): Promise<readonly Uint8Array[]> {
  const response = await simulator.fetch(request);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const isFrames = response.headers.get("content-type")?.includes("amazon") === true;
  const events: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = isFrames
      ? new DataView(bytes.buffer).getUint32(at)
      : /\r?\n\r?\n/.exec(new TextDecoder("latin1").decode(bytes.subarray(at)));
    const end =
      typeof length === "number"
        ? at + length
        : at + (length?.index ?? 0) + (length?.[0].length ?? 1);
    events.push(bytes.subarray(at, end));
    at = end;
  }
  return events;
}

/** Answers with the first events of what the simulator would say; how many it would have been comes back. */
function respondTruncated(
  maxEvents: number,
  seen: { events: number },
): (request: Request) => Response {
  return (request) => {
    const isFrames = request.url.endsWith("converse-stream");
    const body = new ReadableStream<Uint8Array>({
      start: async (controller) => {
        const events = await eventsOf(request);
        seen.events = events.length;
        for (const event of events.slice(0, maxEvents)) controller.enqueue(event);
        controller.close();
      },
    });
    const type = isFrames ? "application/vnd.amazon.eventstream" : "text/event-stream";
    return new Response(body, { headers: { "content-type": type } });
  };
}

for (const api of APIS)
  for (const wire of WIRES)
    describe(`${api} to ${wire}`, () => {
      test("ends a truncated stream with an error at no cost", async () => {
        const told = { events: Infinity };
        for (let most = 1; most <= told.events; most++) {
          harness.providerResponse = respondTruncated(most, told);
          const { status, text, headers } = await callApi(
            harness,
            api,
            minimalBody(api, wire, TEXT, { stream: true }),
          );
          const isWhole = most >= told.events - TRAILING_EVENTS[wire];
          const record = await usageRecordOf(
            harness.gateway.server.db,
            headers.get("x-request-id"),
          );
          expect([most, status, isCompleteStream(api, text), record["outcome"]]).toEqual([
            most,
            200,
            isWhole,
            isWhole ? "completed" : "upstream_error",
          ]);
          expect([most, integer(record, "cost_nano") > 0]).toEqual([most, isWhole]);
          if (!isWhole)
            expect([most, text.includes('"code":"upstream_error"')]).toEqual([most, true]);
        }
        harness.providerResponse = undefined;
        expect(told.events).toBeGreaterThanOrEqual(5);
      });
    });

describe("gemini with two candidates", () => {
  const said = (index: number, text: string, finishReason?: string) => ({
    candidates: [{ index, content: { role: "model", parts: [{ text }] }, finishReason }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 },
  });
  const EVENTS = [said(0, "one"), said(1, "two"), said(0, "!", "STOP"), said(1, "!", "STOP")];

  test("ends a stream with an unfinished candidate with an error at no cost", async () => {
    for (const api of APIS)
      for (let most = 1; most <= EVENTS.length; most++) {
        const text = EVENTS.slice(0, most).map((event) => `data: ${JSON.stringify(event)}\n\n`);
        harness.providerResponse = () =>
          new Response(text.join(""), { headers: { "content-type": "text/event-stream" } });
        const asked = { stream: true, ...(api === "chat" ? { n: 2 } : {}) };
        const answer = await callApi(harness, api, minimalBody(api, "gemini", TEXT, asked));
        harness.providerResponse = undefined;
        const record = await usageRecordOf(
          harness.gateway.server.db,
          answer.headers.get("x-request-id"),
        );
        const isWhole = most === EVENTS.length;
        expect([
          api,
          most,
          isCompleteStream(api, answer.text),
          answer.text.includes('"code":"upstream_error"'),
          record["outcome"],
          integer(record, "cost_nano") > 0,
        ]).toEqual([
          api,
          most,
          isWhole,
          !isWhole,
          isWhole ? "completed" : "upstream_error",
          isWhole,
        ]);
      }
  });
});
