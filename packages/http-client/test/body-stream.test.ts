import { describe, expect, test } from "bun:test";
import { eventually, untilStable } from "../../../test/support/eventually.ts";
import { rejectionMessage } from "../../../test/support/rejection.ts";
import {
  cancelBodyStream,
  createBodyStream,
  endBodyStream,
  pipeTo,
  type BodyStream,
  bodyStreamFrom,
  type BodyHandler,
  nextChunk,
  pushChunk,
  putBack,
  setFlow,
  cancelRead,
  takeIfComplete,
} from "../src/body-stream.ts";
import { advanceClock } from "./scripted-server.ts";

interface StreamHarness {
  readonly stream: BodyStream;
  readonly push: (text: string) => void;
  readonly end: (isComplete?: boolean) => void;
  /** The calls of the flow control, in order. */
  readonly calls: string[];
}

function openStreamHarness(): StreamHarness {
  const calls: string[] = [];
  const stream = createBodyStream({
    pause: () => calls.push("pause"),
    resume: () => calls.push("resume"),
    cancel: () => calls.push("cancel"),
  });
  return {
    stream,
    push: (text) => pushChunk(stream, Buffer.from(text)),
    end: (isComplete = true) => endBodyStream(stream, isComplete),
    calls,
  };
}

/** A handler that records what it receives. */
function createRecordingHandler(onText?: (text: string) => void) {
  const received: string[] = [];
  const handler: BodyHandler = {
    onData: (bytes) => {
      const text = Buffer.from(bytes).toString();
      received.push(text);
      onText?.(text);
    },
    onEnd: (isComplete) => received.push(isComplete ? "(complete)" : "(truncated)"),
  };
  return { received, handler };
}

const next = async ({ stream }: Pick<StreamHarness, "stream">): Promise<string | undefined> => {
  const part = await nextChunk(stream);
  return part === undefined ? undefined : Buffer.from(part).toString();
};
const kib = (size: number): string => "x".repeat(size * 1_024);

describe("nextChunk", () => {
  test("returns unread chunks, then new ones, then undefined", async () => {
    const harness = openStreamHarness();
    harness.push("a");
    harness.push("b");
    expect(await next(harness)).toBe("a");
    expect(await next(harness)).toBe("b");
    const later = next(harness);
    harness.push("c");
    expect(await later).toBe("c");
    const last = next(harness);
    harness.end();
    expect(await last).toBeUndefined();
    expect(await next(harness)).toBeUndefined();
    expect(harness.calls).toEqual([]);
  });

  test("returns unread chunks of a truncated body before it rejects", async () => {
    const harness = openStreamHarness();
    harness.push("a");
    harness.end(false);
    expect(await next(harness)).toBe("a");
    expect(await rejectionMessage(nextChunk(harness.stream))).toBe("the reply was truncated");
    expect(await rejectionMessage(nextChunk(harness.stream))).toBe("the reply was truncated");
  });

  test("rejects a pending read when the body is truncated", async () => {
    const harness = openStreamHarness();
    const waiting = next(harness);
    harness.end(false);
    expect(await rejectionMessage(waiting)).toBe("the reply was truncated");
  });

  test("ignores a second end", async () => {
    const harness = openStreamHarness();
    harness.end();
    harness.end(false);
    expect(await next(harness)).toBeUndefined();
  });

  test("pauses the source above 256 KiB of unread chunks", async () => {
    const harness = openStreamHarness();
    for (let count = 0; count < 4; count++) harness.push(kib(64));
    expect(harness.calls).toEqual([]);
    harness.push("one more");
    harness.push("in flight");
    expect(harness.calls).toEqual(["pause"]);
    await next(harness);
    expect(harness.calls).toEqual(["pause", "resume"]);
    for (let count = 0; count < 3; count++) await next(harness);
    expect(await next(harness)).toBe("one more");
    expect(await next(harness)).toBe("in flight");
    expect(harness.calls).toEqual(["pause", "resume"]);
  });
});

