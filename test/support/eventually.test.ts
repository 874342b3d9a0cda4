import { describe, expect, test } from "bun:test";
import { eventually, eventuallyPasses } from "./eventually.ts";
import { rejectionMessage } from "./rejection.ts";

describe("eventually", () => {
  test("returns the first truthy result of the check", async () => {
    let calls = 0;
    expect(await eventually(() => (++calls < 3 ? undefined : { calls }))).toEqual({ calls: 3 });
  });

  test("treats a check that throws as not yet true", async () => {
    let calls = 0;
    const result = await eventually(async () => {
      if (++calls < 3) throw new Error("not yet");
      return "done";
    });
    expect(result).toBe("done");
  });

  test("names the last result when the deadline passes", async () => {
    const waiting = eventually(() => false, { timeoutMs: 20 });
    expect(await rejectionMessage(waiting)).toBe("not true within 20 ms, last result: false");
  });

  test("names the last error when the deadline passes", async () => {
    const waiting = eventuallyPasses(() => expect(1).toBe(2), { timeoutMs: 20 });
    expect(await rejectionMessage(waiting)).toMatch(/not true within 20 ms[^]*Expected[^]*2/);
  });
});
