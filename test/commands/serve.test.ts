// `postern serve`: startup, shutdown and startup errors.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { isLoopbackHost } from "../../src/base/network/public-address.ts";
import { eventually } from "../support/eventually.ts";
import { runInProcess } from "../support/run-command.ts";
import {
  createTempFolder,
  type RunningProcess,
  runPostern,
  startPostern,
  stopPostern,
  stopAll,
} from "./run-postern.ts";

/** A start compared with a run of `--version`, which loads nothing: both are slower on a busy machine. */
const STARTUP_RATIO_MAX = 6;
/** On a busy machine, one of two runs may have to wait. */
const STARTS_MAX = 6;
const PRODUCTION = {
  POSTERN_BASE_URL: "https://gateway.example.com",
  POSTERN_SECRET: "s".repeat(40),
};
const tempFolder = createTempFolder();

// The first run reads all files from disk; it is not measured.
beforeAll(async () => {
  await runInProcess(["migrate"], tempFolder.settings);
});
afterAll(tempFolder.remove);

describe("a process that serves", () => {
  let running: RunningProcess;
  beforeAll(async () => {
    running = await startPostern([], tempFolder.settings);
  });
  afterAll(stopAll);

  const checkHealth = () =>
    runPostern(["healthcheck"], {
      ...tempFolder.settings,
      POSTERN_PORT: new URL(running.url).port,
    });

  test("responds to postern healthcheck", async () => {
    const { code, stdout } = await checkHealth();
    expect([code, stdout]).toEqual([0, `${running.url}/healthz responded with 200\n`]);
  });

  test("keeps its data folder from another process", async () => {
    const { code, stderr } = await runPostern(["serve"], tempFolder.settings);
    expect(code).toBe(1);
    expect(stderr).toContain("is in use by another Postern");
    expect(stderr).not.toContain("    at ");
    expect((await fetch(`${running.url}/readyz`)).status).toBe(200);
  });

  test("keeps its port from another process", async () => {
    const other = createTempFolder();
    const { port } = new URL(running.url);
    const second = await startPostern(["serve"], { ...other.settings, POSTERN_PORT: port }).then(
      () => "it listens on the same port",
      (error: Error) => error.message,
    );
    expect(second).toMatch(/port \d+ of 127\.0\.0\.1 is in use/);
    other.remove();
  });

  test("leaves nothing running when it is killed, and postern healthcheck fails", async () => {
    running.process.kill("SIGKILL");
    await running.exited;
    expect(await fetch(running.url).then(String, () => "connection refused")).toBe(
      "connection refused",
    );
    const { code, stderr } = await checkHealth();
    expect([code, stderr]).toEqual([1, expect.stringContaining("does not respond")]);
  });
});

