import { expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { createFailureLog } from "../../src/http/finish-response.ts";

function newFailureLog() {
  const lines: string[] = [];
  const write = (line: string): void => void lines.push(line);
  const log = createLog({ level: "info", isPretty: false, now: () => 0, write });
  return { lines, logFailure: createFailureLog(log) };
}

test("limits a code to 100 lines at once and 10 per second, and counts suppressed lines", () => {
  const { lines, logFailure } = newFailureLog();
  const code = "upstream_error";
  for (let call = 0; call < 5_000; call++) logFailure({ request_id: `req_${call}`, code }, 1_000);
  expect(lines).toHaveLength(100);
  expect(lines.join("\n")).not.toContain("left_out");
  logFailure({ request_id: "req_later", code }, 1_100);
  expect(JSON.parse(lines[100] ?? "")).toMatchObject({ request_id: "req_later", left_out: 4_900 });
  for (let ms = 1_200; ms < 11_200; ms += 1) logFailure({ request_id: "req", code }, ms);
  expect(lines).toHaveLength(201);
});

test("limits every code separately", () => {
  const { lines, logFailure } = newFailureLog();
  for (let call = 0; call < 5_000; call++)
    logFailure({ request_id: `req_${call}`, code: "provider_not_configured" }, 1_000);
  logFailure({ request_id: "req_broken", code: "internal" }, 1_001);
  const last: unknown = JSON.parse(lines.at(-1) ?? "");
  expect(last).toMatchObject({ request_id: "req_broken", code: "internal" });
  expect(last).not.toHaveProperty("left_out");
});
