// Clients of the Messages API show the last content block. Over Gemini, whose signature of a text comes after it, that block
// must be the text, and the signature must still return to Gemini.

import { afterAll, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { modelOn, startHarness } from "./support/harness.ts";

const harness = await startHarness();
const client = new Anthropic({
  apiKey: harness.account.key,
  baseURL: harness.gateway.url,
  maxRetries: 0,
});
afterAll(() => {
  harness.providerResponse = undefined;
  return harness.stop();
});

type GeminiPart = Readonly<Record<string, unknown>>;

const SIGNED = { text: "", thoughtSignature: "c2lnbmF0dXJl" };
const REPLIES: readonly (readonly [title: string, chunks: readonly GeminiPart[][]])[] = [
  ["a signature after the text", [[{ text: "It is " }], [{ text: "sunny." }], [SIGNED]]],
  [
    "a summary of the reasoning, and a signature after the text",
    [[{ text: "Hm.", thought: true }], [{ text: "It is sunny." }], [SIGNED]],
  ],
  ["a signature with the end of the text", [[{ text: "It is sunny.", ...signatureOf() }]]],
  ["no signature", [[{ text: "It is " }], [{ text: "sunny." }]]],
];

function signatureOf(): GeminiPart {
  return { thoughtSignature: SIGNED.thoughtSignature };
}

for (const [title, chunks] of REPLIES)
  test(`a stream with ${title} ends with the text`, async () => {
    harness.providerResponse = () => geminiStream(chunks);
    const question: Anthropic.MessageParam = { role: "user", content: "How is the weather?" };
    const body = { model: modelOn("gemini"), max_tokens: 100 };
    const shown: string[] = [];
    const endedTypes: string[] = [];
    const stream = client.messages.stream({ ...body, messages: [question] });
    const blockTypes = new Map<number, string>();
    stream.on("text", (_delta, snapshot) => shown.push(snapshot));
    stream.on("streamEvent", (event) => {
      if (event.type === "content_block_start")
        blockTypes.set(event.index, event.content_block.type);
      // Claude Code shows each block at its end, and prints the one that ended last.
      if (event.type === "content_block_stop")
        endedTypes.push(blockTypes.get(event.index) ?? "unknown");
    });
    const message = await stream.finalMessage();
    expect(message.content.at(-1)).toMatchObject({ type: "text", text: "It is sunny." });
    expect([endedTypes.at(-1), shown.at(-1)]).toEqual(["text", "It is sunny."]);

    const { content } = message;
    const messages = [question, { role: "assistant" as const, content }, question];
    harness.providerResponse = () => geminiStream([[{ text: "Still sunny." }]]);
    const next = client.messages.stream({ ...body, messages });
    const second = await next.finalMessage();
    expect(second.content.at(-1)).toMatchObject({ type: "text", text: "Still sunny." });
    const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body["contents"]);
    const isSigned = chunks.some((parts) => parts.some((part) => "thoughtSignature" in part));
    expect(sent).toContain(
      JSON.stringify({ text: "It is sunny.", ...(isSigned ? signatureOf() : {}) }),
    );
    expect((await next.withResponse()).response.headers.get("x-postern-dropped")).toBe(
      title.startsWith("a summary") ? "messages[1].content[0]" : null,
    );
  });

function geminiStream(chunks: readonly (readonly GeminiPart[])[]): Response {
  const events = chunks.map((parts, index) => ({
    candidates: [
      {
        index: 0,
        content: { role: "model", parts },
        ...(index === chunks.length - 1 ? { finishReason: "STOP" } : {}),
      },
    ],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 4, totalTokenCount: 9 },
    modelVersion: "gemini-3.1-flash-echo",
    responseId: "r1",
  }));
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}
