// The thread that counts tokens.

import { expect, test } from "bun:test";
import { countTextTokens } from "../../../src/inference/metering/tokens/tokenizer.ts";

/** It takes about 400 ms of CPU to load a tokenizer, and about 10 ms to start its thread. */
const TURN_MAX_CPU_MS = 100;

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

test("no turn of the event loop waits while a tokenizer is loaded", async () => {
  let longestMs = 0;
  let before = threadCpuMs();
  let tokens: number | undefined;
  const counted = countTextTokens("Hello there.", "o200k_base");
  while (tokens === undefined) {
    const nextTurn = new Promise<undefined>((resolve) => setImmediate(resolve));
    tokens = await Promise.race([counted, nextTurn]);
    const now = threadCpuMs();
    longestMs = Math.max(longestMs, now - before);
    before = now;
  }
  expect(tokens).toBe(3);
  expect(longestMs).toBeLessThan(TURN_MAX_CPU_MS);
});

test("counts of two encodings at once each resolve to their own", async () => {
  const text = "Größenwahn 🙂 இ".repeat(3);
  const counts = await Promise.all([
    countTextTokens(text, "cl100k_base"),
    countTextTokens(text, "o200k_base"),
    countTextTokens("", "o200k_base"),
  ]);
  expect(counts[0]).toBeGreaterThan(counts[1]);
  expect(counts[2]).toBe(0);
});

test("a run without spaces takes linear time", async () => {
  // Half a minute if the tokenizer got it in one piece.
  expect(await countTextTokens("a".repeat(100_000), "o200k_base")).toBeWithin(12_000, 12_501);
});

test("a count that a charge waits for goes before free counts, which take turns", async () => {
  const ended: string[] = [];
  const note = (name: string, count: Promise<number>) => count.then(() => ended.push(name));
  const long = "some words ".repeat(50_000);
  await Promise.all([
    note("long", countTextTokens(long, "o200k_base", true)),
    note("short", countTextTokens("some words ".repeat(7_000), "o200k_base", true)),
    note("charge", countTextTokens("some words ".repeat(20_000), "o200k_base")),
  ]);
  expect(ended).toEqual(["charge", "short", "long"]);
});

test("a count fails with its thread, and the next one starts another", async () => {
  // Safe because the thread throws on a text that is none.
  const none = undefined as unknown as string;
  const failed = countTextTokens(none, "o200k_base").then(
    () => "counted",
    (error: unknown) => String(error),
  );
  expect(await failed).toBe("Error: the tokenizer failed");
  expect(await countTextTokens("Hello there.", "o200k_base")).toBe(3);
});
