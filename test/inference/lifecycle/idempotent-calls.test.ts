import { afterAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { DAY_MS } from "../../../src/base/time.ts";
import { releaseAbandonedKeys } from "../../../src/idempotency/idempotency.ts";
import { toStoredReply } from "../../../src/inference/lifecycle/reply/idempotent-reply.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import {
  type Api,
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  releaseAfter,
  releaseReplies,
  usageRecordsOf,
  simStats,
  STREAMED_APIS,
  waitUntil,
  USD,
  withHeaders,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import { startRawProvider } from "../support/raw-provider.ts";
import { disconnectSeen, openSocketClient } from "../support/socket-client.ts";

let later = 0;
let keys = 0;

const gateway = await startGateway({
  now: () => Date.now() + later,
  providers: ["sim", "groq"],
  env: withModels(identicalModels(8)),
});
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 10n * USD);
afterAll(() => gateway.stop());

const ownHeadersOf = ({ headers }: Response): Json =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith("x-postern-")));
const newKey = (): string => `key-${(keys += 1)}`;
const keyed = (api: Api, key: string, body: Json) =>
  postCall(gateway, withHeaders(account, { "idempotency-key": key }), api, body);
const count = async (): Promise<number> =>
  (await usageRecordsOf(gateway.server.db, account.id)).length;

