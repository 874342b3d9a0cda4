// File descriptors: what thousands of clients that send no bodies leave for others.

import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createDescriptorGuard } from "../../src/http/guards/descriptors.ts";
import { uploadLimitsFor } from "../../src/http/request/upload-limit.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount } from "../support/gateway.ts";
import { MAIN } from "../support/program.ts";
import { startShortTimeoutGateway } from "./short-timeout-gateway.ts";

const LIMIT = 256;
const CONNECTIONS = 400;
/** Below the ten seconds after which a stranger's incomplete body is a 408. */
const SERVED_WITHIN_MS = 5_000;
/** The runtime closes connections without complete headers after twelve seconds, and does not report them before. */
const HEADERS_CLOSED_WITHIN_MS = 30_000;

test("samples the open files at most once per second and share of the limit", () => {
  let open = 100;
  let samples = 0;
  const reports: number[] = [];
  const count = (): number => {
    samples += 1;
    return open;
  };
  const guard = createDescriptorGuard({ max: 1_024, count }, (files) => reports.push(files));
  const isScarce = Array.from({ length: 300 }, () => guard.isScarce(0));
  expect([isScarce.includes(true), samples]).toEqual([false, 1]);
  open = 800;
  expect([guard.isScarce(2_000), guard.isScarce(2_001)]).toEqual([true, true]);
  expect([samples, reports]).toEqual([2, [800]]);
  open = 100;
  expect(guard.isScarce(2_300)).toBe(false);
  open = 800;
  expect([guard.isScarce(3_400), reports]).toEqual([true, [800]]);
});

test("notices within few requests that open files have become many", () => {
  let open = 20;
  const guard = createDescriptorGuard({ max: 1_024, count: () => open });
  let served = 0;
  while (!guard.isScarce(0)) {
    open += 2;
    served += 1;
  }
  expect(open).toBeLessThan(1_024);
  expect(served).toBeGreaterThan(300);
});

test.each([
  [1_000_000, [1_024, 2_048], [256, 1_024]],
  [1_024, [256, 512], [128, 256]],
  [4, [1, 2], [1, 1]],
] as const)(
  "with %d descriptors, keys send %p and networks %p bodies at once",
  (max, [perKey, perAccount], [perNetwork, perWiderNetwork]) =>
    expect(uploadLimitsFor(max)).toEqual({
      key: { perCaller: perKey, perGroup: perAccount },
      network: { perCaller: perNetwork, perGroup: perWiderNetwork },
    }),
);

test("closes connections after their response while descriptors are scarce", async () => {
  const gateway = await startShortTimeoutGateway({}, { descriptors: { isScarce: () => true } });
  const { headers } = await registerAccount(gateway);
  for (const request of ["healthz", "v1/models", "v1/unknown", "v1/account"]) {
    const response = await fetch(`${gateway.url}/${request}`, { headers });
    await response.text();
    expect(response.headers.get("connection")).toBe("close");
  }
  await gateway.stop();
});

const HEADERS = "HTTP/1.1\r\nhost: x\r\n";
const STALLED_BODY = `${HEADERS}content-type: application/json\r\ncontent-length: 500\r\n\r\n`;

test.skipIf(process.platform !== "linux").each([
  ["without a key or body", `POST /v1/chat/completions ${STALLED_BODY}`, SERVED_WITHIN_MS],
  ["of new accounts without a body", `POST /v1/accounts ${STALLED_BODY}`, SERVED_WITHIN_MS],
  ["that stay idle after a response", `GET /healthz ${HEADERS}\r\n`, SERVED_WITHIN_MS],
  ["of half a header", "GET /healthz HTTP/1.1\r\nho", HEADERS_CLOSED_WITHIN_MS],
])(
  `a process with ${LIMIT} descriptors serves others during or after ${CONNECTIONS} requests %s`,
  async (_, request, servedWithinMs) => {
    const gateway = await startLimitedProcess();
    const sockets = Array.from({ length: CONNECTIONS }, () => {
      const socket = connect(gateway.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.write(request);
      return socket;
    });
    await Promise.all(
      sockets.map((socket) => new Promise((resolve) => socket.once("connect", resolve))),
    );
    const response = await fetch(`http://127.0.0.1:${gateway.port}/v1/models`, {
      headers: { connection: "close" },
      signal: AbortSignal.timeout(servedWithinMs),
    });
    expect(response.status).toBe(200);
    for (const socket of sockets) socket.destroy();
    await gateway.stop();
  },
  60_000,
);

async function startLimitedProcess(): Promise<{
  readonly port: number;
  readonly stop: () => Promise<void>;
}> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-descriptors-"));
  const command = `ulimit -n ${LIMIT}; exec "$0" "$1"`;
  const child = Bun.spawn(["sh", "-c", command, process.execPath, MAIN], {
    env: {
      PATH: process.env["PATH"] ?? "",
      POSTERN_BASE_URL: "https://gateway.example.com",
      POSTERN_SECRET: "a secret of at least 32 characters",
      POSTERN_DATA_DIR: folder,
      POSTERN_PORT: "0",
    },
    stdout: "pipe",
    stderr: "pipe",
  });
  let output = "";
  const reading = (async () => {
    for await (const chunk of child.stdout) output += new TextDecoder().decode(chunk);
  })();
  await eventually(() => output.includes('"listening"'));
  return {
    port: Number(/"port":(\d+)/.exec(output)?.[1]),
    stop: async () => {
      child.kill("SIGKILL");
      await child.exited;
      await reading;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
