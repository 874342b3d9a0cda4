// Streams relayed from a provider to a client, with both ends under control: in all cases the call is settled once and the
// provider's connection is released.

import { afterEach, describe, expect, test } from "bun:test";
import { createAbort, createBodyStream, endBodyStream, pushChunk } from "@postern/http-client";
import {
  createAwsFrameParser,
  createSseParser,
  createStreamMeter,
  type SseParser,
  usageSoFar,
} from "@postern/wires";
import { type Listener, listen } from "../../../src/http/listen.ts";
import { streamResponse } from "../../../src/http/response-stream.ts";
import { createEventPipeline } from "../../../src/inference/streaming/event-pipeline.ts";
import type { StreamOutcome } from "../../../src/inference/streaming/relay-options.ts";
import { relayStream } from "../../../src/inference/streaming/relay.ts";
import {
  type RollingHold,
  startRollingHold,
} from "../../../src/inference/streaming/rolling-hold.ts";
import { passthroughTransform } from "../../../src/inference/translate/stream-transform.ts";
import type { RaiseOutcome } from "../../../src/ledger/decide.ts";
import { type RawConnection, openRawConnection } from "../../http/raw-client.ts";
import { eventually } from "../../support/eventually.ts";

const IDLE_MS = 60_000;
const DELTA = 'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n';
const LAST_DELTA = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const USAGE =
  'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n';
const DONE = "data: [DONE]\n\n";

interface RelayOptions {
  readonly first?: string;
  readonly readsAll?: boolean;
  readonly recorded?: string[];
  readonly usageWaitMs?: number;
  readonly parser?: SseParser;
  /** Awaited by the settlement. */
  readonly settlement?: () => Promise<void>;
  readonly roll?: RollingHold;
  readonly isStopped?: () => boolean;
}

const listeners: Listener[] = [];
afterEach(async () => {
  await Promise.all(listeners.splice(0).map(({ stop }) => stop(true)));
});

function openRelay(options: RelayOptions = {}) {
  const { first = DELTA, readsAll: parsesAllEvents = false, usageWaitMs = 0, settlement } = options;
  const calls: string[] = [];
  const settled: StreamOutcome[] = [];
  const ticks = new Set<(now: number) => void>();
  const forced = createAbort();
  const upstreamBody = createBodyStream({
    pause: () => calls.push("pause"),
    resume: () => calls.push("resume"),
    cancel: () => calls.push("cancel"),
  });
  const meter = createStreamMeter("chat", "openai");
  let now = 0;
  pushChunk(upstreamBody, Buffer.from(first));
  const deps = {
    timer: {
      add: (tick: (now: number) => void) => {
        ticks.add(tick);
        return () => ticks.delete(tick);
      },
    },
    limits: {
      idleMs: IDLE_MS,
      drainMs: 10 * IDLE_MS,
      eventMaxBytes: 32 * 1_048_576,
      streamMaxBytes: 32 * 1_048_576,
    },
    now: () => now,
    shutdownSignals: { drained: { aborted: false }, forced: forced.signal },
    leaseTerm: () => 1,
    extendHold: () => {},
  };
  const relay = relayStream(deps, {
    body: upstreamBody,
    pipeline: createEventPipeline({
      parser: options.parser ?? createSseParser(),
      meter,
      parsesAllEvents,
      transform: passthroughTransform("chat", {
        wantsUsage: true,
        modelIdOf: (name) => name,
        lacksTerminalEvent: false,
        toErrorBody: () => ({ error: { message: "rewritten" } }),
      }),
      endsStreamByClosing: false,
      lacksTerminalEvent: false,
      keepsReply: false,
      costUsd: () => "0.000001",
    }),
    drain: () => ({ waitMs: usageWaitMs, isBillOpen: true, isKnown: () => false }),
    extendHold: () => calls.push("extend hold"),
    confirmHold: () => "held",
    isStopped: options.isStopped ?? (() => false),
    roll: options.roll,
    guarded: undefined,
    lengthStop: () => undefined,
    settle: async ({ outcome }) => {
      settled.push(outcome);
      await settlement?.();
      return { isUncovered: false, isDeferred: false };
    },
    record: options.recorded && ((bytes) => options.recorded?.push(Buffer.from(bytes).toString())),
    onSent: undefined,
    errorBody: (failure) => ({ error: { message: failure } }),
  });
  return {
    stream: streamResponse(relay),
    settled,
    calls,
    meter,
    forceShutdown: forced.abort,
    push: (text: string) => pushChunk(upstreamBody, Buffer.from(text)),
    end: (isComplete: boolean) => endBodyStream(upstreamBody, isComplete),
    isTicking: () => ticks.size > 0,
    tick: (ms: number) => {
      now += ms;
      for (const tick of ticks) tick(now);
    },
  };
}

