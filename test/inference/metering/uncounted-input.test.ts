// A stream that its caller leaves is stopped only if the gateway can count all of its input. Text in a field that it does not
// count would be free: such a stream is read on to its usage.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { isInputCountable } from "../../../src/inference/metering/tokens/count-input.ts";
import { integer } from "../../../src/store/db.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

/** The end comes this long after the text. The cost is the same if the client has left later. */
const PAUSE_MS = 150;
const MARKER = "END-OF-TEXT";
/** Of openai/gpt-4.1, in nano-USD. */
const PRICE = { input: 2_000, output: 8_000 };
const USAGE = { prompt_tokens: 5_000, completion_tokens: 30 };

const LONG = "word ".repeat(5_000);
const HI = { role: "user", content: "hi" };
const functionWith = (parameters: Json): Json => ({ name: "f", parameters });

const UNCOUNTED: Readonly<Record<string, Json>> = {
  "the former `functions`": { functions: [{ name: "f", description: LONG }] },
  "a former function call": {
    messages: [{ role: "assistant", function_call: { name: "f", arguments: LONG } }, HI],
  },
  "a refusal": { messages: [{ role: "assistant", content: "", refusal: LONG }, HI] },
  "an image with a text": {
    messages: [
      {
        role: "user",
        content: [
          { type: "image_url", text: "a", image_url: { url: "data:image/png;base64,AAAA" } },
        ],
      },
    ],
  },
  "a default of a schema": {
    tools: [
      {
        type: "function",
        function: functionWith({
          type: "object",
          properties: { a: { type: "string", default: LONG } },
        }),
      },
    ],
  },
};

const sse = (event: Json): string => `data: ${JSON.stringify(event)}\n\n`;
const text = sse({ choices: [{ index: 0, finish_reason: null, delta: { content: MARKER } }] });
const end =
  sse({ choices: [{ index: 0, finish_reason: "stop", delta: {} }] }) +
  sse({ choices: [], usage: USAGE }) +
  "data: [DONE]\n\n";

describe.each(STORE_KINDS)("a stream with input that is not counted, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  beforeAll(async () => {
    provider = await startRawProvider(() => ({
      headers: { "content-type": "text/event-stream" },
      body: text + end,
      cuts: [text.length],
      // No event tells when the gateway has noticed that the client left.
      beforeNext: (sent) => (sent === 1 ? Bun.sleep(PAUSE_MS) : undefined),
    }));
    gateway = await startGateway({
      store,
      providers: [],
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "test-key-0123456789" },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  test.each(Object.keys(UNCOUNTED))("costs its usage when it is left: %s", async (name) => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    const client = openSocketClient(gateway, account, "chat", {
      model: "openai/gpt-4.1",
      stream: true,
      max_tokens: 100,
      messages: [HI],
      ...UNCOUNTED[name],
    });
    await client.waitForText(MARKER);
    client.disconnect();
    await expectSettledLedger(gateway.server.db);
    const [usage] = await usageRecordsOf(gateway.server.db, account.id);
    const cost = USAGE.prompt_tokens * PRICE.input + USAGE.completion_tokens * PRICE.output;
    expect(usage && integer(usage, "cost_nano")).toBe(cost);
  });
});

const CALL = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
const SCHEMA = {
  type: "object",
  properties: { a: { type: "array", description: "a", items: { enum: ["b"] } } },
  required: ["a"],
  additionalProperties: false,
};

test.each<[name: string, body: Json]>([
  [
    "a conversation of Chat Completions",
    {
      messages: [
        { role: "system", content: "a" },
        { role: "user", content: [{ type: "text", text: "a" }] },
        { role: "assistant", content: null, tool_calls: [CALL], refusal: null, annotations: [] },
        { role: "tool", tool_call_id: "c", content: "a" },
      ],
      tools: [{ type: "function", function: { name: "f", parameters: SCHEMA, strict: true } }],
    },
  ],
  [
    "a conversation of Responses",
    {
      instructions: "a",
      input: [
        { role: "user", content: [{ type: "input_text", text: "a" }] },
        {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "a", annotations: [] }],
        },
        { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "c", output: "a" },
      ],
      tools: [{ type: "function", name: "f", description: "a", parameters: SCHEMA, strict: true }],
    },
  ],
])("counts %s", (_, body) => {
  expect(isInputCountable(body)).toBe(true);
});

test.each<[name: string, item: Json]>([
  ["a refusal", { role: "assistant", content: [{ type: "refusal", refusal: "a" }] }],
  ["an image with a text", { role: "user", content: [{ type: "input_image", text: "a" }] }],
  [
    "an output of parts",
    { type: "function_call_output", call_id: "c", output: [{ type: "input_image" }] },
  ],
  ["an output of another form", { type: "function_call_output", call_id: "c", output: { a: "a" } }],
  ["a call with another field", { type: "function_call", name: "f", arguments: "{}", notes: "a" }],
])("does not count an item with %s", (_, item) => {
  expect(isInputCountable({ input: [item] })).toBe(false);
});
