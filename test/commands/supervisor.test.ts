// The supervisor of `postern serve --workers`, with small programs as its workers: in which order it signals and starts them.

import { afterEach, expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { createSupervisor, type Supervisor } from "../../src/commands/workers/supervisor.ts";
import { WORKER_READY, workerStarter } from "../../src/commands/workers/worker-process.ts";
import { eventually } from "../support/eventually.ts";

const WORKERS = 3;
const DRAIN_MS = 30_000;
const HEALTHY = `
  // A worker takes a moment to start; until then, signals end it.
  setTimeout(() => {
    // A worker takes a moment to drain.
    const drain = () => setTimeout(() => process.exit(0), 100);
    for (const name of ["SIGHUP", "SIGTERM"]) process.on(name, drain);
    process.send("${WORKER_READY}");
  }, 100);
  setInterval(() => {}, 1_000);
`;
const FAILING = "process.exit(3)";

let running: Supervisor | undefined;
afterEach(async () => {
  await running?.stop();
  running = undefined;
});

interface LogLine {
  readonly event: string;
  readonly restart_in_ms?: number;
}

function startSupervisor(programOf: (start: number, worker: number) => string) {
  const events: string[] = [];
  const lines: LogLine[] = [];
  let starts = 0;
  const supervisor = createSupervisor({
    count: WORKERS,
    drainMs: DRAIN_MS,
    monotonicNow: () => performance.now(),
    log: createLog({
      level: "info",
      isPretty: false,
      now: Date.now,
      // Safe: a log line is a JSON object with an event.
      write: (line) => lines.push(JSON.parse(line) as LogLine),
    }),
    start: (worker) => {
      starts += 1;
      const start = workerStarter([process.execPath, "-e", programOf(starts, worker)], process.env);
      const child = start([], {});
      events.push(`start ${worker}`);
      void child.ready.then(() => events.push(`ready ${worker}`));
      void child.exited.then(() => events.push(`exit ${worker}`));
      const signal: typeof child.signal = (name) => {
        events.push(`${name} ${worker}`);
        child.signal(name);
      };
      return { ...child, signal };
    },
  });
  running = supervisor;
  return { supervisor, events, lines };
}

test("stops the workers one after another, the last one with SIGTERM", async () => {
  const { supervisor, events } = startSupervisor(() => HEALTHY);
  expect(await supervisor.start()).toBe(true);
  events.length = 0;
  expect(await supervisor.stop()).toBe(true);
  expect(events).toEqual(["SIGHUP 1", "exit 1", "SIGHUP 2", "exit 2", "SIGTERM 3", "exit 3"]);
});

test("replaces the next worker only when the new one is ready", async () => {
  const { supervisor, events } = startSupervisor(() => HEALTHY);
  await supervisor.start();
  events.length = 0;
  await supervisor.restart();
  const replaced = [1, 2, 3].flatMap((n) => [
    `SIGHUP ${n}`,
    `exit ${n}`,
    `start ${n}`,
    `ready ${n}`,
  ]);
  expect(events).toEqual(replaced);
});

test("restarts after the start if it is told during the start", async () => {
  const { supervisor, events } = startSupervisor(() => HEALTHY);
  const started = supervisor.start();
  const restarted = supervisor.restart();
  expect(await started).toBe(true);
  await restarted;
  expect(events.filter((event) => event.startsWith("ready"))).toHaveLength(WORKERS * 2);
});

test("restarts once more if it is told during a restart", async () => {
  const { supervisor, events } = startSupervisor(() => HEALTHY);
  await supervisor.start();
  events.length = 0;
  const restarts = [supervisor.restart()];
  await eventually(() => events.includes("ready 1"));
  restarts.push(supervisor.restart(), supervisor.restart());
  await Promise.all(restarts);
  expect(events.filter((event) => event.startsWith("ready"))).toHaveLength(WORKERS * 2);
});

test("stops a restart at a worker that does not start, and keeps the others", async () => {
  const { supervisor, events } = startSupervisor((start) => (start <= WORKERS ? HEALTHY : FAILING));
  await supervisor.start();
  events.length = 0;
  await supervisor.restart();
  expect(events.filter((event) => event.startsWith("SIGHUP"))).toEqual(["SIGHUP 1"]);
});

test("restarts a worker that keeps dying after longer and longer pauses", async () => {
  const { supervisor, lines } = startSupervisor((start, worker) =>
    start <= WORKERS || worker !== 1 ? HEALTHY : FAILING,
  );
  await supervisor.start();
  void supervisor.restart();
  const pauses = (): readonly unknown[] =>
    lines.filter(({ event }) => event === "worker died").map((line) => line.restart_in_ms);
  await eventually(() => pauses().length === 3);
  expect(pauses()).toEqual([500, 1_000, 2_000]);
});

test("does not start if a worker does not, and stops the others", async () => {
  const { supervisor, events } = startSupervisor((_, worker) => (worker === 2 ? FAILING : HEALTHY));
  expect(await supervisor.start()).toBe(false);
  expect(events).toContain("exit 1");
  expect(events).toContain("exit 3");
});
