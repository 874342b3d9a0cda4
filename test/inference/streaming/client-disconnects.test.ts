import { afterAll, describe, expect, test } from "bun:test";
import { text, integer } from "../../../src/store/db.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  postCall,
  releaseReplies,
  usageRecordsOf,
  simStats,
  STREAMED_APIS,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";
import {
  openSocketClient,
  countOpenFiles,
  disconnectManyClients,
  disconnectSeen,
} from "../support/socket-client.ts";

const CLIENTS = 2_000;
const STREAM = "[[sim: tokens=150 chunks=150 pace=10]] go on";

const gateway = await startGateway({ providers: ["sim", "groq"], abandonedCallsPerMinute: 1_000 });
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 100n * USD);
afterAll(() => gateway.stop());

/** The newest usage record, once the call has ended. */
async function newestRecord() {
  await expectSettledLedger(gateway.server.db);
  const record = (await usageRecordsOf(gateway.server.db, account.id)).at(-1);
  if (record === undefined) throw new Error("no record");
  return record;
}

/** The request count of a route and status in the metrics. */
async function requestCount(route: string, status: number): Promise<number> {
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  const sample = `postern_requests_total{route="${route}",status="${status}"} `;
  return Number(metrics.split(sample)[1]?.split("\n")[0] ?? 0);
}

function whenUpstreamIdle() {
  return waitUntil(
    () => simStats(gateway),
    (stats) => stats.open_streams === 0,
  );
}

describe("a client that disconnects", () => {
  test("before the first byte of a stream ends it upstream and pays for the input", async () => {
    const before = await simStats(gateway);
    const countBefore = await requestCount("createChatCompletion", 499);
    const linesBefore = gateway.logLines.length;
    const client = openSocketClient(
      gateway,
      account,
      "chat",
      bodyOf("chat", "[[sim: latency=5000]] wait", { stream: true }),
    );
    await waitUntil(
      () => simStats(gateway),
      (stats) => stats.open_streams === before.open_streams + 1,
    );
    client.disconnect();
    const after = await whenUpstreamIdle();
    expect(after.aborted_streams).toBe(before.aborted_streams + 1);
    const record = await newestRecord();
    expect(record).toMatchObject({
      outcome: "client_aborted",
      status: 499,
      exact: 0,
      output_tokens: 0,
    });
    expect(integer(record, "cost_nano")).toBe(integer(record, "input_tokens") * 1_000);
    expect(integer(record, "input_tokens")).toBeGreaterThan(0);
    await waitUntil(
      () => requestCount("createChatCompletion", 499),
      (count) => count === countBefore + 1,
    );
    expect(gateway.logLines.slice(linesBefore).join("\n")).not.toContain('"level":"error"');
  });

  test("before a reply that is not streamed pays for it by the provider's usage", async () => {
    const before = await simStats(gateway);
    const client = openSocketClient(
      gateway,
      account,
      "chat",
      bodyOf("chat", "[[sim: wait=reply tokens=60]] wait"),
    );
    await waitUntil(
      () => simStats(gateway),
      (stats) => stats.open_streams === before.open_streams + 1,
    );
    await disconnectSeen(client, gateway);
    await releaseReplies(gateway, "reply");
    const record = await newestRecord();
    expect(record).toMatchObject({ outcome: "client_aborted", exact: 1, output_tokens: 60 });
    expect((await simStats(gateway)).aborted_streams).toBe(before.aborted_streams);
  });

  for (const api of STREAMED_APIS) {
    test(`in the middle of a ${api} stream ends it upstream and pays for what was relayed`, async () => {
      const client = openSocketClient(gateway, account, api, bodyOf(api, STREAM, { stream: true }));
      await waitUntil(client.text, (text) => text.split("delta").length > 10);
      client.disconnect();
      await whenUpstreamIdle();
      const record = await newestRecord();
      expect(record).toMatchObject({ outcome: "client_aborted", status: 200, api });
      expect(integer(record, "exact")).toBe(0);
      expect(integer(record, "output_tokens")).toBeGreaterThan(0);
      expect(integer(record, "output_tokens")).toBeLessThan(150);
      expect(integer(record, "cost_nano")).toBe(
        integer(record, "input_tokens") * 1_000 + integer(record, "output_tokens") * 2_000,
      );
    });
  }

  test("is charged by the provider's usage if the provider bills a stream to its end", async () => {
    for (const stream of [true, false]) {
      const before = await simStats(gateway);
      const text = stream
        ? "[[sim: tokens=60 chunks=60 pace=100]] on"
        : "[[sim: wait=billed tokens=60]] on";
      const client = openSocketClient(
        gateway,
        account,
        "chat",
        bodyOf("chat", text, { stream, model: "groq/openai/gpt-oss-20b" }),
      );
      await waitUntil(
        () => simStats(gateway),
        ({ open_streams }) => open_streams === before.open_streams + 1,
      );
      await disconnectSeen(client, gateway);
      if (!stream) await releaseReplies(gateway, "billed");
      const record = await newestRecord();
      expect(record).toMatchObject({ outcome: "client_aborted", exact: 1, output_tokens: 60 });
      expect(integer(record, "cost_nano")).toBeGreaterThan(0);
      expect((await simStats(gateway)).aborted_streams).toBe(before.aborted_streams);
    }
  });

  test("right before the end is charged once, by the provider's usage", async () => {
    for (const api of STREAMED_APIS) {
      const client = openSocketClient(
        gateway,
        account,
        api,
        bodyOf(api, "[[sim: tokens=40 chunks=4]] quick", {
          stream: true,
          ...(api === "chat" ? { stream_options: { include_usage: true } } : {}),
        }),
      );
      await client.waitForText('"usage":{"cost"');
      client.disconnect();
      const record = await newestRecord();
      expect(record).toMatchObject({ exact: 1, output_tokens: 40 });
      expect(integer(record, "cost_nano")).toBeGreaterThan(0);
    }
  });

  test("does not count as a failure of the provider", async () => {
    const { requests } = await simStats(gateway);
    for (let sent = 1; sent <= 8; sent++) {
      const client = openSocketClient(
        gateway,
        account,
        "chat",
        bodyOf("chat", "[[sim: hang=0]] ...", { stream: true }),
      );
      await waitUntil(
        () => simStats(gateway),
        (stats) => stats.requests === requests + sent,
      );
      client.disconnect();
    }
    await newestRecord();
    const response = await postCall(gateway, account, "chat", bodyOf("chat", "still there?"));
    expect(response.status).toBe(200);
  });

  test("or stops reading has its call ended and charged", async () => {
    const own = await startGateway({ timeouts: { idleMs: 1_500 } });
    const reader = await registerAccount(own);
    await grantCredits(own, reader, 100n * USD);
    const client = openSocketClient(
      own,
      reader,
      "chat",
      bodyOf("chat", "[[sim: kb=16000 chunks=4000]] much", { stream: true, max_tokens: undefined }),
    );
    await client.waitForText('"content":');
    client.pause();
    await expectSettledLedger(own.server.db);
    const [record] = await usageRecordsOf(own.server.db, reader.id);
    expect(record).toMatchObject({ outcome: "client_aborted" });
    expect(Number(record?.["cost_nano"])).toBeGreaterThan(0);
    client.disconnect();
    await own.stop();
  });
});

