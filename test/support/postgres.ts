// A real PostgreSQL for tests: the one that the test runner has started, or one of this process's own, which ends with it.

import { SQL } from "bun";
import { spawn } from "node:child_process";
import path from "node:path";

const START_TIMEOUT_MS = 30_000;
const ATTEMPTS_MAX = 50;
const RETRY_MS = 100;

let server: Promise<string> | undefined;

/** The URL of a new, empty database. */
export async function testPostgres(): Promise<string> {
  server ??= process.env["POSTERN_TEST_DATABASE_URL"]
    ? Promise.resolve(process.env["POSTERN_TEST_DATABASE_URL"])
    : startServer();
  const url = new URL(await server);
  const name = `test_${process.pid}_${crypto.randomUUID().replaceAll("-", "")}`;
  await createDatabase(url.href, name);
  url.pathname = `/${name}`;
  return url.href;
}

// A server that listens may still be starting up.
async function createDatabase(url: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const admin = new SQL(url, { max: 1 });
    try {
      await admin.unsafe(`create database ${name}`);
      return;
    } catch (error) {
      if (attempt >= ATTEMPTS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    } finally {
      await admin.close();
    }
  }
}

function startServer(): Promise<string> {
  const script = path.join(import.meta.dirname, "postgres-server.mjs");
  const child = spawn("node", [script, "log_min_messages=panic"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error("PostgreSQL did not start")), START_TIMEOUT_MS);
    let printed = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (chunk: string) => {
      printed += chunk;
      const line = printed.indexOf("\n");
      if (line < 0) return;
      clearTimeout(late);
      // The server must not keep this process alive; it stops when this process ends and its standard input closes.
      child.unref();
      for (const end of [child.stdin, child.stdout])
        if ("unref" in end && typeof end.unref === "function") end.unref();
      resolve(printed.slice(0, line));
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`PostgreSQL ended with ${code}`)));
  });
}
