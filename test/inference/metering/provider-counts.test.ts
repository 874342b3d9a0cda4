// A stream of Claude that its caller leaves: Claude's tokenizer has no package, so the provider counts what was relayed. Without
// its count, or with output that no count covers, the stream is read to its usage.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { decodeRelayedText, meterWholeReply } from "@postern/wires";
import { countTokens } from "gpt-tokenizer/encoding/cl100k_base";
import {
  type ProviderCount,
  uncountedText,
} from "../../../src/inference/lifecycle/reply/count-at-provider.ts";
import { integer, type Row } from "../../../src/store/db.ts";
import { casesOn } from "../../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  type Api,
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

const INPUT_NANO = 3_000;
const OUTPUT_NANO = 15_000;
const CACHE_READ_NANO = 300;
const MODEL = "anthropic/claude-sonnet-4-5";
/** As Claude's models count a message beside its text. */
const FRAME_TOKENS = 7;
const INPUT_TOKENS = 500;
const CACHED_TOKENS = 2_500;
const PROMPT_NANO = INPUT_TOKENS * INPUT_NANO + CACHED_TOKENS * CACHE_READ_NANO;

const TEXTS: Readonly<Record<string, string>> = {
  prose: "The history of navigation is the history of an idea. ".repeat(60),
  digits: "31415926535897932384626433832795".repeat(100),
  base64: Buffer.from("The history of navigation".repeat(90)).toString("base64"),
  "rare Unicode": "𒀀𒁀𒂀𒃀".repeat(150),
  JSON: JSON.stringify(
    Array.from({ length: 80 }, (_, id) => ({ id, ok: id % 3 === 0 })),
    null,
    2,
  ),
};
const MARKER = " END-OF-TEXT";

const event = (type: string, more: Json): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const START = event("message_start", {
  message: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    content: [],
    model: "claude-sonnet-4-5",
    usage: {
      input_tokens: INPUT_TOKENS,
      cache_read_input_tokens: CACHED_TOKENS,
      cache_creation_input_tokens: 0,
      output_tokens: 1,
    },
  },
});
const textDelta = (text: string): string =>
  event("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
const textBlock = (text: string): string =>
  event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }) +
  textDelta(text.slice(0, 40)) +
  textDelta(text.slice(40)) +
  textDelta(MARKER);
const TOOL_BLOCK =
  event("content_block_stop", { index: 0 }) +
  event("content_block_start", {
    index: 1,
    content_block: { type: "tool_use", id: "toolu_1", name: "lookup", input: {} },
  });
const WHOLE_OUTPUT_TOKENS = 9_000;
const END =
  event("message_delta", {
    delta: { stop_reason: "end_turn" },
    usage: { output_tokens: WHOLE_OUTPUT_TOKENS },
  }) + event("message_stop", {});
const FULL_NANO = PROMPT_NANO + WHOLE_OUTPUT_TOKENS * OUTPUT_NANO;

const PROMPT = "Write what I asked for.";
const TOOL_SCHEMA = { type: "object", properties: {} };

function request(api: Api, more: Json = {}): Json {
  const turns =
    api === "responses"
      ? { max_output_tokens: 20_000, store: false, input: PROMPT }
      : { max_tokens: 20_000, messages: [{ role: "user", content: PROMPT }] };
  return { model: MODEL, stream: true, ...turns, ...more };
}

