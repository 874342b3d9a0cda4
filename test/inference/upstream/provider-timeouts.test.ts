// Providers that accept a call and never answer: the settings of the gateway and of a provider bound the wait.

import { afterEach, describe, expect, test } from "bun:test";
import { integer } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import {
  addPaidCredits,
  bodyOf,
  countOpenHolds,
  type Json,
  postCall,
  usageRecordsOf,
  USD,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

const pricing = { tokens: { input: "1", output: "2" } };
const wires = ["chat", "responses", "messages"];
const SILENT = {
  id: "own/silent",
  wires,
  context_length: 8_000,
  max_output_tokens: 1_000,
  pricing,
};

let provider: RawProvider;
let gateway: Gateway;

async function start(env: Readonly<Record<string, string>>, timeouts: Json = {}): Promise<void> {
  provider = await startRawProvider(() => undefined);
  const own = { id: "own", base_url: provider.url, wires, ...timeouts };
  gateway = await startGateway({ env: { ...withModels([SILENT], [own]), ...env } });
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

describe("a provider that never answers", () => {
  for (const stream of [false, true])
    test(`times out and falls back after half of the gateway's timeout${stream ? ", streamed" : ""}`, async () => {
      await start({ POSTERN_REQUEST_TIMEOUT_SECONDS: "6", POSTERN_STREAM_TIMEOUT_SECONDS: "6" });
      const account = await registerAccount(gateway);
      const body = bodyOf("chat", "hello", {
        model: SILENT.id,
        models: [SILENT.id, "sim/echo"],
        stream,
      });
      const response = await postCall(gateway, account, "chat", body);
      expect(response.status).toBe(200);
      await response.text();
      const [record] = await usageRecordsOf(gateway.server.db, account.id);
      const { attempts } = JSON.parse(String(record?.["detail"]));
      expect(attempts.map((one: Json) => one["status"])).toEqual([504, 200]);
      // The whole timeout would be 6 s.
      expect(attempts[0].ms).toBeLessThan(6_000);
    });

  test("has a shorter timeout of its own", async () => {
    await start({}, { request_timeout_seconds: 1, stream_timeout_seconds: 1 });
    const account = await registerAccount(gateway);
    for (const stream of [false, true]) {
      const body = bodyOf("chat", "hello", { model: SILENT.id, stream });
      expect((await postCall(gateway, account, "chat", body)).status).toBe(504);
    }
  });

  test("that stops when a client leaves releases the call's credits at once, for its input", async () => {
    await start({}, { stops_billing_on_abort: true });
    const account = await registerAccount(gateway);
    const client = new AbortController();
    const caller = { ...account, signal: client.signal };
    const pending = postCall(
      gateway,
      caller,
      "chat",
      bodyOf("chat", "hello", { model: SILENT.id }),
    );
    await eventually(() => provider.requests.length === 1);
    client.abort();
    await pending.catch(() => {});
    const { db } = gateway.server;
    // The timeout is ten minutes.
    await eventually(async () => (await countOpenHolds(db)) === 0);
    const [record] = await usageRecordsOf(db, account.id);
    expect(record).toMatchObject({ outcome: "client_aborted", output_tokens: 0 });
    expect(Number(record?.["cost_nano"])).toBeGreaterThan(0);
  });

  test("does not hold the credits of a client that left beyond the timeout", async () => {
    await start({ POSTERN_REQUEST_TIMEOUT_SECONDS: "2" });
    const account = await registerAccount(gateway);
    await addPaidCredits(gateway, account, 5n * USD);
    const client = new AbortController();
    const caller = { ...account, signal: client.signal };
    const calls = Array.from({ length: 7 }, () =>
      postCall(gateway, caller, "chat", bodyOf("chat", "hello", { model: SILENT.id })).catch(
        () => undefined,
      ),
    );
    const { db } = gateway.server;
    await eventually(async () => (await countOpenHolds(db)) === 7);
    client.abort();
    await Promise.all(calls);
    await eventually(async () => (await countOpenHolds(db)) === 0);
    const records = await usageRecordsOf(db, account.id);
    expect(records.map((record) => integer(record, "status"))).toEqual(Array(7).fill(504));
  });
});
