import { expect, test } from "bun:test";
import { toAbortSignal, createAbort } from "../../src/base/abort.ts";

test("who listens is told once, in order, and who has left is not", () => {
  const { signal, abort } = createAbort();
  const told: string[] = [];
  const leaves = (): void => void told.push("one who left");
  signal.addEventListener("abort", () => void told.push("first"));
  signal.addEventListener("abort", leaves);
  signal.addEventListener("abort", () => void told.push("second"));
  signal.removeEventListener("abort", leaves);
  expect(signal.aborted).toBe(false);
  abort();
  abort();
  expect(signal.aborted).toBe(true);
  expect(told).toEqual(["first", "second"]);
});

test("who takes himself off the list when he is told keeps nobody else from being told", () => {
  const { signal, abort } = createAbort();
  const told: string[] = [];
  for (const name of ["a", "b", "c"]) {
    const listener = (): void => {
      told.push(name);
      signal.removeEventListener("abort", listener);
    };
    signal.addEventListener("abort", listener);
  }
  abort();
  expect(told).toEqual(["a", "b", "c"]);
});

test("the runtime's own signal is given with it, also where it was given before", () => {
  const before = createAbort();
  before.abort();
  expect(toAbortSignal(before.signal).aborted).toBe(true);
  const after = createAbort();
  const signal = toAbortSignal(after.signal);
  expect(signal.aborted).toBe(false);
  after.abort();
  expect(signal.aborted).toBe(true);
  const own = new AbortController().signal;
  expect(toAbortSignal(own)).toBe(own);
});
