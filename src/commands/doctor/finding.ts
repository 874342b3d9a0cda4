// One line of `postern doctor`.

/** `note` is information; only `fail` makes the exit code 1. */
export interface Finding {
  readonly status: "ok" | "note" | "warn" | "fail";
  readonly check: string;
  readonly message: string;
  readonly hint?: string;
}
