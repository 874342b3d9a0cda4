// Two turns with tools and reasoning through every pair: the second turn carries what the first returned, and the provider
// gets back, byte for byte, what it alone can read.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createSdkClients } from "./support/sdk-clients.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import { sseEvents } from "../wires/stream-helpers.ts";
import {
  type Api,
  APIS,
  callApi,
  type Json,
  modelOn,
  minimalBody,
  recordedExchanges,
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
  await checkExchanges(harness, "two turns with tools and reasoning");
  await harness.stop();
});

const LOCATION_SCHEMA = {
  type: "object",
  properties: { place: { type: "string" } },
  required: ["place"],
  additionalProperties: false,
} as const;

for (const api of APIS)
  for (const wire of WIRES)
    for (const way of ["complete", "stream"] as const)
      test(`${api} to ${wire} (${way})`, async () => {
        const asked = {
          model: modelOn(wire),
          text: "[[sim: preamble reasoning=12]] use weather and clock, both",
          tools: { weather: LOCATION_SCHEMA, clock: LOCATION_SCHEMA },
          effort: "low",
        } as const;
        const client = createSdkClients(harness)[api];
        const first = await client[way](asked);
        expect(first.finish).toBe("tool_calls");
        expect(first.calls.length).toBe(2);
        const before = harness.upstreamRequests.length;
        const second = await client[way]({
          ...asked,
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
        // Where a provider signs or encrypts what it thought, it is given it back as it was.
        const given = signaturesIn(wire, (await harness.upstreamRequests[before - 1]?.reply) ?? "");
        expect(signatures).toEqual(given);
        expect(given.length > 0).toBe(wire !== "chat");
        await recordedExchanges();
        const dropped = harness.exchanges.at(-1)?.headers.get("x-postern-dropped") ?? "";
        // Google wants its signatures back and not the text; the text of an unknown chat server goes nowhere.
        if (wire !== "gemini" && wire !== "chat") expect(dropped).toBe("");
        else expect(dropped).toMatch(/^((messages|input)\[1\][^,]*|reasoning|thinking|, )*$/);
      });

describe("reasoning from another model", () => {
  for (const api of APIS)
    test(`over ${api} is dropped and listed`, async () => {
      const asked = {
        model: modelOn("messages"),
        text: "[[sim: reasoning=12]] use weather",
        tools: { weather: LOCATION_SCHEMA },
        effort: "low",
      } as const;
      const client = createSdkClients(harness)[api];
      const first = await client.complete(asked);
      for (const other of ["gemini", "converse", "responses", "chat"] as const) {
        const second = await client.complete({
          ...asked,
          model: modelOn(other),
          previousReply: first,
          toolResults: ["rain"],
        });
        expect([other, second.text.includes("rain")]).toEqual([other, true]);
        await recordedExchanges();
        // A same-wire relay leaves the caller's bytes as they are.
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

/** What the model said, as a caller keeps it and sends it back. */
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
    const whole = isStream ? (events.at(-1)?.["response"] as Json) : json;
    return whole["output"] as readonly Json[];
  }
  if (api === "messages") return [{ role: "assistant", content: json["content"] }];
  const choices = isStream ? events.flatMap((event) => partsOf(event["choices"])) : [];
  if (!isStream) return partsOf(json["choices"]).map((choice) => choice["message"] as Json);
  const deltas = choices.map((choice) => choice["delta"] as Json);
  const gathered = (field: string) => deltas.flatMap((delta) => partsOf(delta[field]));
  const content = deltas.map((delta) => (delta["content"] as string | undefined) ?? "").join("");
  const [images, details] = [gathered("images"), gathered("reasoning_details")];
  return [{ role: "assistant", content, images, reasoning_details: details }];
}

function parsed(data: string): Json {
  return data === "[DONE]" ? {} : (JSON.parse(data) as Json);
}

function followUpBody(api: Api, model: string, said: readonly Json[], more: Json = {}): Json {
  const turns = [
    { role: "user", content: "paint" },
    ...said,
    { role: "user", content: "make it bigger" },
  ];
  return api === "responses"
    ? { model, input: turns, ...more }
    : { model, messages: turns, max_tokens: 100, ...more };
}

describe("a signed image from Gemini", () => {
  for (const api of ["chat", "responses"] as const)
    for (const isStream of [false, true])
      test(`${api}: goes back with its signature, and so does the text${isStream ? " (stream)" : ""}`, async () => {
        const said = await generateImage(api, isStream);
        const second = await callApi(harness, api, followUpBody(api, modelOn("gemini"), said));
        expect([second.status, second.headers.get("x-postern-dropped")]).toEqual([200, null]);
        const contents = harness.upstreamRequests.at(-1)?.body["contents"];
        expect(partsOf(contents)[1]).toEqual({ role: "model", parts: IMAGE_PARTS });
      });

  test("over messages is dropped, and the text's signature is sent back", async () => {
    const said = await generateImage("messages", false);
    expect(harness.exchanges.at(-1)?.headers.get("x-postern-dropped")).toBe(
      "reply.content[2].image",
    );
    await callApi(harness, "messages", followUpBody("messages", modelOn("gemini"), said));
    const contents = harness.upstreamRequests.at(-1)?.body["contents"];
    expect(partsOf(contents)[1]).toEqual({ role: "model", parts: IMAGE_PARTS.slice(0, 1) });
  });

  test("is sent to another model without its signature", async () => {
    const said = await generateImage("chat", false);
    for (const wire of ["messages", "converse"] as const) {
      const second = await callApi(harness, "chat", followUpBody("chat", modelOn(wire), said));
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

const SIGNATURE_PATTERNS: Readonly<Record<Wire, RegExp>> = {
  chat: /$^/g,
  responses: /"encrypted_content":"([^"]+)"/g,
  messages: /"(?:signature|data)":"([^"]+)"/g,
  gemini: /"thoughtSignature":"([^"]+)"/g,
  converse: /"(?:signature|redactedContent)":"([^"]+)"/g,
};

function signaturesIn(wire: Wire, text: string): readonly string[] {
  const all = [...text.matchAll(SIGNATURE_PATTERNS[wire])].map((match) => match[1] ?? "");
  return [...new Set(all)];
}

type JsonParts = readonly Json[];
const partsOf = (value: unknown): JsonParts => (Array.isArray(value) ? (value as JsonParts) : []);

function turnsOf(wire: Wire, body: Json): SentTurns {
  const signatures = signaturesIn(wire, JSON.stringify(body));
  const calls: { name: string; arguments: unknown }[] = [];
  const results: string[] = [];
  const call = (name: unknown, held: unknown) =>
    calls.push({
      name: String(name),
      arguments: typeof held === "string" ? (JSON.parse(held) as unknown) : held,
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