interface Client extends RawConnection {
  /** Disconnects and waits until the server has noticed. */
  readonly disconnect: () => Promise<void>;
}

async function connectClient(relay: {
  readonly stream: ReadableStream<Uint8Array>;
}): Promise<Client> {
  const gone = Promise.withResolvers<void>();
  const listener = listen({ host: "127.0.0.1", port: 0 }, async ({ signal }) => {
    signal.addEventListener("abort", () => setImmediate(gone.resolve));
    return new Response(relay.stream);
  });
  listeners.push(listener);
  const connection = await openRawConnection({ url: `http://127.0.0.1:${listener.port}` });
  connection.socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  return {
    ...connection,
    disconnect: () => {
      connection.socket.destroy();
      return gone.promise;
    },
  };
}

/** Relays another stream to its end: by then, what was sent before has arrived. */
async function relayAnotherStream(): Promise<void> {
  const client = await connectClient(openRelay({ first: DELTA + LAST_DELTA + USAGE + DONE }));
  expect((await client.until(/0\r\n\r\n$/)).text).toContain("[DONE]");
}

describe("a complete stream", () => {
  test("sends its terminal event after the settlement", async () => {
    const settlement = Promise.withResolvers<void>();
    const relay = openRelay({ settlement: () => settlement.promise });
    const client = await connectClient(relay);
    await client.until(/hello/);
    relay.push(LAST_DELTA + USAGE + DONE);
    relay.end(true);
    await client.until(/"usage"/);
    expect(relay.settled).toEqual(["completed"]);
    await relayAnotherStream();
    expect(client.output().text).not.toContain("[DONE]");
    settlement.resolve();
    expect((await client.until(/0\r\n\r\n$/)).text).toMatch(/\[DONE\]\n\n\r\n0\r\n\r\n$/);
    expect(relay.calls).toEqual([]);
    expect(relay.isTicking()).toBe(false);
  });

  test("is metered up to its terminal event; later events are passed through or, if translated, dropped", async () => {
    const another = USAGE.replaceAll(/\d+(?=[,}])/g, "900");
    for (const readsAll of [false, true]) {
      const relay = openRelay({ readsAll });
      const client = await connectClient(relay);
      relay.push(LAST_DELTA + USAGE + DONE + another);
      const { text } = await client.until(/0\r\n\r\n$/);
      expect(usageSoFar(relay.meter)?.tokens).toEqual({ input: 3, output: 2 });
      expect(text.includes("900")).toBe(!readsAll);
    }
  });

  test("is recorded for idempotent replay without keep-alive comments", async () => {
    const recorded: string[] = [];
    const relay = openRelay({ recorded });
    const client = await connectClient(relay);
    await client.until(/hello/);
    relay.tick(20_000);
    await client.until(/: keep-alive/);
    relay.push(LAST_DELTA + USAGE + DONE);
    await client.until(/0\r\n\r\n$/);
    expect(recorded.join("")).toMatch(/hello[^]*\[DONE\]\n\n$/);
    expect(recorded.join("")).not.toContain("keep-alive");
  });

  test("ends with an error if the settlement fails", async () => {
    const relay = openRelay({ settlement: () => Promise.reject(new Error("no disk")) });
    const client = await connectClient(relay);
    relay.push(LAST_DELTA + USAGE + DONE);
    const { text } = await client.until(/0\r\n\r\n$/);
    expect(text).not.toContain("[DONE]");
    expect(text).toContain("unsettled");
  });

  test("closes the provider's connection half a second after the terminal event", async () => {
    const relay = openRelay();
    const client = await connectClient(relay);
    relay.push(LAST_DELTA + USAGE + DONE);
    await client.until(/\[DONE\]/);
    expect(relay.calls).toEqual([]);
    await eventually(() => relay.calls.length > 0);
    expect(relay.calls).toEqual(["cancel"]);
    expect(relay.settled).toEqual(["completed"]);
  });

  test("can be complete before the client reads", async () => {
    const relay = openRelay({ first: DELTA + LAST_DELTA + USAGE + DONE });
    relay.end(true);
    const client = await connectClient(relay);
    expect((await client.until(/0\r\n\r\n$/)).text).toContain("[DONE]");
    expect(relay.settled).toEqual(["completed"]);
    expect(relay.calls).toEqual([]);
  });
});

