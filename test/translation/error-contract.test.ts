// A provider's error reads the same before a stream and within it, on every API and whatever the provider's wire.

import { afterAll, describe, expect, test } from "bun:test";
import { encodeFrame } from "../../packages/wires/test/converse/encode-converse-frames.ts";
import { isObject, type JsonObject } from "../../src/base/json.ts";
import {
  type Api,
  APIS,
  callApi,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";

interface Overload {
  readonly status: number;
  readonly body: JsonObject;
  /** A stream that has begun, and the error event in it. */
  readonly stream: readonly (string | Uint8Array)[];
  readonly providerCode: string;
}

const MESSAGE = "Too busy.";
const OPENAI_ERROR = { message: MESSAGE, type: "server_error", code: "overloaded", param: null };
const MESSAGES_ERROR = { type: "error", error: { type: "overloaded_error", message: MESSAGE } };
const GEMINI_ERROR = { error: { code: 503, message: MESSAGE, status: "UNAVAILABLE" } };

const OVERLOADS: Readonly<Record<Wire, Overload>> = {
  chat: {
    status: 503,
    body: { error: OPENAI_ERROR },
    providerCode: "overloaded",
    stream: [
      sse({
        id: "c",
        object: "chat.completion.chunk",
        created: 1,
        model: "m",
        choices: [{ index: 0, delta: { role: "assistant", content: "Hi" }, finish_reason: null }],
      }),
      sse({ error: OPENAI_ERROR }),
    ],
  },
  responses: {
    status: 503,
    body: { error: OPENAI_ERROR },
    providerCode: "overloaded",
    stream: [
      sse({
        type: "response.created",
        sequence_number: 0,
        response: { id: "resp_1", object: "response", status: "in_progress", output: [] },
      }),
      sse({ ...OPENAI_ERROR, type: "error", sequence_number: 1, error: OPENAI_ERROR }, "error"),
    ],
  },
  messages: {
    status: 529,
    body: MESSAGES_ERROR,
    providerCode: "overloaded_error",
    stream: [
      sse(
        {
          type: "message_start",
          message: {
            id: "msg_1",
            type: "message",
            role: "assistant",
            model: "m",
            content: [],
            usage: { input_tokens: 1, output_tokens: 0 },
          },
        },
        "message_start",
      ),
      sse(MESSAGES_ERROR, "error"),
    ],
  },
  gemini: {
    status: 503,
    body: GEMINI_ERROR,
    providerCode: "UNAVAILABLE",
    stream: [
      sse({ candidates: [{ index: 0, content: { role: "model", parts: [{ text: "Hi" }] } }] }),
      sse(GEMINI_ERROR),
    ],
  },
  converse: {
    status: 503,
    body: { message: MESSAGE, code: "serviceUnavailableException" },
    providerCode: "serviceUnavailableException",
    stream: [
      encodeFrame({ name: "messageStart", data: JSON.stringify({ role: "assistant" }) }),
      encodeFrame(
        { name: "serviceUnavailableException", data: JSON.stringify({ message: MESSAGE }) },
        "exception",
      ),
    ],
  },
};

const harness = await startHarness();
afterAll(() => harness.stop());

for (const api of APIS) {
  describe(`an overloaded provider, called over ${api}`, () => {
    test.each([...WIRES])(
      "returns the same error before a stream and within it (%s)",
      async (wire) => {
        const { status, body, stream, providerCode } = OVERLOADS[wire];
        // On the provider's own API, its error stays as it is.
        const isOwn = api === wire;
        const expected = errorOn(api, {
          message: isOwn ? MESSAGE : `on-${wire}: ${MESSAGE}`,
          ...(isOwn && api !== "messages" ? { type: OPENAI_ERROR.type } : {}),
          code: "overloaded",
          retry_after_seconds: 5,
          provider: `on-${wire}`,
          provider_code: providerCode,
        });

        harness.providerResponse = () => Response.json(body, { status });
        const rejected = await callApi(
          harness,
          api,
          minimalBody(api, wire, "Hi", { stream: true }),
        );
        expect(rejected.status).toBe(status);
        expect(withoutProviderStatus(rejected.json)).toEqual(expected);

        harness.providerResponse = () =>
          new Response(Buffer.concat(stream.map((one) => Buffer.from(one))), {
            headers: {
              "content-type":
                wire === "converse" ? "application/vnd.amazon.eventstream" : "text/event-stream",
            },
          });
        const begun = await callApi(harness, api, minimalBody(api, wire, "Hi", { stream: true }));
        harness.providerResponse = undefined;
        expect(begun.status).toBe(200);
        expect(errorInStream(api, begun.text)).toEqual(expected);
      },
    );
  });
}

/** The whole body of an error of this API. */
function errorOn(api: Api, error: JsonObject): JsonObject {
  const requestId: unknown = expect.stringMatching(/^req_/);
  return api === "messages"
    ? { type: "error", error: { type: "overloaded_error", ...error }, request_id: requestId }
    : { error: { type: "overloaded_error", param: null, request_id: requestId, ...error } };
}

/** A stream's error has no status, and so none of the provider's. */
function withoutProviderStatus(body: JsonObject): JsonObject {
  const { error } = body;
  if (!isObject(error)) return body;
  const { provider_status: _status, ...others } = error;
  return { ...body, error: others };
}

/** The stream's error, in the form of a response's body. */
function errorInStream(api: Api, text: string): unknown {
  const events = [...text.matchAll(/^data: (\{.*\})$/gm)].map(
    ([, data = ""]) => JSON.parse(data) as JsonObject,
  );
  const event = events.at(-1) ?? {};
  if (api !== "responses") return event;
  // A response that had begun fails as a whole; its codes are from a list of OpenAI's own.
  if (event["type"] === "response.failed" && isObject(event["response"])) {
    const { error } = event["response"];
    return { error: { ...(isObject(error) ? error : {}), code: "overloaded" } };
  }
  return { error: event["error"] };
}

function sse(data: JsonObject, name?: string): string {
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}
