// Code that the model writes and the provider runs in a container of its own, without the caller's files.

import type {
  ServerToolDefinition,
  ServerToolReplyForm,
  ServerToolRequestForm,
} from "./server-tool.ts";

interface CodeRun {
  readonly code: string;
  readonly output: string;
  /** What the code wrote to the error output, or why it did not run. */
  readonly error: string;
  readonly isFailed: boolean;
}

export type CodeRequestForm = ServerToolRequestForm<ServerToolDefinition>;
export type CodeReplyForm = ServerToolReplyForm<CodeRun>;

/** Prefix of the container ids that this gateway writes for code that ran at another provider. OpenAI has no such container. */
export const FOREIGN_CONTAINER = "cntr_pst_";

/** Whether this gateway wrote the id, so that no provider has the container. */
export function isForeignContainer(id: string): boolean {
  return id.startsWith(FOREIGN_CONTAINER);
}
