// A provider's stream on its way to a caller, with both ends in hand: whatever either does, the call is settled once, and
// the provider's connection is let go.

import { afterEach, describe, expect, test } from "bun:test";
import { type Listener, listen } from "../../src/http/listen.ts";
import { createStreamMeter } from "../../src/inference/metering/usage/usage.ts";
import { usageSoFar } from "../../src/inference/metering/usage/stream-meter.ts";
import { relayStream, type StreamOutcome } from "../../src/inference/streaming/relay.ts";
import { passthroughTransform } from "../../src/inference/translate/stream-transform.ts";
import { createSseParser } from "../../src/base/streams/sse.ts";
import { createBodyStream, endBodyStream, push } from "../../src/http-client/body-stream.ts";
import { type RawConnection, openRawConnection } from "../http/raw-client.ts";
import { waitUntil, advanceClock } from "./scripted-server.ts";

const SILENCE_MS = 60_000;
const DELTA = 'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n';
const LAST_DELTA = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const USAGE =
  'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n';
const DONE = "data: [DONE]\n\n";

interface RelayOptions {
  readonly first?: string;
  readonly readsAll?: boolean;
  readonly kept?: string[];
  readonly drainMs?: number;
  /** What the settle waits for. */
  readonly settling?: () => Promise<void>;
}

const listeners: Listener[] = [];
afterEach(async () => {
  await Promise.all(listeners.splice(0).map(({ stop }) => stop(true)));
});

function openRelay(given: RelayOptions = {}) {
  const { first = DELTA, readsAll: parsesAllEvents = false, drainMs = 0, settling } = given;
  const done: string[] = [];
  const settled: StreamOutcome[] = [];
  const ticks = new Set<(now: number) => void>();
  const upstreamBody = createBodyStream({
    pause: () => done.push("pause"),
    resume: () => done.push("resume"),
    cancel: () => done.push("hang up"),
  });
  const meter = createStreamMeter("chat", "openai");
  let now = 0;
  const stream = relayStream({
    body: upstreamBody,
    first: Buffer.from(first),
    parser: createSseParser(),
    meter,
    parsesAllEvents,
    transform: passthroughTransform("chat", {
      wantsUsage: true,
      lacksTerminalEvent: false,
      toErrorBody: () => ({ error: { message: "rewritten" } }),
    }),
    timer: {
      add: (tick) => {
        ticks.add(tick);
        return () => ticks.delete(tick);
      },
    },
    timeouts: { idleMs: SILENCE_MS, streamMs: 10 * SILENCE_MS },
    now: () => now,
    endsStreamByClosing: false,
    lacksTerminalEvent: false,
    drainMs,
    shutdownSignal: { aborted: false },
    costUsd: () => "0.000001",
    settle: async (how) => {
      settled.push(how);
      await settling?.();
    },
    ...(given.kept && { record: (bytes) => given.kept?.push(Buffer.from(bytes).toString()) }),
    errorBody: (failure) => ({ error: { message: failure } }),
  });
  return {
    stream,
    settled,
    done,
    meter,
    piece: (text: string) => push(upstreamBody, Buffer.from(text)),
    end: (whole: boolean) => endBodyStream(upstreamBody, whole),
    isTicking: () => ticks.size > 0,
    tick: (ms: number) => {
      now += ms;
      for (const tick of ticks) tick(now);
    },
  };
}

async function readerOf(relay: {
  readonly stream: ReadableStream<Uint8Array>;
}): Promise<RawConnection> {
  const listener = listen({ host: "127.0.0.1", port: 0 }, async () => new Response(relay.stream));
  listeners.push(listener);
  const line = await openRawConnection({ url: `http://127.0.0.1:${listener.port}` });
  line.socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  return line;
}

