import { describe, expect, test } from "bun:test";
import {
  cancelBodyStream,
  createBodyStream,
  endBodyStream,
  pipeTo,
  type BodyStream,
  bodyStreamFrom,
  type BodyHandler,
  nextChunk,
  pauseBodyStream,
  push,
  drainOrCancel,
  resumeBodyStream,
  cancelRead,
  takeIfComplete,
} from "../../src/http-client/body-stream.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { waitUntil, advanceClock } from "./scripted-server.ts";

interface StreamHarness {
  readonly stream: BodyStream;
  readonly push: (text: string) => void;
  readonly end: (whole?: boolean) => void;
  /** What was done to where it comes from, in its order. */
  readonly done: string[];
}

function openStreamHarness(): StreamHarness {
  const done: string[] = [];
  const stream = createBodyStream({
    pause: () => done.push("pause"),
    resume: () => done.push("resume"),
    cancel: () => done.push("hang up"),
  });
  return {
    stream,
    push: (text) => push(stream, Buffer.from(text)),
    end: (whole = true) => endBodyStream(stream, whole),
    done,
  };
}

/** A reader that keeps what it is given. */
function createRecordingHandler(onPiece?: (text: string) => void) {
  const notes: string[] = [];
  const reader: BodyHandler = {
    onData: (bytes) => {
      const text = Buffer.from(bytes).toString();
      notes.push(text);
      onPiece?.(text);
    },
    onEnd: (whole) => notes.push(whole ? "(whole)" : "(cut)"),
  };
  return { notes, reader };
}

const next = async ({ stream }: Pick<StreamHarness, "stream">): Promise<string | undefined> => {
  const piece = await nextChunk(stream);
  return piece === undefined ? undefined : Buffer.from(piece).toString();
};
const kib = (size: number): string => "x".repeat(size * 1_024);

describe("an inflow that is asked", () => {
  test("gives what waited, then what comes, then its end, again and again", async () => {
    const tap = openStreamHarness();
    tap.push("a");
    tap.push("b");
    expect(await next(tap)).toBe("a");
    expect(await next(tap)).toBe("b");
    const later = next(tap);
    tap.push("c");
    expect(await later).toBe("c");
    const last = next(tap);
    tap.end();
    expect(await last).toBeUndefined();
    expect(await next(tap)).toBeUndefined();
    expect(tap.done).toEqual([]);
  });

  test("gives what waited before it says that it was cut, and then says so every time", async () => {
    const tap = openStreamHarness();
    tap.push("a");
    tap.end(false);
    expect(await next(tap)).toBe("a");
    expect(await rejectionMessage(nextChunk(tap.stream))).toBe("the reply was truncated");
    expect(await rejectionMessage(nextChunk(tap.stream))).toBe("the reply was truncated");
  });

  test("says to whoever waits that it was cut", async () => {
    const tap = openStreamHarness();
    const waiting = next(tap);
    tap.end(false);
    expect(await rejectionMessage(waiting)).toBe("the reply was truncated");
  });

  test("keeps to its first end", async () => {
    const tap = openStreamHarness();
    tap.end();
    tap.end(false);
    expect(await next(tap)).toBeUndefined();
  });

  test("reads nothing more while 256 KiB wait, and reads on when they do not", async () => {
    const tap = openStreamHarness();
    for (let count = 0; count < 4; count++) tap.push(kib(64));
    expect(tap.done).toEqual([]);
    tap.push("one more");
    tap.push("what was on its way");
    expect(tap.done).toEqual(["pause"]);
    await next(tap);
    expect(tap.done).toEqual(["pause", "resume"]);
    for (let count = 0; count < 3; count++) await next(tap);
    expect(await next(tap)).toBe("one more");
    expect(await next(tap)).toBe("what was on its way");
    expect(tap.done).toEqual(["pause", "resume"]);
  });
});

describe("an inflow that is asked for all of it", () => {
  const textOf = (bytes: Uint8Array | undefined): string | undefined =>
    bytes === undefined ? undefined : Buffer.from(bytes).toString();

  test("gives it where it has come to its end, once, and is at its end then", async () => {
    for (const pieces of [["abc"], ["a", "b", "c"], []]) {
      const { stream, push, end } = openStreamHarness();
      for (const one of pieces) push(one);
      end();
      expect(textOf(takeIfComplete(stream, 3))).toBe(pieces.join(""));
      expect(textOf(takeIfComplete(stream, 3))).toBe("");
      expect(await nextChunk(stream)).toBeUndefined();
    }
  });

  test("gives nothing and keeps everything while more may come, where it was cut, and beyond the bound", async () => {
    const [open, cut, long] = [openStreamHarness(), openStreamHarness(), openStreamHarness()];
    for (const { push } of [open, cut, long]) push("abc");
    cut.end(false);
    long.end();
    expect(takeIfComplete(open.stream, 9)).toBeUndefined();
    expect(takeIfComplete(cut.stream, 9)).toBeUndefined();
    expect(takeIfComplete(long.stream, 2)).toBeUndefined();
    for (const { stream } of [open, cut, long]) expect(textOf(await nextChunk(stream))).toBe("abc");
    open.end();
    expect(textOf(takeIfComplete(open.stream, 9))).toBe("");
  });

  test("gives nothing of what flows to a reader", () => {
    const { stream, push, end } = openStreamHarness();
    const { notes, reader } = createRecordingHandler();
    pipeTo(stream, reader);
    push("abc");
    end();
    expect(takeIfComplete(stream, 9)).toBeUndefined();
    expect(notes).toContain("abc");
  });
});