describe("postern serve", () => {
  afterEach(stopAll);

  test("responds soon after its start", async () => {
    let lowestRatio = Infinity;
    for (let start = 0; start < STARTS_MAX && lowestRatio >= STARTUP_RATIO_MAX; start++) {
      const startedVersion = performance.now();
      await runPostern(["--version"]);
      const versionMs = performance.now() - startedVersion;
      const started = performance.now();
      const running = await startPostern([], tempFolder.settings);
      expect((await fetch(`${running.url}/readyz`)).status).toBe(200);
      const ms = performance.now() - started;
      await stopPostern(running);
      console.log(
        `responded after ${Math.round(ms)} ms; --version took ${Math.round(versionMs)} ms`,
      );
      lowestRatio = Math.min(lowestRatio, ms / versionMs);
    }
    expect(lowestRatio).toBeLessThan(STARTUP_RATIO_MAX);
  });

  test("drains on SIGTERM: /readyz says 503, new work is refused, open work finishes, exit code 0", async () => {
    const running = await startPostern(["serve"], tempFolder.settings);
    const slow = openSlowRequest(running.url);
    await slow.sent;
    running.process.kill("SIGTERM");
    await eventually(async () => (await fetch(`${running.url}/readyz`)).status === 503);
    // Requests are still served for a moment after /readyz says 503.
    await eventually(async () => {
      const refused = await fetch(`${running.url}/v1/accounts`, {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json" },
      });
      return refused.status === 503 && refused.headers.has("retry-after");
    });
    expect((await fetch(`${running.url}/healthz`)).status).toBe(200);
    slow.finish();
    expect(await slow.answer).toStartWith("HTTP/1.1 201");
    const { code, stdout } = await running.exited;
    expect(code).toBe(0);
    expect(stdout).toContain('"event":"stopped"');
  });

  test("finishes and charges an open stream while it drains", async () => {
    const running = await startPostern(["serve"], tempFolder.settings);
    const { stream, account } = await openStream(running.url, "[[sim: chunks=20 pace=50]] go on");
    running.process.kill("SIGTERM");
    expect(await stream.text()).toEndWith("data: [DONE]\n\n");
    expect((await running.exited).code).toBe(0);
    const { stdout } = await runInProcess(["admin", "show", account], tempFolder.settings);
    expect(stdout).toContain("held       $0.00");
    expect(stdout).not.toContain("balance    $0.05");
    expect((await runInProcess(["admin", "verify-ledger"], tempFolder.settings)).stdout).toMatch(
      /0 open holds.* 1 usage records/,
    );
  });

  test("settles a stream that is cut off at the end of the drain", async () => {
    const running = await startPostern(["serve"], {
      ...tempFolder.settings,
      POSTERN_DRAIN_SECONDS: "1",
    });
    const { stream, account } = await openStream(running.url, "[[sim: chunks=20 hang=3]] go on");
    const read = stream.text().catch(() => "cut");
    expect((await stopPostern(running)).code).toBe(0);
    expect(await read).not.toContain("[DONE]");
    const { stdout } = await runInProcess(["admin", "show", account], tempFolder.settings);
    expect(stdout).toContain("held       $0.00");
    expect((await runInProcess(["admin", "verify-ledger"], tempFolder.settings)).stdout).toMatch(
      /0 open holds.* 2 usage records/,
    );
  });

  test("does not wait for open work beyond POSTERN_DRAIN_SECONDS", async () => {
    const running = await startPostern(["serve"], {
      ...tempFolder.settings,
      POSTERN_DRAIN_SECONDS: "1",
    });
    const slow = openSlowRequest(running.url);
    await slow.sent;
    const asked = performance.now();
    // The open request never ends.
    expect((await stopPostern(running)).code).toBe(0);
    expect(performance.now() - asked).toBeGreaterThan(900);
  });

  test("stops immediately on a second signal a second later", async () => {
    const running = await startPostern(["serve"], {
      ...tempFolder.settings,
      POSTERN_DRAIN_SECONDS: "600",
    });
    const slow = openSlowRequest(running.url);
    await slow.sent;
    // The signals of the first second are ignored.
    await eventually(() => {
      running.process.kill("SIGINT");
      return running.process.exitCode !== null;
    });
    expect((await running.exited).code).toBe(0);
  });

  test("refuses a POSTERN_HOST that is not an address of this machine", async () => {
    for (const POSTERN_HOST of ["no-such-host.invalid", "192.0.2.1"]) {
      const { code, stderr } = await runPostern([], {
        ...tempFolder.settings,
        ...PRODUCTION,
        // Production has another master secret than the store of the other tests.
        POSTERN_DATA_DIR: `${tempFolder.folder}/production`,
        POSTERN_HOST,
      });
      expect(`${code} ${stderr}`).toStartWith(
        `1 postern serve: cannot listen on port 0 of ${POSTERN_HOST}`,
      );
      expect(stderr).toContain("set POSTERN_HOST to an address of this machine");
    }
  });

  test("refuses to listen on other addresses in development mode", async () => {
    for (const POSTERN_HOST of ["0.0.0.0", "::", "192.0.2.1"]) {
      const { code, stderr } = await runPostern([], { ...tempFolder.settings, POSTERN_HOST });
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining("POSTERN_HOST must be 127.0.0.1 in development mode"),
      ]);
    }
  });

  test("recognizes all forms of loopback addresses", () => {
    for (const host of ["127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"])
      expect([host, isLoopbackHost(host)]).toEqual([host, true]);
    for (const host of ["0.0.0.0", "::", "[::]", "10.0.0.1", "::11", "localhost.example.com"])
      expect([host, isLoopbackHost(host)]).toEqual([host, false]);
  });

  test("logs JSON without a terminal, and text with POSTERN_LOG_FORM=text", async () => {
    const running = await startPostern(["serve"], tempFolder.settings);
    const { stdout } = await stopPostern(running);
    for (const line of stdout.trim().split("\n"))
      expect(Object.keys(JSON.parse(line)).slice(0, 3)).toEqual(["time", "level", "event"]);
    const text = await startPostern(["serve"], {
      ...tempFolder.settings,
      POSTERN_LOG_FORM: "text",
    });
    expect((await stopPostern(text)).stdout).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} INFO {2}listening host=127\.0\.0\.1 port=\d+/,
    );
  });

  test("reports an unreachable PostgreSQL without its password, as do other commands", async () => {
    const settings = {
      ...tempFolder.settings,
      DATABASE_URL: "postgres://postern:hunter2@127.0.0.1:1/postern",
    };
    for (const line of ["serve", "migrate", "admin list"]) {
      const { code, stderr } = await runPostern(line.split(" "), settings);
      expect(code).toBe(1);
      expect(stderr).toStartWith(`postern ${line}: PostgreSQL at 127.0.0.1:1 cannot be used: `);
      expect(stderr).toContain("DATABASE_URL");
      expect(stderr).not.toContain("hunter2");
      expect(stderr).not.toContain("    at ");
    }
  });

  test("reports DATABASE_URL if its password is not percent-encoded", async () => {
    const { code, stderr } = await runPostern(["serve"], {
      ...tempFolder.settings,
      DATABASE_URL: "postgres://postern:hunter#2@127.0.0.1/postern",
    });
    expect(code).toBe(2);
    expect(stderr).toContain("DATABASE_URL must be a URL");
    expect(stderr).not.toContain("hunter");
  });
});

/** A stream of a new account; its response headers have arrived. */
async function openStream(url: string, content: string) {
  const headers = { "content-type": "application/json" };
  const made = await fetch(`${url}/v1/accounts`, { method: "POST", headers, body: "{}" });
  const { account, api_key: key } = await made.json();
  const stream = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { ...headers, authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: "sim/echo",
      stream: true,
      max_tokens: 100,
      messages: [{ role: "user", content }],
    }),
  });
  expect(stream.status).toBe(200);
  return { stream, account: String(account.id) };
}

/** A request that sends half of its body until `finish` is called. */
function openSlowRequest(url: string) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const answer = Promise.withResolvers<string>();
  socket.setEncoding("utf8").on("data", (chunk: string) => answer.resolve(chunk));
  socket.on("error", () => {});
  const sent = new Promise<void>((resolve) => {
    socket.on("connect", () => {
      socket.write(
        "POST /v1/accounts HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{",
        // A later request on another connection is answered after the gateway has read this one.
        () => resolve(fetch(`${url}/healthz`).then(() => undefined)),
      );
    });
  });
  return { sent, finish: () => socket.write("}"), answer: answer.promise };
}