describe("a stream that ends well", () => {
  test("shows its last event when it is settled, and not before; then it is over", async () => {
    const settling = Promise.withResolvers<void>();
    const relay = openRelay({ settling: () => settling.promise });
    const reader = await readerOf(relay);
    await reader.until(/hello/, 1_000);
    relay.piece(LAST_DELTA + USAGE + DONE);
    relay.end(true);
    await reader.until(/"usage"/, 1_000);
    expect(relay.settled).toEqual(["completed"]);
    await Bun.sleep(30);
    expect(reader.output().text).not.toContain("[DONE]");
    settling.resolve();
    expect((await reader.until(/0\r\n\r\n$/, 1_000)).text).toMatch(/\[DONE\]\n\n\r\n0\r\n\r\n$/);
    expect(relay.done).toEqual([]);
    expect(relay.isTicking()).toBe(false);
  });

  test("is metered to its end and no further: what follows in the same breath is passed on where it is relayed, and dropped where it is translated", async () => {
    const another = USAGE.replaceAll(/\d+(?=[,}])/g, "900");
    for (const readsAll of [false, true]) {
      const relay = openRelay({ readsAll });
      const reader = await readerOf(relay);
      relay.piece(LAST_DELTA + USAGE + DONE + another);
      const { text } = await reader.until(/0\r\n\r\n$/, 1_000);
      expect(usageSoFar(relay.meter)?.tokens).toEqual({ input: 3, output: 2 });
      expect(text.includes("900")).toBe(!readsAll);
    }
  });

  test("is kept for a repetition without the signs of life that were sent in its silence", async () => {
    const kept: string[] = [];
    const relay = openRelay({ kept });
    const reader = await readerOf(relay);
    await reader.until(/hello/, 1_000);
    relay.tick(20_000);
    await reader.until(/: keep-alive/, 1_000);
    relay.piece(LAST_DELTA + USAGE + DONE);
    await reader.until(/0\r\n\r\n$/, 1_000);
    expect(kept.join("")).toMatch(/hello[^]*\[DONE\]\n\n$/);
    expect(kept.join("")).not.toContain("keep-alive");
  });

  test("does not, where it cannot be settled", async () => {
    const relay = openRelay({ settling: () => Promise.reject(new Error("no disk")) });
    const reader = await readerOf(relay);
    relay.piece(LAST_DELTA + USAGE + DONE);
    const { text } = await reader.until(/0\r\n\r\n$/, 1_000);
    expect(text).not.toContain("[DONE]");
    expect(text).toContain("unsettled");
  });

  test("lets its provider go half a second later, where he does not end it", async () => {
    const relay = openRelay();
    const reader = await readerOf(relay);
    relay.piece(LAST_DELTA + USAGE + DONE);
    await reader.until(/\[DONE\]/, 1_000);
    expect(relay.done).toEqual([]);
    await advanceClock(501);
    expect(relay.done).toEqual(["hang up"]);
    expect(relay.settled).toEqual(["completed"]);
  });

  test("may have come whole before anybody read it", async () => {
    const relay = openRelay({ first: DELTA + LAST_DELTA + USAGE + DONE });
    relay.end(true);
    const reader = await readerOf(relay);
    expect((await reader.until(/0\r\n\r\n$/, 1_000)).text).toContain("[DONE]");
    expect(relay.settled).toEqual(["completed"]);
    expect(relay.done).toEqual([]);
  });
});

describe("a stream that breaks", () => {
  test("says so and is settled once, whether it is cut, ends early or falls silent", async () => {
    for (const [failure, outcome, breakIt] of [
      [
        "connection_lost",
        "upstream_error",
        (relay: ReturnType<typeof openRelay>) => relay.end(false),
      ],
      ["incomplete", "upstream_error", (relay: ReturnType<typeof openRelay>) => relay.end(true)],
      [
        "timed_out",
        "upstream_timeout",
        (relay: ReturnType<typeof openRelay>) => relay.tick(SILENCE_MS + 1),
      ],
    ] as const) {
      const relay = openRelay();
      const reader = await readerOf(relay);
      await reader.until(/hello/, 1_000);
      breakIt(relay);
      const { text } = await reader.until(/0\r\n\r\n$/, 1_000);
      expect(text).toContain(failure);
      expect(text).not.toContain("[DONE]");
      relay.piece(DONE);
      relay.tick(SILENCE_MS + 1);
      expect(relay.settled).toEqual([outcome]);
      expect(relay.isTicking()).toBe(false);
      if (outcome === "upstream_timeout") expect(relay.done).toEqual(["hang up"]);
    }
  });

  test("sends a sign of life in a shorter silence, and lives on", async () => {
    const relay = openRelay();
    const reader = await readerOf(relay);
    await reader.until(/hello/, 1_000);
    relay.tick(16_000);
    await reader.until(/keep-alive/, 1_000);
    relay.piece(LAST_DELTA + USAGE + DONE);
    await reader.until(/\[DONE\]/, 1_000);
    expect(relay.settled).toEqual(["completed"]);
  });
});

