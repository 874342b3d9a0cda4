// A hold lasts as long as its call can run, however slowly the body arrives and the provider replies.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SECOND_MS } from "../../../src/base/time.ts";
import { holdLifetimeMs, lastAttemptStartMs } from "../../../src/inference/lifecycle/timeouts.ts";
import { DEFAULT_TIMEOUTS } from "../../../src/inference/lifecycle/timeouts.ts";
import { ATTEMPTS_PER_CANDIDATE } from "../../../src/inference/upstream/attempt.ts";
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
  releaseReplies,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";

const START = Date.UTC(2026, 10, 21, 9, 30);

test("a hold outlives the last candidate's attempts, a silent stream, and the drain", () => {
  const { firstByteMs, replyMs, idleMs, drainMs } = DEFAULT_TIMEOUTS;
  const attemptMs = Math.max(replyMs, firstByteMs + idleMs);
  const callMs =
    lastAttemptStartMs(DEFAULT_TIMEOUTS) + ATTEMPTS_PER_CANDIDATE * attemptMs + drainMs;
  expect(holdLifetimeMs(DEFAULT_TIMEOUTS)).toBeGreaterThan(callMs);
});

describe.each(STORE_KINDS)("the hold of a call with a slow request body, on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let now = START;
  let clockReads = 0;
  const readClock = (): number => {
    clockReads += 1;
    return now;
  };
  beforeAll(async () => {
    gateway = await startGateway({ store, now: readClock });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
  });
  afterAll(() => gateway.stop());

  /** Sends the first bytes of the body at once, and the rest on `finish`. */
  async function beginCall(
    body: Json,
    headers = "",
  ): Promise<RawConnection & { readonly finish: () => void }> {
    const connection = await openRawConnection(gateway);
    const text = JSON.stringify(body);
    const readsBefore = clockReads;
    connection.socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\n` +
        `${headers}content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text.slice(0, 20)}`,
    );
    // The gateway reads its clock when the request arrives.
    await waitUntil(
      () => clockReads,
      (reads) => reads > readsBefore,
    );
    return { ...connection, finish: () => connection.socket.write(text.slice(20)) };
  }

  test("does not expire while the call still streams", async () => {
    now = START;
    const body = bodyOf("chat", "[[sim: latency=600 tokens=20000 chunks=40 pace=100]] go", {
      stream: true,
      max_tokens: 20_000,
    });
    const connection = await beginCall(body, "x-postern-hold: full\r\n");
    now = START + 115 * SECOND_MS;
    connection.finish();
    await waitUntil(
      () => countOpenHolds(gateway.server.db),
      (count) => count === 1,
    );
    // The stream's time limit begins with its first byte.
    now = START + 290 * SECOND_MS;
    await connection.until(/"content":/);
    const { held } = await readWallet(gateway.server.db, account.id);
    expect(held).toBeGreaterThan(0n);
    // The provider is never idle for too long, and the stream stays within its time limit.
    for (const second of [450, 600, 750, 900, 1_050, 1_150]) {
      now = START + second * SECOND_MS;
      const { length } = connection.output().text;
      await connection.until((text) => text.length > length);
    }
    expect(connection.output().text).not.toContain("[DONE]");
    const [hold] = await gateway.server.db.all("select expires_at from hold");
    expect(hold === undefined ? 0 : integer(hold, "expires_at")).toBeGreaterThan(now);
    expect((await readWallet(gateway.server.db, account.id)).held).toBe(held);
    const { text } = await connection.until(/\[DONE\]/);
    expect(text).toContain("[DONE]");
    connection.socket.destroy();
    await expectSettledLedger(gateway.server.db);
    const late = await gateway.server.db.all("select id from swept_hold");
    expect(late).toEqual([]);
  });

  test("is counted from its own start, not from the arrival of the request", async () => {
    now = START;
    const connection = await beginCall(bodyOf("chat", "[[sim: latency=1500]] go"));
    now = START + 119 * SECOND_MS;
    connection.finish();
    await waitUntil(
      () => countOpenHolds(gateway.server.db),
      (count) => count === 1,
    );
    const [hold] = await gateway.server.db.all("select created_at, expires_at from hold");
    expect(hold === undefined ? 0 : integer(hold, "created_at")).toBe(now);
    expect(hold === undefined ? 0 : integer(hold, "expires_at")).toBe(
      now + holdLifetimeMs(DEFAULT_TIMEOUTS),
    );
    await connection.until(/chat\.completion/);
    connection.socket.destroy();
  });

  test("is refused if the key expired while the body arrived", async () => {
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
    const connection = await beginCall(bodyOf("chat", "go"));
    account = owner;
    now = START + 61 * SECOND_MS;
    connection.finish();
    expect((await connection.until(/\r\n\r\n/)).text).toStartWith("HTTP/1.1 401");
    connection.socket.destroy();
    expect(await countOpenHolds(gateway.server.db)).toBe(0);
  });

  test("with an `Idempotency-Key` counts the age of the key from the end of the body", async () => {
    now = START;
    const body = bodyOf("chat", "[[sim: latency=1500]] keyed");
    const connection = await beginCall(body, "idempotency-key: slow\r\n");
    now = START + 119 * SECOND_MS;
    connection.finish();
    const row = await waitUntil(
      () => gateway.server.db.get("select created_at from idempotent_answer"),
      (found) => found !== undefined,
    );
    expect(row === undefined ? 0 : integer(row, "created_at")).toBe(now);
    await connection.until(/chat\.completion/);
    connection.socket.destroy();
  });
});

describe.each(STORE_KINDS)(
  "an `Idempotency-Key` that was released while its call ran, on %s",
  (store) => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await startGateway({ store });
      account = await registerAccount(gateway);
    });
    afterAll(() => gateway.stop());

    const releaseKeys = (): Promise<unknown> =>
      gateway.server.db.write((tx) => tx.run("delete from idempotent_answer"));
    const keyed = (body: Json, key: string) =>
      postCall(
        gateway,
        { ...account, headers: { ...account.headers, "idempotency-key": key } },
        "chat",
        body,
      );

    for (const [how, first] of [
      ["succeeds", bodyOf("chat", "[[sim: wait=first-succeeds text=first]] x")],
      ["fails", bodyOf("chat", "[[sim: wait=first-fails status=400]] x")],
    ] as const)
      test(`belongs to the next call, even when the first ${how}`, async () => {
        const key = `released-${how}`;
        const second = bodyOf("chat", `[[sim: wait=second-${how} text=second]] x`);
        const holdsAre = (expected: number) =>
          waitUntil(
            () => countOpenHolds(gateway.server.db),
            (count) => count === expected,
          );
        const earlier = keyed(first, key);
        await holdsAre(1);
        await releaseKeys();
        const later = keyed(second, key);
        await holdsAre(2);
        await releaseReplies(gateway, `first-${how}`);
        // A reply is neither delivered nor charged, because the next call with the key is.
        expect((await earlier).status).toBe(how === "succeeds" ? 503 : 400);
        // The second call still runs: it has no response yet, and must not run again.
        expect((await keyed(second, key)).status).toBe(409);
        await releaseReplies(gateway, `second-${how}`);
        const response = await (await later).text();
        expect(response).toContain("second");
        const again = await keyed(second, key);
        expect([again.headers.get("idempotent-replayed"), await again.text()]).toEqual([
          "true",
          response,
        ]);
      });
  },
);