describe.each(STORE_KINDS)("a stream of Claude that is left, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let stream: RawReply;
  let countReply: (text: string) => RawReply;

  const counted = (text: string): RawReply => ({
    body: JSON.stringify({ input_tokens: countTokens(text) + FRAME_TOKENS }),
  });

  beforeAll(async () => {
    provider = await startRawProvider(({ path, body }) => {
      if (!path.endsWith("/count_tokens")) return stream;
      const { messages } = JSON.parse(body) as { messages: { content: string }[] };
      return countReply(messages[0]?.content ?? "");
    });
    gateway = await startGateway({
      store,
      providers: [],
      logLevel: "warn",
      abandonedCallsPerMinute: 10_000,
      env: { ANTHROPIC_BASE_URL: provider.url, ANTHROPIC_API_KEY: "test-key-0123456789" },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  interface Leaving {
    readonly api?: Api;
    readonly more?: Json;
    readonly seen: string;
    readonly before: string;
    /** Sent once the client has left. */
    readonly after?: string;
    /** Whether what follows waits until the provider was asked to count. */
    readonly isCounted?: boolean;
  }

  async function leave({
    api = "messages",
    more,
    seen,
    before,
    after,
    isCounted = false,
  }: Leaving): Promise<Row> {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    const left = Promise.withResolvers<void>();
    stream = {
      headers: { "content-type": "text/event-stream" },
      body: before + (after ?? ""),
      ...(after === undefined ? {} : { cuts: [Buffer.byteLength(before)] }),
      beforeNext: (sent) => (sent === 1 ? left.promise : undefined),
      ending: "silence",
    };
    const client = openSocketClient(gateway, account, api, request(api, more));
    await client.waitForText(seen);
    const sent = provider.requests.length;
    client.disconnect();
    if (isCounted)
      await waitUntil(
        () => provider.requests.length,
        (count) => count === sent + 2,
      );
    left.resolve();
    await expectSettledLedger(gateway.server.db);
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    if (record === undefined) throw new Error("no record");
    expect(record["outcome"]).toBe("client_aborted");
    return record;
  }

  for (const [kind, text] of casesOn(store, Object.entries(TEXTS)))
    for (const api of casesOn(store, ["chat", "responses", "messages"] as const))
      test(`costs its input and what was relayed, by the provider's count: ${kind}, on ${api}`, async () => {
        countReply = counted;
        const record = await leave({ api, seen: MARKER.trim(), before: START + textBlock(text) });
        const relayed = PROMPT_NANO + countTokens(text + MARKER) * OUTPUT_NANO;
        const share = integer(record, "cost_nano") / relayed;
        expect(share).toBeWithin(0.97, 1.000_001);
        expect(integer(record, "exact")).toBe(0);
      });

  test("costs its input only before any output", async () => {
    const requests = provider.requests.length;
    const record = await leave({ seen: "message_start", before: START });
    expect(integer(record, "cost_nano")).toBeWithin(PROMPT_NANO, PROMPT_NANO + 2 * OUTPUT_NANO);
    expect(provider.requests.length).toBe(requests + 1);
  });

  test.each([
    ["refuses to count", (): RawReply => ({ status: 400, body: "{}" })],
    ["counts without a number", (): RawReply => ({ body: "{}" })],
  ])("is read to its usage if the provider %s", async (_, reply) => {
    countReply = reply;
    const before = START + textBlock("Hello there.");
    const record = await leave({ seen: MARKER.trim(), before, after: END, isCounted: true });
    expect([integer(record, "cost_nano"), integer(record, "exact")]).toEqual([FULL_NANO, 1]);
  });

  test.each([
    ["thinks", { thinking: { type: "enabled", budget_tokens: 2_000 } }, textBlock("Hello.")],
    ["thinks without being asked", { model: "anthropic/claude-sonnet-5" }, textBlock("Hello.")],
    [
      "has called a tool",
      { tools: [{ name: "lookup", input_schema: TOOL_SCHEMA }] },
      textBlock("Hello.") + TOOL_BLOCK,
    ],
    [
      "can search the web",
      { tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 1 }] },
      textBlock("Hello."),
    ],
  ])("is read to its usage if the model %s", async (_, more, output) => {
    countReply = counted;
    const before = START + output;
    const requests = provider.requests.length;
    const record = await leave({ more, seen: MARKER.trim(), before, after: END });
    expect(integer(record, "output_tokens")).toBe(WHOLE_OUTPUT_TOKENS);
    expect(integer(record, "exact")).toBe(1);
    expect(provider.requests.length).toBe(requests + 1);
  });
});

test("what was relayed while the provider counted is counted here", () => {
  const content = [{ type: "text", text: "Hello there." }];
  const { text } = meterWholeReply("messages", "anthropic", { content });
  const rest = (count: ProviderCount): string => decodeRelayedText(uncountedText(text, count));
  expect(rest({ length: 6, tokens: 1 })).toBe("there.");
  expect(rest({ length: 6, tokens: undefined })).toBe("Hello there.");
});
