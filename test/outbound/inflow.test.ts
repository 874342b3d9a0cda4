import { describe, expect, test } from "bun:test";
import {
  cancelInflow,
  createInflow,
  endInflow,
  flowTo,
  type Inflow,
  inflowOf,
  type InflowReader,
  nextPiece,
  pauseInflow,
  pour,
  releaseInflow,
  resumeInflow,
  unask,
  wholeOf,
} from "../../src/outbound/inflow.ts";
import { rejection } from "../support/rejection.ts";
import { becomes, pass } from "./server.ts";

interface Tap {
  readonly inflow: Inflow;
  readonly piece: (text: string) => void;
  readonly end: (whole?: boolean) => void;
  /** What was done to where it comes from, in its order. */
  readonly done: string[];
}

function openTap(): Tap {
  const done: string[] = [];
  const inflow = createInflow({
    pause: () => done.push("pause"),
    resume: () => done.push("resume"),
    hangUp: () => done.push("hang up"),
  });
  return {
    inflow,
    piece: (text) => pour(inflow, Buffer.from(text)),
    end: (whole = true) => endInflow(inflow, whole),
    done,
  };
}

/** A reader that keeps what it is given. */
function createNotes(onPiece?: (text: string) => void) {
  const notes: string[] = [];
  const reader: InflowReader = {
    piece: (bytes) => {
      const text = Buffer.from(bytes).toString();
      notes.push(text);
      onPiece?.(text);
    },
    end: (whole) => notes.push(whole ? "(whole)" : "(cut)"),
  };
  return { notes, reader };
}

const next = async ({ inflow }: Pick<Tap, "inflow">): Promise<string | undefined> => {
  const piece = await nextPiece(inflow);
  return piece === undefined ? undefined : Buffer.from(piece).toString();
};
const kib = (size: number): string => "x".repeat(size * 1_024);

describe("an inflow that is asked", () => {
  test("gives what waited, then what comes, then its end, again and again", async () => {
    const tap = openTap();
    tap.piece("a");
    tap.piece("b");
    expect(await next(tap)).toBe("a");
    expect(await next(tap)).toBe("b");
    const later = next(tap);
    tap.piece("c");
    expect(await later).toBe("c");
    const last = next(tap);
    tap.end();
    expect(await last).toBeUndefined();
    expect(await next(tap)).toBeUndefined();
    expect(tap.done).toEqual([]);
  });

  test("gives what waited before it says that it was cut, and then says so every time", async () => {
    const tap = openTap();
    tap.piece("a");
    tap.end(false);
    expect(await next(tap)).toBe("a");
    expect(await rejection(nextPiece(tap.inflow))).toBe("the reply was cut");
    expect(await rejection(nextPiece(tap.inflow))).toBe("the reply was cut");
  });

  test("says to whoever waits that it was cut", async () => {
    const tap = openTap();
    const waiting = next(tap);
    tap.end(false);
    expect(await rejection(waiting)).toBe("the reply was cut");
  });

  test("keeps to its first end", async () => {
    const tap = openTap();
    tap.end();
    tap.end(false);
    expect(await next(tap)).toBeUndefined();
  });

  test("reads nothing more while 256 KiB wait, and reads on when they do not", async () => {
    const tap = openTap();
    for (let count = 0; count < 4; count++) tap.piece(kib(64));
    expect(tap.done).toEqual([]);
    tap.piece("one more");
    tap.piece("what was on its way");
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
      const { inflow, piece, end } = openTap();
      for (const one of pieces) piece(one);
      end();
      expect(textOf(wholeOf(inflow, 3))).toBe(pieces.join(""));
      expect(textOf(wholeOf(inflow, 3))).toBe("");
      expect(await nextPiece(inflow)).toBeUndefined();
    }
  });

  test("gives nothing and keeps everything while more may come, where it was cut, and beyond the bound", async () => {
    const [open, cut, long] = [openTap(), openTap(), openTap()];
    for (const { piece } of [open, cut, long]) piece("abc");
    cut.end(false);
    long.end();
    expect(wholeOf(open.inflow, 9)).toBeUndefined();
    expect(wholeOf(cut.inflow, 9)).toBeUndefined();
    expect(wholeOf(long.inflow, 2)).toBeUndefined();
    for (const { inflow } of [open, cut, long]) expect(textOf(await nextPiece(inflow))).toBe("abc");
    open.end();
    expect(textOf(wholeOf(open.inflow, 9))).toBe("");
  });

  test("gives nothing of what flows to a reader", () => {
    const { inflow, piece, end } = openTap();
    const { notes, reader } = createNotes();
    flowTo(inflow, reader);
    piece("abc");
    end();
    expect(wholeOf(inflow, 9)).toBeUndefined();
    expect(notes).toContain("abc");
  });
});

