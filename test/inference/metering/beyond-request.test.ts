// Usage far beyond what a request bounds: charged at the list price where the caller can have caused it, by a field that the
// gateway does not know or by output that was relayed, and capped at the hold where it can only be the provider's mistake.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { integer, type Row } from "../../../src/store/db.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

type StreamedApi = (typeof STREAMED_APIS)[number];

const PROVIDER_OF = { chat: "deepseek", responses: "openai", messages: "anthropic" } as const;
const INPUT = 60_000;
const OUTPUT = 4_000;
const INPUT_NANO = 2_000;
const OUTPUT_NANO = 8_000;

interface Reply {
  readonly input: number;
  readonly output: number;
  readonly text: string;
}

/** A reply of each API, whole and streamed. */
const WHOLE: Readonly<Record<StreamedApi, (reply: Reply) => Json>> = {
  chat: ({ input, output, text }) => ({
    object: "chat.completion",
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
    usage: { prompt_tokens: input, completion_tokens: output },
  }),
  responses: ({ input, output, text }) => ({
    id: "r",
    object: "response",
    model: "m",
    status: "completed",
    output: [
      {
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text, annotations: [] }],
      },
    ],
    usage: { input_tokens: input, output_tokens: output },
  }),
  messages: ({ input, output, text }) => ({
    id: "m",
    type: "message",
    role: "assistant",
    model: "m",
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    usage: { input_tokens: input, output_tokens: output },
  }),
};
const data = (event: Json): string => `data: ${JSON.stringify(event)}\n\n`;
const named = (type: string, more: Json): string => `event: ${type}\n${data({ type, ...more })}`;
const STREAM: Readonly<Record<StreamedApi, (reply: Reply) => string>> = {
  chat: ({ input, output, text }) =>
    data({ model: "m", choices: [{ index: 0, delta: { content: text }, finish_reason: null }] }) +
    data({ model: "m", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
    data({ model: "m", choices: [], usage: { prompt_tokens: input, completion_tokens: output } }) +
    "data: [DONE]\n\n",
  responses: (reply) =>
    named("response.output_text.delta", { item_id: "i", output_index: 0, delta: reply.text }) +
    named("response.completed", { response: WHOLE.responses(reply) }),
  messages: ({ input, output, text }) =>
    named("message_start", {
      message: { model: "m", content: [], usage: { input_tokens: input, output_tokens: 1 } },
    }) +
    named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }) +
    named("content_block_delta", { index: 0, delta: { type: "text_delta", text } }) +
    named("message_delta", {
      delta: { stop_reason: "end_turn" },
      usage: { output_tokens: output },
    }) +
    named("message_stop", {}),
};

describe.each(STORE_KINDS)("usage beyond the request, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let reply: Reply;

  beforeAll(async () => {
    provider = await startRawProvider(({ path, body }): RawReply => {
      const api = STREAMED_APIS.find((name) => path.includes(name === "chat" ? "chat" : name));
      if (api === undefined) throw new Error(path);
      return (JSON.parse(body) as Json)["stream"] === true
        ? { headers: { "content-type": "text/event-stream" }, body: STREAM[api](reply) }
        : { body: JSON.stringify(WHOLE[api](reply)) };
    });
    const env: Record<string, string> = {};
    for (const id of Object.values(PROVIDER_OF)) {
      env[`${id.toUpperCase()}_BASE_URL`] = provider.url;
      env[`${id.toUpperCase()}_API_KEY`] = "test-key-0123456789";
    }
    const models = Object.entries(PROVIDER_OF).map(([wire, id]) => ({
      id: `${id}/on-${wire}`,
      wires: [wire],
      context_length: 100_000,
      max_output_tokens: 1_000,
      pricing: { tokens: { input: "2", output: "8" } },
    }));
    gateway = await startGateway({
      store,
      providers: [],
      logLevel: "warn",
      env: { ...env, ...withModels(models) },
    });
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
    await provider.stop();
  });

  async function call(api: StreamedApi, more: Json, credits = 10n * USD) {
    const account = await registerAccount(gateway);
    if (credits > 0n) await grantCredits(gateway, account, credits);
    const model = `${PROVIDER_OF[api]}/on-${api}`;
    const response = await postCall(gateway, account, api, {
      ...bodyOf(api, "Hello."),
      model,
      ...more,
    });
    expect([response.status, (await response.text()).length > 0]).toEqual([200, true]);
    return { account, record: await recordOf(account) };
  }

  async function recordOf({ id }: TestAccount): Promise<Row> {
    const [record] = await usageRecordsOf(gateway.server.db, id);
    if (record === undefined) throw new Error("no record");
    return record;
  }

  for (const api of STREAMED_APIS)
    for (const stream of [false, true]) {
      const title = `over ${api}${stream ? ", streamed" : ""}`;

      test.each([
        ["at the top", { enable_deep_dive: true }],
        ["in an object", { metadata: {}, reasoning: { exploration: "wide" } }],
      ])(`is charged with an unknown field ${title}: %s`, async (_, field) => {
        reply = { input: INPUT, output: 10, text: "Hello" };
        const { record } = await call(api, { stream, ...field });
        const cost = INPUT * INPUT_NANO + 10 * OUTPUT_NANO;
        expect([integer(record, "cost_nano"), integer(record, "exact")]).toEqual([cost, 1]);
      });

      test(`is a debt where the credits do not cover it ${title}`, async () => {
        reply = { input: INPUT, output: 10, text: "Hello" };
        const { account } = await call(api, { stream, enable_deep_dive: true }, 0n);
        const wallet = await gateway.server.db.get("select * from wallet where account_id = ?", [
          account.id,
        ]);
        const owed = INPUT * INPUT_NANO + 10 * OUTPUT_NANO - 50_000_000;
        expect([Number(wallet?.["owed"]), Number(wallet?.["promo"])]).toEqual([owed, 0]);
      });

      test(`is capped at the hold without such a field ${title}`, async () => {
        reply = { input: INPUT, output: 10, text: "Hello" };
        const { record } = await call(api, { stream });
        expect(integer(record, "cost_nano")).toBeLessThan(3_000_000);
        expect(integer(record, "exact")).toBe(0);
      });

      test(`is charged for output that was relayed, and not for more ${title}`, async () => {
        reply = { input: 10, output: OUTPUT, text: "word ".repeat(OUTPUT) };
        const { record } = await call(api, { stream });
        expect(integer(record, "cost_nano")).toBe(10 * INPUT_NANO + OUTPUT * OUTPUT_NANO);
        reply = { input: 10, output: OUTPUT, text: "word" };
        const { record: capped } = await call(api, { stream });
        expect(integer(capped, "cost_nano")).toBeLessThan(3_000_000);
      });
    }
});
