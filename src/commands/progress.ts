// How far a long command is: one line that is rewritten on a terminal, a line every ten seconds elsewhere, and a summary at the end. It is
// written to standard error, so that the output of the command can be piped. Ctrl+C ends the command between two steps.

import { formatInteger } from "../base/text/format.ts";
import type { CliEnv } from "./command.ts";

const TERMINAL_INTERVAL_MS = 200;
const LINE_INTERVAL_MS = 10_000;
const PERCENT = 100;
const SECOND_MS = 1_000;
const MINUTE_SECONDS = 60;

/** Marks the error of a command that Ctrl+C ended. */
const INTERRUPTED = Symbol("interrupted");

export function isInterrupted(error: unknown): boolean {
  return typeof error === "object" && error !== null && INTERRUPTED in error;
}

export interface ProgressOptions {
  /** What is counted, in the plural: `rows`. */
  readonly unit: string;
  /** What was done to them, for the summary: `copied`. */
  readonly verb: string;
  /** What to do after Ctrl+C: a sentence. */
  readonly whenInterrupted: string;
}

export interface Progress {
  /** Throws after Ctrl+C; the message says how to go on. `total` is absent if it is not known. */
  readonly update: (done: number, total?: number, step?: string) => void;
  /** Prints what was done, how long it took and how fast. */
  readonly end: (done?: number) => void;
}

export function startProgress(
  cli: Pick<CliEnv, "progress" | "onSignal">,
  { unit, verb, whenInterrupted }: ProgressOptions,
): Progress {
  const { isTerminal, write, monotonicNow } = cli.progress;
  let isStopped = false;
  let hasLine = false;
  let counted = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    cli.onSignal(signal, () => {
      isStopped = true;
    });
  const startedAt = monotonicNow();
  let printedAt = startedAt;
  const clearLine = (): void => {
    if (hasLine) write("\r\u001b[K");
    hasLine = false;
  };
  return {
    update: (done, total, step) => {
      counted = done;
      if (isStopped) {
        clearLine();
        throw Object.assign(
          new Error(`stopped after ${formatInteger(done)} ${unit}. ${whenInterrupted}`),
          { [INTERRUPTED]: true },
        );
      }
      const at = monotonicNow();
      if (at - printedAt < (isTerminal ? TERMINAL_INTERVAL_MS : LINE_INTERVAL_MS)) return;
      printedAt = at;
      const text = progressText({ done, total, step, unit, ms: at - startedAt });
      hasLine = isTerminal;
      write(isTerminal ? `\r\u001b[K${text}` : `${text}\n`);
    },
    end: (done = counted) => {
      clearLine();
      const ms = monotonicNow() - startedAt;
      write(
        `${verb} ${formatInteger(done)} ${unit} in ${durationText(ms)}${rateText(done, ms, unit)}\n`,
      );
    },
  };
}

/** `42 s`, `3 min 20 s`, `2 h 5 min`. */
function durationText(ms: number): string {
  const seconds = Math.round(ms / SECOND_MS);
  if (seconds < MINUTE_SECONDS) return ms < SECOND_MS ? `${Math.round(ms)} ms` : `${seconds} s`;
  const minutes = Math.floor(seconds / MINUTE_SECONDS);
  if (minutes < MINUTE_SECONDS) return `${minutes} min ${seconds % MINUTE_SECONDS} s`;
  return `${Math.floor(minutes / MINUTE_SECONDS)} h ${minutes % MINUTE_SECONDS} min`;
}

function progressText({
  done,
  total,
  step,
  unit,
  ms,
}: {
  readonly done: number;
  readonly total: number | undefined;
  readonly step: string | undefined;
  readonly unit: string;
  readonly ms: number;
}): string {
  const head = step === undefined ? "" : `${step}: `;
  if (total === undefined || total === 0)
    return `${head}${formatInteger(done)} ${unit}${rateText(done, ms, unit)}`;
  const share = Math.min(1, done / total);
  const left = share === 0 ? "" : `, ${durationText((ms / share) * (1 - share))} left`;
  const percent = Math.floor(share * PERCENT);
  return `${head}${formatInteger(done)} of ${formatInteger(total)} ${unit} (${percent} %)${rateText(done, ms, unit)}${left}`;
}

function rateText(done: number, ms: number, unit: string): string {
  const rate = Math.round((done / Math.max(1, ms)) * SECOND_MS);
  return ms < SECOND_MS || rate === 0 ? "" : `, ${formatInteger(rate)} ${unit}/s`;
}
