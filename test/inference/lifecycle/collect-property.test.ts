// A whole reply that is collected from a stream, for random replies, chunks and replies of the ledger: nothing is collected that
// the hold does not cover, and a cut reply costs no more than its hold.

import { expect, test } from "bun:test";
import { type BodyStream, createBodyStream, endBodyStream, pushChunk } from "@postern/http-client";
import * as fc from "fast-check";
import { maxNano, minNano, type Nano } from "../../../src/base/money/money.ts";
import type { HeldCall } from "../../../src/inference/lifecycle/call.ts";
import {
  type CollectDeps,
  collectReply,
} from "../../../src/inference/lifecycle/reply/collect-whole-reply.ts";
import { estimateCost } from "../../../src/inference/metering/cost-estimate.ts";
import type { Credential } from "../../../src/inference/providers/credentials.ts";
import { parseRequest } from "../../../src/inference/request/parse-request.ts";
import { TRANCHE_TOKENS } from "../../../src/inference/streaming/recent-outputs.ts";
import { firstHold, startRollingHold } from "../../../src/inference/streaming/rolling-hold.ts";
import type { AttemptRequest, CandidateResult } from "../../../src/inference/upstream/attempt.ts";
import type { RaiseOutcome, RaiseRequest } from "../../../src/ledger/decide.ts";
import { builtInModels, catalogOf, findModel } from "../../../src/models/catalog.ts";
import { runs } from "../../support/full.ts";

const NOW = Date.UTC(2026, 10, 29, 12);
const OUTPUT_MAX = 4 * TRANCHE_TOKENS;
const CATALOG = catalogOf(builtInModels());
const REQUEST = parseRequest(
  "chat",
  JSON.stringify({
    model: "sim/echo",
    max_tokens: OUTPUT_MAX,
    messages: [{ role: "user", content: "hello" }],
  }),
);
const RESOLVED = findModel(CATALOG, "sim/echo");
if (RESOLVED === undefined) throw new Error("the catalog has no simulator");
// Safe: these are the only fields that are read.
const CREDENTIAL = {
  provider: { id: "sim", stopsBillingOnAbort: true, paths: {} },
  byok: false,
} as unknown as Credential;
const ESTIMATE = estimateCost(REQUEST, RESOLVED.model, CREDENTIAL.provider, {
  catalog: CATALOG,
  now: NOW,
  byok: false,
});
// Safe: a reply of this wire is counted without the provider.
const DEPS = {
  now: () => NOW,
  timeouts: { replyMs: 600_000, replyMaxBytes: 10_000_000 },
} as CollectDeps;
const SENT = {
  wire: "chat",
  isTranslated: false,
  isCanceled: () => false,
  callerSignal: { aborted: false },
} as unknown as AttemptRequest;

type LedgerReply = "raised" | "lost" | "unavailable";

interface Case {
  /** Words in each event. */
  readonly events: readonly number[];
  /** Sizes of chunks, repeated. */
  readonly chunks: readonly number[];
  /** What the account has for the call, in hundredths of what all of it costs. */
  readonly credit: number;
  /** The last one is repeated. */
  readonly ledger: readonly LedgerReply[];
  /** Turns until the ledger replies. */
  readonly delay: number;
}

const CASES: fc.Arbitrary<Case> = fc.record({
  events: fc.array(fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 900 })), {
    minLength: 1,
    maxLength: 60,
  }),
  chunks: fc.array(fc.integer({ min: 1, max: 6_000 }), { minLength: 1, maxLength: 4 }),
  credit: fc.integer({ min: 25, max: 130 }),
  ledger: fc.oneof(
    fc.constant(["raised" as const]),
    fc.array(fc.constantFrom("raised" as const, "lost" as const, "unavailable" as const), {
      minLength: 1,
      maxLength: 3,
    }),
  ),
  delay: fc.nat(3),
});

const textOf = (words: number): string => "word ".repeat(words);

function framesOf(events: readonly number[]): string {
  const chunk = (delta: object, finish: string | null, usage?: object): string =>
    `data: ${JSON.stringify({
      id: "c",
      object: "chat.completion.chunk",
      created: 1,
      model: "echo",
      choices: [{ index: 0, delta, finish_reason: finish }],
      ...(usage !== undefined && { usage }),
    })}\n\n`;
  const words = events.reduce((sum, count) => sum + count, 0);
  const usage = { prompt_tokens: 5, completion_tokens: words, total_tokens: 5 + words };
  return [
    ...events.map((count) => chunk({ content: textOf(count) }, null)),
    chunk({}, "stop", usage),
    "data: [DONE]\n\n",
  ].join("");
}

interface Run {
  readonly result: CandidateResult;
  readonly call: HeldCall;
  /** Bytes of text that the hold covers at its end. */
  readonly covered: number;
  /** Whether the provider's stream was closed before it ended. */
  readonly isClosed: boolean;
  readonly wasSent: boolean;
}

