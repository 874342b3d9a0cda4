// Two turns with tools and reasoning over every pair. The second turn sends back what the first returned, and the provider
// receives its own signatures and encrypted reasoning unchanged.

import { afterAll, describe, expect, test } from "bun:test";
import { sseEvents } from "../../packages/wires/test/stream-helpers.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import { googleClient } from "./support/google-client.ts";
import {
  type Api,
  APIS,
  callApi,
  CALLER_APIS,
  type Json,
  modelOn,
  minimalBody,
  recordedExchanges,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";
import { createSdkClients } from "./support/sdk-clients.ts";
import { signaturesIn } from "./support/signatures.ts";

const harness = await startHarness();
afterAll(async () => {
  await checkExchanges(harness, "two turns with tools and reasoning");
  await harness.stop();
});

const LOCATION_SCHEMA = {
  type: "object",
  properties: { place: { type: "string" } },
  required: ["place"],
  additionalProperties: false,
} as const;

for (const api of CALLER_APIS)
  for (const wire of WIRES)
    for (const method of ["complete", "stream"] as const)
      test(`${api} to ${wire} (${method})`, async () => {
        const prompt = {
          model: modelOn(wire),
          text: "[[sim: preamble reasoning=12]] use weather and clock, both",
          tools: { weather: LOCATION_SCHEMA, clock: LOCATION_SCHEMA },
          effort: "low",
        } as const;
        const client = api === "gemini" ? googleClient(harness) : createSdkClients(harness)[api];
        const first = await client[method](prompt);
        expect(first.finish).toBe("tool_calls");
        expect(first.calls.length).toBe(2);
        const before = harness.upstreamRequests.length;
        const second = await client[method]({
          ...prompt,
          previousReply: first,
          toolResults: ["rain", "noon"],
        });
        expect(second.finish).toBe("stop");
        expect(second.text).toContain("noon");
        const [sent, ...others] = harness.upstreamRequests.slice(before);
        expect(others).toEqual([]);
        const { calls, results, signatures } = turnsOf(wire, sent?.body ?? {});
        expect(calls.map((call) => call.name)).toEqual(first.calls.map((call) => call.name));
        expect(calls.map((call) => call.arguments)).toEqual(
          first.calls.map((call) => call.arguments),
        );
        expect(results).toEqual(["rain", "noon"]);
        // The provider gets its own signatures and encrypted reasoning back.
        const issued = signaturesIn(
          wire,
          (await harness.upstreamRequests[before - 1]?.reply) ?? "",
        );
        expect(signatures).toEqual(issued);
        expect(issued.length > 0).toBe(wire !== "chat");
        if (api === "gemini") return;
        await recordedExchanges();
        const dropped = harness.exchanges.at(-1)?.headers.get("x-postern-dropped") ?? "";
        // Gemini takes back signatures but not reasoning text; a plain chat server takes no reasoning back.
        if (wire !== "gemini" && wire !== "chat") expect(dropped).toBe("");
        else expect(dropped).toMatch(/^((messages|input)\[1\][^,]*|reasoning|thinking|, )*$/);
      });

describe("reasoning from another model", () => {
  for (const api of APIS)
    test(`over ${api} is dropped and listed`, async () => {
      const prompt = {
        model: modelOn("messages"),
        text: "[[sim: reasoning=12]] use weather",
        tools: { weather: LOCATION_SCHEMA },
        effort: "low",
      } as const;
      const client = createSdkClients(harness)[api];
      const first = await client.complete(prompt);
      for (const other of ["gemini", "converse", "responses", "chat"] as const) {
        const second = await client.complete({
          ...prompt,
          model: modelOn(other),
          previousReply: first,
          toolResults: ["rain"],
        });
        expect([other, second.text.includes("rain")]).toEqual([other, true]);
        await recordedExchanges();
        // Passthrough does not change the caller's request.
        if (other !== api)
          expect(harness.exchanges.at(-1)?.headers.get("x-postern-dropped")).toMatch(
            /^(messages|input)\[1\]/,
          );
      }
    });
});

const IMAGE_PARTS = [
  { text: "Here it is.", thoughtSignature: "dGV4dA==" },
  { inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" }, thoughtSignature: "aW1hZ2U=" },
];
const IMAGE_REPLY = {
  candidates: [{ content: { role: "model", parts: IMAGE_PARTS }, finishReason: "STOP" }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 3, totalTokenCount: 6 },
};

/** The reply's messages or items, as a caller sends them back. */
async function generateImage(api: Api, isStream: boolean): Promise<readonly Json[]> {
  harness.providerResponse = () =>
    isStream
      ? new Response(`data: ${JSON.stringify(IMAGE_REPLY)}\n\n`, {
          headers: { "content-type": "text/event-stream" },
        })
      : Response.json(IMAGE_REPLY);
  const { json, text } = await callApi(
    harness,
    api,
    minimalBody(api, "gemini", "paint", isStream ? { stream: true } : {}),
  );
  harness.providerResponse = undefined;
  const events = isStream ? sseEvents(text).map(({ data }) => parsed(data)) : [];
  if (api === "responses") {
    const response = isStream ? (events.at(-1)?.["response"] as Json) : json;
    return response["output"] as readonly Json[];
  }
  if (api === "messages") return [{ role: "assistant", content: json["content"] }];
  const choices = isStream ? events.flatMap((event) => partsOf(event["choices"])) : [];
  if (!isStream) return partsOf(json["choices"]).map((choice) => choice["message"] as Json);
  const deltas = choices.map((choice) => choice["delta"] as Json);
  const collected = (field: string) => deltas.flatMap((delta) => partsOf(delta[field]));
  const content = deltas.map((delta) => (delta["content"] as string | undefined) ?? "").join("");
  const [images, details] = [collected("images"), collected("reasoning_details")];
  return [{ role: "assistant", content, images, reasoning_details: details }];
}

function parsed(data: string): Json {
  return data === "[DONE]" ? {} : (JSON.parse(data) as Json);
}

function followUpBody(api: Api, model: string, replyItems: readonly Json[], more: Json = {}): Json {
  const turns = [
    { role: "user", content: "paint" },
    ...replyItems,
    { role: "user", content: "make it bigger" },
  ];
  return api === "responses"
    ? { model, input: turns, ...more }
    : { model, messages: turns, max_tokens: 100, ...more };
}

describe("a signed image from Gemini", () => {
  for (const api of ["chat", "responses"] as const)
    for (const isStream of [false, true])
      test(`over ${api} is sent back with its signature and the text's${isStream ? " (stream)" : ""}`, async () => {
        const replyItems = await generateImage(api, isStream);
        const second = await callApi(
          harness,
          api,
          followUpBody(api, modelOn("gemini"), replyItems),
        );
        expect([second.status, second.headers.get("x-postern-dropped")]).toEqual([200, null]);
        const contents = harness.upstreamRequests.at(-1)?.body["contents"];
        expect(partsOf(contents)[1]).toEqual({ role: "model", parts: IMAGE_PARTS });
      });

  test("over messages is dropped, and the text's signature is sent back", async () => {
    const replyItems = await generateImage("messages", false);
    expect(harness.exchanges.at(-1)?.headers.get("x-postern-dropped")).toBe(
      "reply.content[2].image",
    );
    await callApi(harness, "messages", followUpBody("messages", modelOn("gemini"), replyItems));
    const contents = harness.upstreamRequests.at(-1)?.body["contents"];
    expect(partsOf(contents)[1]).toEqual({ role: "model", parts: IMAGE_PARTS.slice(0, 1) });
  });

  test("is sent to another model without its signature", async () => {
    const replyItems = await generateImage("chat", false);
    for (const wire of ["messages", "converse"] as const) {
      const second = await callApi(
        harness,
        "chat",
        followUpBody("chat", modelOn(wire), replyItems),
      );
      expect([wire, second.status]).toEqual([wire, 200]);
      expect(second.headers.get("x-postern-dropped")).toContain("messages[1].images[0]");
      expect(JSON.stringify(harness.upstreamRequests.at(-1)?.body)).not.toContain("aW1hZ2U=");
    }
  });
});

interface SentTurns {
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[];
  readonly results: readonly string[];
  /** Signatures and encrypted reasoning, in order. */
  readonly signatures: readonly string[];
}

type JsonParts = readonly Json[];
const partsOf = (value: unknown): JsonParts => (Array.isArray(value) ? (value as JsonParts) : []);

function turnsOf(wire: Wire, body: Json): SentTurns {
  const signatures = signaturesIn(wire, JSON.stringify(body));
  const calls: { name: string; arguments: unknown }[] = [];
  const results: string[] = [];
  const call = (name: unknown, args: unknown) =>
    calls.push({
      name: String(name),
      arguments: typeof args === "string" ? (JSON.parse(args) as unknown) : args,
    });
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (typeof value !== "object" || value === null) return;
    const part = value as Json;
    const fn = part["function"] as Json | undefined;
    if (part["type"] === "function_call") call(part["name"], part["arguments"]);
    else if (part["type"] === "function" && fn?.["arguments"] !== undefined)
      call(fn["name"], fn["arguments"]);
    else if (part["type"] === "tool_use") call(part["name"], part["input"]);
    if (part["toolUse"] !== undefined) {
      const use = part["toolUse"] as Json;
      call(use["name"], use["input"]);
    }
    if (part["functionCall"] !== undefined) {
      const use = part["functionCall"] as Json;
      call(use["name"], use["args"]);
    }
    if (part["type"] === "function_call_output") results.push(textOf(part["output"]));
    else if (part["role"] === "tool") results.push(textOf(part["content"]));
    else if (part["type"] === "tool_result") results.push(textOf(part["content"]));
    if (part["toolResult"] !== undefined)
      results.push(textOf((part["toolResult"] as Json)["content"]));
    if (part["functionResponse"] !== undefined)
      results.push(textOf((part["functionResponse"] as Json)["response"]));
    Object.values(part).forEach(visit);
  };
  visit(body["messages"] ?? body["input"] ?? body["contents"]);
  return { calls, results, signatures };
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  const [first] = partsOf(value);
  if (first !== undefined) return String(first["text"]);
  const { output, result } = value as Json;
  return String(output ?? result);
}
