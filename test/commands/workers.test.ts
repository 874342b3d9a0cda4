// `postern serve --workers`: several processes on one port and one PostgreSQL, and their supervisor.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { workerSettings } from "../../src/commands/workers/serve-workers.ts";
import { readConfig } from "../../src/config/config.ts";
import { openRawConnection, parseResponses, type RawConnection } from "../http/raw-client.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { runInProcess } from "../support/run-command.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { createTempFolder, runPostern, startPostern, stopAll, stopPostern } from "./run-postern.ts";
import type { RunningProcess, Settings } from "./run-postern.ts";

const WORKERS = 2;
const CALLERS = 8;
const JSON_TYPE = { "content-type": "application/json" };
const tempFolder = createTempFolder();
let settings: Settings;
let workerPort: number;

beforeAll(async () => {
  workerPort = await freePort(WORKERS);
  settings = {
    ...tempFolder.settings,
    DATABASE_URL: await migratedPostgres(),
    POSTERN_LOG_FORM: "json",
    POSTERN_WORKER_PORT: String(workerPort),
  };
});
afterEach(stopAll);
afterAll(tempFolder.remove);

test.each([
  [1, undefined, "10"],
  [2, undefined, "8"],
  [4, undefined, "4"],
  [64, undefined, "4"],
  [4, "7", "7"],
])("each of %i workers with the pool size %p opens %p connections", (count, poolSize, expected) => {
  const env = {
    DATABASE_URL: "postgres://localhost/postern",
    ...(poolSize !== undefined && { POSTERN_DATABASE_POOL_SIZE: poolSize }),
  };
  const read = readConfig({ env, hostName: "host", providers: [] });
  if (!read.ok) throw new Error("the settings are invalid");
  const worker = workerSettings({ worker: 1, count, port: 1 }, read.config, undefined);
  expect(worker["POSTERN_DATABASE_POOL_SIZE"]).toBe(expected);
});

describe("postern serve --workers", () => {
  test("spreads connections over the workers, restarts a killed one, and drains", async () => {
    const running = await startWorkers();
    const { key } = await register(running.url);
    for (let call = 0; call < 60; call++) expect(await callModel(running.url, key)).toBe(200);
    const served = await Promise.all([0, 1].map(requestsServed));
    for (const count of served) expect(count).toBeGreaterThan(0);
    expect(served.reduce((sum, count) => sum + count)).toBe(60);

    const killed = pidsOf(running).at(-1) ?? 0;
    process.kill(killed, "SIGKILL");
    await eventually(() => pidsOf(running).length === WORKERS + 1);
    expect(running.output()).toContain('"event":"worker died"');
    await eventually(() => /"event":"listening","worker":2/.test(running.output()));
    await eventually(async () => (await requestsServed(1)) === 0);
    expect(await callModel(running.url, key)).toBe(200);

    const { code, stdout } = await stopPostern(running);
    expect([code, stdout]).toEqual([0, expect.stringContaining('"event":"stopped the workers"')]);
    expect((await runInProcess(["admin", "verify-ledger"], settings)).stdout).toMatch(
      /0 open holds.* 61 usage records/,
    );
  });

  test("replaces the workers on SIGHUP without a failed call, and announces the end of a connection first", async () => {
    const running = await startWorkers();
    const { key } = await register(running.url);
    const first = pidsOf(running);
    const outcomes = new Map<number | string, number>();
    const load = { isDone: false };
    const callers = Array.from({ length: CALLERS }, async () => {
      while (!load.isDone) {
        const outcome = await callModel(running.url, key, true).catch(String);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    });
    const clients = Array.from({ length: CALLERS }, () => keepConnectionBusy(running.url, load));
    running.process.kill("SIGHUP");
    await eventually(() => running.output().includes('"event":"restarted the workers"'));
    load.isDone = true;
    await Promise.all(callers);
    expect([...outcomes.keys()]).toEqual([200]);
    const closed = await Promise.all(clients);
    expect(closed.some(({ announced }) => announced > 0)).toBe(true);
    expect(closed.map(({ lost }) => lost)).toEqual(Array<number>(CALLERS).fill(0));
    expect(pidsOf(running)).toHaveLength(WORKERS * 2);
    expect(first.some(isRunning)).toBe(false);
    expect((await stopPostern(running)).code).toBe(0);
  });

  test("drains the workers when the supervisor is killed", async () => {
    const running = await startWorkers();
    running.process.kill("SIGKILL");
    await eventually(() => !pidsOf(running).some(isRunning));
  });

  test("refuses SQLite, a wrong number and a port in use, and says why", async () => {
    const onSqlite = await runInProcess(["serve", "--workers", "2"], tempFolder.settings);
    expect([onSqlite.code, onSqlite.stderr]).toEqual([2, expect.stringContaining("DATABASE_URL")]);
    for (const wrong of ["0", "many", "1.5", "1000"]) {
      const { code, stderr } = await runInProcess(["serve", "--workers", wrong], settings);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining("auto or a number from 1 to 256"),
      ]);
    }
    const other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
    const { code, stderr } = await runInProcess(["serve", "--workers", "2"], {
      ...settings,
      POSTERN_PORT: String(other.port),
    });
    await other.stop(true);
    expect([code, stderr]).toEqual([1, expect.stringContaining("is in use")]);
  });

  test("ends if a worker cannot start", async () => {
    const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
    const { code, stderr } = await runPostern(["serve", "--workers", "2"], {
      ...settings,
      POSTERN_WORKER_PORT: String((taken.port ?? 0) - 1),
    });
    await taken.stop(true);
    expect([code, stderr]).toEqual([1, expect.stringContaining("POSTERN_WORKER_PORT")]);
  });
});

