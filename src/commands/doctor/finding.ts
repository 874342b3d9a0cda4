// One line of `postern doctor`.

/** `note` is information; only `fail` makes the exit code 1. */
export interface Finding {
  readonly status: "ok" | "note" | "warn" | "fail";
  readonly check: string;
  readonly message: string;
  /** What follows for users. */
  readonly effect?: string;
  readonly hint?: string;
  /** The settings themselves are invalid: the exit code is 2. */
  readonly isSetting?: true;
}
