import { describe, expect, test } from "bun:test";
import { createLog, describeError, type LogLevel } from "../../src/base/log.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

function capture(
  isPretty: boolean,
  level: LogLevel = "debug",
): {
  readonly lines: string[];
  readonly log: ReturnType<typeof createLog>;
} {
  const lines: string[] = [];
  return {
    lines,
    log: createLog({ level, isPretty, now: () => NOW, write: (line) => lines.push(line) }),
  };
}

describe("createLog", () => {
  test("writes one line of JSON with time, level, event and fields", () => {
    const { lines, log } = capture(false);
    log.info("listening", { port: 8787, amount: 5n, missing: undefined, nothing: null });
    expect(lines.length).toBe(1);
    expect(JSON.parse(lines[0] ?? "")).toEqual({
      time: "2026-11-21T09:30:00.000Z",
      level: "info",
      event: "listening",
      port: 8787,
      amount: "5",
      nothing: null,
    });
  });

  test("writes isPretty lines with time, level, event and fields", () => {
    const { lines, log } = capture(true);
    log.warn("slow", { ms: 12, path: "/v1/models", list: [1, 2] });
    expect(lines[0]).toBe("09:30:00.000 WARN  slow ms=12 path=/v1/models list=[1,2]");
  });

  test("drops lines below its level", () => {
    const { lines, log } = capture(false, "warn");
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d");
    expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toEqual(["c", "d"]);
  });

  test("includes the causes of an error", () => {
    const { lines, log } = capture(false);
    log.error("failed", {
      cause: new Error("outer", { cause: new Error("inner", { cause: "why" }) }),
    });
    const { cause } = JSON.parse(lines[0] ?? "") as { cause: string };
    expect(cause).toMatch(/outer[^]*caused by: [^]*inner[^]*caused by: why/);
  });

  test("redacts API keys anywhere in a line", () => {
    const key = "acme-rt-dFOQTv5s5cWgFDw9J3Yo26nzcs4Vp5uS4LCGYepZBcU2ftNTU";
    for (const isPretty of [false, true]) {
      const { lines, log } = capture(isPretty);
      log.error(`failed: ${key}`, { detail: `no model "${key}"`, cause: new Error(`not ${key}`) });
      expect(lines.join("").includes("dFOQTv5s")).toBe(false);
      expect(lines.join("").match(/acme-rt-\[secret\]/g)?.length).toBeGreaterThanOrEqual(3);
    }
  });

  test("escapes line breaks in values", () => {
    for (const isPretty of [false, true]) {
      const { lines, log } = capture(isPretty);
      log.info("refused", { path: "/a\n09:30:00.000 INFO  forged" });
      expect(lines.length).toBe(1);
      expect(lines[0]?.split("\n").length).toBe(1);
    }
  });

  test("describeError prints other values as they are", () => {
    expect(describeError("text")).toBe("text");
    expect(describeError(undefined)).toBe("undefined");
  });
});
