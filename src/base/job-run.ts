// The state of a background job since the start of the process.

export interface JobRun {
  readonly intervalMs: number;
  /** Failed runs since the start. */
  readonly failures: number;
  /** When the last run that succeeded began; undefined before the first. */
  readonly succeededAt?: number | undefined;
  /** Undefined before the first run has ended. */
  readonly last:
    | { readonly startedAt: number; readonly ms: number; readonly isFailed: boolean }
    | undefined;
}
