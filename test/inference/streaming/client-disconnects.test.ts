import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { text, integer } from "../../../src/store/db.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  openSocketClient,
  countOpenFiles,
  disconnectManyClients,
} from "../support/socket-client.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  usageRecordsOf,
  simStats,
  STREAMED_APIS,
  waitUntil,
  USD,
  readWallet,
} from "../support/harness.ts";

const CLIENTS = 2_000;
const STREAM = "[[sim: tokens=150 chunks=150 pace=10]] go on";

let gateway: Gateway;
let account: TestAccount;

beforeAll(async () => {
  gateway = await startGateway({ providers: ["sim", "groq"] });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
});
afterAll(() => gateway.stop());

/** The newest record, once nothing of the call is open any more. */
async function settled() {
  await expectSettledLedger(gateway.server.db);
  const record = (await usageRecordsOf(gateway.server.db, account.id)).at(-1);
  if (record === undefined) throw new Error("no record");
  return record;
}

/** How many answers of a route are counted with a status. */
async function answered(route: string, status: number): Promise<number> {
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  const sample = `postern_requests_total{route="${route}",status="${status}"} `;
  return Number(metrics.split(sample)[1]?.split("\n")[0] ?? 0);
}

function upstreamGone(ms: number) {
  return waitUntil(
    () => simStats(gateway),
    (stats) => stats.open_streams === 0,
    ms,
  );
}

describe("a client that leaves", () => {
  for (const stream of [false, true]) {
    test(`before the first byte ends the call upstream within a second and pays nothing${stream ? ", streamed" : ""}`, async () => {
      const before = await simStats(gateway);
      const answeredBefore = await answered("createChatCompletion", 499);
      const linesBefore = gateway.logLines.length;
      const client = openSocketClient(
        gateway,
        account,
        "chat",
        bodyOf("chat", "[[sim: latency=5000]] wait", { stream }),
      );
      await waitUntil(
        () => simStats(gateway),
        (stats) => stats.open_streams === before.open_streams + 1,
      );
      client.disconnect();
      const after = await upstreamGone(1_000);
      expect(after.aborted_streams).toBe(before.aborted_streams + 1);
      expect(await settled()).toMatchObject({
        outcome: "client_aborted",
        status: 499,
        cost_nano: 0,
        output_tokens: 0,
      });
      await waitUntil(
        () => answered("createChatCompletion", 499),
        (count) => count === answeredBefore + 1,
      );
      expect(gateway.logLines.slice(linesBefore).join("\n")).not.toContain('"level":"error"');
    });
  }

  for (const api of STREAMED_APIS) {
    test(`in the middle of a ${api} stream ends it upstream within a second and pays for what was relayed`, async () => {
      const client = openSocketClient(gateway, account, api, bodyOf(api, STREAM, { stream: true }));
      await client.waitForText("delta");
      await Bun.sleep(200);
      client.disconnect();
      await upstreamGone(1_000);
      const record = await settled();
      expect(record).toMatchObject({ outcome: "client_aborted", status: 200, api });
      expect(integer(record, "exact")).toBe(0);
      expect(integer(record, "output_tokens")).toBeGreaterThan(0);
      expect(integer(record, "output_tokens")).toBeLessThan(150);
      expect(integer(record, "cost_nano")).toBe(
        integer(record, "input_tokens") * 1_000 + integer(record, "output_tokens") * 2_000,
      );
    });
  }

  test("from a provider that goes on billing is charged by the provider's own count, read to the end", async () => {
    for (const stream of [true, false]) {
      const before = await simStats(gateway);
      const text = stream
        ? "[[sim: tokens=60 chunks=60 pace=10]] on"
        : "[[sim: latency=400 tokens=60]] on";
      const client = openSocketClient(
        gateway,
        account,
        "chat",
        bodyOf("chat", text, { stream, model: "groq/openai/gpt-oss-20b" }),
      );
      await Bun.sleep(150);
      client.disconnect();
      const record = await settled();
      expect(record).toMatchObject({ outcome: "client_aborted", exact: 1, output_tokens: 60 });
      expect(integer(record, "cost_nano")).toBeGreaterThan(0);
      expect((await simStats(gateway)).aborted_streams).toBe(before.aborted_streams);
    }
  });

  test("right before the end is charged what the provider counted, once", async () => {
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
      const record = await settled();
      expect(record).toMatchObject({ exact: 1, output_tokens: 40 });
      expect(integer(record, "cost_nano")).toBeGreaterThan(0);
    }
  });

  test("does not count as the provider's failure", async () => {
    for (let left = 0; left < 8; left++) {
      const client = openSocketClient(
        gateway,
        account,
        "chat",
        bodyOf("chat", "[[sim: hang=0]] ...", { stream: true }),
      );
      await Bun.sleep(30);
      client.disconnect();
    }
    await settled();
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify(bodyOf("chat", "still there?")),
    });
    expect(answer.status).toBe(200);
  });

  test("that stops reading has left: its call is ended and charged, and holds nothing for ever", async () => {
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
    await expectSettledLedger(own.server.db, 8_000);
    const [record] = await usageRecordsOf(own.server.db, reader.id);
    expect(record).toMatchObject({ outcome: "client_aborted" });
    expect(Number(record?.["cost_nano"])).toBeGreaterThan(0);
    client.disconnect();
    await own.stop();
  }, 15_000);
});

describe("many clients that leave", () => {
  test(`${CLIENTS} of them leave neither memory nor sockets behind, and each is charged what was metered`, async () => {
    const own = await startGateway();
    const crowd = await registerAccount(own);
    await grantCredits(own, crowd, 1_000n * USD);
    await disconnectManyClients(own, crowd, { clients: 300, concurrency: 50 });
    const filesBefore = countOpenFiles();
    const rssBefore = keptMb();
    const result = await disconnectManyClients(own, crowd, { clients: CLIENTS, concurrency: 50 });
    const grown = keptMb() - rssBefore;
    expect(result.cleanupMs).toBeLessThan(1_000);
    expect(grown).toBeLessThan(80);
    await waitUntil(countOpenFiles, (count) => count <= filesBefore + 60);
    const records = await usageRecordsOf(own.server.db, crowd.id);
    expect(records.length).toBe(CLIENTS + 300);
    let charged = 0n;
    for (const record of records) {
      expect(text(record, "outcome")).toBe("client_aborted");
      expect(integer(record, "cost_nano")).toBeGreaterThan(0);
      charged += BigInt(integer(record, "cost_nano"));
    }
    const { promo, paid } = await readWallet(own.server.db, crowd.id);
    expect(promo + paid).toBe(1_000n * USD + 50_000_000n - charged);
    await expectSettledLedger(own.server.db);
    console.log(
      `» ${CLIENTS} clients left mid-stream in ${result.seconds.toFixed(1)} s; upstream gone and settled ${result.cleanupMs.toFixed(0)} ms after the last; ${grown.toFixed(0)} MiB more, open files ${filesBefore} → ${countOpenFiles()}`,
    );
    await own.stop();
  }, 40_000);
});

/** Garbage that is only waiting for its collection is nothing that was left behind. */
function keptMb(): number {
  Bun.gc(true);
  return process.memoryUsage.rss() / 1_048_576;
}
