// A hold stands for as long as its call may run, however long its body takes to come and its provider to answer.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SECOND_MS } from "../../../src/base/time.ts";
import { holdLifetimeMs } from "../../../src/inference/lifecycle/hold-lifetime.ts";
import { DEFAULT_TIMEOUTS } from "../../../src/inference/lifecycle/timeouts.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { integer } from "../../../src/store/db.ts";
import { type RawConnection, openRawConnection } from "../../http/raw-client.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  countOpenHolds,
  postCall,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";

const START = Date.UTC(2026, 10, 21, 9, 30);

describe.each(STORE_KINDS)("the hold of a call whose body comes slowly, on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let now = START;
  beforeAll(async () => {
    gateway = await startGateway({ store, now: () => now });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
  });
  afterAll(() => gateway.stop());

  /** Sends the first bytes of a call's body at once, and the rest when it is told to. */
  async function beginCall(body: Json): Promise<RawConnection & { readonly finish: () => void }> {
    const line = await openRawConnection(gateway);
    const text = JSON.stringify(body);
    line.socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\n` +
        `content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text.slice(0, 20)}`,
    );
    await Bun.sleep(200);
    return { ...line, finish: () => line.socket.write(text.slice(20)) };
  }

  test("is not swept while the call still streams, so that its credit is not spent twice", async () => {
    now = START;
    const body = bodyOf("chat", "[[sim: latency=600 tokens=20000 chunks=40 pace=50]] go", {
      stream: true,
      max_tokens: 20_000,
    });
    const line = await beginCall(body);
    now = START + 115 * SECOND_MS;
    line.finish();
    await waitUntil(
      () => countOpenHolds(gateway.server.db),
      (count) => count === 1,
    );
    // The provider takes its time for the first byte, and the stream's own time begins with that.
    now = START + 290 * SECOND_MS;
    await line.until(/"content":/, 3_000);
    const { held } = await readWallet(gateway.server.db, account.id);
    expect(held).toBeGreaterThan(0n);
    // No silence is longer than the provider may keep, and the stream is within its time.
    for (const second of [450, 600, 750, 900, 1_050, 1_150]) {
      now = START + second * SECOND_MS;
      await Bun.sleep(100);
    }
    expect(line.output().text).not.toContain("[DONE]");
    expect(await sweepHolds(gateway.server.db, now)).toBe(0);
    expect((await readWallet(gateway.server.db, account.id)).held).toBe(held);
    const { text } = await line.until(/\[DONE\]/, 10_000);
    expect(text).toContain("[DONE]");
    line.socket.destroy();
    await expectSettledLedger(gateway.server.db);
    const late = await gateway.server.db.all("select id from swept_hold");
    expect(late).toEqual([]);
  }, 30_000);

  test("begins when it is taken, and not when the request arrived", async () => {
    now = START;
    const line = await beginCall(bodyOf("chat", "[[sim: latency=600]] go"));
    now = START + 119 * SECOND_MS;
    line.finish();
    await waitUntil(
      () => countOpenHolds(gateway.server.db),
      (count) => count === 1,
    );
    const [hold] = await gateway.server.db.all("select created_at, expires_at from hold");
    expect(hold === undefined ? 0 : integer(hold, "created_at")).toBe(now);
    expect(hold === undefined ? 0 : integer(hold, "expires_at")).toBe(
      now + holdLifetimeMs(DEFAULT_TIMEOUTS),
    );
    await line.until(/chat\.completion/, 5_000);
    line.socket.destroy();
  });

  test("is refused to a key that expired while the body came", async () => {
    now = START;
    const expires = new Date(START + 60 * SECOND_MS).toISOString();
    const minted = await fetch(`${gateway.url}/v1/keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ expires_at: expires }),
    });
    const { api_key: key } = (await minted.json()) as { api_key: string };
    const owner = account;
    account = { ...account, key };
    const line = await beginCall(bodyOf("chat", "go"));
    account = owner;
    now = START + 61 * SECOND_MS;
    line.finish();
    expect((await line.until(/\r\n\r\n/, 3_000)).text).toStartWith("HTTP/1.1 401");
    line.socket.destroy();
    expect(await countOpenHolds(gateway.server.db)).toBe(0);
  });

  test("with an Idempotency-Key is known as running from the end of its body on", async () => {
    now = START;
    const text = JSON.stringify(bodyOf("chat", "[[sim: latency=600]] keyed"));
    const line = await openRawConnection(gateway);
    line.socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\nidempotency-key: slow\r\n` +
        `content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text.slice(0, 20)}`,
    );
    await Bun.sleep(200);
    now = START + 119 * SECOND_MS;
    line.socket.write(text.slice(20));
    const row = await waitUntil(
      () => gateway.server.db.get("select created_at from idempotent_answer"),
      (found) => found !== undefined,
    );
    expect(row === undefined ? 0 : integer(row, "created_at")).toBe(now);
    await line.until(/chat\.completion/, 5_000);
    line.socket.destroy();
  });
});

describe.each(STORE_KINDS)(
  "an Idempotency-Key that was let go while its call ran, on %s",
  (store) => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await startGateway({ store });
      account = await registerAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const letGo = (): Promise<unknown> =>
      gateway.server.db.write((tx) => tx.run("delete from idempotent_answer"));
    const keyed = (body: Json, key: string) =>
      postCall(
        gateway,
        { ...account, headers: { ...account.headers, "idempotency-key": key } },
        "chat",
        body,
      );

    for (const [how, first] of [
      ["succeeds", bodyOf("chat", "[[sim: latency=300 text=first]] x")],
      ["fails", bodyOf("chat", "[[sim: latency=300 status=400]] x")],
    ] as const)
      test(`is the next call's alone, also when the first ${how}`, async () => {
        const key = `let-go-${how}`;
        const second = bodyOf("chat", "[[sim: latency=900 text=second]] x");
        const earlier = keyed(first, key);
        await Bun.sleep(150);
        await letGo();
        const later = keyed(second, key);
        expect((await earlier).status).toBe(how === "succeeds" ? 200 : 400);
        // The second still runs: neither is its answer there, nor may it be run once more.
        expect((await keyed(second, key)).status).toBe(409);
        const answer = await (await later).text();
        expect(answer).toContain("second");
        const again = await keyed(second, key);
        expect([again.headers.get("idempotent-replayed"), await again.text()]).toEqual([
          "true",
          answer,
        ]);
      });
  },
);
