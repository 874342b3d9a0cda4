// A conversation that moves to another provider. Reasoning of the earlier one is sealed by this gateway, and the new provider
// would reject it.

import { afterAll, expect, test } from "bun:test";
import { encodeBlob } from "@postern/wires";
import { callApi, modelOn, startHarness } from "./support/harness.ts";

const harness = await startHarness();
afterAll(() => harness.stop());

const SEALED = encodeBlob(
  {
    wire: "gemini",
    kind: "signature",
    data: "c2lnbmF0dXJl",
    origin: { provider: "google", model: "gemini-3.1-pro" },
  },
  "messages",
);
const QUESTION = { role: "user", content: "How is the weather?" };

test("a Messages request to Claude is sent without the thinking of other providers", async () => {
  const own = { type: "thinking", thinking: "Mine.", signature: "claude" };
  const response = await callApi(harness, "messages", {
    model: modelOn("messages"),
    max_tokens: 100,
    messages: [
      QUESTION,
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm.", signature: SEALED },
          { type: "redacted_thinking", data: SEALED },
          { type: "thinking", thinking: "", signature: "" },
          own,
          { type: "text", text: "Sunny." },
        ],
      },
      QUESTION,
      { role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature: SEALED }] },
      QUESTION,
    ],
  });
  expect(response.status).toBe(200);
  expect(harness.upstreamRequests.at(-1)?.body["messages"]).toEqual([
    QUESTION,
    { role: "assistant", content: [own, { type: "text", text: "Sunny." }] },
    QUESTION,
    QUESTION,
  ]);
  expect(response.headers.get("x-postern-dropped")).toBe(
    "messages[1].content[0], messages[1].content[1], messages[1].content[2], messages[3].content[0]",
  );
});

test("a Responses request to OpenAI is sent without the reasoning of other providers", async () => {
  const own = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
  const response = await callApi(harness, "responses", {
    model: modelOn("responses"),
    store: false,
    input: [
      QUESTION,
      { type: "reasoning", id: "rs_0", summary: [], encrypted_content: SEALED },
      own,
      QUESTION,
    ],
  });
  expect(response.status).toBe(200);
  expect(harness.upstreamRequests.at(-1)?.body["input"]).toEqual([QUESTION, own, QUESTION]);
  expect(response.headers.get("x-postern-dropped")).toBe("input[1]");
});
