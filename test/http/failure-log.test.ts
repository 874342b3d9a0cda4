// What is told of failures when everything fails.

import { expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { createFailureLog } from "../../src/http/failure-log.ts";

function newFailureLog() {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const log = createLog({ level: "info", isPretty: false, now: () => 0, write });
  return { lines, tell: createFailureLog(log) };
}

test("an outage writes a hundred lines at once and ten a second, and says how many were left out", () => {
  const { lines, tell } = newFailureLog();
  const code = "upstream_error";
  for (let call = 0; call < 5_000; call++) tell({ request_id: `req_${call}`, code }, 1_000);
  expect(lines).toHaveLength(100);
  expect(lines.join("\n")).not.toContain("left_out");
  tell({ request_id: "req_later", code }, 1_100);
  expect(JSON.parse(lines[100] ?? "")).toMatchObject({ request_id: "req_later", left_out: 4_900 });
  for (let ms = 1_200; ms < 11_200; ms += 1) tell({ request_id: "req", code }, ms);
  expect(lines).toHaveLength(201);
});

test("what anybody can make fail hides nothing that failed of itself", () => {
  const { lines, tell } = newFailureLog();
  for (let call = 0; call < 5_000; call++)
    tell({ request_id: `req_${call}`, code: "provider_not_configured" }, 1_000);
  tell({ request_id: "req_broken", code: "internal" }, 1_001);
  const last: unknown = JSON.parse(lines.at(-1) ?? "");
  expect(last).toMatchObject({ request_id: "req_broken", code: "internal" });
  expect(last).not.toHaveProperty("left_out");
});