describe("an inflow that flows", () => {
  test("hands on what waited, then every piece at once, then its end", () => {
    const tap = openTap();
    tap.piece("a");
    tap.piece("b");
    const { notes, reader } = createNotes();
    flowTo(tap.inflow, reader);
    expect(notes).toEqual(["a", "b"]);
    tap.piece("c");
    expect(notes).toEqual(["a", "b", "c"]);
    tap.end();
    expect(notes).toEqual(["a", "b", "c", "(whole)"]);
  });

  test("tells an end that came before", () => {
    for (const whole of [true, false]) {
      const tap = openTap();
      tap.piece("a");
      tap.end(whole);
      const { notes, reader } = createNotes();
      flowTo(tap.inflow, reader);
      expect(notes).toEqual(["a", whole ? "(whole)" : "(cut)"]);
    }
  });

  test("reads on where it had stopped because nobody asked", () => {
    const tap = openTap();
    tap.piece(kib(300));
    expect(tap.done).toEqual(["pause"]);
    flowTo(tap.inflow, createNotes().reader);
    expect(tap.done).toEqual(["pause", "resume"]);
  });

  test("pauses and resumes, and does neither when it has ended", () => {
    const tap = openTap();
    flowTo(tap.inflow, createNotes().reader);
    pauseInflow(tap.inflow);
    resumeInflow(tap.inflow);
    expect(tap.done).toEqual(["pause", "resume"]);
    tap.end();
    pauseInflow(tap.inflow);
    resumeInflow(tap.inflow);
    expect(tap.done).toEqual(["pause", "resume"]);
  });

  test("hands a piece that was still awaited to the reader, not to who asked before", async () => {
    const tap = openTap();
    let early: string | undefined = "nothing";
    void next(tap).then((text) => {
      early = text;
    });
    const { notes, reader } = createNotes();
    flowTo(tap.inflow, reader);
    tap.piece("late");
    tap.end();
    await Bun.sleep(1);
    expect(notes).toEqual(["late", "(whole)"]);
    expect(early).toBe("nothing");
  });

  test("keeps a piece that comes after its asker gave up, for whoever reads on", async () => {
    for (const reads of ["next", "flow"]) {
      const tap = openTap();
      void nextPiece(tap.inflow);
      unask(tap.inflow);
      tap.piece("late");
      tap.end();
      const { notes, reader } = createNotes();
      if (reads === "flow") flowTo(tap.inflow, reader);
      else notes.push((await next(tap)) ?? "(nothing)");
      expect(notes[0]).toBe("late");
    }
  });

  test("lets a reader hang up in the midst of what waited, and tells it nothing more", () => {
    const tap = openTap();
    for (const text of ["a", "b", "c"]) tap.piece(text);
    const { notes, reader } = createNotes((text) => {
      if (text === "b") cancelInflow(tap.inflow);
    });
    flowTo(tap.inflow, reader);
    tap.piece("d");
    tap.end(false);
    expect(notes).toEqual(["a", "b"]);
    expect(tap.done).toEqual(["hang up"]);
  });

  test("lets a reader be followed by another in the midst of what waited: each piece comes once, and one end", () => {
    for (const ended of [false, true]) {
      const tap = openTap();
      for (const text of ["a", "b", "c"]) tap.piece(text);
      if (ended) tap.end();
      const second = createNotes();
      const first = createNotes((text) => {
        if (text === "b") flowTo(tap.inflow, second.reader);
      });
      flowTo(tap.inflow, first.reader);
      if (!ended) tap.end();
      expect(first.notes).toEqual(["a", "b"]);
      expect(second.notes).toEqual(["c", "(whole)"]);
    }
  });

  test("lets a reader release it in the midst of what waited", () => {
    const tap = openTap();
    for (const text of ["a", "b", "c"]) tap.piece(text);
    const { notes, reader } = createNotes((text) => {
      if (text === "b") releaseInflow(tap.inflow);
    });
    flowTo(tap.inflow, reader);
    tap.end();
    expect(notes).toEqual(["a", "b"]);
    expect(tap.done).toEqual([]);
  });
});

