// The stream of an audit log: in order, at least once, retried, apart for each workspace, and only to public addresses.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  countQueued,
  findStream,
  sweepStreamEntries,
} from "../../src/activity/audit-stream-rows.ts";
import { eraseOldAddresses, recordAuditEntry } from "../../src/activity/audit.ts";
import { createLog } from "../../src/base/log.ts";
import { resolveHost } from "../../src/base/network/public-endpoint.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { createAuditStreamWorker } from "../../src/webhooks/audit-stream-worker.ts";
import { changeAuditStream, type StreamForm } from "../../src/webhooks/audit-streams.ts";
import { actIn } from "../support/act.ts";
import { eventually } from "../support/eventually.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { MASTER, MINUTE, START_MS } from "./harness.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

interface Sent {
  readonly data: readonly { readonly action: string; readonly target: string }[];
}

describeEachStore((kind, open) => {
  describe(`audit log streams on ${kind}`, () => {
    let store: TestStore;
    let receiver: WebhookReceiver;
    let now = START_MS;
    let accounts = 0;
    beforeAll(async () => {
      store = await open();
      receiver = startReceiver();
    });
    afterAll(async () => {
      await receiver.close();
      await store.close();
    });
    beforeEach(() => {
      now += DAY_MS;
      receiver.received.length = 0;
      receiver.respond = () => new Response(null, { status: 204 });
    });

    const newWorker = () =>
      createAuditStreamWorker({
        db: store.db,
        log: createLog({ level: "error", isPretty: false, now: () => now, write: () => {} }),
        now: () => now,
        master: MASTER,
        allowLoopback: true,
        resolve: resolveHost,
      });
    const run = async (worker = newWorker()) => {
      await worker.tick();
      await worker.idle();
    };
    const record = (accountId: string, target: string) =>
      store.db.write((tx) =>
        recordAuditEntry(tx, {
          accountId,
          actor: { type: "person", id: "usr_1" },
          action: "key.changed",
          target,
          detail: { scopes: ["models:write"], scopes_before: null },
          network: "198.51.100.0/24",
          ip: "198.51.100.7",
          now,
        }),
      );
    const change = (accountId: string, form: Partial<StreamForm> = {}) =>
      store.db.write((tx) =>
        changeAuditStream(
          tx,
          actIn(accountId, now),
          {
            kind: "webhook",
            url: `${receiver.url}/audit`,
            headerName: "",
            headerValue: "",
            ...form,
          },
          { master: MASTER, allowLoopback: true },
        ),
      );
    const newAccount = () => `acct_stream_${(accounts += 1)}`;
    const targets = () =>
      receiver.received.map(({ event }) =>
        // Safe because the stream sends this.
        (event as unknown as Sent).data.map(({ action, target }) =>
          action === "key.changed" ? target : action,
        ),
      );

    test("sends the entries of its account in order, with the header and the address", async () => {
      const [account, other] = [newAccount(), newAccount()];
      await record(account, "before");
      await change(account, { headerName: "Authorization", headerValue: "Bearer of-the-siem" });
      await record(account, "one");
      await record(other, "of another");
      await record(account, "two");
      await run();
      expect(targets()).toEqual([["audit_stream.changed", "one", "two"]]);
      const [{ headers, event } = { headers: new Headers(), event: {} }] = receiver.received;
      expect(headers.get("authorization")).toBe("Bearer of-the-siem");
      expect(event).toMatchObject({
        object: "list",
        data: [
          {},
          {
            object: "audit_entry",
            account_id: account,
            ip: "198.51.100.7",
            detail: { scopes: ["models:write"], scopes_before: null },
          },
          {},
        ],
      });
      await run();
      expect(receiver.received.length).toBe(1);
      const stored = await findStream(store.db, account);
      expect(stored?.sealed).not.toContain("of-the-siem");
    });

    test("repeats a failed batch, later each time, before the entries behind it", async () => {
      const account = newAccount();
      await change(account);
      await record(account, "one");
      receiver.respond = () => new Response("no", { status: 500 });
      await run();
      await record(account, "two");
      await run();
      expect(receiver.received.length).toBe(1);
      expect(await findStream(store.db, account)).toMatchObject({
        tries: 1,
        lastError: "the endpoint answered 500",
        failingSince: now,
      });
      now += 6_000;
      await run();
      now += 6_000;
      await run();
      expect(receiver.received.length).toBe(2);
      receiver.respond = () => new Response(null, { status: 200 });
      now += 10_000;
      await run();
      const all = ["audit_stream.changed", "one", "two"];
      expect(targets()).toEqual([all.slice(0, 2), all, all]);
      expect(await findStream(store.db, account)).toMatchObject({ tries: 0, failingSince: null });
      expect(await countQueued(store.db, account)).toBe(0);
    });

    test("sends a batch again if the process stopped before its response was recorded", async () => {
      const account = newAccount();
      await change(account);
      const worker = newWorker();
      const { promise, resolve } = Promise.withResolvers<Response>();
      const arrived = Promise.withResolvers<undefined>();
      receiver.respond = () => {
        arrived.resolve(undefined);
        return promise;
      };
      await worker.tick();
      await arrived.promise;
      // A second process does not send what the first has in flight.
      await run();
      expect(receiver.received.length).toBe(1);
      await worker.stop();
      resolve(new Response(null, { status: 204 }));
      receiver.respond = () => new Response(null, { status: 204 });
      now += 2 * MINUTE;
      await run();
      expect(targets()).toEqual([["audit_stream.changed"], ["audit_stream.changed"]]);
    });

    test("lets no slow destination hold up another", async () => {
      const [slow, fast] = [newAccount(), newAccount()];
      const { promise, resolve } = Promise.withResolvers<Response>();
      receiver.respond = ({ path }) =>
        path === "/slow" ? promise : new Response(null, { status: 204 });
      await change(slow, { url: `${receiver.url}/slow` });
      await change(fast, { url: `${receiver.url}/fast` });
      const worker = newWorker();
      await worker.tick();
      await record(fast, "later");
      await eventually(async () => {
        await worker.tick();
        return (await countQueued(store.db, fast)) === 0;
      });
      expect(await countQueued(store.db, slow)).toBe(1);
      resolve(new Response(null, { status: 204 }));
      await worker.idle();
      expect(await countQueued(store.db, slow)).toBe(0);
    });

    test("sends OTLP log records", async () => {
      const account = newAccount();
      await change(account, { kind: "otlp", url: `${receiver.url}/v1/logs` });
      await record(account, "key_1");
      await run();
      const [request] = receiver.received;
      expect(request?.path).toBe("/v1/logs");
      expect(request?.event).toMatchObject({
        resourceLogs: [
          {
            scopeLogs: [
              {
                logRecords: [
                  { eventName: "audit_stream.changed" },
                  {
                    timeUnixNano: `${now}000000`,
                    severityText: "INFO",
                    eventName: "key.changed",
                    body: { stringValue: "key.changed" },
                    attributes: expect.arrayContaining([
                      { key: "audit.target", value: { stringValue: "key_1" } },
                      { key: "client.address", value: { stringValue: "198.51.100.7" } },
                    ]),
                  },
                ],
              },
            ],
          },
        ],
      });
    });

    test("sends the header only to the URL for which it was typed", async () => {
      const account = newAccount();
      const header = { headerName: "authorization", headerValue: "secret" };
      await change(account, header);
      const kept = change(account, { headerName: "authorization", kind: "otlp" });
      expect(await kept).toBeUndefined();
      const moved = change(account, {
        url: `${receiver.url}/elsewhere`,
        headerName: "authorization",
      });
      expect(
        await moved.then(
          () => "saved",
          () => "refused",
        ),
      ).toBe("refused");
      expect((await findStream(store.db, account))?.url).toBe(`${receiver.url}/audit`);
    });

    test.each([
      ["http://169.254.169.254/latest", {}],
      ["https://10.0.0.1/", {}],
      ["https://siem.internal/", {}],
      ["https://siem.example/", { headerName: "host", headerValue: "x" }],
      ["https://siem.example/", { headerName: "x-token", headerValue: "two\r\nx-other: lines" }],
      ["https://siem.example/", { headerName: "x-token" }],
    ])("refuses %p with %p", async (url, more) => {
      const account = newAccount();
      const changed = change(account, { url, ...more });
      expect(
        await changed.then(
          () => "saved",
          () => "refused",
        ),
      ).toBe("refused");
      expect(await findStream(store.db, account)).toBeUndefined();
    });

    test("forgets addresses after 90 days, and undelivered entries after 30", async () => {
      const account = newAccount();
      await change(account);
      await record(account, "old");
      await store.db.write((tx) => eraseOldAddresses(tx, now + 89 * DAY_MS));
      const ipOf = async () => {
        const sql = "select ip from audit where account_id = ? and target = 'old'";
        return (await store.db.get(sql, [account]))?.["ip"];
      };
      expect(await ipOf()).toBe("198.51.100.7");
      await store.db.write((tx) => eraseOldAddresses(tx, now + 91 * DAY_MS));
      expect(await ipOf()).toBeNull();
      await store.db.write((tx) => sweepStreamEntries(tx, now + 31 * DAY_MS));
      expect(await countQueued(store.db, account)).toBe(0);
    });
  });
});
