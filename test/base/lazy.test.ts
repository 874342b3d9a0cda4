import { expect, test } from "bun:test";
import { lazy } from "../../src/base/lazy.ts";

test("nothing is worked out before it is asked for, and nothing twice", () => {
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

test("what could not be worked out is tried again by the next who asks", () => {
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
