// Validates Postern's output against OpenAI's OpenAPI description and the Open Responses specification.

import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import { skipUnless } from "../../../../test/support/skip.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { CanonicalRequest } from "../../src/canonical/canonical-request.ts";
import { responsesWire } from "../../src/responses/responses-wire.ts";
import { ORIGIN, sseEvents, writeContext, writeEvents } from "../stream-helpers.ts";
import { cutEvents, replies, requests } from "./responses-arbitraries.ts";

const SPECS = resolve(
  import.meta.dir,
  "..",
  "..",
  "..",
  process.env["POSTERN_SPECS"] ?? join("..", "shared", "specs"),
);
const OPENAI = join(SPECS, "openai-openapi.2026-08-21.json");
const OPEN_RESPONSES = join(SPECS, "openresponses", "2026-04-24", "openapi.json");
const isSpecMissing = skipUnless(
  existsSync(OPENAI) && existsSync(OPEN_RESPONSES),
  "conformance to published OpenAPI documents: none found (set POSTERN_SPECS to their folder)",
);

type Validator = (schema: string, value: unknown) => readonly string[];

function validatorOf(file: string): Validator {
  const ajv = new Ajv2020({
    strict: false,
    validateFormats: false,
    logger: false,
    allErrors: false,
    // Optimizing the validators takes longer than it saves.
    code: { optimize: false },
  });
  // The alternatives of an input item overlap, so a message never matches exactly one.
  const text = readFileSync(file, "utf8").replaceAll('"oneOf":', '"anyOf":');
  const { components } = JSON.parse(text) as { components: object };
  ajv.addSchema({ $id: "spec", components });
  return (schema, value) => {
    const validate = ajv.getSchema(`spec#/components/schemas/${schema}`);
    if (validate === undefined) return [`no schema ${schema}`];
    if (validate(value) === true) return [];
    return (validate.errors ?? []).map(
      (error) => `${schema}${error.instancePath} ${error.message}`,
    );
  };
}

const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

// The Open Responses specification has only function tools, and narrower ranges.
const plainReply = (reply: CanonicalReply): boolean =>
  reply.choices.every(({ parts }) =>
    parts.every(
      (part) =>
        part.type !== "native" &&
        part.type !== "image" &&
        !(part.type === "tool_call" && part.custom === true) &&
        !(part.type === "text" && part.citations?.some((one) => one.native !== undefined)),
    ),
  );
const plainRequest = ({
  tools = [],
  toolChoice,
  reasoning,
  native,
  output,
}: CanonicalRequest): boolean =>
  tools.every((tool) => tool.type === "function") &&
  toolChoice?.type !== "native" &&
  !["minimal", "max"].includes(reasoning?.effort ?? "") &&
  native === undefined &&
  output?.type !== "json_schema"; // There its schema must be null, by a mistake.

// The description requires ids on output items in the input. The API accepts items without, and an id would refer to an item
// that the provider did not store.
function withIds(body: unknown): unknown {
  return JSON.parse(
    JSON.stringify(body, (_, inner: unknown) => {
      if (typeof inner !== "object" || inner === null) return inner;
      if ("type" in inner && inner.type === "reasoning") return { id: "rs_1", ...inner };
      if ("role" in inner && "content" in inner && inner.role === "assistant")
        return typeof inner.content === "string"
          ? inner
          : { id: "msg_1", status: "completed", ...inner };
      return inner;
    }),
  );
}

// OpenAI's description forbids these nulls, which OpenAI sends and the Open Responses specification requires.
const NULLS = new Set(["usage", "description"]);
const withoutNulls = (body: unknown): unknown =>
  JSON.parse(
    JSON.stringify(body, (key, inner: unknown) =>
      NULLS.has(key) && inner === null ? undefined : inner,
    ),
  );

const requestAndReply = fc.record({ request: requests, reply: replies });
const RUNS = { numRuns: runs(150) };

