// Calls of images, audio and rerank in a process that is killed, and more of them at once than the balance affords.

import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { grant } from "../../../src/ledger/ledger.ts";
import { integer } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { registerAccount, startGateway, type TestAccount } from "../../support/gateway.ts";
import { migratedStoreLocation, openStoreAt, STORE_KINDS } from "../../support/stores/stores.ts";
import { startGatedSimulator } from "../support/gated-simulator.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import {
  countOpenHolds,
  expectSettledLedger,
  type Json,
  readWallet,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";

const START_CREDITS = 50_000_000n;

interface MediaCall {
  readonly path: string;
  readonly body: () => Json | FormData;
  readonly cost: number;
}

function form(fields: Readonly<Record<string, string | File>>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  return data;
}

/** With a price for each unit, so that their cost is known. */
const CALLS: readonly MediaCall[] = [
  {
    path: "/v1/images/generations",
    body: () => ({ model: "sim/image-each-size", prompt: "a lighthouse", quality: "high" }),
    cost: 40_000_000,
  },
  {
    path: "/v1/images/edits",
    body: () =>
      form({ model: "sim/image-each", prompt: "make it night", image: new File(["x"], "a.png") }),
    cost: 20_000_000,
  },
  {
    path: "/v1/audio/speech",
    body: () => ({ model: "sim/speech", input: "Hello", voice: "alloy" }),
    cost: 75_000,
  },
  {
    path: "/v1/audio/transcriptions",
    body: () =>
      form({ model: "sim/transcribe", file: new File([new Uint8Array(32_000)], "speech.raw") }),
    cost: 100_000,
  },
  {
    path: "/v1/rerank",
    body: () => ({ model: "sim/rerank", query: "capital", documents: ["Berlin", "Paris"] }),
    cost: 2_000_000,
  },
];
const TOTAL = CALLS.reduce((sum, { cost }) => sum + cost, 0);

function send(
  url: string,
  { key }: TestAccount,
  { path, body: bodyOf }: MediaCall,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const body = bodyOf();
  const headers = { authorization: `Bearer ${key}`, ...more };
  return body instanceof FormData
    ? fetch(url + path, { method: "POST", headers, body })
    : fetch(url + path, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
}

for (const kind of STORE_KINDS)
  test(`a kill during media calls leaves no hold and no charge on ${kind}, and repetitions are paid once`, async () => {
    const gate = startGatedSimulator();
    const location = await migratedStoreLocation(kind);
    const settings = {
      POSTERN_SECRET: "a secret of these tests, and of nothing else",
      POSTERN_PROCESS_NAME: "killed",
      SIM_BASE_URL: gate.url,
      SIM_API_KEY: "upstream-test-key",
      ...(kind === "postgres"
        ? { DATABASE_URL: location.address }
        : { POSTERN_DATA_DIR: location.address }),
    };
    const port = await freePort();
    const killed = await startGatewayProcess(port, settings);
    const account = await registerAccount(killed);
    await killed.stop();
    const db = openStoreAt(location);
    await db.write((tx) =>
      grant(tx, {
        id: "test",
        accountId: account.id,
        amount: 10n * USD,
        now: Date.now(),
        reason: "test",
      }),
    );
    const first = await startGatewayProcess(port, settings);
    const sendAll = (url: string): readonly Promise<Response>[] =>
      CALLS.map((call, index) => send(url, account, call, { "idempotency-key": `media-${index}` }));
    const lost = sendAll(first.url).map((calling) =>
      calling.then((reply) => reply.text()).catch(() => "lost"),
    );
    await eventually(() => gate.waiting() === CALLS.length);
    // On SQLite, holds are written when they are a second old.
    await eventually(async () => (await countOpenHolds(db)) === CALLS.length);
    await first.kill();
    expect(await Promise.all(lost)).toEqual(CALLS.map(() => "lost"));
    gate.open();

    const second = await startGatewayProcess(port, settings);
    await eventually(async () => (await countOpenHolds(db)) === 0);
    const wallet = await readWallet(db, account.id);
    expect(wallet).toEqual({ promo: 10n * USD + START_CREDITS, paid: 0n, held: 0n });
    for (const repetition of [1, 2]) {
      const replies = await Promise.all(sendAll(second.url));
      const replayed = repetition === 1 ? null : "true";
      expect(
        replies.map(({ status, headers }) => [status, headers.get("idempotent-replayed")]),
      ).toEqual(CALLS.map(() => [200, replayed]));
      for (const reply of replies) await reply.arrayBuffer();
    }
    await expectSettledLedger(db);
    const records = await usageRecordsOf(db, account.id);
    const charged = records.map((record) => integer(record, "cost_nano"));
    expect(charged.toSorted((left, right) => left - right)).toEqual(
      CALLS.map(({ cost }) => cost).toSorted((left, right) => left - right),
    );
    expect((await readWallet(db, account.id)).promo).toBe(
      10n * USD + START_CREDITS - BigInt(TOTAL),
    );
    await second.stop();
    await db.close();
    await gate.stop();
    if (kind === "sqlite") rmSync(location.address, { recursive: true, force: true });
  });

for (const store of STORE_KINDS)
  test(`of thirty images at once, those are made that the balance affords, on ${store}`, async () => {
    const gate = startGatedSimulator();
    const gateway = await startGateway({ store, env: { SIM_BASE_URL: gate.url } });
    const account = await registerAccount(gateway);
    const image: MediaCall = {
      path: "/v1/images/generations",
      body: () => ({ model: "sim/image-each-size", prompt: "a lighthouse", quality: "low" }),
      cost: 10_000_000,
    };
    const statuses: number[] = [];
    const calls = Array.from({ length: 30 }, async () => {
      const response = await send(gateway.url, account, image);
      statuses.push(response.status);
      await response.arrayBuffer();
    });
    // Five cost all of the credits of a new account.
    await waitUntil(
      () => statuses.length,
      (refused) => refused === 25,
    );
    await eventually(() => gate.waiting() === 5);
    gate.open();
    await Promise.all(calls);
    expect(statuses.filter((status) => status === 200).length).toBe(5);
    await expectSettledLedger(gateway.server.db);
    expect(await readWallet(gateway.server.db, account.id)).toEqual({
      promo: 0n,
      paid: 0n,
      held: 0n,
    });
    await gateway.stop();
    await gate.stop();
  });