describe("Idempotency-Key on a model call", () => {
  for (const api of [...STREAMED_APIS, "embeddings"] as const) {
    for (const stream of api === "embeddings" ? [false] : [false, true]) {
      test(`replays the first response without another call or charge (${api}${stream ? ", streamed" : ""})`, async () => {
        const key = newKey();
        const body = bodyOf(api, "[[sim: tokens=30 chunks=10]] once", stream ? { stream } : {});
        const first = await keyed(api, key, body);
        const reply = await first.text();
        expect(first.status).toBe(200);
        expect(first.headers.get("idempotent-replayed")).toBeNull();
        expect(Object.keys(ownHeadersOf(first))).toEqual(
          expect.arrayContaining([
            "x-postern-provider",
            "x-postern-model",
            "x-postern-byok",
            ...(stream ? [] : ["x-postern-cost-usd"]),
          ]),
        );
        if (stream) expect(isCompleteStream(api, reply)).toBe(true);
        const [calls, records] = [(await simStats(gateway)).requests, await count()];
        for (let again = 0; again < 2; again++) {
          const replayed = await keyed(api, key, body);
          expect(replayed.status).toBe(200);
          expect(await replayed.text()).toBe(reply);
          expect(replayed.headers.get("idempotent-replayed")).toBe("true");
          expect(replayed.headers.get("content-type")).toBe(first.headers.get("content-type"));
          expect(ownHeadersOf(replayed)).toEqual(ownHeadersOf(first));
        }
        expect([(await simStats(gateway)).requests, await count()]).toEqual([calls, records]);
      });
    }
  }

  test("is a 409 with another body", async () => {
    for (const api of STREAMED_APIS) {
      const key = newKey();
      expect((await keyed(api, key, bodyOf(api, "one"))).status).toBe(200);
      const other = await keyed(api, key, bodyOf(api, "two"));
      expect(other.status).toBe(409);
      const body: unknown = await other.json();
      expectEnvelope(api, body);
      expect(errorOf(body)).toMatchObject({ code: "conflict", param: "idempotency-key" });
    }
  });

  test("is a 409 with `retry-after` while the first call runs, so that one of many concurrent calls is made", async () => {
    const key = newKey();
    const body = bodyOf("chat", "[[sim: wait=first]] slow");
    const before = (await simStats(gateway)).requests;
    const calls = Array.from({ length: 10 }, () => keyed("chat", key, body));
    const responses = await releaseAfter(gateway, "first", { calls, responses: 9 });
    expect(
      responses.map((response) => response.status).sort((left, right) => left - right),
    ).toEqual([200, ...Array.from({ length: 9 }, () => 409)]);
    expect(responses.find((response) => response.status === 409)?.headers.get("retry-after")).toBe(
      "1",
    );
    expect((await simStats(gateway)).requests).toBe(before + 1);
    expect((await keyed("chat", key, body)).headers.get("idempotent-replayed")).toBe("true");
  });

  test("can be used again after a call that was rejected, failed upstream or broke off", async () => {
    const failures: readonly Json[] = [
      bodyOf("chat", "[[sim: status=400]] x", { model: "sim/twin-0" }),
      bodyOf("chat", "[[sim: status=500]] x", { model: "sim/twin-1" }),
      bodyOf("chat", "[[sim: cut=2 pace=30]] one two three four", {
        model: "sim/twin-2",
        stream: true,
      }),
      bodyOf("chat", "x", { model: "sim/nothing" }),
      bodyOf("chat", "x", { max_tokens: -1 }),
    ];
    for (const body of failures) {
      const key = newKey();
      const first = await keyed("chat", key, body);
      await first.text();
      await waitUntil(
        () => keyed("chat", key, bodyOf("chat", "better")).then((response) => response.status),
        (status) => status === 200,
      );
    }
    await expectSettledLedger(gateway.server.db);
  });

  test("can be used again after its client left early", async () => {
    const key = newKey();
    const body = bodyOf("chat", "[[sim: tokens=100 chunks=100 pace=30]] x", { stream: true });
    const client = openSocketClient(
      gateway,
      withHeaders(account, { "idempotency-key": key }),
      "chat",
      body,
    );
    await client.waitForText('"content":');
    client.disconnect();
    await expectSettledLedger(gateway.server.db);
    const again = await keyed("chat", key, bodyOf("chat", "anew"));
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, null]);
  });

  test("replays the charged response to a client that lost its connection", async () => {
    const key = newKey();
    const body = bodyOf("chat", "[[sim: wait=left tokens=20]] x", {
      model: "groq/openai/gpt-oss-20b",
    });
    const client = openSocketClient(
      gateway,
      withHeaders(account, { "idempotency-key": key }),
      "chat",
      body,
    );
    await waitUntil(
      () => simStats(gateway),
      ({ open_streams }) => open_streams > 0,
    );
    const [calls, records] = [(await simStats(gateway)).requests, await count()];
    await disconnectSeen(client, gateway);
    await releaseReplies(gateway, "left");
    await waitUntil(
      () => keyed("chat", key, body).then((response) => response.status),
      (status) => status !== 409,
    );
    const again = await keyed("chat", key, body);
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    expect([(await simStats(gateway)).requests, await count()]).toEqual([calls, records + 1]);
    const costs = (await usageRecordsOf(gateway.server.db, account.id))
      .slice(-1)
      .map((record) => record["output_tokens"]);
    expect(costs).toEqual([20]);
  });

  for (const api of STREAMED_APIS)
    test(`replays the whole stream to a client that left, if the provider bills it to the end (${api})`, async () => {
      const key = newKey();
      const body = bodyOf(api, "[[sim: tokens=30 chunks=10 pace=150]] x", {
        model: "groq/openai/gpt-oss-20b",
        stream: true,
      });
      const caller = withHeaders(account, { "idempotency-key": key });
      const client = openSocketClient(gateway, caller, api, body);
      await client.waitForText("data:");
      const records = await count();
      client.disconnect();
      await waitUntil(
        () => keyed(api, key, body).then((response) => response.status),
        (status) => status !== 409,
      );
      const again = await keyed(api, key, body);
      expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
      expect(isCompleteStream(api, await again.text())).toBe(true);
      expect(await count()).toBe(records + 1);
    });

  test("is released when its process is known to be dead", async () => {
    const key = newKey();
    const body = bodyOf("chat", "[[sim: wait=running]] x");
    const { requests } = await simStats(gateway);
    const running = keyed("chat", key, body);
    await waitUntil(
      () => simStats(gateway),
      (stats) => stats.requests > requests,
    );
    await releaseAbandonedKeys(gateway.server.db, Date.now() + 1, 0);
    expect((await keyed("chat", key, body)).status).toBe(409);
    await releaseReplies(gateway, "running");
    expect((await running).status).toBe(200);
    expect((await keyed("chat", key, body)).headers.get("idempotent-replayed")).toBe("true");
  });

  test("of an abandoned call is released after five minutes, for one of two repetitions", async () => {
    const key = newKey();
    const send = () => keyed("chat", key, bodyOf("chat", "[[sim: latency=3000]] x"));
    const abandon = (ageMs: number) =>
      gateway.server.db.write((tx) =>
        tx.run(
          `update idempotent_answer set state = 'running', hold_id = 'req_z_dead', created_at = ?
           where hold_id = (select max(hold_id) from idempotent_answer)`,
          [Date.now() - ageMs],
        ),
      );
    await send();
    for (const ageMs of [290_000, -290_000]) {
      await abandon(ageMs);
      expect((await send()).status).toBe(409);
    }
    // The clock of the dead process may have been ahead.
    for (const ageMs of [301_000, -3_600_000]) {
      await abandon(ageMs);
      const both = await Promise.all([send(), send()]);
      expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 409]));
    }
    expect((await send()).headers.get("idempotent-replayed")).toBe("true");
  });

  test("is a 409 if the response was too large to be stored, and the call is not repeated", async () => {
    for (const stream of [false, true]) {
      const key = newKey();
      const body = bodyOf("chat", "[[sim: kb=9000 chunks=50]] x", {
        stream,
        max_tokens: undefined,
      });
      const first = await keyed("chat", key, body);
      expect(first.status).toBe(200);
      expect((await first.text()).length).toBeGreaterThan(9_000_000);
      const calls = (await simStats(gateway)).requests;
      const again = await keyed("chat", key, body);
      expect(again.status).toBe(409);
      expect(String(errorOf(await again.json())["message"])).toContain("too large to be stored");
      expect((await simStats(gateway)).requests).toBe(calls);
    }
  });

  test("stores replies of up to 8 MiB, counted in bytes", () => {
    const stored = (mebibytes: number) =>
      toStoredReply(new Headers(), "€".repeat((mebibytes * 1_048_576) / 3)).status;
    expect([stored(8), stored(9)]).toEqual([200, 409]);
  });

  test("is scoped by account and API, and must have a valid form", async () => {
    const key = newKey();
    const other = await registerAccount(gateway);
    await keyed("chat", key, bodyOf("chat", "mine"));
    const theirs = await postCall(
      gateway,
      withHeaders(other, { "idempotency-key": key }),
      "chat",
      bodyOf("chat", "theirs"),
    );
    expect([theirs.status, theirs.headers.get("idempotent-replayed")]).toEqual([200, null]);
    expect((await keyed("messages", key, bodyOf("messages", "mine"))).status).toBe(200);
    for (const bad of ["with space", "x".repeat(256)])
      expect((await keyed("chat", bad, bodyOf("chat", "x"))).status).toBe(400);
  });

  test("does not replay a response to a revoked key that is still cached", async () => {
    const key = newKey();
    const owner = await registerAccount(gateway);
    const caller = withHeaders(owner, { "idempotency-key": key });
    const body = bodyOf("chat", "secret");
    expect((await postCall(gateway, caller, "chat", body)).status).toBe(200);
    await gateway.server.db.write((tx) =>
      tx.run("update api_key set revoked_at = ? where account_id = ?", [Date.now(), owner.id]),
    );
    expect((await postCall(gateway, caller, "chat", body)).status).toBe(401);
  });

  test("expires after 24 hours", async () => {
    const key = newKey();
    const body = bodyOf("chat", "day by day");
    await (await keyed("chat", key, body)).text();
    later += DAY_MS - 60_000;
    expect((await keyed("chat", key, body)).headers.get("idempotent-replayed")).toBe("true");
    later += 120_000;
    expect((await keyed("chat", key, body)).headers.get("idempotent-replayed")).toBeNull();
    later = 0;
  });

  test("stores prompt, reply and key only in encrypted form", async () => {
    const key = "canary-idempotency-key-4711";
    const body = bodyOf("chat", "[[sim: text=canary-reply-4712]] canary-prompt-4713");
    expect(await (await keyed("chat", key, body)).text()).toContain("canary-reply-4712");
    await (await keyed("chat", `${key}-2`, { ...body, stream: true })).text();
    await gateway.server.ledger.idle();
    const folder = gateway.config.store.dataDir;
    for (const file of readdirSync(folder)) {
      const bytes = readFileSync(path.join(folder, file)).toString("latin1");
      for (const canary of ["canary-idempotency-key", "canary-reply", "canary-prompt", account.key])
        expect([file, canary, bytes.includes(canary)]).toEqual([file, canary, false]);
    }
    expect(gateway.logLines.join("\n")).not.toContain("canary");
  });
});

