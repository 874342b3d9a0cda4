import { describe, expect, test } from "bun:test";
import { deadline, onceAborted } from "../../src/base/deadline.ts";

const SOON_MS = 600;

describe("a deadline", () => {
  test("runs once, some time after it is over, and not when it was called off", async () => {
    const ran: string[] = [];
    deadline(1, () => ran.push("over"));
    deadline(1, () => ran.push("called off"))();
    deadline(60_000, () => ran.push("far"))();
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
    onceAborted(early.signal, () => ran.push("early"));
    onceAborted(late.signal, () => ran.push("late"));
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
    const stop = onceAborted(controller.signal, () => ran.push("noticed"));
    stop();
    controller.abort();
    await Bun.sleep(SOON_MS);
    expect(ran).toEqual([]);
  });
});