async function startWorkers(): Promise<RunningProcess> {
  const running = await startPostern(["serve", "--workers", String(WORKERS)], settings);
  let hasExited = false;
  void running.exited.then(() => (hasExited = true));
  await eventually(() => hasExited || running.output().includes('"event":"serving"'));
  if (hasExited) throw new Error(`the workers ended: ${running.output()}`);
  return running;
}

function pidsOf(running: RunningProcess): readonly number[] {
  return [...running.output().matchAll(/"event":"worker started".*?"pid":(\d+)/g)].map((match) =>
    Number(match[1]),
  );
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function register(url: string): Promise<{ readonly key: string }> {
  const response = await fetch(`${url}/v1/accounts`, {
    method: "POST",
    body: "{}",
    headers: { ...JSON_TYPE, connection: "close" },
  });
  // Safe: without a key the next call fails.
  const body = (await response.json()) as { api_key: string };
  return { key: body.api_key };
}

async function callModel(url: string, key: string, keepsAlive = false): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      ...JSON_TYPE,
      authorization: `Bearer ${key}`,
      ...(keepsAlive ? {} : { connection: "close" }),
    },
    keepalive: keepsAlive,
    body: JSON.stringify({
      model: "sim/tiny",
      max_tokens: 4,
      messages: [{ role: "user", content: "hi" }],
    }),
  });
  await response.text();
  return response.status;
}

interface ClosedConnections {
  /** After a response with `connection: close`. */
  announced: number;
  /** Without one, after a response; the kernel may reset a connection that is just opened. */
  lost: number;
}

/** Sends requests one after another on one connection, and opens another one when it is closed. */
async function keepConnectionBusy(
  url: string,
  load: { readonly isDone: boolean },
): Promise<ClosedConnections> {
  const closed = { announced: 0, lost: 0 };
  while (!load.isDone) {
    const connection = await openRawConnection({ url }).catch(() => undefined);
    if (connection !== undefined) await sendUntilClosed(connection, load, closed);
    connection?.socket.destroy();
  }
  return closed;
}

async function sendUntilClosed(
  { write, until }: RawConnection,
  load: { readonly isDone: boolean },
  closed: ClosedConnections,
): Promise<void> {
  for (let sent = 1; !load.isDone; sent++) {
    await write("GET /healthz HTTP/1.1\r\nHost: gateway.example\r\n\r\n");
    const { text } = await until((all) => parseResponses(all).length === sent);
    const responses = parseResponses(text);
    if (responses.length < sent) {
      if (sent > 1) closed.lost += 1;
      return;
    }
    if (/^connection: close$/im.test(responses.at(-1)?.head ?? "")) {
      closed.announced += 1;
      return;
    }
    // The connection is idle for a moment, as between the requests of a client.
    await Bun.sleep(5);
  }
}

/** Model calls that a worker has served, by its own port. */
async function requestsServed(index: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${workerPort + index}/metrics`);
  const lines = (await response.text()).split("\n");
  return lines
    .filter((line) => /^postern_requests_total\{.*chat/i.test(line))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}