test("a stream without a terminal event is stored for a client that left early", async () => {
  const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 };
  const parts = ["a", "b", "c"].map((text, index) => {
    const content = { role: "model", parts: [{ text }] };
    const candidate = { index: 0, content, ...(index === 2 && { finishReason: "STOP" }) };
    return `data: ${JSON.stringify({ candidates: [candidate], usageMetadata, modelVersion: "gemini-2.5-flash" })}\r\n\r\n`;
  });
  const cuts = [1, 2].map((many) => parts.slice(0, many).join("").length);
  const headers = { "content-type": "text/event-stream" };
  const left = Promise.withResolvers<void>();
  const reply = { headers, body: parts.join(""), cuts, beforeNext: () => left.promise };
  const google = await startRawProvider(() => reply);
  const env = { GOOGLE_BASE_URL: google.url, GOOGLE_API_KEY: "test-key-0123456789" };
  const own = await startGateway({ providers: [], env });
  const caller = withHeaders(await registerAccount(own), { "idempotency-key": "left" });
  const body = bodyOf("messages", "x", { model: "google/gemini-2.5-flash", stream: true });
  const client = openSocketClient(own, caller, "messages", body);
  await client.waitForText("text_delta");
  await disconnectSeen(client, own);
  left.resolve();
  const [again] = await waitUntil(
    () => postCall(own, caller, "messages", body).then(async (r) => [r, await r.text()] as const),
    ([{ status }]) => status !== 409,
  );
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
  expect(google.requests).toHaveLength(1);
  const records = await usageRecordsOf(own.server.db, caller.id);
  expect(records.map(({ outcome }) => outcome)).toEqual(["client_aborted"]);
  await own.stop();
  await google.stop();
});
