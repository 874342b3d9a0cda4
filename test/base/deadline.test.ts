import { describe, expect, test } from "bun:test";
import { startDeadline, onAborted } from "../../src/base/deadline.ts";

const SOON_MS = 600;

describe("a deadline", () => {
  test("runs once, some time after it is over, and not when it was called off", async () => {
    const ran: string[] = [];
    startDeadline(1, () => ran.push("over"));
    startDeadline(1, () => ran.push("called off"))();
    startDeadline(60_000, () => ran.push("far"))();
    expect(ran).toEqual([]);
    await Bun.sleep(SOON_MS);
    expect(ran).toEqual(["over"]);
  });
});

describe("a signal that is looked at", () => {
  test("is noticed soon after it was given, once, also where it was given before", async () => {
    const [late, early] = [new AbortController(), new AbortController()];
    const ran: string[] = [];
    early.abort();
    onAborted(early.signal, () => ran.push("early"));
    onAborted(late.signal, () => ran.push("late"));
    await Bun.sleep(SOON_MS);
    expect(ran).toEqual(["early"]);
    late.abort();
    expect(ran).toEqual(["early"]);
    await Bun.sleep(SOON_MS);
    expect(ran).toEqual(["early", "late"]);
  });

  test("is let go", async () => {
    const controller = new AbortController();
    const ran: string[] = [];
    const stop = onAborted(controller.signal, () => ran.push("noticed"));
    stop();
    controller.abort();
    await Bun.sleep(SOON_MS);
    expect(ran).toEqual([]);
  });
});
