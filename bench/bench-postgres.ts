// A PostgreSQL server for benchmarks, with durable commits, and the CPU time of its processes. It ends with the benchmark.

import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { SQL } from "bun";
import { cpuSecondsOf } from "./server-process.ts";

export interface BenchPostgres {
  readonly url: string;
  /** Returns the URL of a new, empty database. */
  readonly createDatabase: () => Promise<string>;
  /** As autovacuum does within a minute: without statistics, PostgreSQL may read whole tables instead of an index. */
  readonly analyze: (url: string) => Promise<void>;
  readonly stop: () => void;
}

export async function startPostgres(settings: readonly string[] = []): Promise<BenchPostgres> {
  const server = spawn(
    "node",
    [
      "test/support/stores/postgres-server.mjs",
      "fsync=on",
      "full_page_writes=on",
      "log_min_messages=panic",
      ...settings,
    ],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  const url = await new Promise<string>((resolve) => {
    server.stdout.setEncoding("utf8").once("data", (line: string) => resolve(line.trim()));
  });
  await waitUntilConnectable(url);
  let databases = 0;
  return {
    url,
    createDatabase: () => createDatabase(url, `bench_${(databases += 1)}`),
    analyze: async (database) => {
      const admin = new SQL(database, { max: 1 });
      await admin.unsafe("analyze");
      await admin.close();
    },
    stop: () => server.stdin.end(),
  };
}

/** The server prints its URL before it accepts connections. */
async function waitUntilConnectable(url: string): Promise<void> {
  for (;;) {
    const admin = new SQL(url, { max: 1 });
    const isUp = await admin.unsafe("select 1").then(
      () => true,
      () => false,
    );
    await admin.close();
    if (isUp) return;
    await Bun.sleep(100);
  }
}

async function createDatabase(serverUrl: string, name: string): Promise<string> {
  const admin = new SQL(serverUrl, { max: 1 });
  await admin.unsafe(`create database ${name}`);
  await admin.close();
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** The server of this benchmark: the descendants of this process that are called postgres. */
export function cpuOfOwnPostgres(): number {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, name) => sum + (isOwnPostgres(Number(name)) ? cpuSecondsOf(Number(name)) : 0), 0);
}

function isOwnPostgres(pid: number): boolean {
  try {
    return commandOf(pid) === "postgres" && ancestorsOf(pid).includes(process.pid);
  } catch {
    return false;
  }
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}

function ancestorsOf(pid: number): readonly number[] {
  const parent = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return parent <= 1 ? [parent] : [parent, ...ancestorsOf(parent)];
}
