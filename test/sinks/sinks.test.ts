// Sinks: usage as traces and as files of a bucket, at least once, apart for each workspace, and only to public addresses.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { personAct } from "../../src/activity/audit.ts";
import { createLog } from "../../src/base/log.ts";
import { resolveHost } from "../../src/base/network/public-endpoint.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../src/base/time.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { createPromptLog } from "../../src/prompt-log/prompt-log.ts";
import { leaseSink, listDueSinks } from "../../src/sinks/sink-rows.ts";
import { createSinkWorker } from "../../src/sinks/sink-worker.ts";
import { deleteSink, saveSink, sweepSinkEntries } from "../../src/sinks/sinks.ts";
import {
  createUser,
  makeDeveloper,
  makeOwner,
  textOf,
  visitPage,
} from "../billing/console-user.ts";
import { call, type Json, listAt, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { startReceiver, type WebhookReceiver } from "../webhooks/webhook-receiver.ts";
import { type S3Receiver, startS3Receiver } from "./s3-receiver.ts";

const S3_KEYS = { "AKIA-OF-TESTS": "secret/of+tests" };
const SECRET_HEADER = "Bearer of-the-collector";

interface SpanJson {
  readonly traceId: string;
  readonly spanId: string;
  readonly name: string;
  readonly attributes: readonly { readonly key: string; readonly value: Json }[];
}

function spansOf(event: unknown): readonly SpanJson[] {
  const scope = { event };
  const resource = listAt(scope, "event.resourceSpans")[0];
  // Safe because the tests read only fields that spans have.
  return listAt({ resource }, "resource.scopeSpans.0.spans") as unknown as readonly SpanJson[];
}

function attributeOf(span: SpanJson | undefined, name: string): unknown {
  const value = span?.attributes.find(({ key }) => key === name)?.value;
  return value && Object.values(value)[0];
}

describeEachStore((store) => {
  describe(`sinks on ${store}`, () => {
    let gateway: Gateway;
    let receiver: WebhookReceiver;
    let bucket: S3Receiver;
    let account: TestAccount;
    // Half past an hour that is to come: no test crosses a full hour. Sinks are saved at this time, so they are due for the worker
    // of the test only, and not for that of the gateway.
    let base = 0;
    let later = 0;
    let isAhead = false;
    const clock = (): number => base + later;
    const withClockAhead = async <T>(work: () => Promise<T>): Promise<T> => {
      isAhead = true;
      try {
        return await work();
      } finally {
        isAhead = false;
      }
    };
    beforeAll(async () => {
      gateway = await startGateway({ store, now: () => (isAhead ? base : Date.now()) });
      receiver = startReceiver();
      bucket = startS3Receiver(S3_KEYS);
    });
    afterAll(async () => {
      await gateway.stop();
      await receiver.close();
      await bucket.stop();
    });
    beforeEach(async () => {
      base = (Math.floor(Date.now() / HOUR_MS) + 1.5) * HOUR_MS;
      later = 0;
      receiver.received.length = 0;
      receiver.respond = () => new Response(null, { status: 200 });
      bucket.objects.clear();
      bucket.writes.length = 0;
      bucket.status = 200;
      account = await registerAccount(gateway);
    });

    const sinkDeps = () => {
      const { secret, store: stored } = gateway.config;
      return { master: loadMasterSecret({ secret }, stored.dataDir), allowLoopback: true };
    };
    const newWorker = (allowLoopback = true) => {
      const { promptRetentionDays } = gateway.config;
      const { master } = sinkDeps();
      return createSinkWorker({
        db: gateway.server.db,
        log: createLog({ level: "error", isPretty: false, now: clock, write: () => {} }),
        now: clock,
        master,
        promptLog: createPromptLog(master, promptRetentionDays),
        version: "test",
        allowLoopback,
        resolve: resolveHost,
      });
    };
    const run = async (worker = newWorker()): Promise<void> => {
      await worker.tick();
      await worker.idle();
    };
    const chat = async (key = account.key): Promise<string> => {
      const messages = [{ role: "user", content: "the text of a prompt" }];
      const body = { model: "sim/echo", max_tokens: 9, messages };
      const reply = await call(gateway, "POST /v1/chat/completions", { key, body });
      expect(reply.status).toBe(200);
      return reply.headers.get("x-request-id") ?? "";
    };
    const save = (name: string, body: Json, key = account.key) =>
      withClockAhead(() => call(gateway, `POST /v1/sinks/${name}`, { key, body }));
    const otlp = (more: Json = {}) => ({ type: "otlp", url: `${receiver.url}/v1/traces`, ...more });
    const s3 = (more: Json = {}) => ({
      type: "s3",
      url: bucket.url,
      bucket: "usage-of-acme",
      prefix: "dt=all/",
      access_key_id: "AKIA-OF-TESTS",
      secret_access_key: "secret/of+tests",
      every: "hour",
      ...more,
    });
    const read = async (name: string) =>
      (await call(gateway, `GET /v1/sinks/${name}`, { key: account.key })).body;
    const queued = async () =>
      (await gateway.server.db.all("select * from sink_entry where account_id = ?", [account.id]))
        .length;

    test("sends each call as a span with the conventions for generative AI, and its headers", async () => {
      await chat();
      expect(await queued()).toBe(0);
      const saved = await save("traces", otlp({ headers: { Authorization: SECRET_HEADER } }));
      expect(saved.status).toBe(200);
      const other = await registerAccount(gateway);
      const [id] = [await chat(), await chat(other.key)];
      await run();
      expect(receiver.received.length).toBe(1);
      const [{ headers, event } = { headers: new Headers(), event: {} }] = receiver.received;
      expect(headers.get("authorization")).toBe(SECRET_HEADER);
      const [span, ...others] = spansOf(event);
      expect(others).toEqual([]);
      expect(span?.name).toBe("chat sim/echo");
      expect(attributeOf(span, "postern.request_id")).toBe(id);
      expect(attributeOf(span, "gen_ai.operation.name")).toBe("chat");
      expect(attributeOf(span, "gen_ai.response.model")).toBe("sim/echo");
      expect(Number(attributeOf(span, "gen_ai.usage.output_tokens"))).toBeGreaterThan(0);
      expect(JSON.stringify(event)).not.toContain("the text of a prompt");
      expect(await queued()).toBe(0);
      await run();
      expect(receiver.received.length).toBe(1);
      expect(textAt(await read("traces"), "delivered_at")).not.toBe("");
    });

    test("repeats a span with the same ids, later each time, and fails no call meanwhile", async () => {
      await save("traces", otlp());
      receiver.respond = () => new Response("no", { status: 500 });
      await chat();
      await run();
      await chat();
      await run();
      expect(receiver.received.length).toBe(1);
      expect(await read("traces")).toMatchObject({
        queued: 2,
        last_error: "the endpoint answered 500",
        status: "active",
      });
      later += 6_000;
      receiver.respond = () => new Response(null, { status: 204 });
      await run();
      const [first, second] = receiver.received.map(({ event }) => spansOf(event));
      expect(second?.[0]).toMatchObject({
        traceId: first?.[0]?.traceId ?? "",
        spanId: first?.[0]?.spanId ?? "",
      });
      expect(second?.length).toBe(2);
      expect(await read("traces")).toMatchObject({ queued: 0, last_error: null });
    });

    test("is sent to by one process at a time", async () => {
      await save("traces", otlp());
      await chat();
      let arrived = (): void => {};
      const first = new Promise<void>((resolve) => (arrived = resolve));
      let answer = (): void => {};
      const answered = new Promise<void>((resolve) => (answer = resolve));
      receiver.respond = async () => {
        arrived();
        await answered;
        return new Response(null, { status: 200 });
      };
      const one = run();
      await first;
      // What another process has read before the first one leased it.
      const sink = { accountId: account.id, name: "traces" };
      const lease = { ...sink, lease: "dlv_other", now: clock() };
      const { db } = gateway.server;
      expect(await db.write((tx) => leaseSink(tx, lease, clock()))).toBeUndefined();
      answer();
      await one;
      expect(receiver.received.length).toBe(1);
    });

    test("of an account with many is not sent to before those of others", async () => {
      const { id: busy, key } = account;
      for (const name of ["a", "b", "c"]) await save(name, otlp());
      account = await registerAccount(gateway);
      // Before any call: while a sink is saved, the worker of the gateway has the clock of the test.
      await save("other", otlp());
      await chat(key);
      await chat();
      const { db } = gateway.server;
      const due = async () =>
        (await listDueSinks(db, clock(), 1_000))
          .filter(({ accountId }) => [busy, account.id].includes(accountId))
          .map(({ name }) => name);
      expect(await due()).toEqual(["a", "other", "b", "c"]);
      const lease = { accountId: busy, name: "a", lease: "dlv_slow", now: clock() };
      await db.write((tx) => leaseSink(tx, lease, clock() + MINUTE_MS));
      expect(await due()).toEqual(["other", "b", "c"]);
      await db.write((tx) =>
        tx.run("delete from sink where account_id in (?, ?)", [busy, account.id]),
      );
    });

    test("is not sent to a private address, whatever the list of sinks has", async () => {
      await save("traces", otlp());
      await chat();
      await run(newWorker(false));
      expect(receiver.received.length).toBe(0);
      expect(await read("traces")).toMatchObject({
        last_error: "the URL must begin with https://",
        queued: 1,
      });
      await call(gateway, "DELETE /v1/sinks/traces", { key: account.key });
    });

    test("are changed by owners and admins only, wherever they ask", async () => {
      const owner = await createUser(gateway, `owner of ${account.id}`);
      await makeOwner(gateway, account.id, owner);
      const { personId } = await createUser(gateway, `developer of ${account.id}`);
      await makeDeveloper(gateway, account.id, { ...owner, personId });
      const { db } = gateway.server;
      const act = personAct(account.id, personId, { clientIp: "127.0.0.1", now: clock() });
      const sink = { type: "otlp", url: receiver.url, include_texts: true } as const;
      const codeOf = (change: Promise<unknown>): Promise<unknown> =>
        change.catch((error: unknown) => valueAt({ error }, "error.code"));
      const saving = db.write((tx) => saveSink(tx, act, { name: "traces", sink }, sinkDeps()));
      expect(await codeOf(saving)).toBe("forbidden");
      expect(await codeOf(db.write((tx) => deleteSink(tx, act, "traces")))).toBe("forbidden");
    });

    test("leaves a call out that the destination refuses, and sends the others", async () => {
      await save("traces", otlp());
      const ids: string[] = [];
      for (let index = 0; index < 4; index++) ids.push(await chat());
      const [, refused = ""] = ids;
      const accepted: unknown[] = [];
      receiver.respond = ({ event }) => {
        const sent = spansOf(event).map((span) => attributeOf(span, "postern.request_id"));
        if (sent.includes(refused)) return new Response("no", { status: 413 });
        accepted.push(...sent);
        return new Response(null, { status: 200 });
      };
      // Each wait is longer than the one before it.
      for (let tries = 0; tries < 12; tries++) {
        await run();
        later += 10 * MINUTE_MS;
      }
      expect(accepted).toEqual(ids.filter((id) => id !== refused));
      expect(await read("traces")).toMatchObject({ queued: 0, status: "active", last_error: null });
    });

    test("keeps calls that a destination refuses for another reason than what is in them", async () => {
      await save("traces", otlp());
      await chat();
      receiver.respond = () => new Response(null, { status: 401 });
      for (let tries = 0; tries < 10; tries++) {
        await run();
        later += 10 * MINUTE_MS;
      }
      expect(await read("traces")).toMatchObject({ queued: 1, status: "active" });
      await call(gateway, "DELETE /v1/sinks/traces", { key: account.key });
    });

    test("is disabled with a notice after a day of failures, and enabled by saving it again", async () => {
      await save("traces", otlp());
      receiver.respond = () => new Response(null, { status: 401 });
      await chat();
      await run();
      later += DAY_MS;
      await run();
      const reason = "nothing was accepted for a day: the endpoint answered 401";
      expect(await read("traces")).toMatchObject({
        status: "disabled",
        disabled_reason: reason,
        queued: 0,
      });
      const audit = await call(gateway, "GET /v1/audit?action=sink.disabled", { key: account.key });
      expect(valueAt(audit.body, "data.0.target")).toBe("traces");
      const events = await call(gateway, "GET /v1/events?type=sink.disabled", { key: account.key });
      expect(valueAt(events.body, "data.0.data")).toMatchObject({ sink: "traces", reason });
      const row = await gateway.server.db.get("select exports_usage from account where id = ?", [
        account.id,
      ]);
      expect(Number(row?.["exports_usage"])).toBe(0);
      expect(await read("traces")).toMatchObject({ queued: 0 });
      expect((await save("traces", otlp())).body).toMatchObject({ status: "active" });
      receiver.respond = () => new Response(null, { status: 200 });
      receiver.received.length = 0;
      await chat();
      await run();
      expect(receiver.received.length).toBe(1);
    });

    test("sends requests and replies of keys with prompt logging only, and only if it is to", async () => {
      const created = await call(gateway, "POST /v1/keys", {
        key: account.key,
        body: { name: "logged", prompt_logging: true },
      });
      const logged = textAt(created.body, "api_key");
      await save("plain", otlp());
      await save("texts", otlp({ include_texts: true }));
      const [plainCall, loggedCall] = [await chat(), await chat(logged)];
      await run();
      const spans = receiver.received.map(({ event }) => spansOf(event));
      expect(spans.map(({ length }) => length)).toEqual([2, 2]);
      const textsOf = (id: string) =>
        spans
          .flat()
          .filter((span) => attributeOf(span, "postern.request_id") === id)
          .flatMap((span) => attributeOf(span, "gen_ai.input.messages") ?? []);
      expect(textsOf(plainCall)).toEqual([]);
      expect(textsOf(loggedCall)).toEqual([
        JSON.stringify([
          { role: "user", parts: [{ type: "text", content: "the text of a prompt" }] },
        ]),
      ]);
      const outputs = spans
        .flat()
        .flatMap((span) => attributeOf(span, "gen_ai.output.messages") ?? []);
      expect(outputs).toHaveLength(1);
      expect(outputs[0]).toContain('"role":"assistant"');
    });

    test("a key of a claimed account sends no texts anywhere", async () => {
      const owner = await createUser(gateway, `owner of ${account.id}`);
      await makeOwner(gateway, account.id, owner);
      const refused = await save("texts", otlp({ include_texts: true }));
      expect([refused.status, valueAt(refused.body, "error.param")]).toEqual([
        403,
        "include_texts",
      ]);
      const path = `/console/${account.id}/sinks`;
      const form = {
        do: "otlp",
        name: "texts",
        url: `${receiver.url}/v1/traces`,
        include_texts: "true",
      };
      expect((await visitPage(gateway, path, owner, form)).status).toBe(303);
      expect(await read("texts")).toMatchObject({ settings: { include_texts: true } });
      // A key cannot move it to a place of its own either.
      expect(
        (await save("texts", otlp({ url: `${receiver.url}/other`, include_texts: true }))).status,
      ).toBe(403);
      expect((await save("texts", otlp({ url: `${receiver.url}/other` }))).body).toMatchObject({
        settings: { include_texts: false },
      });
    });

    test("never shows a secret, and sends it to the URL only for which it was given", async () => {
      const headers = { "x-api-key": SECRET_HEADER };
      const saved = await save("traces", otlp({ headers }));
      expect(JSON.stringify(saved.body)).not.toContain(SECRET_HEADER);
      expect(saved.body).toMatchObject({ settings: { headers: ["x-api-key"] } });
      const [row = {}] = await gateway.server.db.all("select * from sink where account_id = ?", [
        account.id,
      ]);
      expect(Object.values(row).join(" ")).not.toContain(SECRET_HEADER);
      expect((await save("traces", otlp())).body).toMatchObject({
        settings: { headers: ["x-api-key"] },
      });
      await chat();
      await run();
      expect(receiver.received[0]?.headers.get("x-api-key")).toBe(SECRET_HEADER);
      const attacker = { url: `${receiver.url}/attacker` };
      const refused = await save("traces", otlp(attacker));
      expect([refused.status, valueAt(refused.body, "error.param")]).toEqual([400, "headers"]);
      const moved = await save("traces", otlp({ ...attacker, headers: {} }));
      expect(moved.body).toMatchObject({ settings: { headers: [] } });
      await chat();
      await run();
      expect(receiver.received[1]?.headers.get("x-api-key")).toBeNull();
      await save("files", s3());
      const other = await save(
        "files",
        s3({ url: "https://s3.example.com", secret_access_key: undefined }),
      );
      const otherKey = await save(
        "files",
        s3({ access_key_id: "AKIA-OF-OTHERS", secret_access_key: undefined }),
      );
      for (const { status, body } of [other, otherKey])
        expect([status, valueAt(body, "error.param")]).toEqual([400, "secret_access_key"]);
      const hook = "https://collector.example.com/a-secret-of-the-path";
      expect((await save("hook", otlp({ url: hook }))).status).toBe(200);
      const audit = await call(gateway, "GET /v1/audit", { key: account.key });
      expect(JSON.stringify(audit.body)).toContain("collector.example.com");
      expect(JSON.stringify(audit.body)).not.toContain("a-secret-of-the-path");
      const exported = await fetch(`${gateway.url}/v1/account/export`, {
        headers: account.headers,
      });
      const text = await exported.text();
      expect(text).toContain('"type":"sink"');
      expect(text).not.toContain("secret/of+tests");
    });

    test("refuses private addresses, bad headers and more than five sinks", async () => {
      for (const url of [
        "http://example.com/v1/traces",
        "https://10.0.0.1/v1/traces",
        "https://metadata.internal/",
        "https://user:pass@example.com/",
        "https://example.com:9000/",
      ])
        expect((await save("traces", otlp({ url }))).status).toBe(400);
      for (const headers of [{ host: "a" }, { "content-length": "1" }, { "x-a": "b\r\nc: d" }])
        expect((await save("traces", otlp({ headers }))).status).toBe(400);
      for (const more of [
        { bucket: "../etc" },
        { prefix: "a/../b" },
        { prefix: "/a" },
        { region: "eu west" },
      ])
        expect((await save("files", s3(more))).status).toBe(400);
      for (const name of ["a", "b", "c", "d", "e"])
        expectStatus("saveSink", 200, await save(name, otlp()));
      expectStatus("saveSink", 409, await save("f", otlp()));
      expectStatus("saveSink", 400, await save("f", { type: "file" }));
      const { key } = account;
      const created = await call(gateway, "POST /v1/keys", {
        key,
        body: { scopes: ["models:write", "usage:read"] },
      });
      const narrow = textAt(created.body, "api_key");
      expectStatus("listSinks", 200, await call(gateway, "GET /v1/sinks", { key }));
      expectStatus("getSink", 200, await call(gateway, "GET /v1/sinks/a", { key }));
      expectStatus("deleteSink", 200, await call(gateway, "DELETE /v1/sinks/a", { key }));
      expectStatus("deleteSink", 404, await call(gateway, "DELETE /v1/sinks/a", { key }));
      expectStatus("getSink", 404, await call(gateway, "GET /v1/sinks/a", { key }));
      expectStatus("listSinks", 403, await call(gateway, "GET /v1/sinks", { key: narrow }));
      expectStatus("getSink", 403, await call(gateway, "GET /v1/sinks/b", { key: narrow }));
      expectStatus("saveSink", 403, await save("b", otlp(), narrow));
      expectStatus("deleteSink", 403, await call(gateway, "DELETE /v1/sinks/b", { key: narrow }));
      expectStatus("listSinks", 400, await call(gateway, "GET /v1/sinks?all=true", { key }));
      expectStatus("getSink", 400, await call(gateway, "GET /v1/sinks/Upper%20case", { key }));
      expectStatus(
        "deleteSink",
        400,
        await call(gateway, "DELETE /v1/sinks/Upper%20case", { key }),
      );
      const list = await call(gateway, "GET /v1/sinks", { key });
      expect(listAt(list.body, "data").length).toBe(4);
    });

    test("writes a file for each hour with a signature that the bucket verifies, each call in one", async () => {
      await save("files", s3());
      const ids = [await chat(), await chat()].toSorted();
      await run();
      expect(bucket.writes).toEqual([]);
      later += HOUR_MS;
      const hour = new Date(clock() - HOUR_MS).toISOString();
      await run();
      const day = hour.slice(0, 10);
      const path = `/usage-of-acme/dt=all/${day}/usage-${hour.slice(0, 13)}-${ids[0] ?? ""}.jsonl.gz`;
      expect(bucket.writes).toEqual([path]);
      const lines = (bucket.objects.get(path) ?? "").trim().split("\n");
      expect(lines.map((line) => textAt(JSON.parse(line) as Json, "id"))).toEqual(ids);
      // The next file is due an hour later, also if no call ended in between.
      const late = await chat();
      await run();
      expect(bucket.writes.length).toBe(1);
      later += HOUR_MS;
      await run();
      expect(bucket.objects.size).toBe(2);
      expect(bucket.writes[1]).toContain(late);
    });

    test("writes the same file again after a failure, also in another process and hour", async () => {
      await save("files", s3({ format: "csv", prefix: "" }));
      const id = await chat();
      later += HOUR_MS;
      bucket.status = 500;
      await run();
      const [path = ""] = bucket.writes;
      const before = bucket.objects.get(path);
      expect(before).toContain(id);
      const late = await chat();
      later += 3 * HOUR_MS;
      bucket.status = 200;
      await run();
      expect(bucket.writes).toEqual([path, path]);
      expect(bucket.objects.get(path)).toBe(before ?? "");
      // What came later has a file of its own.
      await run();
      expect(bucket.objects.size).toBe(2);
      expect([...bucket.objects.values()].filter((text) => text.includes(late))).toHaveLength(1);
      expect(await read("files")).toMatchObject({ queued: 0, last_error: null });
    });

    test("writes a file that was begun anew if the settings change", async () => {
      await save("files", s3());
      const id = await chat();
      later += HOUR_MS;
      bucket.status = 500;
      await run();
      const [before = ""] = bucket.writes;
      expect(before).toContain(".jsonl.gz");
      bucket.status = 200;
      bucket.objects.clear();
      await save("files", s3({ prefix: "other/", format: "csv" }));
      later += HOUR_MS;
      await run();
      const [path = "", text = ""] = [...bucket.objects][0] ?? [];
      expect(path).toContain("other/");
      expect(path).toEndWith(".csv.gz");
      expect(text).toContain(id);
      expect(bucket.objects.size).toBe(1);
    });

    test("sends those that work before those that fail", async () => {
      const { db } = gateway.server;
      for (const name of ["failing", "working"]) await save(name, otlp());
      await chat();
      const set = (name: string, tries: number, dueAt: number) =>
        db.write((tx) =>
          tx.run("update sink set tries = ?, due_at = ? where account_id = ? and name = ?", [
            tries,
            dueAt,
            account.id,
            name,
          ]),
        );
      await set("failing", 3, base + 1);
      await set("working", 0, base + 2);
      const due = await listDueSinks(db, base + 2, 10);
      expect(
        due.filter(({ accountId }) => accountId === account.id).map(({ name }) => name),
      ).toEqual(["working", "failing"]);
    });

    test("names the error of the bucket, and drops what waited for a week", async () => {
      await save("files", s3({ secret_access_key: "a wrong secret" }));
      await chat();
      later += HOUR_MS;
      await run();
      expect(await read("files")).toMatchObject({
        last_error: "the endpoint answered 403 SignatureDoesNotMatch",
        queued: 1,
      });
      await sweepSinkEntries(gateway.server.db, clock() + 8 * DAY_MS);
      expect(await queued()).toBe(0);
    });

    test("drops the queue of a deleted sink in parts, and sends it to no other sink of its name", async () => {
      await save("traces", otlp());
      const { db } = gateway.server;
      const queue = await db.get("select queue from sink where account_id = ?", [account.id]);
      const waiting = Array.from({ length: 1_200 }, (_, index) => [
        account.id,
        String(queue?.["queue"]),
        `req_${index}`,
        clock(),
      ]);
      await db.write((tx) =>
        tx.insertMany(
          "sink_entry",
          ["account_id:text", "queue:text", "call_id:text", "created_at:bigint"],
          waiting,
        ),
      );
      expect(await read("traces")).toMatchObject({ queued: 1_200 });
      await call(gateway, "DELETE /v1/sinks/traces", { key: account.key });
      // Its calls are in no transaction of the request.
      expect(await queued()).toBe(1_200);
      await save("traces", otlp());
      expect(await read("traces")).toMatchObject({ queued: 0 });
      await chat();
      await run();
      expect(receiver.received.flatMap(({ event }) => spansOf(event)).length).toBe(1);
      await sweepSinkEntries(db, clock() + 8 * DAY_MS);
      expect(await queued()).toBe(0);
    });

    test("shows sinks in the console to owners and admins", async () => {
      const owner = await createUser(gateway, `reader of ${account.id}`);
      await makeOwner(gateway, account.id, owner);
      const path = `/console/${account.id}/sinks`;
      expect(textOf(await visitPage(gateway, path, owner))).toContain("No sinks yet");
      const { type: _, ...fields } = s3({ format: "csv" });
      const form = { do: "s3", name: "files", ...fields } as Readonly<Record<string, string>>;
      const done = await visitPage(gateway, path, owner, form);
      expect([done.status, done.location]).toEqual([303, `${path}?done=save`]);
      const page = textOf(await visitPage(gateway, path, owner));
      expect(page).toContain("usage-of-acme/dt=all/ at 127.0.0.1");
      const wrong = await visitPage(gateway, path, owner, { ...form, bucket: "A" });
      expect(textOf(wrong)).toContain("must be the name of a bucket");
      expect(wrong.text).not.toContain("secret/of+tests");
      const removed = await visitPage(gateway, path, owner, { do: "delete", name: "files" });
      expect(removed.status).toBe(303);
      expect(textOf(await visitPage(gateway, path, owner))).toContain("No sinks yet");
    });
  });
});
