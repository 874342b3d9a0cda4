// The examples of deploy/ for nginx and Caddy, run by the real programs: a rolling restart behind them fails no call.

import { afterEach, expect, test } from "bun:test";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import {
  createTempFolder,
  type RunningProcess,
  startPostern,
  stopAll,
  stopPostern,
} from "../commands/run-postern.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { runInProcess } from "../support/run-command.ts";
import { skipUnless } from "../support/skip.ts";
import { readText } from "../support/source/source-files.ts";
import { dropPostgres, migratedPostgres } from "../support/stores/postgres.ts";

const CALLERS = 3;
const CALLS_BETWEEN_RESTARTS = 12;
const JSON_TYPE = { "content-type": "application/json" };

const proxies: ChildProcess[] = [];
afterEach(() => {
  for (const proxy of proxies.splice(0)) proxy.kill("SIGKILL");
  stopAll();
});

interface Addresses {
  readonly folder: string;
  readonly port: number;
  readonly gateways: readonly [number, number];
}

function withGateways(example: string, { gateways: [first, second] }: Addresses): string {
  return readText(example)
    .replace("127.0.0.1:8787", `127.0.0.1:${first}`)
    .replace("127.0.0.1:8788", `127.0.0.1:${second}`);
}

function temporaryPaths(folder: string): string {
  const names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return names.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n");
}

/** The example inside of a minimal main configuration, without TLS. */
function startNginx(addresses: Addresses): ChildProcess {
  const { folder, port } = addresses;
  const site = withGateways("deploy/nginx/postern.conf", addresses)
    .replace("listen 443 ssl;", `listen 127.0.0.1:${port};`)
    .replace("/var/log/nginx/", `${folder}/`)
    .replaceAll(/^\s*ssl_certificate.*\n/gm, "");
  const main = `daemon off;\npid ${folder}/nginx.pid;\nerror_log stderr warn;\nmaster_process off;
events { worker_connections 512; }\nhttp {\naccess_log off;\n${temporaryPaths(folder)}\n${site}\n}\n`;
  const file = path.join(folder, "nginx.conf");
  writeFileSync(file, main);
  return spawn("nginx", ["-p", folder, "-c", file], { stdio: ["ignore", "ignore", "pipe"] });
}

function startCaddy(addresses: Addresses): ChildProcess {
  const { folder, port } = addresses;
  const site = withGateways("deploy/caddy/Caddyfile", addresses).replace(
    "gateway.example.com {",
    `http://127.0.0.1:${port} {`,
  );
  const file = path.join(folder, "Caddyfile");
  writeFileSync(file, `{\n\tadmin off\n}\n${site}`);
  const args = ["run", "--adapter", "caddyfile", "--config", file];
  const env = {
    PATH: process.env["PATH"],
    HOME: folder,
    XDG_DATA_HOME: folder,
    XDG_CONFIG_HOME: folder,
  };
  return spawn("caddy", args, { env, stdio: ["ignore", "ignore", "pipe"] });
}

/** Two gateways on one database. */
async function startGateways(database: string, ports: readonly [number, number]) {
  const temp = createTempFolder();
  const shared = { ...temp.settings, DATABASE_URL: database, POSTERN_SECRET: "p".repeat(44) };
  const start = (index: 0 | 1): Promise<RunningProcess> =>
    startPostern([], {
      ...shared,
      POSTERN_PORT: String(ports[index]),
      POSTERN_PROCESS_NAME: `gateway-${index}`,
      POSTERN_TRUSTED_PROXIES: "127.0.0.1",
      POSTERN_SHUTDOWN_DELAY_SECONDS: "4",
      POSTERN_LOG_FORM: "json",
    });
  return {
    start,
    running: [await start(0), await start(1)] as [RunningProcess, RunningProcess],
    shared,
    temp,
  };
}

