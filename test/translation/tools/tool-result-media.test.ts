// Images in tool results, as Claude Code sends them after it has read one. Tool messages of Chat Completions have only text,
// so there the image follows in a user message.

import { afterAll, expect, test } from "bun:test";
import { chatWire, messagesWire } from "@postern/wires";
import { callApi, type Json, modelOn, startHarness, WIRES } from "../support/harness.ts";

const DATA =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
const IMAGE = { type: "image", source: { type: "base64", media_type: "image/png", data: DATA } };
const TOOLS = [{ name: "Read", input_schema: { type: "object", properties: {} } }];
const resultOf = (id: string, content: readonly Json[]): Json => ({
  type: "tool_result",
  tool_use_id: id,
  content,
});
const BODY = {
  max_tokens: 100,
  tools: TOOLS,
  messages: [
    { role: "user", content: "Read both." },
    {
      role: "assistant",
      content: ["toolu_1", "toolu_2"].map((id) => ({
        type: "tool_use",
        id,
        name: "Read",
        input: {},
      })),
    },
    {
      role: "user",
      content: [
        resultOf("toolu_1", [IMAGE]),
        resultOf("toolu_2", [{ type: "text", text: "a page" }, IMAGE]),
        { type: "text", text: "What do you see?" },
      ],
    },
  ],
};

const harness = await startHarness();
afterAll(() => harness.stop());

for (const wire of WIRES)
  test(`reach ${wire}`, async () => {
    const { status, text } = await callApi(harness, "messages", { ...BODY, model: modelOn(wire) });
    expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
    const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
    expect(sent.split(DATA).length - 1).toBe(2);
  });

test("follow all results on Chat Completions, each with the name of its tool", () => {
  const request = messagesWire.readRequest({ ...BODY, model: "m" });
  const { body, losses } = chatWire.writeRequest(request, { provider: "openai", model: "m" });
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${DATA}` } };
  const label = { type: "text", text: "Result of Read:" };
  expect(losses).toEqual([]);
  expect(JSON.parse(JSON.stringify(body["messages"])).slice(2)).toEqual([
    { role: "tool", tool_call_id: "toolu_1", content: "The result is in the next message." },
    { role: "tool", tool_call_id: "toolu_2", content: [{ type: "text", text: "a page" }] },
    { role: "user", content: [label, image, label, image] },
    { role: "user", content: "What do you see?" },
  ]);
});

test("are refused by a provider that takes no user message after a result", () => {
  const request = messagesWire.readRequest({ ...BODY, model: "m" });
  const abilities = { userAfterTool: false };
  const { losses } = chatWire.writeRequest(request, { provider: "mistral", model: "m", abilities });
  expect(losses.map(({ path }) => path)).toEqual([
    "messages[2].content[0].content[0]",
    "messages[2].content[1].content[1]",
  ]);
});