describe("a failed stream", () => {
  test("ends with an error event and is settled once", async () => {
    for (const [failure, outcome, fail] of [
      [
        "connection_lost",
        "upstream_error",
        (relay: ReturnType<typeof openRelay>) => relay.end(false),
      ],
      ["incomplete", "upstream_error", (relay: ReturnType<typeof openRelay>) => relay.end(true)],
      [
        "timed_out",
        "upstream_timeout",
        (relay: ReturnType<typeof openRelay>) => relay.tick(IDLE_MS + 1),
      ],
    ] as const) {
      const relay = openRelay();
      const client = await connectClient(relay);
      await client.until(/hello/);
      fail(relay);
      const { text } = await client.until(/0\r\n\r\n$/);
      expect(text).toContain(failure);
      expect(text).not.toContain("[DONE]");
      relay.push(DONE);
      relay.tick(IDLE_MS + 1);
      expect(relay.settled).toEqual([outcome]);
      expect(relay.isTicking()).toBe(false);
      if (outcome === "upstream_timeout") expect(relay.calls).toEqual(["cancel"]);
    }
  });

  test("has no limit of time while bytes arrive, and extends its hold", async () => {
    const relay = openRelay();
    const client = await connectClient(relay);
    await client.until(/hello/);
    for (let minutes = 0; minutes < 60; minutes++) {
      relay.push(DELTA);
      relay.tick(IDLE_MS);
    }
    expect(relay.settled).toEqual([]);
    expect(relay.calls.filter((step) => step === "extend hold").length).toBeGreaterThan(25);
    relay.push(LAST_DELTA + USAGE + DONE);
    await client.until(/\[DONE\]/);
    expect(relay.settled).toEqual(["completed"]);
  });

  test("sends keep-alive comments while the provider is idle", async () => {
    const relay = openRelay();
    const client = await connectClient(relay);
    await client.until(/hello/);
    relay.tick(16_000);
    await client.until(/keep-alive/);
    relay.push(LAST_DELTA + USAGE + DONE);
    await client.until(/\[DONE\]/);
    expect(relay.settled).toEqual(["completed"]);
  });
});