/** Calls whole and streamed replies without a pause, until it is stopped. */
function startLoad(url: string, key: string) {
  const failures: string[] = [];
  const state = { completed: 0, isOver: false };
  const call = async (stream: boolean): Promise<void> => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...JSON_TYPE, authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: "sim/echo",
        stream,
        messages: [{ role: "user", content: "[[sim: chunks=10 pace=10 tokens=10]] go on" }],
      }),
    });
    const text = await response.text();
    const isWhole = stream ? text.trimEnd().endsWith("[DONE]") : text.includes('"choices"');
    if (response.status !== 200 || !isWhole)
      failures.push(`${response.status} ${text.slice(0, 300)}`);
  };
  const callers = Array.from({ length: CALLERS }, async (_, caller) => {
    for (let count = caller; !state.isOver; count++) {
      await call(count % 2 === 0).catch((error: unknown) => failures.push(String(error)));
      state.completed += 1;
    }
  });
  return {
    failures,
    waitForCalls: async () => {
      const until = state.completed + CALLS_BETWEEN_RESTARTS;
      await eventually(() => state.completed >= until);
    },
    stop: async () => {
      state.isOver = true;
      await Promise.all(callers);
    },
  };
}

for (const [program, startProxy, source] of [
  ["nginx", startNginx, "nginx.org"],
  ["caddy", startCaddy, "caddyserver.com"],
] as const) {
  const isInstalled = Bun.which(program) !== null;
  const reason = `${program} is not installed (${source}); its example in deploy/ is run before two gateways`;
  test.skipIf(skipUnless(isInstalled, reason))(
    `a rolling restart behind the example for ${program} fails no call`,
    async () => {
      const database = await migratedPostgres();
      const ports = [await freePort(), await freePort()] as const;
      const { start, running, shared, temp } = await startGateways(database, ports);
      const port = await freePort();
      proxies.push(startProxy({ folder: temp.folder, port, gateways: ports }));
      const url = `http://127.0.0.1:${port}`;
      await eventually(async () => (await fetch(`${url}/healthz`).catch(() => undefined))?.ok);
      const created = await fetch(`${url}/v1/accounts`, {
        method: "POST",
        headers: JSON_TYPE,
        body: "{}",
      });
      const { api_key: key, account } = (await created.json()) as {
        api_key: string;
        account: { id: string };
      };
      const granting = ["admin", "grant", account.id, "5", "--reason", "test"];
      expect((await runInProcess(granting, shared)).code).toBe(0);
      const load = startLoad(url, key);
      await load.waitForCalls();
      for (const index of [0, 1] as const) {
        expect((await stopPostern(running[index])).code).toBe(0);
        await load.waitForCalls();
        running[index] = await start(index);
        await load.waitForCalls();
      }
      await load.stop();
      expect(load.failures).toEqual([]);
      expect((await fetch(`${url}/metrics`)).status).toBe(404);
      for (const one of running) await stopPostern(one);
      await dropPostgres(database);
      temp.remove();
    },
  );
}

test.skipIf(skipUnless(Bun.which("nginx") !== null, "nginx is not installed"))(
  "nginx accepts the example with TLS",
  () => {
    const temp = createTempFolder();
    const certificate = path.join(temp.folder, "certificate.pem");
    const key = path.join(temp.folder, "key.pem");
    spawnSync("openssl", [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-days",
      "2",
      "-subj",
      "/CN=gateway.example.com",
      "-keyout",
      key,
      "-out",
      certificate,
    ]);
    const site = readText("deploy/nginx/postern.conf")
      .replace("/var/log/nginx/", `${temp.folder}/`)
      .replace("/etc/ssl/gateway.example.com.pem", certificate)
      .replace("/etc/ssl/gateway.example.com.key", key);
    const file = path.join(temp.folder, "nginx.conf");
    writeFileSync(
      file,
      `error_log stderr;\npid ${temp.folder}/nginx.pid;\nevents {}\nhttp {\naccess_log off;\n${temporaryPaths(temp.folder)}\n${site}\n}\n`,
    );
    const { status, stderr } = spawnSync("nginx", ["-t", "-p", temp.folder, "-c", file], {
      encoding: "utf8",
    });
    expect([status, status === 0 ? "" : stderr]).toEqual([0, ""]);
    temp.remove();
  },
);

test("the access log of the example for nginx has no query, which may have an API key", () => {
  const site = readText("deploy/nginx/postern.conf");
  const [format = ""] = /^log_format postern .*$/m.exec(site) ?? [];
  expect(format).toContain("$uri");
  expect(format).not.toMatch(
    /\$(?:request|request_uri|args|query_string|arg_\w+|http_referer)\b(?!_)/,
  );
  expect(site).toMatch(/^\s*access_log \S+ postern;$/m);
});
