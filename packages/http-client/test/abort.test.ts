import { expect, test } from "bun:test";
import { createAbort, toAbortSignal } from "../src/abort.ts";

test("calls listeners once and in order, and skips removed ones", () => {
  const { signal, abort } = createAbort();
  const calls: string[] = [];
  const removed = (): void => void calls.push("removed");
  signal.addEventListener("abort", () => void calls.push("first"));
  signal.addEventListener("abort", removed);
  signal.addEventListener("abort", () => void calls.push("second"));
  signal.removeEventListener("abort", removed);
  expect(signal.aborted).toBe(false);
  abort();
  abort();
  expect(signal.aborted).toBe(true);
  expect(calls).toEqual(["first", "second"]);
});

test("calls every listener although each removes itself", () => {
  const { signal, abort } = createAbort();
  const calls: string[] = [];
  for (const name of ["a", "b", "c"]) {
    const listener = (): void => {
      calls.push(name);
      signal.removeEventListener("abort", listener);
    };
    signal.addEventListener("abort", listener);
  }
  abort();
  expect(calls).toEqual(["a", "b", "c"]);
});

test("toAbortSignal follows a signal, including one that is already aborted", () => {
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
