// Background responses that are streamed: the events, their numbers, resuming, and what ends a stream.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Db } from "../../src/store/db.ts";
import { errorOf, expectSettledLedger, type Json } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { type Gateway, startGateway, type TestAccount } from "../support/gateway.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  call,
  cancelResponse,
  createResponse,
  eventsOf,
  fundedAccount,
  getResponse,
  MODELS,
  noOpenHolds,
  openGateway,
  waitUntilEnded,
} from "./harness.ts";

const SLOW_INPUT = "[[sim: tokens=400 chunks=400 pace=20]] slowly";

interface OpenStream {
  readonly response: Response;
  /** Reads until the predicate holds for the events so far. */
  readonly readUntil: (isEnough: (events: readonly Json[]) => boolean) => Promise<readonly Json[]>;
  readonly close: () => Promise<void>;
}

async function openStream(
  gateway: Gateway,
  account: TestAccount,
  route: string,
  body?: Json,
): Promise<OpenStream> {
  const [method = "", path = ""] = route.split(" ");
  const response = await fetch(gateway.url + path, {
    method,
    headers: account.headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.body === null) throw new Error("no body");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    response,
    readUntil: async (isEnough) => {
      for (;;) {
        const events = eventsOf(text.slice(0, text.lastIndexOf("\n\n") + 1));
        if (isEnough(events)) return events;
        const { done, value } = await reader.read();
        if (done) return eventsOf(text);
        text += value;
      }
    },
    close: () => reader.cancel(),
  };
}

const never = (): boolean => false;
const numbersOf = (events: readonly Json[]): readonly unknown[] =>
  events.map((event) => event["sequence_number"]);
const idOf = (events: readonly Json[]): string =>
  String((events[0]?.["response"] as Json | undefined)?.["id"]);

/** Makes the store reject the events of streams. The returned function ends it. */
async function rejectParts(db: Db): Promise<() => Promise<void>> {
  const trigger = "create trigger reject_part before insert on stored_stream";
  const [begin, end] =
    db.kind === "sqlite"
      ? [
          [`${trigger} when new.part > 0 begin select raise(abort, 'rejected'); end`],
          ["drop trigger reject_part"],
        ]
      : [
          [
            "create function reject_part() returns trigger language plpgsql as 'begin raise exception ''rejected''; end'",
            `${trigger} for each row when (new.part > 0) execute function reject_part()`,
          ],
          ["drop trigger reject_part on stored_stream", "drop function reject_part"],
        ];
  const run = (statements: readonly string[]): Promise<void> =>
    db.write(async (tx) => {
      for (const sql of statements) await tx.run(sql);
    });
  await run(begin);
  return () => run(end);
}

