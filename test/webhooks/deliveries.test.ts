import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { connect, createServer } from "node:net";
import OpenAI from "openai";
import { emitEvent } from "../../src/events/events.ts";
import { describeEachStore, openStore, type TestStore } from "../support/stores/stores.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";
import { isValidSignature } from "./verify-signature.ts";
import { HOUR, MINUTE, truncateTables, createHarness, type Harness } from "./harness.ts";

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

    const raiseLow = (accountId = "acct_alice"): Promise<void> =>
      store.db.write((tx) =>
        emitEvent(tx, { type: "balance.low", accountId, data: DATA, now: harness.clock.now }),
      );

    test("an event arrives once, in the Standard Webhooks form", async () => {
      const { id, secret } = await harness.createWebhook(`${receiver.url}/in?x=1`);
      await raiseLow();
      await harness.deliver();
      await harness.deliver();
      expect(receiver.received.length).toBe(1);
      const [one] = receiver.received;
      if (one === undefined) throw new Error("nothing came");
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

    test("a library of somebody else's takes the signature, and no other", async () => {
      const { secret } = await harness.createWebhook(receiver.url);
      harness.clock.now = Date.now();
      await raiseLow();
      await harness.deliver();
      const [one] = receiver.received;
      if (one === undefined) throw new Error("nothing came");
      const { webhooks } = new OpenAI({ apiKey: "none" });
      await webhooks.verifySignature(one.body, one.headers, secret);
      const other = `whsec_${Buffer.alloc(32).toString("base64")}`;
      expect(webhooks.verifySignature(one.body, one.headers, other)).rejects.toThrow();
    });

    test("what fails is tried again after growing pauses, eight times, then given up", async () => {
      const { id, secret } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await raiseLow();
      await harness.deliver();
      const pauses = [5_000, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 8 * HOUR, 24 * HOUR];
      for (const [place, pause] of pauses.entries()) {
        expect(receiver.received.length).toBe(place + 1);
        harness.clock.now += pause - 1;
        await harness.deliver();
        expect(receiver.received.length).toBe(place + 1);
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
        throw new Error("none");
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

    test("pauses are spread by a fifth to both sides", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await raiseLow();
      await harness.deliver(harness.newWorker({ random: 0 }));
      expect((await harness.log(id))[0]?.next_try_at).toBe("2026-11-21T09:30:04.000Z");
      harness.clock.now += 4_000;
      await harness.deliver(harness.newWorker({ random: 1 }));
      expect((await harness.log(id))[0]?.next_try_at).toBe("2026-11-21T09:31:16.000Z");
    });

    test("an endpoint that asks for a longer pause gets it", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("", { status: 429, headers: { "retry-after": "600" } });
      await raiseLow();
      await harness.deliver();
      expect((await harness.log(id))[0]?.next_try_at).toBe("2026-11-21T09:40:00.000Z");
    });

    test("an endpoint that fails for a day is disabled, and the record, the log and the audit say so", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await raiseLow();
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
      expect(harness.logged.join("\n")).toContain("a webhook was disabled");
      const audit = await harness.call("alice", "GET", "/v1/audit?action=webhook.disabled");
      expect(audit.body["data"]).toMatchObject([
        { target: id, actor: { type: "system", id: "webhooks" } },
      ]);
      // Nothing is kept for it meanwhile.
      await raiseLow();
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

    test("an endpoint that delivers now and then is not disabled", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("no", { status: 500 });
      await raiseLow();
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

    test("410 Gone disables at once and cancels what waits", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Response("", { status: 410 });
      await raiseLow();
      await raiseLow();
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

    test("a replay sends the same event at once, whatever became of it before", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await raiseLow();
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

    test("for a day after a rotation both secrets sign, then the new one only", async () => {
      const before = await harness.createWebhook(receiver.url);
      const rotated = await harness.call("alice", "POST", `/v1/webhooks/${before.id}/rotate`);
      const fresh = String(rotated.body["secret"]);
      expect(fresh).not.toBe(before.secret);
      const authentic = async (): Promise<readonly boolean[]> => {
        await raiseLow();
        await harness.deliver();
        const one = receiver.received.at(-1);
        if (one === undefined) throw new Error("nothing came");
        return [before.secret, fresh].map((secret) =>
          isValidSignature(secret, one.headers, one.body, harness.clock.now),
        );
      };
      expect(await authentic()).toEqual([true, true]);
      expect(receiver.received.at(-1)?.headers.get("webhook-signature")).toMatch(
        /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/,
      );
      harness.clock.now += 24 * HOUR;
      expect(await authentic()).toEqual([false, true]);
    });

    test("two workers on one store deliver each event once", async () => {
      const hooks = await Promise.all(
        [1, 2, 3, 4].map((place) => harness.createWebhook(`${receiver.url}/${place}`)),
      );
      receiver.respond = async () => {
        await Bun.sleep(2);
        return new Response("");
      };
      for (let round = 0; round < 10; round++) await raiseLow();
      const workers = [harness.newWorker(), harness.newWorker(), harness.newWorker()];
      await Promise.all(workers.map((worker) => harness.deliver(worker)));
      for (const worker of workers) await harness.deliver(worker);
      const seen = receiver.received.map(
        ({ path, headers }) => `${path} ${headers.get("webhook-id")}`,
      );
      expect(seen.length).toBe(40);
      expect(new Set(seen).size).toBe(40);
      expect(hooks.length).toBe(4);
    });

    test("one worker keeps the order of an endpoint's events", async () => {
      await harness.createWebhook(receiver.url);
      for (let round = 0; round < 6; round++) {
        await raiseLow();
        harness.clock.now += 1;
      }
      await harness.deliver();
      const ids = receiver.received.map(({ headers }) => String(headers.get("webhook-id")));
      expect(ids).toEqual(ids.toSorted());
      expect(ids.length).toBe(6);
    });

    test("what a dead worker had taken is tried again a minute later", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await raiseLow();
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

    test("a worker that was overtaken does not overwrite what the other noted", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await raiseLow();
      const release = Promise.withResolvers<Response>();
      receiver.respond = () => release.promise;
      const slow = harness.newWorker({ timeoutMs: 5_000 });
      await slow.tick();
      while (receiver.received.length === 0) await Bun.sleep(1);
      receiver.respond = () => new Response("second");
      harness.clock.now += MINUTE;
      await harness.deliver();
      release.resolve(new Response("first", { status: 500 }));
      await slow.idle();
      expect(await harness.log(id)).toMatchObject([
        { status: "delivered", tries: 2, attempts: [{ status: 200, response: "second" }] },
      ]);
    });

    test("a stop waits for calls under way, and gives back those that take too long", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      receiver.respond = () => new Promise<Response>(() => {});
      await raiseLow();
      const postman = harness.newWorker({ timeoutMs: 60_000 });
      await postman.tick();
      while (receiver.received.length === 0) await Bun.sleep(1);
      const began = performance.now();
      await postman.stop();
      expect(performance.now() - began).toBeLessThan(5_000);
      expect((await harness.log(id))[0]).toMatchObject({
        status: "pending",
        tries: 0,
        attempts: [],
      });
      await postman.tick();
      expect(receiver.received.length).toBe(1);
      receiver.respond = () => new Response("");
      await harness.deliver();
      expect((await harness.log(id))[0]).toMatchObject({ status: "delivered", tries: 1 });
    });

    test("one endpoint that hangs does not hold up the others", async () => {
      await harness.createWebhook(`${receiver.url}/slow`);
      await harness.createWebhook(`${receiver.url}/fast`);
      receiver.respond = ({ path }) =>
        path === "/slow" ? new Promise<Response>(() => {}) : new Response("");
      for (let round = 0; round < 5; round++) await raiseLow();
      const postman = harness.newWorker({ timeoutMs: 30_000 });
      await postman.tick();
      const until = performance.now() + 10_000;
      const fast = (): number => receiver.received.filter(({ path }) => path === "/fast").length;
      while (fast() < 5 && performance.now() < until) await Bun.sleep(5);
      expect(fast()).toBe(5);
      expect(receiver.received.filter(({ path }) => path === "/slow").length).toBe(1);
      await postman.stop();
    });

    test("what a clock that ran ahead put off is not left until then", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      harness.clock.now += 365 * 24 * HOUR;
      await raiseLow();
      harness.clock.now -= 365 * 24 * HOUR;
      await harness.deliver();
      expect(await harness.log(id)).toMatchObject([{ status: "pending" }]);
      await harness.newWorker().sweep();
      await harness.deliver();
      expect(await harness.log(id)).toMatchObject([{ status: "delivered" }]);
    });

    test("what is older than 30 days is forgotten", async () => {
      const { id } = await harness.createWebhook(receiver.url);
      await raiseLow();
      await harness.deliver();
      harness.clock.now += 30 * 24 * HOUR + 1;
      await raiseLow();
      await harness.newWorker().sweep();
      expect((await harness.log(id)).length).toBe(1);
      expect((await harness.call("alice", "GET", "/v1/events")).body["data"]).toHaveLength(1);
    });
  });
});

describe("an endpoint that behaves badly", () => {
  let store: TestStore;
  let world: Harness;
  const servers: (() => void)[] = [];

  beforeEach(async () => {
    store = await openStore("sqlite");
    world = await createHarness(store.db);
  });
  afterEach(async () => {
    for (const close of servers.splice(0)) close();
    await store.close();
  });

  /** Speaks raw bytes, for what no HTTP library would send. */
  const rawServer = (answer: (write: (part: string | Buffer) => void) => void): Promise<string> =>
    new Promise((resolve) => {
      const server = createServer((socket) => {
        socket.on("error", () => {});
        socket.once("data", () => answer((part) => void (socket.writable && socket.write(part))));
      });
      servers.push(() => server.close());
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        resolve(`http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`);
      });
    });

  const deliverTo = async (url: string) => {
    const { id } = await world.createWebhook(url);
    await world.call("alice", "POST", `/v1/webhooks/${id}/test`);
    const began = performance.now();
    await world.deliver(world.newWorker({ timeoutMs: 400 }));
    const [delivery] = await world.log(id);
    return { delivery, attempt: delivery?.attempts[0], tookMs: performance.now() - began };
  };

  test("hangs: the call ends with the time limit", async () => {
    const { delivery, attempt, tookMs } = await deliverTo(await rawServer(() => {}));
    expect(delivery?.status).toBe("pending");
    expect(attempt).toMatchObject({ status: null, error: "no answer within 0.4 seconds" });
    expect(tookMs).toBeLessThan(3_000);
  });

  test("sends its headers byte by byte for ever: the call ends with the time limit", async () => {
    const url = await rawServer((write) => {
      write("HTTP/1.1 200 OK\r\n");
      const timer = setInterval(() => write("x: y\r\n"), 20);
      servers.push(() => clearInterval(timer));
    });
    expect((await deliverTo(url)).attempt?.error).toBe("no answer within 0.4 seconds");
  });

  test("says interim answers for ever: the call ends with the time limit", async () => {
    const url = await rawServer((write) => {
      const timer = setInterval(() => write("HTTP/1.1 102 Processing\r\n\r\n"), 20);
      servers.push(() => clearInterval(timer));
    });
    expect((await deliverTo(url)).attempt?.error).toBe("no answer within 0.4 seconds");
  });

  test("redirects: nothing is followed", async () => {
    const target = startReceiver();
    servers.push(() => void target.close());
    const url = await rawServer((write) =>
      write(`HTTP/1.1 307 Moved\r\nlocation: ${target.url}/\r\ncontent-length: 0\r\n\r\n`),
    );
    expect((await deliverTo(url)).attempt).toMatchObject({
      status: 307,
      error: "redirects are not followed",
    });
    expect(target.received).toEqual([]);
  });

  test("answers with gigabytes: 1,024 bytes are read into the log", async () => {
    let written = 0;
    const url = await rawServer((write) => {
      write("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n");
      const timer = setInterval(() => {
        written += 65_536;
        write(Buffer.alloc(65_536, 66));
      }, 1);
      servers.push(() => clearInterval(timer));
    });
    const { delivery, attempt } = await deliverTo(url);
    expect(delivery?.status).toBe("delivered");
    expect(attempt?.response).toBe("B".repeat(1_024));
    expect(written).toBeLessThan(4_000_000);
  });

  test("answers 200 and then drips its body: it counts as delivered", async () => {
    const url = await rawServer((write) => {
      write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      const timer = setInterval(() => write("1\r\nx\r\n"), 50);
      servers.push(() => clearInterval(timer));
    });
    const { id } = await world.createWebhook(url);
    await world.call("alice", "POST", `/v1/webhooks/${id}/test`);
    await world.deliver(world.newWorker({ timeoutMs: 1_000 }));
    expect((await world.log(id))[0]).toMatchObject({ status: "delivered" });
  });

  test("sends a header of a megabyte: the call fails", async () => {
    const url = await rawServer((write) =>
      write(`HTTP/1.1 200 OK\r\nx: ${"y".repeat(1_000_000)}\r\n\r\n`),
    );
    const { delivery, attempt } = await deliverTo(url);
    expect([delivery?.status, attempt?.status]).toEqual(["pending", null]);
  });

  test("answers in another language, speaks half of ours, or says nothing: the call fails", async () => {
    for (const answer of ["SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 9\r\n\r\n", ""]) {
      const url = await rawServer((write) => write(answer));
      expect((await deliverTo(url)).attempt).toMatchObject({
        status: null,
        error: expect.any(String),
      });
    }
  });

  test("packs its answer: nothing is unpacked", async () => {
    const packed = Bun.gzipSync(Buffer.alloc(10_000_000, 65));
    const url = await rawServer((write) => {
      write(
        `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${packed.length}\r\n\r\n`,
      );
      write(Buffer.from(packed));
    });
    expect((await deliverTo(url)).attempt?.response.length).toBeLessThanOrEqual(1_024);
  });

  test("is not there: the log says so in words of ours", async () => {
    const closed = await rawServer(() => {});
    servers.pop()?.();
    await new Promise<void>((resolve) => {
      connect(Number(new URL(closed).port), "127.0.0.1").on("error", () => resolve());
    });
    expect((await deliverTo(closed)).attempt?.error).toBe("the connection was refused");
  });

  test("answers with control characters: none gets into the log", async () => {
    const url = await rawServer((write) =>
      write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na\u0000b\u001b[31mc"),
    );
    const response = (await deliverTo(url)).attempt?.response ?? "";
    expect(response).toBe("a\u{fffd}b\u{fffd}[31mc");
  });
});
