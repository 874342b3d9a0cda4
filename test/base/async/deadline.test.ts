import { describe, expect, test } from "bun:test";
import { runWhen, startDeadline } from "../../../src/base/async/deadline.ts";
import { MINUTE_MS } from "../../../src/base/time.ts";
import { eventually } from "../../support/eventually.ts";

/** Resolves after every deadline that has passed by now has run. */
async function nextTick(): Promise<void> {
  let isOver = false;
  startDeadline(0, () => {
    isOver = true;
  });
  await eventually(() => isOver);
}

describe("startDeadline", () => {
  test("runs once after the time is over, and not if canceled", async () => {
    const ran: string[] = [];
    startDeadline(1, () => ran.push("over"));
    startDeadline(1, () => ran.push("canceled"))();
    startDeadline(MINUTE_MS, () => ran.push("far"))();
    expect(ran).toEqual([]);
    await eventually(() => ran.length > 0);
    await nextTick();
    expect(ran).toEqual(["over"]);
  });
});

describe("runWhen", () => {
  test("runs once when it is due, also if it was due before", async () => {
    const [late, early] = [new AbortController(), new AbortController()];
    const ran: string[] = [];
    early.abort();
    runWhen(
      () => early.signal.aborted,
      () => ran.push("early"),
    );
    runWhen(
      () => late.signal.aborted,
      () => ran.push("late"),
    );
    await nextTick();
    expect(ran).toEqual(["early"]);
    late.abort();
    expect(ran).toEqual(["early"]);
    await nextTick();
    await nextTick();
    expect(ran).toEqual(["early", "late"]);
  });

  test("does not run if canceled", async () => {
    const controller = new AbortController();
    const ran: string[] = [];
    const cancel = runWhen(
      () => controller.signal.aborted,
      () => ran.push("ran"),
    );
    cancel();
    controller.abort();
    await nextTick();
    expect(ran).toEqual([]);
  });
});
