// Proxies to compare with: nginx and a minimal proxy on Bun. Both only forward.

import { readFileSync } from "node:fs";
import path from "node:path";
import {
  cpuSecondsOf,
  freePort,
  rssMbOf,
  type ServerProcess,
  waitForServer,
} from "./server-process.ts";

/** Undefined if nginx is not installed. */
export async function startNginx(
  upstream: string,
  folder: string,
): Promise<ServerProcess | undefined> {
  if (Bun.which("nginx") === null) return undefined;
  const port = await freePort();
  const config = path.join(folder, "nginx.conf");
  await Bun.write(
    config,
    `worker_processes 1; daemon off; pid ${folder}/nginx.pid; error_log ${folder}/nginx.log;
     events { worker_connections 4096; }
     http {
       access_log off; client_body_temp_path ${folder}/b; proxy_temp_path ${folder}/p; fastcgi_temp_path ${folder}/f;
       uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s; keepalive_requests 1000000000;
       upstream provider { server ${new URL(upstream).host}; keepalive 128; }
       server {
         listen 127.0.0.1:${port};
         location / { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header connection ""; proxy_buffering off; }
       }
     }`,
  );
  const child = Bun.spawn(["nginx", "-c", config], { stdout: "ignore", stderr: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  await waitForServer(url);
  return toServerProcess(url, workerOf(child.pid), child);
}

export async function startBareProxy(upstream: string): Promise<ServerProcess> {
  const port = await freePort();
  const child = Bun.spawn(
    [process.execPath, path.join(import.meta.dir, "bare-proxy.ts"), String(port), upstream],
    { stdout: "ignore", stderr: "inherit" },
  );
  const url = `http://127.0.0.1:${port}`;
  await waitForServer(url);
  return toServerProcess(url, child.pid, child);
}

function toServerProcess(url: string, pid: number, child: Bun.Subprocess): ServerProcess {
  return {
    url,
    pid,
    cpuSeconds: () => cpuSecondsOf(pid),
    rssMb: () => rssMbOf(pid),
    stop: async () => {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

function workerOf(master: number): number {
  const children = readFileSync(`/proc/${master}/task/${master}/children`, "utf8")
    .trim()
    .split(" ");
  return Number(children[0] ?? master);
}