describe("many clients that disconnect", () => {
  test(`leave no memory or sockets behind, and each is charged by its meter (${CLIENTS} clients)`, async () => {
    const own = await startGateway({ abandonedCallsPerMinute: 10_000 });
    const owner = await registerAccount(own);
    await grantCredits(own, owner, 1_000n * USD);
    await disconnectManyClients(own, owner, { clients: 300, concurrency: 50 });
    const filesBefore = countOpenFiles();
    const rssBefore = retainedMb();
    const result = await disconnectManyClients(own, owner, { clients: CLIENTS, concurrency: 50 });
    const grown = retainedMb() - rssBefore;
    expect(grown).toBeLessThan(80);
    await waitUntil(countOpenFiles, (count) => count <= filesBefore + 60);
    const records = await usageRecordsOf(own.server.db, owner.id);
    expect(records.length).toBe(CLIENTS + 300);
    let charged = 0n;
    for (const record of records) {
      expect(text(record, "outcome")).toBe("client_aborted");
      expect(integer(record, "cost_nano")).toBeGreaterThan(0);
      charged += BigInt(integer(record, "cost_nano"));
    }
    const { promo, paid } = await readWallet(own.server.db, owner.id);
    expect(promo + paid).toBe(1_000n * USD + 50_000_000n - charged);
    await expectSettledLedger(own.server.db);
    console.log(
      `» ${CLIENTS} clients left mid-stream in ${result.seconds.toFixed(1)} s; upstream gone and settled ${result.cleanupMs.toFixed(0)} ms after the last; ${grown.toFixed(0)} MiB more, open files ${filesBefore} → ${countOpenFiles()}`,
    );
    await own.stop();
  });
});

/** Collects garbage first, so that only leaks are counted. */
function retainedMb(): number {
  Bun.gc(true);
  return process.memoryUsage.rss() / 1_048_576;
}
