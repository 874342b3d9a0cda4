// Provider streams that close after any of their events. The caller's stream ends normally only if nothing can be missing;
// otherwise it ends with the API's error event, at no cost.

import { afterAll, describe, expect, test } from "bun:test";
import { createSimulator } from "@postern/simulator";
import { integer } from "../../src/store/db.ts";
import { isCompleteStream, usageRecordOf } from "../inference/support/harness.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import { APIS, callApi, minimalBody, startHarness, type Wire, WIRES } from "./support/harness.ts";

const harness = await startHarness();
afterAll(async () => {
  await checkExchanges(harness, "streams cut after every event");
  await harness.stop();
});

const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
const TEXT = "[[sim: chunks=4 reasoning=2]] one two three four";
/** The number of last events that may be missing: only the terminal event, if usage comes before it. */
const TRAILING_EVENTS: Readonly<Record<Wire, number>> = {
  chat: 1,
  responses: 0,
  messages: 1,
  gemini: 0,
  converse: 0,
};

/** The events of a complete reply, each as bytes. */
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

/** Replies with the first events of the simulator's reply. Sets `complete.events` to the number of all events. */
function respondTruncated(
  maxEvents: number,
  complete: { events: number },
): (request: Request) => Response {
  return (request) => {
    const isFrames = request.url.endsWith("converse-stream");
    const body = new ReadableStream<Uint8Array>({
      start: async (controller) => {
        const events = await eventsOf(request);
        complete.events = events.length;
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
        const complete = { events: Infinity };
        for (let maxEvents = 1; maxEvents <= complete.events; maxEvents++) {
          harness.providerResponse = respondTruncated(maxEvents, complete);
          const { status, text, headers } = await callApi(
            harness,
            api,
            minimalBody(api, wire, TEXT, { stream: true }),
          );
          const isComplete = maxEvents >= complete.events - TRAILING_EVENTS[wire];
          const record = await usageRecordOf(
            harness.gateway.server.db,
            headers.get("x-request-id"),
          );
          expect([maxEvents, status, isCompleteStream(api, text), record["outcome"]]).toEqual([
            maxEvents,
            200,
            isComplete,
            isComplete ? "completed" : "upstream_error",
          ]);
          expect([maxEvents, integer(record, "cost_nano") > 0]).toEqual([maxEvents, isComplete]);
          if (!isComplete)
            expect([maxEvents, text.includes('"code":"upstream_error"')]).toEqual([
              maxEvents,
              true,
            ]);
        }
        harness.providerResponse = undefined;
        expect(complete.events).toBeGreaterThanOrEqual(5);
      });
    });

describe("gemini with two candidates", () => {
  const chunk = (index: number, text: string, finishReason?: string) => ({
    candidates: [{ index, content: { role: "model", parts: [{ text }] }, finishReason }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 },
  });
  const EVENTS = [chunk(0, "one"), chunk(1, "two"), chunk(0, "!", "STOP"), chunk(1, "!", "STOP")];

  test("ends a stream with an unfinished candidate with an error at no cost", async () => {
    for (const api of APIS)
      for (let maxEvents = 1; maxEvents <= EVENTS.length; maxEvents++) {
        const text = EVENTS.slice(0, maxEvents).map(
          (event) => `data: ${JSON.stringify(event)}\n\n`,
        );
        harness.providerResponse = () =>
          new Response(text.join(""), { headers: { "content-type": "text/event-stream" } });
        const fields = { stream: true, ...(api === "chat" ? { n: 2 } : {}) };
        const response = await callApi(harness, api, minimalBody(api, "gemini", TEXT, fields));
        harness.providerResponse = undefined;
        const record = await usageRecordOf(
          harness.gateway.server.db,
          response.headers.get("x-request-id"),
        );
        const isComplete = maxEvents === EVENTS.length;
        expect([
          api,
          maxEvents,
          isCompleteStream(api, response.text),
          response.text.includes('"code":"upstream_error"'),
          record["outcome"],
          integer(record, "cost_nano") > 0,
        ]).toEqual([
          api,
          maxEvents,
          isComplete,
          !isComplete,
          isComplete ? "completed" : "upstream_error",
          isComplete,
        ]);
      }
  });
});