describe("an inflow that flows", () => {
  test("hands on what waited, then every piece at once, then its end", () => {
    const tap = openStreamHarness();
    tap.push("a");
    tap.push("b");
    const { notes, reader } = createRecordingHandler();
    pipeTo(tap.stream, reader);
    expect(notes).toEqual(["a", "b"]);
    tap.push("c");
    expect(notes).toEqual(["a", "b", "c"]);
    tap.end();
    expect(notes).toEqual(["a", "b", "c", "(whole)"]);
  });

  test("tells an end that came before", () => {
    for (const whole of [true, false]) {
      const tap = openStreamHarness();
      tap.push("a");
      tap.end(whole);
      const { notes, reader } = createRecordingHandler();
      pipeTo(tap.stream, reader);
      expect(notes).toEqual(["a", whole ? "(whole)" : "(cut)"]);
    }
  });

  test("reads on where it had stopped because nobody asked", () => {
    const tap = openStreamHarness();
    tap.push(kib(300));
    expect(tap.done).toEqual(["pause"]);
    pipeTo(tap.stream, createRecordingHandler().reader);
    expect(tap.done).toEqual(["pause", "resume"]);
  });

  test("pauses and resumes, and does neither when it has ended", () => {
    const tap = openStreamHarness();
    pipeTo(tap.stream, createRecordingHandler().reader);
    pauseBodyStream(tap.stream);
    resumeBodyStream(tap.stream);
    expect(tap.done).toEqual(["pause", "resume"]);
    tap.end();
    pauseBodyStream(tap.stream);
    resumeBodyStream(tap.stream);
    expect(tap.done).toEqual(["pause", "resume"]);
  });

  test("hands a piece that was still awaited to the reader, not to who asked before", async () => {
    const tap = openStreamHarness();
    let early: string | undefined = "nothing";
    void next(tap).then((text) => {
      early = text;
    });
    const { notes, reader } = createRecordingHandler();
    pipeTo(tap.stream, reader);
    tap.push("late");
    tap.end();
    await Bun.sleep(1);
    expect(notes).toEqual(["late", "(whole)"]);
    expect(early).toBe("nothing");
  });

  test("keeps a piece that comes after its asker gave up, for whoever reads on", async () => {
    for (const reads of ["next", "flow"]) {
      const tap = openStreamHarness();
      void nextChunk(tap.stream);
      cancelRead(tap.stream);
      tap.push("late");
      tap.end();
      const { notes, reader } = createRecordingHandler();
      if (reads === "flow") pipeTo(tap.stream, reader);
      else notes.push((await next(tap)) ?? "(nothing)");
      expect(notes[0]).toBe("late");
    }
  });

  test("lets a reader hang up in the midst of what waited, and tells it nothing more", () => {
    const tap = openStreamHarness();
    for (const text of ["a", "b", "c"]) tap.push(text);
    const { notes, reader } = createRecordingHandler((text) => {
      if (text === "b") cancelBodyStream(tap.stream);
    });
    pipeTo(tap.stream, reader);
    tap.push("d");
    tap.end(false);
    expect(notes).toEqual(["a", "b"]);
    expect(tap.done).toEqual(["hang up"]);
  });

  test("lets a reader be followed by another in the midst of what waited: each piece comes once, and one end", () => {
    for (const ended of [false, true]) {
      const tap = openStreamHarness();
      for (const text of ["a", "b", "c"]) tap.push(text);
      if (ended) tap.end();
      const second = createRecordingHandler();
      const first = createRecordingHandler((text) => {
        if (text === "b") pipeTo(tap.stream, second.reader);
      });
      pipeTo(tap.stream, first.reader);
      if (!ended) tap.end();
      expect(first.notes).toEqual(["a", "b"]);
      expect(second.notes).toEqual(["c", "(whole)"]);
    }
  });

  test("lets a reader release it in the midst of what waited", () => {
    const tap = openStreamHarness();
    for (const text of ["a", "b", "c"]) tap.push(text);
    const { notes, reader } = createRecordingHandler((text) => {
      if (text === "b") drainOrCancel(tap.stream);
    });
    pipeTo(tap.stream, reader);
    tap.end();
    expect(notes).toEqual(["a", "b"]);
    expect(tap.done).toEqual([]);
  });
});

