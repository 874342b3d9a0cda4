import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { connect, createServer } from "node:net";
import OpenAI from "openai";
import { leaseDue, queueDeliveries } from "../../src/activity/deliveries.ts";
import { emitEvent } from "../../src/activity/events.ts";
import { actIn } from "../support/act.ts";
import { eventually } from "../support/eventually.ts";
import { describeEachStore, openStore, type TestStore } from "../support/stores/stores.ts";
import {
  createHarness,
  type Harness,
  HOUR,
  insertAccount,
  MINUTE,
  truncateTables,
} from "./harness.ts";
import { isValidSignature } from "./verify-signature.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

const DATA = { credits: 900_000, usd: 0.9, below_usd: 1 };

describeEachStore((kind, open) => {
  describe(`deliveries on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;
    let receiver: WebhookReceiver;

    beforeAll(async () => {
      store = await open();
    });
    beforeEach(async () => {
      await truncateTables(store.db);
      harness = await createHarness(store.db);
      receiver = startReceiver();
    });
    afterEach(() => receiver.close());
    afterAll(() => store.close());

    const emitLowBalance = (accountId = "acct_alice"): Promise<void> =>
      store.db.write((tx) =>
        emitEvent(tx, { type: "balance.low", accountId, data: DATA, now: harness.clock.now }),
      );

    test("sends an event once, in the Standard Webhooks format", async () => {
      const { id, secret } = await harness.createWebhook(`${receiver.url}/in?x=1`);
      await emitLowBalance();
      await harness.deliver();
      await harness.deliver();
      expect(receiver.received.length).toBe(1);
      const [one] = receiver.received;
      if (one === undefined) throw new Error("nothing received");
      expect(one.path).toBe("/in?x=1");
      expect(one.headers.get("content-type")).toBe("application/json");
      expect(one.headers.get("host")).toBe(new URL(receiver.url).host);
      expect(one.event).toEqual({
        id: expect.stringMatching(/^evt_[0-9a-z]{26}$/),
        type: "balance.low",
        timestamp: "2026-11-21T09:30:00.000Z",
        created_at: "2026-11-21T09:30:00.000Z",
        account_id: "acct_alice",
        data: DATA,
      });
      expect(one.headers.get("webhook-id")).toBe(String(one.event["id"]));
      expect(isValidSignature(secret, one.headers, one.body, harness.clock.now)).toBe(true);
      expect(isValidSignature(secret, one.headers, `${one.body} `, harness.clock.now)).toBe(false);
      expect(await harness.log(id)).toMatchObject([
        {
          status: "delivered",
          tries: 1,
          next_try_at: null,
          event_type: "balance.low",
          attempts: [{ status: 204, error: null, response: "" }],
        },
      ]);
    });

    test("OpenAI's SDK verifies the signature, and rejects one of another secret", async () => {
      const { secret } = await harness.createWebhook(receiver.url);
      harness.clock.now = Date.now();
      await emitLowBalance();
      await harness.deliver();
      const [one] = receiver.received;
      if (one === undefined) throw new Error("nothing received");
      const { webhooks } = new OpenAI({ apiKey: "none" });
      await webhooks.verifySignature(one.body, one.headers, secret);
      const other = `whsec_${Buffer.alloc(32).toString("base64")}`;
      expect(webhooks.verifySignature(one.body, one.headers, other)).rejects.toThrow();
    });

    test("retries a failing delivery with growing delays and fails after eight attempts", async () => {
      const { id, secret } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await emitLowBalance();
      await harness.deliver();
      const delays = [5_000, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 8 * HOUR, 24 * HOUR];
      for (const [index, delay] of delays.entries()) {
        expect(receiver.received.length).toBe(index + 1);
        harness.clock.now += delay - 1;
        await harness.deliver();
        expect(receiver.received.length).toBe(index + 1);
        harness.clock.now += 1;
        await harness.deliver();
      }
      expect(receiver.received.length).toBe(8);
      expect(await harness.log(id)).toMatchObject([
        {
          status: "failed",
          tries: 8,
          next_try_at: null,
          attempts: Array.from({ length: 8 }, () => ({ status: 500 })),
        },
      ]);
      const [first, second] = receiver.received;
      const last = receiver.received.at(-1);
      if (first === undefined || second === undefined || last === undefined)
        throw new Error("nothing received");
      expect(last.body).toBe(first.body);
      expect(last.headers.get("webhook-id")).toBe(first.headers.get("webhook-id"));
      expect(last.headers.get("webhook-timestamp")).not.toBe(
        first.headers.get("webhook-timestamp"),
      );
      expect(isValidSignature(secret, last.headers, last.body, harness.clock.now)).toBe(true);
      harness.clock.now += 48 * HOUR;
      await harness.deliver();
      expect(receiver.received.length).toBe(8);
    });

    test("jitters the retry delay by up to 20% in both directions", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await emitLowBalance();
      await harness.deliver(harness.newWorker({ random: 0 }));
      expect((await harness.log(id))[0]?.next_try_at).toBe("2026-11-21T09:30:04.000Z");
      harness.clock.now += 4_000;
      await harness.deliver(harness.newWorker({ random: 1 }));
      expect((await harness.log(id))[0]?.next_try_at).toBe("2026-11-21T09:31:16.000Z");
    });

    test("honors a longer `retry-after` of the endpoint", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("", { status: 429, headers: { "retry-after": "600" } });
      await emitLowBalance();
      await harness.deliver();
      expect((await harness.log(id))[0]?.next_try_at).toBe("2026-11-21T09:40:00.000Z");
    });

    test("disables a webhook that failed for a day, and records it in the log and the audit", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await emitLowBalance();
      for (let hour = 0; hour < 40; hour++) {
        await harness.deliver();
        harness.clock.now += HOUR;
      }
      const { body } = await harness.call("alice", "GET", `/v1/webhooks/${id}`);
      expect(body).toMatchObject({
        status: "disabled",
        disabled_reason: expect.stringMatching(/^nothing was delivered for \d+ hours$/),
        failing_since: "2026-11-21T09:30:00.000Z",
      });
      expect(harness.logged.join("\n")).toContain("webhook disabled");
      const audit = await harness.call("alice", "GET", "/v1/audit?action=webhook.disabled");
      expect(audit.body["data"]).toMatchObject([
        { target: id, actor: { type: "system", id: "webhooks" } },
      ]);
      // No delivery is queued while it is disabled.
      await emitLowBalance();
      expect((await harness.log(id)).length).toBe(1);
      const enabled = await harness.call("alice", "PATCH", `/v1/webhooks/${id}`, {
        status: "active",
      });
      expect(enabled.body).toMatchObject({
        status: "active",
        disabled_reason: null,
        failing_since: null,
      });
    });

    test("does not disable a webhook if an attempt succeeded within the day", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await emitLowBalance();
      for (let hour = 0; hour < 40; hour++) {
        if (hour === 20) {
          receiver.respond = ({ event }) =>
            new Response("", { status: event["type"] === "webhook.test" ? 200 : 500 });
          await harness.call("alice", "POST", `/v1/webhooks/${id}/test`);
        }
        await harness.deliver();
        harness.clock.now += HOUR;
      }
      const { body } = await harness.call("alice", "GET", `/v1/webhooks/${id}`);
      expect(body["status"]).toBe("active");
      expect((await harness.log(id)).map(({ status }) => status)).toEqual(["delivered", "failed"]);
    });

    test("disables a webhook at once after 410 Gone and cancels its pending deliveries", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("", { status: 410 });
      await emitLowBalance();
      await emitLowBalance();
      await harness.deliver();
      expect(receiver.received.length).toBe(1);
      expect((await harness.log(id)).map(({ status }) => status).sort()).toEqual([
        "cancelled",
        "failed",
      ]);
      expect((await harness.call("alice", "GET", `/v1/webhooks/${id}`)).body).toMatchObject({
        status: "disabled",
        disabled_reason: "the endpoint answered 410 Gone",
      });
    });

    test("replays a delivered event at once, with the same body and id", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await emitLowBalance();
      await harness.deliver();
      const [delivery] = await harness.log(id);
      const path = `/v1/webhooks/${id}/deliveries/${delivery?.id}/replay`;
      const replay = await harness.call("alice", "POST", path);
      expect([replay.status, replay.body["status"], replay.body["tries"]]).toEqual([
        202,
        "pending",
        0,
      ]);
      await harness.deliver();
      const [first, second] = receiver.received;
      expect(second?.body).toBe(first?.body ?? "");
      expect(second?.headers.get("webhook-id")).toBe(first?.headers.get("webhook-id") ?? "");
      const [after] = await harness.log(id);
      expect([after?.status, after?.attempts.length]).toEqual(["delivered", 2]);
    });

    test("signs with both secrets for a day after a rotation, then with the new one only", async () => {
      const before = await harness.createWebhook(receiver.url);
      const rotated = await harness.call("alice", "POST", `/v1/webhooks/${before.id}/rotate`);
      const fresh = String(rotated.body["secret"]);
      expect(fresh).not.toBe(before.secret);
      const validSignatures = async (): Promise<readonly boolean[]> => {
        await emitLowBalance();
        await harness.deliver();
        const one = receiver.received.at(-1);
        if (one === undefined) throw new Error("nothing received");
        return [before.secret, fresh].map((secret) =>
          isValidSignature(secret, one.headers, one.body, harness.clock.now),
        );
      };
      expect(await validSignatures()).toEqual([true, true]);
      expect(receiver.received.at(-1)?.headers.get("webhook-signature")).toMatch(
        /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/,
      );
      harness.clock.now += 24 * HOUR;
      expect(await validSignatures()).toEqual([false, true]);
    });

    test("several workers on one store deliver each event once", async () => {
      await Promise.all(
        [1, 2, 3, 4].map((number) => harness.createWebhook(`${receiver.url}/${number}`)),
      );
      const overlap = Promise.withResolvers<void>();
      receiver.respond = async () => {
        await overlap.promise;
        return new Response("");
      };
      for (let round = 0; round < 10; round++) await emitLowBalance();
      const workers = [harness.newWorker(), harness.newWorker(), harness.newWorker()];
      await Promise.all(workers.map((worker) => worker.tick()));
      overlap.resolve();
      await Promise.all(workers.map((worker) => harness.deliver(worker)));
      for (const worker of workers) await harness.deliver(worker);
      const seen = receiver.received.map(
        ({ path, headers }) => `${path} ${headers.get("webhook-id")}`,
      );
      expect(seen.length).toBe(40);
      expect(new Set(seen).size).toBe(40);
    });

    test("slow endpoints of other accounts do not stop a delivery", async () => {
      const accounts = Array.from({ length: 8 }, (_, index) => `acct_slow${index}`);
      const responses: (() => void)[] = [];
      let slowBefore = 0;
      receiver.respond = ({ path }) => {
        if (path === "/quick") {
          slowBefore = responses.length;
          return new Response();
        }
        const { promise, resolve } = Promise.withResolvers<Response>();
        responses.push(() => resolve(new Response()));
        return promise;
      };
      await store.db.write(async (tx) => {
        for (const accountId of accounts) {
          await insertAccount(tx, accountId);
          for (let endpoint = 0; endpoint < 10; endpoint++)
            await harness.webhooks.add(tx, actIn(accountId, harness.clock.now), {
              url: `${receiver.url}/slow`,
            });
        }
      });
      for (let event = 0; event < 3; event++)
        for (const accountId of accounts) await emitLowBalance(accountId);
      const worker = harness.newWorker();
      await worker.tick();
      await eventually(() => responses.length === 64);
      harness.clock.now += MINUTE / 2;
      const { id } = await harness.createWebhook(`${receiver.url}/quick`);
      await emitLowBalance();
      // The places of all requests are taken: the next free one is for the account that has none.
      responses[0]?.();
      await eventually(async () => (await harness.log(id))[0]?.status === "delivered");
      expect(slowBefore).toBe(64);
      for (const respond of responses) respond();
      receiver.respond = () => new Response();
      await worker.idle();
      expect(receiver.received.length).toBe(1 + 8 * 10 * 3);
    });

    test.each([999, 1_000, 1_001])(
      "a lease finds a delivery behind %d older ones of another account",
      async (older) => {
        const { now } = harness.clock;
        const accounts = [...Array<string>(older).fill("acct_long"), "acct_short"];
        await store.db.write(async (tx) => {
          for (const [index, accountId] of accounts.entries())
            await queueDeliveries(tx, {
              eventId: "evt_a",
              accountId,
              webhookIds: [`whk_${accountId}`],
              now: now - older + index,
            });
          await leaseDue(tx, { now, limit: 2, lease: "mine", busy: new Map() });
        });
        const leased = await store.db.all(
          "select account_id from webhook_delivery where lease = 'mine' order by account_id",
        );
        expect(leased).toEqual([{ account_id: "acct_long" }, { account_id: "acct_short" }]);
      },
    );

    test("delivers the events of an endpoint in order", async () => {
      await harness.createWebhook(receiver.url);
      for (let round = 0; round < 6; round++) {
        await emitLowBalance();
        harness.clock.now += 1;
      }
      await harness.deliver();
      const ids = receiver.received.map(({ headers }) => String(headers.get("webhook-id")));
      expect(ids).toEqual(ids.toSorted());
      expect(ids.length).toBe(6);
    });

    test("retries a delivery after the lease of a dead worker has expired", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await emitLowBalance();
      await store.db.write((tx) =>
        tx.run(
          "update webhook_delivery set due_at = ?, tries = 1, lease = 'dead' where status = 'pending'",
          [harness.clock.now + MINUTE],
        ),
      );
      await harness.deliver();
      expect(receiver.received.length).toBe(0);
      harness.clock.now += MINUTE;
      await harness.deliver();
      expect(receiver.received.length).toBe(1);
      expect((await harness.log(id))[0]).toMatchObject({ status: "delivered", tries: 2 });
    });

    test("a worker that lost its lease does not overwrite the outcome of another worker", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await emitLowBalance();
      const release = Promise.withResolvers<Response>();
      receiver.respond = () => release.promise;
      const slow = harness.newWorker({ timeoutMs: 60_000 });
      await slow.tick();
      await eventually(() => receiver.received.length);
      receiver.respond = () => new Response("second");
      harness.clock.now += MINUTE;
      await harness.deliver();
      release.resolve(new Response("first", { status: 500 }));
      await slow.idle();
      expect(await harness.log(id)).toMatchObject([
        { status: "delivered", tries: 2, attempts: [{ status: 200, response: "second" }] },
      ]);
    });

    test("stop releases deliveries whose requests exceed the drain time", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Promise<Response>(() => {});
      await emitLowBalance();
      const worker = harness.newWorker({ timeoutMs: 60_000 });
      await worker.tick();
      await eventually(() => receiver.received.length);
      await worker.stop();
      expect((await harness.log(id))[0]).toMatchObject({
        status: "pending",
        tries: 0,
        attempts: [],
      });
      await worker.tick();
      expect(receiver.received.length).toBe(1);
      receiver.respond = () => new Response("");
      await harness.deliver();
      expect((await harness.log(id))[0]).toMatchObject({ status: "delivered", tries: 1 });
    });

    test("an endpoint that hangs does not delay the others", async () => {
      await harness.createWebhook(`${receiver.url}/slow`);
      await harness.createWebhook(`${receiver.url}/fast`);
      receiver.respond = ({ path }) =>
        path === "/slow" ? new Promise<Response>(() => {}) : new Response("");
      for (let round = 0; round < 5; round++) await emitLowBalance();
      const worker = harness.newWorker({ timeoutMs: 30_000 });
      await worker.tick();
      const received = (path: string): number =>
        receiver.received.filter((request) => request.path === path).length;
      await eventually(() => received("/fast") === 5);
      expect(received("/slow")).toBe(1);
      await worker.stop();
    });

    test("delivers events of a clock that ran ahead after the next sweep", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      harness.clock.now += 365 * 24 * HOUR;
      await emitLowBalance();
      harness.clock.now -= 365 * 24 * HOUR;
      await harness.deliver();
      expect(await harness.log(id)).toMatchObject([{ status: "pending" }]);
      await harness.newWorker().sweep();
      await harness.deliver();
      expect(await harness.log(id)).toMatchObject([{ status: "delivered" }]);
    });

    test("deletes events and deliveries after 30 days", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await emitLowBalance();
      await harness.deliver();
      harness.clock.now += 30 * 24 * HOUR + 1;
      await emitLowBalance();
      await harness.newWorker().sweep();
      expect((await harness.log(id)).length).toBe(1);
      expect((await harness.call("alice", "GET", "/v1/events")).body["data"]).toHaveLength(1);
    });
  });
});

describe("a misbehaving endpoint", () => {
  let store: TestStore;
  let harness: Harness;
  const servers: (() => void)[] = [];

  beforeEach(async () => {
    store = await openStore("sqlite");
    harness = await createHarness(store.db);
  });
  afterEach(async () => {
    for (const close of servers.splice(0)) close();
    await store.close();
  });

  /** A TCP server that sends bytes which no HTTP library would send. */
  const rawServer = (respond: (write: (data: string | Buffer) => void) => void): Promise<string> =>
    new Promise((resolve) => {
      const server = createServer((socket) => {
        socket.on("error", () => {});
        socket.once("data", () => respond((data) => void (socket.writable && socket.write(data))));
      });
      servers.push(() => server.close());
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        resolve(`http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`);
      });
    });

  const deliverTo = async (url: string, timeoutMs = 400) => {
    const { id } = await harness.createWebhook(url);
    await harness.call("alice", "POST", `/v1/webhooks/${id}/test`);
    await harness.deliver(harness.newWorker({ timeoutMs }));
    const [delivery] = await harness.log(id);
    return { delivery, attempt: delivery?.attempts[0] };
  };

  test("that never responds: the request times out", async () => {
    const { delivery, attempt } = await deliverTo(await rawServer(() => {}));
    expect(delivery?.status).toBe("pending");
    expect(attempt).toMatchObject({ status: null, error: "no response within 0.4 seconds" });
  });

  test("that sends headers without end: the request times out", async () => {
    const url = await rawServer((write) => {
      write("HTTP/1.1 200 OK\r\n");
      const timer = setInterval(() => write("x: y\r\n"), 20);
      servers.push(() => clearInterval(timer));
    });
    expect((await deliverTo(url)).attempt?.error).toBe("no response within 0.4 seconds");
  });

  test("that sends 1xx responses without end: the request times out", async () => {
    const url = await rawServer((write) => {
      const timer = setInterval(() => write("HTTP/1.1 102 Processing\r\n\r\n"), 20);
      servers.push(() => clearInterval(timer));
    });
    expect((await deliverTo(url)).attempt?.error).toBe("no response within 0.4 seconds");
  });

  test("that redirects: the redirect is not followed", async () => {
    const target = startReceiver();
    servers.push(() => void target.close());
    const url = await rawServer((write) =>
      write(`HTTP/1.1 307 Moved\r\nlocation: ${target.url}/\r\ncontent-length: 0\r\n\r\n`),
    );
    expect((await deliverTo(url, 30_000)).attempt).toMatchObject({
      status: 307,
      error: "redirects are not followed",
    });
    expect(target.received).toEqual([]);
  });

  test("that sends gigabytes: only 1,024 bytes are stored", async () => {
    let written = 0;
    const url = await rawServer((write) => {
      write("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n");
      const timer = setInterval(() => {
        written += 65_536;
        write(Buffer.alloc(65_536, 66));
      }, 1);
      servers.push(() => clearInterval(timer));
    });
    const { delivery, attempt } = await deliverTo(url, 30_000);
    expect(delivery?.status).toBe("delivered");
    expect(attempt?.response).toBe("B".repeat(1_024));
    expect(written).toBeLessThan(4_000_000);
  });

  test("that sends 200 and then a slow body: the event counts as delivered", async () => {
    const url = await rawServer((write) => {
      write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      const timer = setInterval(() => write("1\r\nx\r\n"), 50);
      servers.push(() => clearInterval(timer));
    });
    const { id } = await harness.createWebhook(url);
    await harness.call("alice", "POST", `/v1/webhooks/${id}/test`);
    await harness.deliver(harness.newWorker({ timeoutMs: 3_000 }));
    expect((await harness.log(id))[0]).toMatchObject({ status: "delivered" });
  });

  test("that sends a header of 1 MB: the attempt fails", async () => {
    const url = await rawServer((write) =>
      write(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(1_000_000)}\r\n\r\n`),
    );
    const { delivery, attempt } = await deliverTo(url);
    expect([delivery?.status, attempt?.status]).toEqual(["pending", null]);
  });

  test("that does not speak HTTP, or sends nothing: the attempt fails", async () => {
    for (const bytes of ["SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 9\r\n\r\n", ""]) {
      const url = await rawServer((write) => write(bytes));
      expect((await deliverTo(url)).attempt).toMatchObject({
        status: null,
        error: expect.any(String),
      });
    }
  });

  test("that compresses its response: it is not decompressed", async () => {
    const compressed = Bun.gzipSync(Buffer.alloc(10_000_000, 65));
    const url = await rawServer((write) => {
      write(
        `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${compressed.length}\r\n\r\n`,
      );
      write(Buffer.from(compressed));
    });
    expect((await deliverTo(url)).attempt?.response.length).toBeLessThanOrEqual(1_024);
  });

  test("that refuses connections: the delivery log says so", async () => {
    const closed = await rawServer(() => {});
    servers.pop()?.();
    await new Promise<void>((resolve) => {
      connect(Number(new URL(closed).port), "127.0.0.1").on("error", () => resolve());
    });
    expect((await deliverTo(closed)).attempt?.error).toBe("the connection was refused");
  });

  test("that sends control characters: they are replaced in the delivery log", async () => {
    const url = await rawServer((write) =>
      write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na\u0000b\u001b[31mc"),
    );
    const response = (await deliverTo(url)).attempt?.response ?? "";
    expect(response).toBe("a\u{fffd}b\u{fffd}[31mc");
  });
});
