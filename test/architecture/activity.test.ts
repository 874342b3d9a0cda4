// Each audit action and each event type is written in one source file: the function that makes the change.

import { expect, test } from "bun:test";
import { AUDIT_ACTIONS } from "../../src/activity/audit.ts";
import { EVENT_TYPES } from "../../src/activity/events.ts";
import { sourceFiles } from "../support/source/source-files.ts";

/** The files that call the function and contain the name as a literal. */
function writersOf(call: string, name: string): readonly string[] {
  return sourceFiles()
    .filter(({ text }) => text.includes(`${call}(tx, {`) || text.includes(`${call}(tx, entry`))
    .filter(({ text }) => text.includes(`"${name}"`))
    .map(({ path }) => path);
}

test.each([
  ["recordAuditEntry", Object.keys(AUDIT_ACTIONS)],
  ["emitEvent", EVENT_TYPES],
] as const)("%s writes each name in one file only", (call, names) => {
  const writers = names.map((name) => ({ name, files: writersOf(call, name) }));
  expect(writers.filter(({ files }) => files.length > 1)).toEqual([]);
  expect(writers.some(({ files }) => files.length === 1)).toBe(true);
});