describe("a reader who leaves", () => {
  test("before it began to read ends the call, which is settled once", async () => {
    const relay = openRelay();
    await relay.stream.cancel();
    expect(await waitUntil(() => relay.settled.length > 0)).toBe(true);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.done).toEqual(["hang up"]);
    expect(relay.meter.outputBytes).toBe(5);
    expect(relay.isTicking()).toBe(false);
  });

  test("in the midst of it ends the call, which is settled once", async () => {
    const relay = openRelay();
    const reader = await readerOf(relay);
    await reader.until(/hello/, 1_000);
    reader.socket.destroy();
    expect(await waitUntil(() => relay.settled.length > 0)).toBe(true);
    relay.piece(DELTA);
    relay.end(false);
    relay.tick(SILENCE_MS + 1);
    await Bun.sleep(20);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.done).toEqual(["hang up"]);
  });

  test("while it is settled changes nothing", async () => {
    const settling = Promise.withResolvers<void>();
    const relay = openRelay({ settling: () => settling.promise });
    const reader = await readerOf(relay);
    relay.piece(LAST_DELTA + USAGE + DONE);
    relay.end(true);
    await waitUntil(() => relay.settled.length > 0);
    reader.socket.destroy();
    await Bun.sleep(50);
    settling.resolve();
    await Bun.sleep(50);
    expect(relay.settled).toEqual(["completed"]);
    expect(listeners[0]?.openRequests()).toBe(0);
  });

  test("where that does not end the bill is settled by the provider's own count", async () => {
    for (const isPaused of [false, true]) {
      const relay = openRelay({
        drainMs: 120_000,
        first: isPaused ? DELTA.repeat(300_000) : DELTA,
      });
      const reader = await readerOf(relay);
      if (isPaused) reader.socket.pause();
      await waitUntil(() => !isPaused || relay.done.length > 0);
      await Bun.sleep(20);
      reader.socket.destroy();
      await Bun.sleep(50);
      expect(relay.settled).toEqual([]);
      // The provider is read on.
      expect(relay.done.at(-1) ?? "resume").toBe("resume");
      relay.piece(LAST_DELTA + USAGE + DONE);
      expect(await waitUntil(() => relay.settled.length > 0)).toBe(true);
      expect(relay.settled).toEqual(["client_aborted"]);
      expect(relay.meter.isUsageFinal).toBe(true);
      expect(relay.done.at(-1)).toBe("hang up");
    }
  });

  test("where that does not end the bill is not read for longer than bounds of time and bytes", async () => {
    for (const isLong of [false, true]) {
      const relay = openRelay({ drainMs: 120_000 });
      const reader = await readerOf(relay);
      await reader.until(/hello/, 1_000);
      reader.socket.destroy();
      await Bun.sleep(50);
      expect(relay.settled).toEqual([]);
      const comment = `: ${"x".repeat(1_048_576)}\n\n`;
      if (isLong) for (let count = 0; count < 33; count++) relay.piece(comment);
      else await advanceClock(120_001);
      expect(await waitUntil(() => relay.settled.length > 0)).toBe(true);
      expect(relay.settled).toEqual(["client_aborted"]);
      expect(relay.done.filter((step) => step !== "resume")).toEqual(["hang up"]);
    }
  });
});

describe("a reader who stops reading", () => {
  /** More than the kernel takes for him. */
  const MUCH = DELTA.repeat(300_000);

  test("stops the provider, who goes on when the reader does", async () => {
    const relay = openRelay();
    const reader = await readerOf(relay);
    await reader.until(/hello/, 1_000);
    reader.socket.pause();
    relay.piece(MUCH);
    expect(relay.done).toEqual(["pause"]);
    reader.socket.resume();
    expect(await waitUntil(() => relay.done.length === 2, 5_000)).toBe(true);
    expect(relay.done).toEqual(["pause", "resume"]);
    relay.piece(LAST_DELTA + USAGE + DONE);
    expect((await reader.until(/0\r\n\r\n$/, 5_000)).text).toContain("[DONE]");
    expect(relay.settled).toEqual(["completed"]);
  });

  test("stops the provider even where the very first piece was too much", async () => {
    const relay = openRelay({ first: MUCH });
    const reader = await readerOf(relay);
    reader.socket.pause();
    expect(await waitUntil(() => relay.done.length > 0)).toBe(true);
    await Bun.sleep(50);
    expect(relay.done.at(-1)).toBe("pause");
  });

  test("is cut after a silence, whatever the provider still sends, and the call is settled once", async () => {
    const relay = openRelay();
    const reader = await readerOf(relay);
    await reader.until(/hello/, 1_000);
    reader.socket.pause();
    relay.piece(MUCH);
    for (let seconds = 0; seconds < 59; seconds++) {
      relay.tick(1_000);
      // What was on its way when the provider was stopped.
      relay.piece(DELTA);
    }
    expect(relay.settled).toEqual([]);
    relay.tick(2_000);
    expect(await waitUntil(() => relay.settled.length > 0)).toBe(true);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.done.at(-1)).toBe("hang up");
    reader.socket.resume();
    const { isClosed, text } = await reader.whenClosed(2_000);
    expect(isClosed).toBe(true);
    expect(text).not.toMatch(/0\r\n\r\n$/);
    expect(listeners[0]?.openRequests()).toBe(0);
  });

  test("or never began is given up after a silence, and finds a cut connection when it comes after all", async () => {
    const relay = openRelay();
    relay.tick(SILENCE_MS + 1);
    expect(await waitUntil(() => relay.settled.length > 0)).toBe(true);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.done).toEqual(["hang up"]);
    const reader = await readerOf(relay);
    expect((await reader.whenClosed(2_000)).isClosed).toBe(true);
    expect(relay.settled).toEqual(["client_aborted"]);
  });
});