async function collect({ events, chunks, credit, ledger, delay }: Case): Promise<Run> {
  const limit = minNano((ESTIMATE.amount * BigInt(credit)) / 100n, ESTIMATE.amount);
  const hold = {
    amount: minNano(firstHold(ESTIMATE, TRANCHE_TOKENS), limit),
    limit: ESTIMATE.amount,
  };
  let replies = 0;
  const raise = async ({ amount }: RaiseRequest): Promise<RaiseOutcome> => {
    const reply = ledger[Math.min(replies, ledger.length - 1)];
    replies += 1;
    for (let turn = 0; turn < delay; turn++) await nextTurn();
    if (reply === "unavailable") throw new Error("the store is unavailable");
    if (reply === "lost") return { status: "lost" };
    const raised: Nano = maxNano(minNano(amount, limit), hold.amount);
    return raised > hold.amount ? { status: "raised", amount: raised } : { status: "refused" };
  };
  const roll = startRollingHold(
    { raise, now: () => NOW, monotonicNow: () => 0, timer: { add: () => () => {} } },
    {
      request: { id: "call", accountId: "acct", keyId: "key", sessionId: undefined },
      hold,
      estimate: ESTIMATE,
      hidesOutput: false,
    },
  );
  const call = heldCall(hold, roll);
  let isClosed = false;
  const body = createBodyStream({
    pause: () => {},
    resume: () => {},
    cancel: () => {
      isClosed = true;
    },
  });
  const reply = { kind: "stream", body, headers: {}, contentType: "text/event-stream" } as const;
  const collecting = collectReply(DEPS, call, SENT, reply);
  const wasSent = await send(body, framesOf(events), chunks);
  return { result: await collecting, call, covered: roll.covered, isClosed, wasSent };
}

// Safe: these are the only fields that a collected reply reads.
function heldCall(hold: object, roll: object): HeldCall {
  return {
    input: { requestId: "call", now: NOW, caller: { accountId: "acct", keyId: "key" } },
    request: REQUEST,
    candidate: {
      wires: ["chat"],
      model: RESOLVED?.model,
      upstreamName: "echo",
      credential: CREDENTIAL,
    },
    catalog: CATALOG,
    pricedAt: NOW,
    ceiling: undefined,
    estimate: ESTIMATE,
    hold,
    outputMax: undefined,
    isCollected: true,
    plan: { wire: "chat", body: JSON.stringify(REQUEST.json), isTranslated: false },
    roll,
  } as unknown as HeldCall;
}

/** Whether all was sent before the stream was closed. */
async function send(body: BodyStream, text: string, sizes: readonly number[]): Promise<boolean> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0, index = 0; at < bytes.length; index++) {
    if (body.ended !== undefined) return false;
    const size = sizes[index % sizes.length] ?? 1;
    pushChunk(body, bytes.slice(at, at + size));
    at += size;
    await nextTurn();
  }
  endBodyStream(body, true);
  return true;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function contentOf(result: CandidateResult): string {
  if (!result.ok || result.reply.kind !== "whole") return "";
  const [choice] = result.reply.json["choices"] as readonly { message: { content: string } }[];
  return choice?.message.content ?? "";
}

test("collects what its hold covers, and no more", async () => {
  const seen = { whole: 0, cut: 0, lost: 0, empty: 0 };
  const property = fc.asyncProperty(CASES, async (one) => {
    const all = one.events.map(textOf).join("");
    const { result, call, covered, isClosed, wasSent } = await collect(one);
    const { hold, cut } = call;
    const content = contentOf(result);
    expect(hold.amount).toBeLessThanOrEqual(
      minNano((ESTIMATE.amount * BigInt(one.credit)) / 100n, hold.limit),
    );
    expect(all.startsWith(content)).toBe(true);
    // No token of text is shorter than a byte, and no more can be generated than the output limit.
    if (covered < OUTPUT_MAX) expect(content.length).toBeLessThanOrEqual(covered);
    if (result.ok && cut === undefined) {
      expect(content).toBe(all);
      seen.whole += 1;
    } else if (result.ok && cut !== undefined) {
      expect(content.length).toBeLessThan(all.length);
      expect(cut.cost).toBeLessThanOrEqual(hold.amount);
      // Which ends the provider's bill.
      expect(isClosed || wasSent).toBe(true);
      seen.cut += 1;
    } else if (!result.ok && result.isShutDown === true) {
      expect(result.fault.code).toBe("overloaded");
      expect(one.ledger).not.toEqual(["raised"]);
      seen.lost += 1;
    } else {
      expect(result).toMatchObject({ isCut: true, fault: { code: "insufficient_credits" } });
      seen.empty += 1;
    }
    // A reply is cut only if more of it was to come than its hold covered, or if the hold is lost while more is asked for.
    if (all.length <= covered && call.roll?.ended !== "hold_lost")
      expect(result.ok && cut === undefined).toBe(true);
  });
  await fc.assert(property, { numRuns: runs(1_200) });
  expect([seen.whole, seen.cut, seen.lost].every((count) => count > 0)).toBe(true);
});
