import { describe, expect, test } from "bun:test";
import { createLog, describeError, type LogLevel } from "../../src/base/log.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

function written(
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

describe("the log", () => {
  test("for machines: one line of JSON with time, level, event and fields", () => {
    const { lines, log } = written(false);
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

  test("on a terminal: time, level, event and the fields by name", () => {
    const { lines, log } = written(true);
    log.warn("slow", { ms: 12, path: "/v1/models", list: [1, 2] });
    expect(lines[0]).toBe("09:30:00.000 WARN  slow ms=12 path=/v1/models list=[1,2]");
  });

  test("says nothing below its level", () => {
    const { lines, log } = written(false, "warn");
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d");
    expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toEqual(["c", "d"]);
  });

  test("an error is told with everything that caused it", () => {
    const { lines, log } = written(false);
    log.error("failed", {
      cause: new Error("outer", { cause: new Error("inner", { cause: "why" }) }),
    });
    const { cause } = JSON.parse(lines[0] ?? "") as { cause: string };
    expect(cause).toMatch(/outer[^]*caused by: [^]*inner[^]*caused by: why/);
  });

  test("no line has a key, wherever in it somebody pasted one", () => {
    const key = "acme-rt-dFOQTv5s5cWgFDw9J3Yo26nzcs4Vp5uS4LCGYepZBcU2ftNTU";
    for (const readable of [false, true]) {
      const { lines, log } = written(readable);
      log.error(`failed: ${key}`, { detail: `no model "${key}"`, cause: new Error(`not ${key}`) });
      expect(lines.join("").includes("dFOQTv5s")).toBe(false);
      expect(lines.join("").match(/acme-rt-\[secret\]/g)?.length).toBeGreaterThanOrEqual(3);
    }
  });

  test("a line break in a value cannot forge a line", () => {
    for (const readable of [false, true]) {
      const { lines, log } = written(readable);
      log.info("refused", { path: "/a\n09:30:00.000 INFO  forged" });
      expect(lines.length).toBe(1);
      expect(lines[0]?.split("\n").length).toBe(1);
    }
  });

  test("what is no error is told as it is", () => {
    expect(describeError("text")).toBe("text");
    expect(describeError(undefined)).toBe("undefined");
  });
});
