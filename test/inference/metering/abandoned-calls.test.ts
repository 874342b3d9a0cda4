// What a caller pays that leaves before the end, for content that the simulator does not have, and for whole replies: exactly
// the provider's usage where the provider bills to the end. abandoned-matrix.test.ts has all providers.

import { afterAll, describe, expect, test } from "bun:test";
import { integer } from "../../../src/store/db.ts";
import { registerAccount, startGateway, type TestAccount } from "../../support/gateway.ts";
import { abandonedPart } from "../../support/source/abandoned-calls-table.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  PATHS,
  postCall,
  readWallet,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient, type SocketClient } from "../support/socket-client.ts";
import { WAYS_OF_LEAVING } from "../support/ways-of-leaving.ts";

/** Between two chunks, so that clients leave at different places. The expected cost is the same at each. */
const PAUSE_MS = 120;

/** A kind of content: the request, the events of its stream, and the price of its usage. */
interface Kind {
  readonly api: "chat" | "messages";
  readonly body: Json;
  /** What arrives after the response headers, after the first pause, and so on. The last has the usage. */
  readonly events: readonly [first: string, toolCall: string, last: string];
  /** In nano-USD. */
  readonly fullCost: bigint;
}

const chatEvent = (delta: Json, more: Json = {}): string =>
  `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`;
const chatEvents = (usage: Json): Kind["events"] => [
  chatEvent({ content: "FIRST " }),
  chatEvent({ tool_calls: [{ index: 0, function: { name: "TOOL", arguments: "{}" } }] }),
  `${chatEvent({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage })}data: [DONE]\n\n`,
];
const chatBody = (content: unknown, more: Json = {}): Json => ({
  model: "openai/gpt-4.1",
  stream: true,
  max_tokens: 1_000,
  stream_options: { include_usage: true },
  messages: [{ role: "user", content }],
  ...more,
});
const messagesEvent = (type: string, more: Json): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;

const KINDS: Readonly<Record<string, Kind>> = {
  "text at a provider that bills on": {
    api: "chat",
    events: chatEvents({ prompt_tokens: 1_450, completion_tokens: 20 }),
    fullCost: 1_450n * 2_000n + 20n * 8_000n,
    body: chatBody("word ".repeat(1_400), { model: "billing-on/text" }),
  },
  "audio output": {
    api: "chat",
    body: chatBody("Say it", {
      model: "openai/gpt-audio-1.5",
      modalities: ["text", "audio"],
      audio: { voice: "alloy", format: "pcm16" },
    }),
    events: chatEvents({
      prompt_tokens: 20,
      completion_tokens: 420,
      completion_tokens_details: { audio_tokens: 400 },
    }),
    fullCost: 20n * 2_500n + 20n * 10_000n + 400n * 64_000n,
  },
  "web searches": {
    api: "messages",
    body: {
      model: "anthropic/claude-haiku-4-5",
      stream: true,
      max_tokens: 1_000,
      tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 5 }],
      messages: [{ role: "user", content: "Search." }],
    },
    events: [
      messagesEvent("message_start", {
        message: { model: "claude-haiku-4-5", usage: { input_tokens: 2_000, output_tokens: 1 } },
      }) +
        messagesEvent("content_block_delta", {
          index: 0,
          delta: { type: "text_delta", text: "FIRST " },
        }),
      messagesEvent("content_block_start", {
        index: 1,
        content_block: { type: "server_tool_use", id: "TOOL", name: "web_search", input: {} },
      }),
      messagesEvent("message_delta", {
        delta: { stop_reason: "end_turn" },
        usage: {
          input_tokens: 60_000,
          output_tokens: 20,
          server_tool_use: { web_search_requests: 5 },
        },
      }) + messagesEvent("message_stop", {}),
    ],
    fullCost: 60_000n * 1_000n + 20n * 5_000n + 5n * 10_000_000n,
  },
};

const TEXTS = { first: "FIRST", toolCall: "TOOL", last: '"usage":{"cost"' };

let reply: RawReply | undefined;

const provider = await startRawProvider(() => reply);
const gateway = await startGateway({
  providers: [],
  env: {
    ...withModels(
      [
        {
          id: "billing-on/text",
          wires: ["chat"],
          context_length: 200_000,
          max_output_tokens: 32_000,
          input_modalities: ["text", "image"],
          pricing: { tokens: { input: "2", output: "8" } },
        },
      ],
      [
        {
          id: "billing-on",
          base_url: provider.url,
          wires: ["chat"],
          stops_billing_on_abort: false,
        },
      ],
    ),
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: "test-key-0123456789",
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: "test-key-0123456789",
  },
});
afterAll(async () => {
  await gateway.stop();
  await provider.stop();
});

async function fundedAccount(): Promise<TestAccount> {
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  return account;
}

interface Abandoned {
  readonly cost: bigint;
  readonly held: bigint;
  readonly isExact: boolean;
}

