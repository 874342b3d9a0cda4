// Each audit action and each event type is written in exactly one source file: that of the function that makes the change.

import { expect, test } from "bun:test";
import { AUDIT_ACTIONS } from "../../src/activity/audit.ts";
import { EVENT_TYPES } from "../../src/activity/events.ts";
import { sourceFiles } from "../support/source/source-files.ts";

const source = sourceFiles();

test.each([
  ["recordAuditEntry", Object.keys(AUDIT_ACTIONS)],
  ["emitEvent", EVENT_TYPES],
] as const)("%s writes each name in exactly one file", (call, names) => {
  const callers = source.filter(({ text }) => text.includes(`${call}(tx, `));
  const wrong = names.flatMap((name) => {
    const files = callers.filter(({ text }) => text.includes(`"${name}"`)).map(({ path }) => path);
    return files.length === 1 ? [] : [{ name, files }];
  });
  expect(wrong).toEqual([]);
});

test("no optional callback decides whether a change is audited or emitted", () => {
  const optional = /^\s*readonly on\w+\?:.*\btx: Tx\b/;
  const found = source.flatMap(({ path, lines }) =>
    lines.flatMap((line) => (optional.test(line) ? [`${path}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});