describe.skipIf(isSpecMissing)("published API descriptions", () => {
  const openai = isSpecMissing ? () => [] : validatorOf(OPENAI);
  const open = isSpecMissing ? () => [] : validatorOf(OPEN_RESPONSES);

  test("accept written requests", () => {
    fc.assert(
      fc.property(requests, (request) => {
        const { body } = responsesWire.writeRequest(request, {
          ...ORIGIN,
          abilities: { reasoning: "effort" },
        });
        expect(openai("CreateResponse", withIds(jsonRoundTrip(body)))).toEqual([]);
      }),
      RUNS,
    );
  });

  test("accept written responses", () => {
    fc.assert(
      fc.property(requestAndReply, ({ request, reply }) => {
        const body = jsonRoundTrip(responsesWire.writeReply(reply, writeContext(request)).body);
        expect(openai("Response", withoutNulls(body))).toEqual([]);
        if (plainReply(reply) && plainRequest(request))
          expect(open("ResponseResource", body)).toEqual([]);
      }),
      RUNS,
    );
  });

  test("accept written events", () => {
    const streams = requestAndReply.chain(({ request, reply }) =>
      fc.record({
        request: fc.constant(request),
        reply: fc.constant(reply),
        events: cutEvents(reply),
      }),
    );
    fc.assert(
      fc.property(streams, ({ request, reply, events }) => {
        const text = writeEvents(responsesWire, events, writeContext(request));
        for (const { name, data } of sseEvents(text)) {
          const event: unknown = JSON.parse(data);
          expect([name, openai("ResponseStreamEvent", withoutNulls(event))]).toEqual([name, []]);
          const schema = OPEN_EVENTS.get(name);
          if (schema !== undefined && plainReply(reply) && plainRequest(request))
            expect([name, open(schema, event)]).toEqual([name, []]);
        }
      }),
      { numRuns: runs(60) },
    );
  });

  test("accept written errors", () => {
    const error = { code: "rate_limited", status: 429, message: "Slow down." } as const;
    const writer = responsesWire.createStreamWriter(writeContext());
    const [first] = sseEvents(writer.push({ type: "error", error }));
    const event: unknown = JSON.parse(first?.data ?? "{}");
    expect(openai("ResponseErrorEvent", event)).toEqual([]);
    expect(open("ErrorStreamingEvent", event)).toEqual([]);
    const begun = responsesWire.createStreamWriter(writeContext());
    const last = sseEvents(begun.push({ type: "start" }) + begun.push({ type: "error", error })).at(
      -1,
    );
    expect(openai("ResponseFailedEvent", withoutNulls(JSON.parse(last?.data ?? "{}")))).toEqual([]);
    expect(open("ResponseFailedStreamingEvent", JSON.parse(last?.data ?? "{}"))).toEqual([]);
  });
});

const OPEN_EVENTS: ReadonlyMap<string, string> = new Map([
  ["response.created", "ResponseCreatedStreamingEvent"],
  ["response.in_progress", "ResponseInProgressStreamingEvent"],
  ["response.completed", "ResponseCompletedStreamingEvent"],
  ["response.incomplete", "ResponseIncompleteStreamingEvent"],
  ["response.output_item.added", "ResponseOutputItemAddedStreamingEvent"],
  ["response.output_item.done", "ResponseOutputItemDoneStreamingEvent"],
  ["response.content_part.added", "ResponseContentPartAddedStreamingEvent"],
  ["response.content_part.done", "ResponseContentPartDoneStreamingEvent"],
  ["response.output_text.delta", "ResponseOutputTextDeltaStreamingEvent"],
  ["response.output_text.done", "ResponseOutputTextDoneStreamingEvent"],
  ["response.output_text.annotation.added", "ResponseOutputTextAnnotationAddedStreamingEvent"],
  ["response.refusal.delta", "ResponseRefusalDeltaStreamingEvent"],
  ["response.refusal.done", "ResponseRefusalDoneStreamingEvent"],
  ["response.function_call_arguments.delta", "ResponseFunctionCallArgumentsDeltaStreamingEvent"],
  ["response.function_call_arguments.done", "ResponseFunctionCallArgumentsDoneStreamingEvent"],
  ["response.reasoning_summary_part.added", "ResponseReasoningSummaryPartAddedStreamingEvent"],
  ["response.reasoning_summary_part.done", "ResponseReasoningSummaryPartDoneStreamingEvent"],
  ["response.reasoning_summary_text.delta", "ResponseReasoningSummaryDeltaStreamingEvent"],
  ["response.reasoning_summary_text.done", "ResponseReasoningSummaryDoneStreamingEvent"],
]);