async function abandon(
  { api, body }: Pick<Kind, "api" | "body">,
  leave: (client: SocketClient) => Promise<void>,
): Promise<Abandoned> {
  const account = await fundedAccount();
  const sent = provider.requests.length;
  const client = openSocketClient(gateway, account, api, body);
  await waitUntil(
    () => provider.requests.length,
    (count) => count === sent + 1,
  );
  const { held } = await readWallet(gateway.server.db, account.id);
  await leave(client);
  await expectSettledLedger(gateway.server.db);
  client.disconnect();
  const records = await usageRecordsOf(gateway.server.db, account.id);
  const [record] = records;
  if (record === undefined || records.length > 1) throw new Error(`${records.length} records`);
  return {
    cost: BigInt(integer(record, "cost_nano")),
    held,
    isExact: integer(record, "exact") === 1,
  };
}

/** The first event comes after a comment, so that a client can leave between the headers and the first event. */
function streamOf(events: readonly string[]): RawReply {
  const pieces = [": wait\n\n", ...events];
  const cuts = pieces.map((_, index) => pieces.slice(0, index + 1).join("").length);
  const headers = { "content-type": "text/event-stream" };
  // The client leaves between two events; no event tells when the gateway has noticed.
  return { headers, body: pieces.join(""), cuts, beforeNext: () => Bun.sleep(PAUSE_MS) };
}

test.each([
  ["openai", "audio out"],
  ["anthropic", "provider tools"],
])("the documented table says that %s is read to its end with %s", (provider, kind) => {
  expect(abandonedPart(provider, kind)).toBe("100%");
});

describe("a stream that its caller leaves", () => {
  for (const [name, kind] of Object.entries(KINDS))
    for (const [way, leave] of Object.entries(WAYS_OF_LEAVING))
      test(`${way}, with ${name}, costs its usage`, async () => {
        reply = streamOf(kind.events);
        const { cost, held, isExact } = await abandon(kind, (client) => leave(client, TEXTS));
        expect({ cost, isExact }).toEqual({ cost: kind.fullCost, isExact: true });
        expect(cost).toBeLessThanOrEqual(held);
      });
});

describe("a call that its caller leaves", () => {
  const usage = { prompt_tokens: 9_000, completion_tokens: 20 };
  const whole: RawReply = {
    headers: { "x-test": "1" },
    body: JSON.stringify({
      object: "chat.completion",
      model: "gpt-4.1",
      choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }],
      usage,
    }),
    cuts: [1],
    // The client leaves before the reply; no event tells when the gateway has noticed.
    beforeNext: () => Bun.sleep(3 * PAUSE_MS),
  };
  const body = chatBody("word ".repeat(9_000), { stream: false, stream_options: undefined });

  test("before a reply that is not streamed costs the reply's usage", async () => {
    reply = whole;
    const { cost, isExact } = await abandon({ api: "chat", body }, async (client) =>
      client.disconnect(),
    );
    expect({ cost, isExact }).toEqual({ cost: 9_000n * 2_000n + 20n * 8_000n, isExact: true });
  });

  test("costs nothing if the provider replies with an error", async () => {
    reply = {
      ...whole,
      status: 400,
      body: JSON.stringify({ error: { message: "no", type: "invalid_request_error" } }),
    };
    const { cost } = await abandon({ api: "chat", body }, async (client) => client.disconnect());
    expect(cost).toBe(0n);
  });

  test("costs no more than the hold if the input is estimated", async () => {
    reply = undefined;
    const dense = { ...chatBody("7".repeat(900)), max_tokens: 1 };
    const { cost, held } = await abandon({ api: "chat", body: dense }, async (client) =>
      client.disconnect(),
    );
    // 300 tokens of three digits, a message, and the reply's framing.
    expect(Number(cost) / (307 * 2_000)).toBeWithin(0.97, 1.000_1);
    expect(cost).toBeLessThanOrEqual(held);
  });

  test("counts towards a limit per key and minute", async () => {
    const own = await startGateway({ abandonedCallsPerMinute: 2 });
    const account = await registerAccount(own);
    for (let count = 1; count <= 2; count++) {
      const waiting = bodyOf("chat", "[[sim: latency=20000]] x", { stream: true });
      const client = openSocketClient(own, account, "chat", waiting);
      await waitUntil(
        () => readWallet(own.server.db, account.id),
        ({ held }) => held > 0n,
      );
      client.disconnect();
      await expectSettledLedger(own.server.db);
    }
    const refused = await postCall(own, account, "chat", bodyOf("chat", "x"));
    expect([refused.status, errorOf(await refused.json())["code"]]).toEqual([429, "rate_limited"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    const other = await registerAccount(own);
    const served = await fetch(own.url + PATHS.chat, {
      method: "POST",
      headers: other.headers,
      body: JSON.stringify(bodyOf("chat", "x")),
    });
    expect(served.status).toBe(200);
    await own.stop();
  });
});