describe("a client that disconnects", () => {
  test("before reading aborts the call", async () => {
    const relay = openRelay();
    await relay.stream.cancel();
    await eventually(() => relay.settled.length > 0);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.calls).toEqual(["cancel"]);
    expect(relay.meter.outputBytes).toBe(5);
    expect(relay.isTicking()).toBe(false);
  });

  test("before reading pays for all that has arrived of a stream that is not broken", async () => {
    for (const isBroken of [false, true]) {
      const relay = openRelay();
      relay.push(DELTA);
      if (isBroken) relay.end(false);
      await relay.stream.cancel();
      await eventually(() => relay.settled.length > 0);
      expect(relay.meter.outputBytes).toBe(10);
      expect(relay.settled).toEqual([isBroken ? "upstream_error" : "client_aborted"]);
    }
  });

  test("during the stream aborts the call", async () => {
    const relay = openRelay();
    const client = await connectClient(relay);
    await client.until(/hello/);
    client.socket.destroy();
    await eventually(() => relay.settled.length > 0);
    relay.push(DELTA);
    relay.end(false);
    relay.tick(IDLE_MS + 1);
    await relayAnotherStream();
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.calls).toEqual(["cancel"]);
  });

  test("during the settlement does not change it", async () => {
    const settlement = Promise.withResolvers<void>();
    const relay = openRelay({ settlement: () => settlement.promise });
    const client = await connectClient(relay);
    relay.push(LAST_DELTA + USAGE + DONE);
    relay.end(true);
    await eventually(() => relay.settled.length > 0);
    await client.disconnect();
    settlement.resolve();
    await eventually(() => listeners[0]?.openRequests() === 0);
    expect(relay.settled).toEqual(["completed"]);
    expect(listeners[0]?.openRequests()).toBe(0);
  });

  test("is charged the provider's usage if the provider bills the whole reply", async () => {
    for (const isPaused of [false, true]) {
      const relay = openRelay({
        usageWaitMs: 120_000,
        first: isPaused ? DELTA.repeat(300_000) : DELTA,
      });
      const client = await connectClient(relay);
      await client.until(/hello/);
      if (isPaused) client.socket.pause();
      await eventually(() => !isPaused || relay.calls.length > 0);
      await client.disconnect();
      expect(relay.settled).toEqual([]);
      // The rest of the stream is read.
      expect(relay.calls.slice(-2)).toEqual(isPaused ? ["extend hold", "resume"] : ["extend hold"]);
      relay.push(LAST_DELTA + USAGE + DONE);
      await eventually(() => relay.settled.length > 0);
      expect(relay.settled).toEqual(["client_aborted"]);
      expect(relay.meter.isUsageFinal).toBe(true);
      expect(relay.calls.at(-1)).toBe("cancel");
    }
  });

  test("stops reading the rest once it is malformed", async () => {
    const relay = openRelay({ usageWaitMs: 120_000, first: "", parser: createAwsFrameParser() });
    const client = await connectClient(relay);
    await client.until(/keep-alive/);
    await client.disconnect();
    expect(relay.settled).toEqual([]);
    relay.push("these are no frames of AWS, which begin with their length and a checksum");
    await eventually(() => relay.settled.length > 0);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.calls.at(-1)).toBe("cancel");
  });

  test("stops reading the rest at a limit of time or bytes, or at a forced shutdown", async () => {
    const comment = `: ${"x".repeat(1_048_576)}\n\n`;
    for (const reachLimit of [
      (relay: ReturnType<typeof openRelay>) => relay.tick(120_001),
      (relay: ReturnType<typeof openRelay>) => {
        for (let count = 0; count < 33; count++) relay.push(comment);
      },
      (relay: ReturnType<typeof openRelay>) => {
        relay.tick(1_000);
        expect(relay.settled).toEqual([]);
        relay.forceShutdown();
        relay.tick(1_000);
      },
    ]) {
      const relay = openRelay({ usageWaitMs: 120_000 });
      const client = await connectClient(relay);
      await client.until(/hello/);
      await client.disconnect();
      expect(relay.settled).toEqual([]);
      reachLimit(relay);
      await eventually(() => relay.settled.length > 0);
      expect(relay.settled).toEqual(["client_aborted"]);
      expect(relay.calls.filter((step) => step !== "resume")).toEqual(["extend hold", "cancel"]);
    }
  });
});