describe("takeIfComplete", () => {
  const textOf = (bytes: Uint8Array | undefined): string | undefined =>
    bytes === undefined ? undefined : Buffer.from(bytes).toString();

  test("returns the body of an ended stream once", async () => {
    for (const parts of [["abc"], ["a", "b", "c"], []]) {
      const { stream, push, end } = openStreamHarness();
      for (const part of parts) push(part);
      end();
      expect(textOf(takeIfComplete(stream, 3))).toBe(parts.join(""));
      expect(textOf(takeIfComplete(stream, 3))).toBe("");
      expect(await nextChunk(stream)).toBeUndefined();
    }
  });

  test("returns undefined for open, truncated and too long bodies, and keeps their chunks", async () => {
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

  test("returns undefined for a piped stream", () => {
    const { stream, push, end } = openStreamHarness();
    const { received, handler } = createRecordingHandler();
    pipeTo(stream, handler);
    push("abc");
    end();
    expect(takeIfComplete(stream, 9)).toBeUndefined();
    expect(received).toContain("abc");
  });
});

describe("pipeTo", () => {
  test("passes on unread chunks, then new ones, then the end", () => {
    const harness = openStreamHarness();
    harness.push("a");
    harness.push("b");
    const { received, handler } = createRecordingHandler();
    pipeTo(harness.stream, handler);
    expect(received).toEqual(["a", "b"]);
    harness.push("c");
    expect(received).toEqual(["a", "b", "c"]);
    harness.end();
    expect(received).toEqual(["a", "b", "c", "(complete)"]);
  });

  test("reports an earlier end", () => {
    for (const isComplete of [true, false]) {
      const harness = openStreamHarness();
      harness.push("a");
      harness.end(isComplete);
      const { received, handler } = createRecordingHandler();
      pipeTo(harness.stream, handler);
      expect(received).toEqual(["a", isComplete ? "(complete)" : "(truncated)"]);
    }
  });

  test("resumes a source that was paused for unread chunks", () => {
    const harness = openStreamHarness();
    harness.push(kib(300));
    expect(harness.calls).toEqual(["pause"]);
    pipeTo(harness.stream, createRecordingHandler().handler);
    expect(harness.calls).toEqual(["pause", "resume"]);
  });

  test("pauses and resumes the source until the stream ends", () => {
    const harness = openStreamHarness();
    pipeTo(harness.stream, createRecordingHandler().handler);
    setFlow(harness.stream, "paused");
    setFlow(harness.stream, "read");
    expect(harness.calls).toEqual(["pause", "resume"]);
    harness.end();
    setFlow(harness.stream, "paused");
    setFlow(harness.stream, "read");
    expect(harness.calls).toEqual(["pause", "resume"]);
  });

  test("gives a pending chunk to the handler instead of the pending read", async () => {
    const harness = openStreamHarness();
    let early: string | undefined = "pending";
    void next(harness).then((text) => {
      early = text;
    });
    const { received, handler } = createRecordingHandler();
    pipeTo(harness.stream, handler);
    harness.push("late");
    harness.end();
    // All promises that the chunk resolves have run by then.
    await new Promise((resolve) => setImmediate(resolve));
    expect(received).toEqual(["late", "(complete)"]);
    expect(early).toBe("pending");
  });

  test("keeps the chunk of an abandoned read for the next reader", async () => {
    for (const reads of ["next", "flow"]) {
      const harness = openStreamHarness();
      const canceled = nextChunk(harness.stream);
      cancelRead(harness.stream);
      expect(await rejectionMessage(canceled)).toBe("the read was canceled");
      harness.push("late");
      harness.end();
      const { received, handler } = createRecordingHandler();
      if (reads === "flow") pipeTo(harness.stream, handler);
      else received.push((await next(harness)) ?? "(nothing)");
      expect(received[0]).toBe("late");
    }
  });

  test("passes on a chunk that was put back before later ones", async () => {
    const harness = openStreamHarness();
    for (const text of ["a", "b"]) harness.push(text);
    const chunk = await nextChunk(harness.stream);
    if (chunk !== undefined) putBack(harness.stream, chunk);
    expect(await next(harness)).toBe("a");
    putBack(harness.stream, Buffer.from("c"));
    const { received, handler } = createRecordingHandler();
    pipeTo(harness.stream, handler);
    expect(received).toEqual(["c", "b"]);
  });

  test("stops when the handler cancels the stream during unread chunks", () => {
    const harness = openStreamHarness();
    for (const text of ["a", "b", "c"]) harness.push(text);
    const { received, handler } = createRecordingHandler((text) => {
      if (text === "b") cancelBodyStream(harness.stream);
    });
    pipeTo(harness.stream, handler);
    harness.push("d");
    harness.end(false);
    expect(received).toEqual(["a", "b"]);
    expect(harness.calls).toEqual(["cancel"]);
  });

  test("lets the handler pipe to another one during unread chunks", () => {
    for (const ended of [false, true]) {
      const harness = openStreamHarness();
      for (const text of ["a", "b", "c"]) harness.push(text);
      if (ended) harness.end();
      const second = createRecordingHandler();
      const first = createRecordingHandler((text) => {
        if (text === "b") pipeTo(harness.stream, second.handler);
      });
      pipeTo(harness.stream, first.handler);
      if (!ended) harness.end();
      expect(first.received).toEqual(["a", "b"]);
      expect(second.received).toEqual(["c", "(complete)"]);
    }
  });

  test("lets the handler drain the stream during unread chunks", () => {
    const harness = openStreamHarness();
    for (const text of ["a", "b", "c"]) harness.push(text);
    const { received, handler } = createRecordingHandler((text) => {
      if (text === "b") setFlow(harness.stream, "discarded");
    });
    pipeTo(harness.stream, handler);
    harness.end();
    expect(received).toEqual(["a", "b"]);
    expect(harness.calls).toEqual([]);
  });
});

describe("cancelBodyStream", () => {
  test("cancels the source once and rejects reads", async () => {
    const harness = openStreamHarness();
    harness.push("a");
    cancelBodyStream(harness.stream);
    cancelBodyStream(harness.stream);
    expect(harness.calls).toEqual(["cancel"]);
    expect(await rejectionMessage(nextChunk(harness.stream))).toBe("the reply was truncated");
  });

  test("rejects a pending read", async () => {
    const harness = openStreamHarness();
    const waiting = next(harness);
    cancelBodyStream(harness.stream);
    expect(await rejectionMessage(waiting)).toBe("the reply was truncated");
  });

  test("does not cancel an ended source", () => {
    const harness = openStreamHarness();
    harness.end();
    cancelBodyStream(harness.stream);
    expect(harness.calls).toEqual([]);
  });
});

describe("a discarded stream", () => {
  test("is read to its end", async () => {
    const harness = openStreamHarness();
    setFlow(harness.stream, "discarded");
    harness.push("data: [DONE]");
    harness.end();
    await advanceClock(60_000);
    expect(harness.calls).toEqual([]);
  });

  test("resumes its paused source", () => {
    const harness = openStreamHarness();
    pipeTo(harness.stream, createRecordingHandler().handler);
    setFlow(harness.stream, "paused");
    setFlow(harness.stream, "discarded");
    expect(harness.calls).toEqual(["pause", "resume"]);
  });

  test("is canceled after half a second", async () => {
    const harness = openStreamHarness();
    setFlow(harness.stream, "discarded");
    await advanceClock(100);
    expect(harness.calls).toEqual([]);
    await advanceClock(501);
    expect(harness.calls).toEqual(["cancel"]);
  });

  test("is canceled above 64 KiB", () => {
    const harness = openStreamHarness();
    setFlow(harness.stream, "discarded");
    harness.push(kib(64));
    expect(harness.calls).toEqual([]);
    harness.push("x");
    harness.push("x");
    expect(harness.calls).toEqual(["cancel"]);
  });

  test("counts unread chunks", () => {
    const harness = openStreamHarness();
    harness.push(kib(65));
    setFlow(harness.stream, "discarded");
    expect(harness.calls).toEqual(["cancel"]);
  });

  test("stays as it is if it has ended", async () => {
    const harness = openStreamHarness();
    harness.push("a");
    harness.end();
    setFlow(harness.stream, "discarded");
    expect(harness.calls).toEqual([]);
  });
});

describe("bodyStreamFrom", () => {
  const bodyOf = (parts: readonly string[], breaks = false): ReadableStream<Uint8Array> => {
    const left = [...parts];
    return new ReadableStream({
      pull: (controller) => {
        const part = left.shift();
        if (part !== undefined) controller.enqueue(Buffer.from(part));
        else if (breaks) controller.error(new Error("broken"));
        else controller.close();
      },
    });
  };

  test("returns its chunks and its end", async () => {
    const harness = { stream: bodyStreamFrom(bodyOf(["a", "b"])) };
    expect([await next(harness), await next(harness), await next(harness)]).toEqual([
      "a",
      "b",
      undefined,
    ]);
  });

  test("ends without a body", async () => {
    expect(await nextChunk(bodyStreamFrom(null))).toBeUndefined();
  });

  test("is truncated if the body fails", async () => {
    const stream = bodyStreamFrom(bodyOf(["a"], true));
    expect(Buffer.from((await nextChunk(stream)) ?? []).toString()).toBe("a");
    expect(await rejectionMessage(nextChunk(stream))).toBe("the reply was truncated");
  });

  test("is not read while paused", async () => {
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
    const stream = bodyStreamFrom(body);
    const { received, handler } = createRecordingHandler(() => setFlow(stream, "paused"));
    pipeTo(stream, handler);
    expect(await untilStable(() => received.length)).toBe(1);
    expect(pulled).toBeLessThanOrEqual(2);
    setFlow(stream, "read");
    expect(await untilStable(() => received.length)).toBe(2);
    pipeTo(stream, createRecordingHandler().handler);
    await eventually(() => pulled > 50);
  });

  test("cancels the body, paused or not", async () => {
    for (const isPaused of [false, true]) {
      let isCanceled = false;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(Buffer.from("a")),
        cancel: () => {
          isCanceled = true;
        },
      });
      const stream = bodyStreamFrom(body);
      await nextChunk(stream);
      if (isPaused) setFlow(stream, "paused");
      cancelBodyStream(stream);
      await eventually(() => isCanceled);
      expect(await rejectionMessage(nextChunk(stream))).toBe("the reply was truncated");
    }
  });
});