for (const store of STORE_KINDS) {
  describe(`streamed background responses on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const begin = (input: string, fields: Json = {}): Promise<OpenStream> =>
      openStream(gateway, account, "POST /v1/responses", {
        model: "sim/echo",
        input,
        max_output_tokens: 400,
        background: true,
        stream: true,
        ...fields,
      });
    const resume = (id: string, rest = ""): Promise<OpenStream> =>
      openStream(gateway, account, `GET /v1/responses/${id}?stream=true${rest}`);

    for (const [wire, model] of Object.entries(MODELS))
      test(`have all events, numbered from 0, also when read again (${wire})`, async () => {
        const stream = await begin("[[sim: latency=100]] hello", { model });
        expect(stream.response.headers.get("content-type")).toContain("text/event-stream");
        const events = await stream.readUntil(never);
        expect(events[0]).toMatchObject({
          type: "response.created",
          response: { background: true, store: true, status: "in_progress" },
        });
        expect(numbersOf(events)).toEqual(events.map((_, index) => index));
        const last = events.at(-1);
        expect(last?.["type"]).toBe("response.completed");
        const stored = await waitUntilEnded(gateway, account, idOf(events));
        expect(stored).toEqual(last?.["response"] as Json);
        expect((stored["usage"] as Json)["cost"]).toBeGreaterThan(0);
        const again = await (await resume(idOf(events))).readUntil(never);
        expect(again).toEqual([...events]);
        const rest = await (await resume(idOf(events), "&starting_after=1")).readUntil(never);
        expect(rest).toEqual(events.slice(2));
      });

    test("run on without their client, which continues where it stopped", async () => {
      const stream = await begin("[[sim: tokens=60 chunks=60 pace=20]] go on");
      const seen = await stream.readUntil((events) => events.length >= 5);
      await stream.close();
      const last = Number(seen.at(-1)?.["sequence_number"]);
      const rest = await (await resume(idOf(seen), `&starting_after=${last}`)).readUntil(never);
      expect(numbersOf(rest)).toEqual(rest.map((_, index) => last + 1 + index));
      expect(rest.at(-1)?.["type"]).toBe("response.completed");
      expect(rest.length).toBeGreaterThan(20);
    });

    test("end without a terminal event when canceled", async () => {
      const stream = await begin(SLOW_INPUT);
      const seen = await stream.readUntil((events) => events.length >= 5);
      await cancelResponse(gateway, account, idOf(seen));
      const events = await stream.readUntil(never);
      expect(events.some(({ type }) => type === "response.completed")).toBe(false);
      await noOpenHolds(gateway);
      const again = await (await resume(idOf(seen))).readUntil(never);
      expect(again.slice(0, seen.length)).toEqual([...seen]);
    });

    test("end with response.failed when the provider fails", async () => {
      for (const directive of ["status=500 latency=100", "cut=2 chunks=5"]) {
        const events = await (await begin(`[[sim: ${directive}]] x`)).readUntil(never);
        expect(events.at(-1)).toMatchObject({
          type: "response.failed",
          response: { status: "failed", error: { code: "server_error" } },
        });
      }
    });

    test("are deleted with their events", async () => {
      const events = await (await begin("delete me")).readUntil(never);
      const id = idOf(events);
      await waitUntilEnded(gateway, account, id);
      const deleted = await call(gateway, account, `DELETE /v1/responses/${id}`);
      expect(deleted.status).toBe(200);
      const rows = await gateway.server.db.all(
        "select part from stored_stream where response_id = ?",
        [id],
      );
      expect(rows).toEqual([]);
      expect((await getResponse(gateway, account, id, "?stream=true")).status).toBe(404);
    });

    test("are stored without gaps after the store did not accept some", async () => {
      const acceptParts = await rejectParts(gateway.server.db);
      const stream = await begin(SLOW_INPUT);
      const failed = "failed to store events of a background response";
      await eventually(async () => gateway.logLines.some((line) => line.includes(failed)));
      await acceptParts();
      const events = await stream.readUntil(never);
      await waitUntilEnded(gateway, account, idOf(events));
      expect(await (await resume(idOf(events))).readUntil(never)).toEqual([...events]);
    });

    test("leave nothing behind that is written after their deletion", async () => {
      const stream = await begin(SLOW_INPUT);
      const id = idOf(await stream.readUntil((events) => events.length > 3));
      const deleted = await call(gateway, account, `DELETE /v1/responses/${id}`);
      expect(deleted.status).toBe(200);
      await stream.readUntil(never);
      const rows = await gateway.server.db.all(
        "select part from stored_stream where response_id = ?",
        [id],
      );
      expect(rows).toEqual([]);
    });

    test("are stored without readable text", async () => {
      const events = await (await begin("a secret sentence")).readUntil(never);
      await waitUntilEnded(gateway, account, idOf(events));
      const rows = await gateway.server.db.all(
        "select sealed_events from stored_stream where response_id = ?",
        [idOf(events)],
      );
      expect(rows.length).toBeGreaterThan(1);
      expect(JSON.stringify(rows)).not.toContain("secret");
    });

    test("return their first event to a repetition with the same Idempotency-Key", async () => {
      const request = {
        headers: { "idempotency-key": `stream-once-${store}` },
        body: { model: "sim/echo", input: "once", background: true, stream: true },
      };
      const first = await call(gateway, account, "POST /v1/responses", request);
      const again = await call(gateway, account, "POST /v1/responses", request);
      expect(again.headers.get("content-type")).toContain("text/event-stream");
      const [event, ...others] = eventsOf(again.text);
      expect(others).toEqual([]);
      expect(event).toMatchObject({ type: "response.created", sequence_number: 0 });
      expect(idOf([event ?? {}])).toBe(idOf(eventsOf(first.text)));
    });

    test.each([
      ["stream", "?stream=true"],
      ["starting_after", "?starting_after=3"],
      ["starting_after", "?stream=true&starting_after=-1"],
      ["starting_after", "?stream=true&starting_after=x"],
    ])("reject %s of a response without events (%s)", async (param, query) => {
      const { id } = await createResponse(gateway, account, { model: "sim/echo", input: "x" });
      const answer = await getResponse(gateway, account, id, query);
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, param]);
    });

    test("are not streamed to another account", async () => {
      const events = await (await begin("mine")).readUntil(never);
      const other = await fundedAccount(gateway);
      const answer = await getResponse(gateway, other, idOf(events), "?stream=true");
      expect(answer.status).toBe(404);
    });
  });
}

test("streamed background responses are limited per account", async () => {
  const gateway = await openGateway({ store: "sqlite" });
  const account = await fundedAccount(gateway);
  // It does not end before it is canceled.
  const input = "[[sim: tokens=400 chunks=400 hang=20]] slowly";
  const body = { model: "sim/echo", input, max_output_tokens: 400 };
  const first = await openStream(gateway, account, "POST /v1/responses", {
    ...body,
    background: true,
    stream: true,
  });
  const seen = await first.readUntil((events) => events.length > 0);
  const path = `GET /v1/responses/${idOf(seen)}?stream=true`;
  const streams = await Promise.all(
    Array.from({ length: 31 }, () => openStream(gateway, account, path)),
  );
  expect(streams.map(({ response }) => response.status)).toEqual(streams.map(() => 200));
  const limited = await getResponse(gateway, account, idOf(seen), "?stream=true");
  expect([limited.status, errorOf(limited.json)["code"]]).toEqual([429, "rate_limited"]);
  // Nothing runs, or is charged, of which the client has no id.
  const refused = await call(gateway, account, "POST /v1/responses", {
    body: { ...body, background: true, stream: true },
  });
  expect([refused.status, errorOf(refused.json)["code"]]).toEqual([429, "rate_limited"]);
  const { db } = gateway.server;
  expect(await db.all("select id from stored_response")).toEqual([{ id: idOf(seen) }]);
  await Promise.all([first, ...streams].map(({ close }) => close()));
  await eventually(
    async () => (await getResponse(gateway, account, idOf(seen), "?stream=false")).status === 200,
  );
  await cancelResponse(gateway, account, idOf(seen));
  await noOpenHolds(gateway);
  await gateway.stop();
});

test("of two streamed responses for one free stream, one runs", async () => {
  const gateway = await openGateway({ store: "sqlite" });
  const account = await fundedAccount(gateway);
  const body = { model: "sim/echo", max_output_tokens: 400, background: true, stream: true };
  const begin = (input: string): Promise<OpenStream> =>
    openStream(gateway, account, "POST /v1/responses", { ...body, input });
  const first = await begin(SLOW_INPUT);
  const id = idOf(await first.readUntil((events) => events.length > 0));
  const others = Array.from({ length: 30 }, () =>
    openStream(gateway, account, `GET /v1/responses/${id}?stream=true`),
  );
  const open = [first, ...(await Promise.all(others))];
  // A response that fails before it runs leaves its stream to the next one.
  const unknown = { ...body, model: "sim/unknown", input: "x" };
  for (let failed = 0; failed < 2; failed++)
    expect((await call(gateway, account, "POST /v1/responses", { body: unknown })).status).toBe(
      404,
    );
  const both = await Promise.all([begin(SLOW_INPUT), begin(SLOW_INPUT)]);
  expect(both.map(({ response }) => response.status).toSorted((a, b) => a - b)).toEqual([200, 429]);
  const stored = await gateway.server.db.all("select id from stored_response");
  expect(stored).toHaveLength(2);
  await Promise.all([...open, ...both].map(({ close }) => close()));
  for (const row of stored) await cancelResponse(gateway, account, String(row["id"]));
  await noOpenHolds(gateway);
  const calls = await gateway.server.db.all("select id from usage_record");
  expect(calls).toHaveLength(2);
  await gateway.stop();
});

test("a process on the same PostgreSQL streams the events of another", async () => {
  const databaseUrl = await migratedPostgres();
  const gateways: Gateway[] = [];
  for (const name of ["one", "two"])
    gateways.push(
      await startGateway({
        databaseUrl,
        env: {
          POSTERN_SECRET: "a-master-secret-for-both-processes-0123",
          POSTERN_PROCESS_NAME: name,
        },
      }),
    );
  const [one, two] = gateways;
  if (one === undefined || two === undefined) throw new Error("no gateways");
  const account = await fundedAccount(one);
  const stream = await openStream(one, account, "POST /v1/responses", {
    model: "sim/echo",
    input: "[[sim: tokens=80 chunks=80 pace=20]] far",
    background: true,
    stream: true,
  });
  const seen = await stream.readUntil((events) => events.length >= 3);
  const path = `GET /v1/responses/${idOf(seen)}?stream=true&starting_after=2`;
  const elsewhere = await openStream(two, account, path);
  const [rest, all] = await Promise.all([elsewhere.readUntil(never), stream.readUntil(never)]);
  expect(rest).toEqual(all.slice(3));
  for (const gateway of gateways) await gateway.stop();
});
