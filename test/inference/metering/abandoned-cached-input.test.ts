// A prompt that OpenAI may have cached is cheaper, and only the usage tells: a stream that its caller leaves costs no more than
// the finished one.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { integer } from "../../../src/store/db.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

/** The end comes this long after the text. The cost is the same if the client has left later. */
const PAUSE_MS = 150;
const MARKER = "END-OF-TEXT";
/** Of openai/gpt-4.1, in nano-USD. */
const PRICE = { input: 2_000, cached: 500, output: 8_000 };
const LONG_PROMPT = "word ".repeat(2_000);
const LONG_USAGE = { input: 2_008, cached: 1_920, output: 900 };

type CachingApi = "chat" | "responses";
const APIS: readonly CachingApi[] = ["chat", "responses"];

const request = (api: CachingApi, prompt: string): Json => ({
  model: "openai/gpt-4.1",
  stream: true,
  ...(api === "chat"
    ? { max_tokens: 1_000, messages: [{ role: "user", content: prompt }] }
    : { max_output_tokens: 1_000, store: false, input: prompt }),
});

const sse = (event: Json): string => `data: ${JSON.stringify(event)}\n\n`;

/** A text, and after a pause the usage. */
function cachedReply(api: CachingApi): RawReply {
  const { input, cached, output } = LONG_USAGE;
  const choice = { index: 0, finish_reason: null };
  const usage = {
    chat: {
      prompt_tokens: input,
      completion_tokens: output,
      prompt_tokens_details: { cached_tokens: cached },
    },
    responses: {
      input_tokens: input,
      output_tokens: output,
      input_tokens_details: { cached_tokens: cached },
    },
  };
  const response = { id: "r", model: "gpt-4.1", status: "completed", output: [] };
  const [text, end] =
    api === "chat"
      ? [
          sse({ model: "gpt-4.1", choices: [{ ...choice, delta: { content: MARKER } }] }),
          sse({ choices: [{ ...choice, delta: {}, finish_reason: "stop" }] }) +
            sse({ choices: [], usage: usage.chat }) +
            "data: [DONE]\n\n",
        ]
      : [
          sse({ type: "response.created", response: { ...response, status: "in_progress" } }) +
            sse({ type: "response.output_text.delta", item_id: "m", delta: MARKER }),
          sse({ type: "response.completed", response: { ...response, usage: usage.responses } }),
        ];
  return {
    headers: { "content-type": "text/event-stream" },
    body: text + end,
    cuts: [text.length],
    // No event tells when the gateway has noticed that the client left.
    beforeNext: (sent) => (sent === 1 ? Bun.sleep(PAUSE_MS) : undefined),
  };
}

describe.each(STORE_KINDS)("a stream with a cached prompt, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let reply: RawReply;

  beforeAll(async () => {
    provider = await startRawProvider(() => reply);
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

  async function record(api: CachingApi, prompt: string, leaves: boolean) {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    const body = request(api, prompt);
    if (leaves) {
      const client = openSocketClient(gateway, account, api, body);
      await client.waitForText(MARKER);
      client.disconnect();
    } else await (await postCall(gateway, account, api, body)).text();
    await expectSettledLedger(gateway.server.db);
    const [usage] = await usageRecordsOf(gateway.server.db, account.id);
    if (usage === undefined) throw new Error("no record");
    return { cost: integer(usage, "cost_nano"), exact: integer(usage, "exact") };
  }

  test.each(APIS)("costs as much when it is left as when it is finished (%s)", async (api) => {
    reply = cachedReply(api);
    const { input, cached, output } = LONG_USAGE;
    const cost = (input - cached) * PRICE.input + cached * PRICE.cached + output * PRICE.output;
    expect(await record(api, LONG_PROMPT, false)).toEqual({ cost, exact: 1 });
    expect(await record(api, LONG_PROMPT, true)).toEqual({ cost, exact: 1 });
  });

  test.each(APIS)("is stopped if its prompt is too short to be cached (%s)", async (api) => {
    reply = { ...cachedReply(api), ending: "silence", beforeNext: () => new Promise(() => {}) };
    const { cost, exact } = await record(api, "word ".repeat(500), true);
    expect(exact).toBe(0);
    expect(cost).toBeWithin(500 * PRICE.input, 520 * PRICE.input + 10 * PRICE.output);
  });
});
