// Supervises the workers of `postern serve --workers`: restarts those that die, with backoff, replaces them one after
// another on SIGHUP, and stops them one after another on SIGTERM.

import type { Log } from "../../base/log.ts";
import { MINUTE_MS } from "../../base/time.ts";
import type { WorkerExit, WorkerProcess, WorkerSignal } from "./worker-process.ts";

const BACKOFF_MIN_MS = 500;
const BACKOFF_MAX_MS = 30_000;
/** A worker that ran this long was healthy: its next restart is immediate again. */
const HEALTHY_AFTER_MS = MINUTE_MS;
const READY_TIMEOUT_MS = MINUTE_MS;
/** Added to the drain: for leaving the port, charging the calls that were cut off, and closing the store. */
const STOP_MARGIN_MS = 20_000;
/** A worker takes two signals within a second for one. */
const SECOND_SIGNAL_MS = 1_200;

export interface SupervisorOptions {
  readonly count: number;
  readonly log: Log;
  readonly drainMs: number;
  /** `isRestarted` is true if a worker with this number ran before and has ended. */
  readonly start: (worker: number, isRestarted: boolean) => WorkerProcess;
  readonly monotonicNow: () => number;
}

export interface Supervisor {
  /** Starts all workers; resolves with false if one cannot start. */
  readonly start: () => Promise<boolean>;
  /** Replaces the workers one after another, once all of them have started; the others keep serving. */
  readonly restart: () => Promise<void>;
  /** Stops the workers one after another; resolves with true if each of them finished its calls. */
  readonly stop: () => Promise<boolean>;
  readonly stopNow: () => void;
}

interface Slot {
  readonly worker: number;
  process: WorkerProcess | undefined;
  startedAt: number;
  hasRun: boolean;
  /** Exits in a row after a short run. */
  failures: number;
  /** Whether the exit of the worker is expected. */
  isStopping: boolean;
  restartTimer: ReturnType<typeof setTimeout> | undefined;
}

export function createSupervisor(options: SupervisorOptions): Supervisor {
  const { count, log } = options;
  const slots = Array.from({ length: count }, (_, index) => newSlot(index + 1));
  let isStopping = false;
  let started: Promise<boolean> | undefined;
  let restarting: Promise<void> | undefined;
  let isRestartDue = false;
  const launch = (slot: Slot): WorkerProcess => {
    const child = options.start(slot.worker, slot.hasRun);
    const startedAt = options.monotonicNow();
    Object.assign(slot, { process: child, isStopping: false, hasRun: true, startedAt });
    log.info("worker started", { worker: slot.worker, pid: child.pid });
    void child.exited.then((exit) => {
      slot.process = undefined;
      if (slot.isStopping || isStopping)
        log.info("worker stopped", { worker: slot.worker, ...exit });
      else scheduleRestart(slot, exit);
    });
    return child;
  };
  const scheduleRestart = (slot: Slot, exit: WorkerExit): void => {
    const ranMs = options.monotonicNow() - slot.startedAt;
    slot.failures = ranMs >= HEALTHY_AFTER_MS ? 0 : slot.failures + 1;
    const delayMs = backoffMs(slot.failures);
    log.error("worker died", { worker: slot.worker, ...exit, restart_in_ms: delayMs });
    slot.restartTimer = setTimeout(() => launch(slot), delayMs);
  };
  const restartAll = async (): Promise<void> => {
    // A worker that starts does not handle signals yet.
    if (!(await started) || isStopping) return;
    log.info("restarting the workers", { workers: count });
    for (const slot of slots) {
      if (isStopping) return;
      clearTimeout(slot.restartTimer);
      await stopWorker(slot, "SIGHUP", options.drainMs);
      if (isStopping) return;
      if (await isReady(launch(slot))) continue;
      const { worker } = slot;
      log.error("stopped the restart: a worker did not start; the others keep running", { worker });
      return;
    }
    log.info("restarted the workers", { workers: count });
  };
  const restartWhileDue = async (): Promise<void> => {
    do {
      isRestartDue = false;
      await restartAll();
    } while (isRestartDue);
  };
  return {
    start: () => (started = startAll(slots, launch)),
    restart: async () => {
      // Workers that were replaced already have read their files before this request.
      isRestartDue = restarting !== undefined;
      restarting ??= restartWhileDue().finally(() => {
        restarting = undefined;
      });
      await restarting;
    },
    stop: () => {
      isStopping = true;
      return stopAll(slots, options.drainMs);
    },
    stopNow: () => {
      isStopping = true;
      stopAllNow(slots);
    },
  };
}

function newSlot(worker: number): Slot {
  return {
    worker,
    process: undefined,
    startedAt: 0,
    hasRun: false,
    failures: 0,
    isStopping: false,
    restartTimer: undefined,
  };
}

/** The delay before a restart after this many short runs; zero after a long one. */
function backoffMs(failures: number): number {
  return failures === 0 ? 0 : Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** (failures - 1));
}

// Starts the first worker alone: it applies the migrations, and an error in the settings is reported once.
async function startAll(
  slots: readonly Slot[],
  launch: (slot: Slot) => WorkerProcess,
): Promise<boolean> {
  const [first, ...others] = slots;
  for (const part of [first === undefined ? [] : [first], others]) {
    // Until all run, a worker that exits is not restarted.
    const launched = part.map((slot) => {
      const child = launch(slot);
      slot.isStopping = true;
      return child;
    });
    if (!(await Promise.all(launched.map(isReady))).every(Boolean)) {
      await stopAll(slots, 0);
      return false;
    }
    for (const slot of part) slot.isStopping = false;
  }
  return true;
}

async function isReady({ ready, exited }: WorkerProcess): Promise<boolean> {
  const isUp = ready.then(() => true);
  return await Promise.race([
    isUp,
    exited.then(() => false),
    resolveAfter(READY_TIMEOUT_MS, false),
  ]);
}

// All workers but the last leave the port, so that the others serve new connections. The last one drains like a single process.
async function stopAll(slots: readonly Slot[], drainMs: number): Promise<boolean> {
  const exits: Promise<boolean>[] = [];
  for (const [index, slot] of slots.entries()) {
    clearTimeout(slot.restartTimer);
    const isLast = index === slots.length - 1;
    const exit = stopWorker(slot, isLast ? "SIGTERM" : "SIGHUP", drainMs);
    exits.push(exit);
    // Together the workers take at most twice the time of one.
    await Promise.race([exit, resolveAfter(drainMs / slots.length, false)]);
  }
  return (await Promise.all(exits)).every(Boolean);
}

/** Resolves with true if the worker finished its calls. */
async function stopWorker(slot: Slot, name: WorkerSignal, drainMs: number): Promise<boolean> {
  const child = slot.process;
  if (child === undefined) return true;
  slot.isStopping = true;
  child.signal(name);
  const timer = setTimeout(() => child.signal("SIGKILL"), drainMs + STOP_MARGIN_MS);
  const { code } = await child.exited;
  clearTimeout(timer);
  return code === 0;
}

function stopAllNow(slots: readonly Slot[]): void {
  const signalAll = (): void => {
    for (const { process } of slots) process?.signal("SIGTERM");
  };
  signalAll();
  setTimeout(signalAll, SECOND_SIGNAL_MS);
}

function resolveAfter<T>(ms: number, value: T): Promise<T> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(value), ms).unref();
  });
}