describe("an inflow that is cancelled", () => {
  test("hangs up once, forgets what waited, and says to whoever asks that it was cut", async () => {
    const tap = openTap();
    tap.piece("a");
    cancelInflow(tap.inflow);
    cancelInflow(tap.inflow);
    expect(tap.done).toEqual(["hang up"]);
    expect(await rejection(nextPiece(tap.inflow))).toBe("the reply was cut");
  });

  test("does not leave anybody waiting", async () => {
    const tap = openTap();
    const waiting = next(tap);
    cancelInflow(tap.inflow);
    expect(await rejection(waiting)).toBe("the reply was cut");
  });

  test("has nothing to hang up when it has ended", () => {
    const tap = openTap();
    tap.end();
    cancelInflow(tap.inflow);
    expect(tap.done).toEqual([]);
  });
});

describe("an inflow that is released", () => {
  test("may end by itself", async () => {
    const tap = openTap();
    releaseInflow(tap.inflow);
    tap.piece("data: [DONE]");
    tap.end();
    await pass(60_000);
    expect(tap.done).toEqual([]);
  });

  test("reads on where it was paused, in order that it can end", () => {
    const tap = openTap();
    flowTo(tap.inflow, createNotes().reader);
    pauseInflow(tap.inflow);
    releaseInflow(tap.inflow);
    expect(tap.done).toEqual(["pause", "resume"]);
  });

  test("is hung up half a second later where it does not end", async () => {
    const tap = openTap();
    releaseInflow(tap.inflow);
    await pass(100);
    expect(tap.done).toEqual([]);
    await pass(501);
    expect(tap.done).toEqual(["hang up"]);
  });

  test("is hung up at once where 64 KiB do not end it", () => {
    const tap = openTap();
    releaseInflow(tap.inflow);
    tap.piece(kib(64));
    expect(tap.done).toEqual([]);
    tap.piece("x");
    tap.piece("x");
    expect(tap.done).toEqual(["hang up"]);
  });

  test("counts what had waited as well", () => {
    const tap = openTap();
    tap.piece(kib(65));
    releaseInflow(tap.inflow);
    expect(tap.done).toEqual(["hang up"]);
  });

  test("has nothing to do when it has ended", async () => {
    const tap = openTap();
    tap.piece("a");
    tap.end();
    releaseInflow(tap.inflow);
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
    const tap = { inflow: inflowOf(bodyOf(["a", "b"])) };
    expect([await next(tap), await next(tap), await next(tap)]).toEqual(["a", "b", undefined]);
  });

  test("is at its end where there is no body", async () => {
    expect(await nextPiece(inflowOf(null))).toBeUndefined();
  });

  test("is cut where the body breaks", async () => {
    const inflow = inflowOf(bodyOf(["a"], true));
    expect(Buffer.from((await nextPiece(inflow)) ?? []).toString()).toBe("a");
    expect(await rejection(nextPiece(inflow))).toBe("the reply was cut");
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
    const inflow = inflowOf(body);
    const { notes, reader } = createNotes(() => pauseInflow(inflow));
    flowTo(inflow, reader);
    await Bun.sleep(20);
    expect(notes.length).toBe(1);
    expect(pulled).toBeLessThanOrEqual(2);
    resumeInflow(inflow);
    await Bun.sleep(20);
    expect(notes.length).toBe(2);
    flowTo(inflow, createNotes().reader);
    expect(await becomes(() => pulled > 50)).toBe(true);
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
      const inflow = inflowOf(body);
      await nextPiece(inflow);
      if (isPaused) pauseInflow(inflow);
      cancelInflow(inflow);
      expect(await becomes(() => isCancelled)).toBe(true);
      expect(await rejection(nextPiece(inflow))).toBe("the reply was cut");
    }
  });
});