describe("a client that stops reading", () => {
  /** More than the kernel buffers. */
  const LARGE = DELTA.repeat(300_000);

  test("pauses the provider until it reads again", async () => {
    const relay = openRelay();
    const client = await connectClient(relay);
    await client.until(/hello/);
    client.socket.pause();
    relay.push(LARGE);
    expect(relay.calls).toEqual(["pause"]);
    client.socket.resume();
    await eventually(() => relay.calls.length === 2);
    expect(relay.calls).toEqual(["pause", "resume"]);
    relay.push(LAST_DELTA + USAGE + DONE);
    expect((await client.until(/0\r\n\r\n$/)).text).toContain("[DONE]");
    expect(relay.settled).toEqual(["completed"]);
  });

  test("pauses the provider already at the first chunk", async () => {
    const relay = openRelay({ first: LARGE });
    const client = await connectClient(relay);
    client.socket.pause();
    await eventually(() => relay.calls.at(-1) === "pause");
  });

  test("is disconnected after the idle timeout, and the call is settled once", async () => {
    const relay = openRelay();
    const client = await connectClient(relay);
    await client.until(/hello/);
    client.socket.pause();
    relay.push(LARGE);
    for (let seconds = 0; seconds < 59; seconds++) {
      relay.tick(1_000);
      // In flight when the provider was paused.
      relay.push(DELTA);
    }
    expect(relay.settled).toEqual([]);
    relay.tick(2_000);
    await eventually(() => relay.settled.length > 0);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.calls.at(-1)).toBe("cancel");
    client.socket.resume();
    const { isClosed, text } = await client.whenClosed();
    expect(isClosed).toBe(true);
    expect(text).not.toMatch(/0\r\n\r\n$/);
    expect(listeners[0]?.openRequests()).toBe(0);
  });

  test("before it begins is disconnected after the idle timeout", async () => {
    const relay = openRelay();
    relay.tick(IDLE_MS + 1);
    await eventually(() => relay.settled.length > 0);
    expect(relay.settled).toEqual(["client_aborted"]);
    expect(relay.calls).toEqual(["cancel"]);
    const client = await connectClient(relay);
    expect((await client.whenClosed()).isClosed).toBe(true);
    expect(relay.settled).toEqual(["client_aborted"]);
  });
});

/** Holds one token of a hundred, until `answer` is called. */
function openHold() {
  const raised = Promise.withResolvers<RaiseOutcome>();
  const roll = startRollingHold(
    {
      raise: () => raised.promise,
      now: () => 0,
      monotonicNow: () => 0,
      timer: { add: () => () => {} },
    },
    {
      request: { id: "call", accountId: "account", keyId: "key", sessionId: undefined },
      hold: { amount: 1n, limit: 100n },
      estimate: {
        bound: [{ fixed: { num: 0n, den: 1n }, perOutputToken: { num: 1_000n, den: 1n } }],
        outputTokens: 100,
      },
      hidesOutput: false,
    },
  );
  return { roll, answer: raised.resolve };
}

describe("output that is not held for", () => {
  test("waits for the hold to be raised, and is relayed in order", async () => {
    const { roll, answer } = openHold();
    const relay = openRelay({ roll });
    const reader = relay.stream.getReader();
    relay.push(DELTA.replace("hello", "world"));
    relay.push(LAST_DELTA + USAGE + DONE);
    relay.end(true);
    expect(relay.settled).toEqual([]);
    answer({ status: "raised", amount: 100n });
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += Buffer.from(value).toString();
    }
    expect(text).toContain(DELTA + DELTA.replace("hello", "world"));
    expect(relay.settled).toEqual(["completed"]);
  });

  test("is metered if the session is stopped meanwhile, and its call ends with the provider's stream", async () => {
    const { roll } = openHold();
    let isStopped = false;
    const relay = openRelay({ roll, usageWaitMs: 1_000, isStopped: () => isStopped });
    const reader = relay.stream.getReader();
    const first = reader.read();
    isStopped = true;
    relay.tick(1_000);
    await first;
    relay.push(DELTA);
    relay.end(false);
    expect(relay.settled).toEqual(["upstream_error"]);
    expect(relay.meter.outputBytes).toBe(10);
    expect(relay.isTicking()).toBe(false);
  });
});
