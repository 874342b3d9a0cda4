// File descriptors: what thousands of clients that send no bodies leave for others.

import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { createDescriptorGuard } from "../../src/http/guards/descriptors.ts";
import { uploadLimitsFor } from "../../src/http/request/upload-limit.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount } from "../support/gateway.ts";
import { startLimitedProcess } from "./limited-process.ts";
import { startShortTimeoutGateway } from "./short-timeout-gateway.ts";

const LIMIT = 256;
const CONNECTIONS = 400;
/** Below the ten seconds after which a stranger's incomplete body is a 408, and the runtime's limit for headers. */
const SERVED_WITHIN_MS = 5_000;
/** In another network than the client of `fetch`. */
const ATTACKER = "127.0.1.2";

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

test.skipIf(process.platform !== "linux")("counts all descriptors when none is free", () => {
  const openFiles = path.resolve(import.meta.dir, "../../src/server/open-files.ts");
  const script = `
    const { openSync } = await import("node:fs");
    const files = (await import(${JSON.stringify(openFiles)})).findOpenFiles();
    try { for (;;) openSync("/dev/null", "r"); } catch {}
    console.log(files.count(), files.max);`;
  const command = `ulimit -n ${LIMIT}; exec "$0" -e "$1"`;
  const { stdout } = spawnSync("sh", ["-c", command, process.execPath, script], {
    encoding: "utf8",
  });
  expect(stdout).toBe(`${LIMIT} ${LIMIT}\n`);
});

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
  ["without a key or body", `POST /v1/chat/completions ${STALLED_BODY}`],
  ["of new accounts without a body", `POST /v1/accounts ${STALLED_BODY}`],
  ["that stay idle after a response", `GET /healthz ${HEADERS}\r\n`],
  ["of half a header", "GET /healthz HTTP/1.1\r\nho"],
  ["of nothing", ""],
])(
  `a process with ${LIMIT} descriptors serves others during ${CONNECTIONS} requests %s, again and again`,
  async (_, request) => {
    const gateway = await startLimitedProcess(LIMIT);
    const attack = startAttack(gateway.port, request);
    await attack.allConnected;
    await eventually(() => attack.closed() > 0, { timeoutMs: SERVED_WITHIN_MS });
    for (let attempt = 0; attempt < 3; attempt++) {
      const response = await fetch(`${gateway.url}/v1/models`, {
        headers: { connection: "close" },
        signal: AbortSignal.timeout(SERVED_WITHIN_MS),
      });
      expect(response.status).toBe(200);
      await response.text();
    }
    attack.stop();
    await gateway.stop();
  },
);

/** Opens connections that send the text, and a new one for each that the gateway closes. */
function startAttack(port: number, text: string) {
  const sockets = new Set<Socket>();
  let isStopped = false;
  let closed = 0;
  const open = (): Promise<void> => {
    const socket = connect({ port, host: "127.0.0.1", localAddress: ATTACKER });
    sockets.add(socket);
    socket.resume();
    socket.on("error", () => {});
    socket.on("close", () => {
      sockets.delete(socket);
      closed += 1;
      if (!isStopped) setImmediate(open);
    });
    if (text !== "") socket.write(text);
    return new Promise((resolve) => {
      socket.once("connect", resolve);
    });
  };
  return {
    allConnected: Promise.all(Array.from({ length: CONNECTIONS }, open)),
    closed: () => closed,
    stop: () => {
      isStopped = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}
