// Streams that the gateway ends after their caller has read them are charged however they are called: over a WebSocket, as a
// background response, and each time that they run under the same `Idempotency-Key`.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { integer, type Row } from "../../../src/store/db.ts";
import { call, waitUntilEnded } from "../../responses/harness.ts";
import { openSocket } from "../../responses/websocket-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const MIB = 1_048_576;
/** Of openai/gpt-4.1, in nano-USD. */
const COST = 50 * 2_000 + 20_000 * 8_000;
const REQUEST: Json = { model: "openai/gpt-4.1", max_output_tokens: 30_000, input: "Write." };

const sse = (event: Json): string =>
  `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`;
const response = (more: Json): Json => ({ id: "resp_1", model: "gpt-4.1", ...more });

/** The last event repeats the output with its log probabilities, is longer than the gateway relays, and has the usage. */
function longReply(): RawReply {
  const logprobs = Array.from({ length: 33 }, () => ({ token: "x".repeat(MIB) }));
  const content = [{ type: "output_text", text: "word", logprobs }];
  const usage = { input_tokens: 50, output_tokens: 20_000, total_tokens: 20_050 };
  const delta = { item_id: "msg_1", output_index: 0, delta: "word " };
  return {
    headers: { "content-type": "text/event-stream" },
    body:
      sse({ type: "response.created", response: response({ status: "in_progress" }) }) +
      sse({ type: "response.output_text.delta", ...delta }) +
      sse({
        type: "response.completed",
        response: response({ status: "completed", output: [{ type: "message", content }], usage }),
      }),
  };
}

describe.each(STORE_KINDS)("a stream that the gateway ends, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;

  beforeAll(async () => {
    const reply = longReply();
    provider = await startRawProvider(() => reply);
    gateway = await startGateway({
      store,
      providers: [],
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "test-key-0123456789" },
    });
  });
  afterAll(async () => {
    await expectSettledLedger(gateway.server.db);
    await gateway.stop();
    await provider.stop();
  });

  async function fundedAccount(): Promise<TestAccount> {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    return account;
  }

  async function expectCharged(account: TestAccount, calls = 1): Promise<void> {
    const records: readonly Row[] = await waitUntil(
      () => usageRecordsOf(gateway.server.db, account.id),
      ({ length }) => length >= calls,
    );
    const charged = records.map((record) => [record["outcome"], integer(record, "cost_nano")]);
    expect(charged).toEqual(Array.from({ length: calls }, () => ["limit_exceeded", COST]));
  }

  test("is charged over a WebSocket", async () => {
    const account = await fundedAccount();
    const socket = await openSocket(gateway, account.headers);
    const last = await socket.create({ ...REQUEST, store: false });
    expect(["error", "response.failed"]).toContain(String(last["type"]));
    await expectCharged(account);
    socket.close();
  });

  test("is charged as a background response", async () => {
    const account = await fundedAccount();
    const body = { ...REQUEST, background: true, store: true };
    const { json } = await call(gateway, account, "POST /v1/responses", { body });
    const ended = await waitUntilEnded(gateway, account, json["id"]);
    expect(ended["status"]).toBe("failed");
    await expectCharged(account);
  });

  test("is charged as a background response that is streamed", async () => {
    const account = await fundedAccount();
    const body = { ...REQUEST, background: true, store: true, stream: true };
    await call(gateway, account, "POST /v1/responses", { body });
    await expectCharged(account);
  });

  test("is charged each time that it runs with an Idempotency-Key", async () => {
    const account = await fundedAccount();
    const headers = { "idempotency-key": `long-${store}` };
    const body = { ...REQUEST, store: false, stream: true };
    for (let calls = 1; calls <= 2; calls++) {
      const before = provider.requests.length;
      const { text } = await call(gateway, account, "POST /v1/responses", { body, headers });
      expect(text).toContain("longer than this gateway relays");
      expect(provider.requests.length).toBe(before + 1);
      await expectCharged(account, calls);
    }
  });
});