describe("an inflow that is cancelled", () => {
  test("hangs up once, forgets what waited, and says to whoever asks that it was cut", async () => {
    const tap = openStreamHarness();
    tap.push("a");
    cancelBodyStream(tap.stream);
    cancelBodyStream(tap.stream);
    expect(tap.done).toEqual(["hang up"]);
    expect(await rejectionMessage(nextChunk(tap.stream))).toBe("the reply was truncated");
  });

  test("does not leave anybody waiting", async () => {
    const tap = openStreamHarness();
    const waiting = next(tap);
    cancelBodyStream(tap.stream);
    expect(await rejectionMessage(waiting)).toBe("the reply was truncated");
  });

  test("has nothing to hang up when it has ended", () => {
    const tap = openStreamHarness();
    tap.end();
    cancelBodyStream(tap.stream);
    expect(tap.done).toEqual([]);
  });
});

describe("an inflow that is released", () => {
  test("may end by itself", async () => {
    const tap = openStreamHarness();
    drainOrCancel(tap.stream);
    tap.push("data: [DONE]");
    tap.end();
    await advanceClock(60_000);
    expect(tap.done).toEqual([]);
  });

  test("reads on where it was paused, in order that it can end", () => {
    const tap = openStreamHarness();
    pipeTo(tap.stream, createRecordingHandler().reader);
    pauseBodyStream(tap.stream);
    drainOrCancel(tap.stream);
    expect(tap.done).toEqual(["pause", "resume"]);
  });

  test("is hung up half a second later where it does not end", async () => {
    const tap = openStreamHarness();
    drainOrCancel(tap.stream);
    await advanceClock(100);
    expect(tap.done).toEqual([]);
    await advanceClock(501);
    expect(tap.done).toEqual(["hang up"]);
  });

  test("is hung up at once where 64 KiB do not end it", () => {
    const tap = openStreamHarness();
    drainOrCancel(tap.stream);
    tap.push(kib(64));
    expect(tap.done).toEqual([]);
    tap.push("x");
    tap.push("x");
    expect(tap.done).toEqual(["hang up"]);
  });

  test("counts what had waited as well", () => {
    const tap = openStreamHarness();
    tap.push(kib(65));
    drainOrCancel(tap.stream);
    expect(tap.done).toEqual(["hang up"]);
  });

  test("has nothing to do when it has ended", async () => {
    const tap = openStreamHarness();
    tap.push("a");
    tap.end();
    drainOrCancel(tap.stream);
    expect(tap.done).toEqual([]);
  });
});

describe("the inflow of a body that the runtime reads", () => {
  const bodyOf = (pieces: readonly string[], breaks = false): ReadableStream<Uint8Array> => {
    const left = [...pieces];
    return new ReadableStream({
      pull: (controller) => {
        const piece = left.shift();
        if (piece !== undefined) controller.enqueue(Buffer.from(piece));
        else if (breaks) controller.error(new Error("broken"));
        else controller.close();
      },
    });
  };

  test("gives its pieces and its end", async () => {
    const tap = { stream: bodyStreamFrom(bodyOf(["a", "b"])) };
    expect([await next(tap), await next(tap), await next(tap)]).toEqual(["a", "b", undefined]);
  });

  test("is at its end where there is no body", async () => {
    expect(await nextChunk(bodyStreamFrom(null))).toBeUndefined();
  });

  test("is cut where the body breaks", async () => {
    const inflow = bodyStreamFrom(bodyOf(["a"], true));
    expect(Buffer.from((await nextChunk(inflow)) ?? []).toString()).toBe("a");
    expect(await rejectionMessage(nextChunk(inflow))).toBe("the reply was truncated");
  });

  test("reads nothing more while it is paused", async () => {
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => {
          pulled += 1;
          if (pulled > 50) controller.close();
          else controller.enqueue(Buffer.from(String(pulled)));
        },
      },
      { highWaterMark: 0 },
    );
    const inflow = bodyStreamFrom(body);
    const { notes, reader } = createRecordingHandler(() => pauseBodyStream(inflow));
    pipeTo(inflow, reader);
    await Bun.sleep(20);
    expect(notes.length).toBe(1);
    expect(pulled).toBeLessThanOrEqual(2);
    resumeBodyStream(inflow);
    await Bun.sleep(20);
    expect(notes.length).toBe(2);
    pipeTo(inflow, createRecordingHandler().reader);
    expect(await waitUntil(() => pulled > 50)).toBe(true);
  });

  test("lets go of the body when it is cancelled, paused or not", async () => {
    for (const isPaused of [false, true]) {
      let isCancelled = false;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(Buffer.from("a")),
        cancel: () => {
          isCancelled = true;
        },
      });
      const inflow = bodyStreamFrom(body);
      await nextChunk(inflow);
      if (isPaused) pauseBodyStream(inflow);
      cancelBodyStream(inflow);
      expect(await waitUntil(() => isCancelled)).toBe(true);
      expect(await rejectionMessage(nextChunk(inflow))).toBe("the reply was truncated");
    }
  });
});
