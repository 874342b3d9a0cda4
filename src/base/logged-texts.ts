// What a call of a key with prompt logging leaves for the log.

export interface LoggedTexts {
  readonly request: string;
  /** Undefined if the caller got none. */
  readonly reply: string | undefined;
  /** The workspace's own setting; undefined for the operator's. */
  readonly retentionDays: number | undefined;
}
