// The newest coding agents do a task of five steps through a gateway in front of the simulator, at their provider's API and at
// another. `npm run clients` installs them.

import { describe, expect, test } from "bun:test";
import { IS_FULL } from "../support/full.ts";
import { skipUnless } from "../support/skip.ts";
import { findClient } from "./client-programs.ts";
import { CODEX_WITH_MODELS_TITLE, RUNS } from "./clients.ts";
import { FINAL_TEXT } from "./coding-task.ts";
import { runClient } from "./run-client.ts";

const CLIENT_NAMES = ["claude", "codex", "opencode", "gemini"] as const;
/** The five steps are at least five calls of the agent and two of its sub-agent. */
const CALLS_MIN = 7;
const runs = RUNS.filter(({ isFullOnly }) => isFullOnly !== true || IS_FULL);

describe.each(
  CLIENT_NAMES.map((name) => {
    const program = findClient(name);
    const isMissing = skipUnless(
      program !== undefined,
      `${name} is not installed: npm run clients installs it`,
    );
    return { name, program, isMissing };
  }),
)("$name", ({ name, program, isMissing }) => {
  test.skipIf(isMissing).each(runs.filter((run) => run.name === name))(
    "does the task as $title with $model without an error",
    async ({ title, client, model }) => {
      if (program === undefined) return;
      const run = await runClient(program, client, model);
      const errors = run.exchanges.filter(({ status }) => status >= 400);
      expect(
        errors.map(({ method, path, status, error }) => [method, path, status, error]),
      ).toEqual([]);
      expect(run.results).toEqual({
        edited: "total: 42 checked",
        ran: "ran-command",
        side: "ran-side-task",
      });
      expect(run.output).toContain(FINAL_TEXT);
      expect(run.code).toBe(0);
      expect(run.usageRecords).toBeGreaterThanOrEqual(CALLS_MIN);
      if (title !== CODEX_WITH_MODELS_TITLE) return;
      expect(run.exchanges.map(({ path }) => path)).toContain(
        `/v1/models?client_version=${program.version}`,
      );
      expect(run.output).not.toContain("metadata");
    },
  );
});
