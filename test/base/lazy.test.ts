import { expect, test } from "bun:test";
import { lazy } from "../../src/base/lazy.ts";

test("computes the value on first use and only once", () => {
  let times = 0;
  const read = lazy(() => {
    times += 1;
    return undefined;
  });
  expect(times).toBe(0);
  read();
  read();
  expect(times).toBe(1);
});

test("tries again after make() threw", () => {
  let times = 0;
  const read = lazy(() => {
    times += 1;
    if (times === 1) throw new Error("not yet");
    return times;
  });
  expect(read).toThrow("not yet");
  expect(read()).toBe(2);
  expect(read()).toBe(2);
});
