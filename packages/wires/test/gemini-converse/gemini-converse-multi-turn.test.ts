// Two turns over each API with Gemini and Converse. The second turn sends back what the first returned; only the same model
// gets its reasoning and signatures back.

import { describe, expect, test } from "bun:test";
import type { Part } from "../../src/canonical/canonical-parts.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { CanonicalRequest } from "../../src/canonical/canonical-request.ts";
import type { InboundWire, OutboundWire, Target } from "../../src/canonical/wire-interfaces.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import { responsesWire } from "../../src/responses/responses-wire.ts";
import type { ConverseBody } from "../converse/converse-types.ts";
import type { GeminiBody } from "../gemini/gemini-types.ts";
import { replyToEvents } from "../reply-to-events.ts";
import { writeContext } from "../stream-helpers.ts";
import { outboundContext } from "./gemini-converse-arbitraries.ts";

interface Body {
  readonly choices?: readonly { readonly message: unknown }[];
  readonly content?: unknown;
  readonly output?: readonly unknown[];
  readonly candidates?: readonly { readonly content: unknown }[];
}

type Calls = readonly { readonly id: string; readonly name: string }[];

/** The second request of a caller of each API: the first reply and the tool results. */
const INBOUND_APIS: readonly (readonly [InboundWire, (body: Body, calls: Calls) => unknown])[] = [
  [
    chatWire,
    ({ choices = [] }, calls) => ({
      model: "m",
      messages: [
        { role: "user", content: "Weather?" },
        choices[0]?.message,
        ...calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "rain" })),
      ],
    }),
  ],
  [
    messagesWire,
    ({ content }, calls) => ({
      model: "m",
      max_tokens: 99,
      messages: [
        { role: "user", content: "Weather?" },
        { role: "assistant", content },
        {
          role: "user",
          content: calls.map(({ id }) => ({
            type: "tool_result",
            tool_use_id: id,
            content: "rain",
          })),
        },
      ],
    }),
  ],
  [
    responsesWire,
    ({ output = [] }, calls) => ({
      model: "m",
      input: [
        { role: "user", content: "Weather?" },
        ...output,
        ...calls.map(({ id }) => ({ type: "function_call_output", call_id: id, output: "rain" })),
      ],
    }),
  ],
  [
    geminiWire,
    ({ candidates = [] }, calls) => ({
      model: "m",
      contents: [
        { role: "user", parts: [{ text: "Weather?" }] },
        candidates[0]?.content,
        {
          role: "user",
          parts: calls.map(({ id, name }) => ({
            functionResponse: { id, name, response: { output: "rain" } },
          })),
        },
      ],
    }),
  ],
];

const jsonRoundTrip = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

function secondTurn(
  [inbound, sendBack]: (typeof INBOUND_APIS)[number],
  reply: CanonicalReply,
): CanonicalRequest {
  const calls = (reply.choices[0]?.parts ?? []).filter((part) => part.type === "tool_call");
  // Google's API shows thoughts only to those who ask for them.
  const { body } = inbound.writeReply(reply, writeContext({ reasoning: { summary: "auto" } }));
  return inbound.readRequest(jsonRoundTrip(sendBack(jsonRoundTrip(body) as Body, calls)));
}

interface Case {
  readonly wire: OutboundWire;
  readonly target: Target;
  readonly body: unknown;
  readonly expectedReply: readonly unknown[];
  /** The assistant's turn in the provider's request. */
  readonly sentAssistantTurn: (request: CanonicalRequest, target: Target) => readonly unknown[];
}

const thoughtPart = { text: "Look it up.", thought: true, thoughtSignature: "dGhvdWdodA==" };
const functionCall = { id: "a1", name: "weather", args: { at: "Oslo" } };
const gemini: Case = {
  wire: geminiWire,
  target: { provider: "google", model: "gemini-3-flash" },
  expectedReply: [
    thoughtPart,
    { functionCall, thoughtSignature: "Y2FsbA==" },
    { functionCall: { name: "weather", args: { at: "Bern" } } },
  ],
  get body() {
    return {
      responseId: "r1",
      candidates: [{ content: { role: "model", parts: this.expectedReply }, finishReason: "STOP" }],
    };
  },
  sentAssistantTurn: (request, target) => {
    const { body } = geminiWire.writeRequest(request, target);
    return (jsonRoundTrip(body) as GeminiBody).contents[1]?.parts ?? [];
  },
};
const converse: Case = {
  wire: converseWire,
  target: { provider: "bedrock", model: "us.anthropic.claude-haiku-4-5-20251001-v1:0" },
  expectedReply: [
    { reasoningContent: { reasoningText: { text: "Look it up.", signature: "c2ln" } } },
    { reasoningContent: { redactedContent: "cmVk" } },
    { text: "One moment." },
    { toolUse: { toolUseId: "tooluse_1", name: "weather", input: { at: "Oslo" } } },
    { toolUse: { toolUseId: "tooluse_2", name: "weather", input: { at: "Bern" } } },
  ],
  get body() {
    return {
      output: { message: { role: "assistant", content: this.expectedReply } },
      stopReason: "tool_use",
    };
  },
  sentAssistantTurn: (request, target) => {
    const { body } = converseWire.writeRequest(request, target);
    return (jsonRoundTrip(body) as ConverseBody).messages[1]?.content ?? [];
  },
};

const blobsIn = (parts: readonly unknown[]) =>
  JSON.stringify(parts).match(/c2ln|cmVk|Y2FsbA==|dGhvdWdodA==/g);

for (const testCase of [gemini, converse]) {
  const { wire, target, body, expectedReply, sentAssistantTurn } = testCase;
  const context = {
    ...outboundContext(wire.name === "gemini" ? "gemini" : "converse"),
    origin: target,
  };
  const reply = wire.readReply(body, context);
  describe(wire.name, () => {
    for (const caller of INBOUND_APIS) {
      test(`gets its signatures and calls back from a ${caller[0].name} caller`, () => {
        expect(sentAssistantTurn(secondTurn(caller, reply), target)).toEqual(expectedReply);
      });

      test(`sends no signatures to another model for a ${caller[0].name} caller`, () => {
        const other = { ...target, model: `${target.model}-2` };
        const parts = sentAssistantTurn(secondTurn(caller, reply), other);
        expect(blobsIn(parts)).toBeNull();
        expect(parts.length).toBeGreaterThanOrEqual(2);
      });

      test(`streams the reply to a ${caller[0].name} caller`, () => {
        const writer = caller[0].createStreamWriter(writeContext());
        let text = "";
        for (const event of replyToEvents(reply)) text += writer.push(event);
        text += writer.end();
        expect(text.length).toBeGreaterThan(100);
        const names =
          reply.choices[0]?.parts.filter((part: Part) => part.type === "tool_call") ?? [];
        for (const { id } of names) expect(text).toContain(id);
      });
    }
  });
}
