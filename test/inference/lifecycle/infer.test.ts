// A call through all stages with a fake ledger and a fake HTTP client: what happens to its hold when a stage fails.

import { describe, expect, test } from "bun:test";
import { createLog } from "../../../src/base/log.ts";
import { secret } from "../../../src/base/secret.ts";
import type { Send } from "../../../src/http-client/client.ts";
import { fromFetchResponse } from "../../../src/http-client/reply.ts";
import { createInference, type Inference } from "../../../src/inference/inference.ts";
import type { SettledCall } from "../../../src/inference/lifecycle/call.ts";
import { infer } from "../../../src/inference/lifecycle/infer.ts";
import { DEFAULT_TIMEOUTS } from "../../../src/inference/lifecycle/timeouts.ts";
import { NO_FORWARDED_HEADERS } from "../../../src/inference/request/forwarded-headers.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { createLiveCatalog } from "../../../src/models/live-catalog.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { bodyOf } from "../support/harness.ts";

const START = Date.UTC(2026, 10, 22);
const MODELS = ["openai/gpt-5-mini", "mistral/mistral-small-latest"];
const FAILURE = '{"error":{"message":"down"}}';

interface Settlement {
  readonly cost: bigint;
  readonly outcome: string | undefined;
}

interface Harness {
  readonly inference: Inference;
  readonly holds: bigint[];
  readonly settlements: Settlement[];
  readonly call: (signal?: AbortSignal) => Promise<Response>;
  now: number;
}

function createHarness(sendHttp: Send): Harness {
  const holds: bigint[] = [];
  const settlements: Settlement[] = [];
  const ledger: Ledger<SettledCall> = {
    hold: async ({ amount }) => {
      holds.push(amount);
      return { status: "held", amount };
    },
    tryHoldSync: () => undefined,
    settle: async ({ cost, record }) => {
      settlements.push({ cost, outcome: record?.usage.outcome });
      return { status: "settled", charged: cost, overrun: 0n, late: false };
    },
    queueDepth: () => 0,
    idle: async () => {},
  };
  const inference = createInference({
    catalog: createLiveCatalog({ now: START }),
    ledger,
    log: createLog({ level: "error", isPretty: false, write: () => {}, now: Date.now }),
    now: () => harness.now,
    timeouts: DEFAULT_TIMEOUTS,
    sendHttp,
    settings: { openai: { apiKey: secret("sk-a") }, mistral: { apiKey: secret("sk-b") } },
    readKeyVariable: () => undefined,
    simulator: undefined,
    limits: { requestsPerMinute: 0, openCallsPerKey: 0 },
    pseudonymOf: () => "pseudonym",
    isClaimed: async () => false,
    isSignInDisabled: false,
    findProviderKey: () => undefined,
  });
  const [model] = MODELS;
  const harness: Harness = {
    inference,
    holds,
    settlements,
    now: START,
    call: (signal = new AbortController().signal) =>
      infer(inference.infer, {
        api: "chat",
        text: JSON.stringify(bodyOf("chat", "hello", { model, models: MODELS.slice(1) })),
        caller: { accountId: "acct_1", keyId: "key_1" },
        requestId: "req_1",
        now: START,
        headers: new Headers(),
        forwardedHeaders: NO_FORWARDED_HEADERS,
        signal,
        idempotent: undefined,
      }),
  };
  return harness;
}

const failedReply = () => fromFetchResponse(new Response(FAILURE, { status: 500 }));

describe("a call", () => {
  test("releases its hold if a stage throws", async () => {
    const { call, holds, settlements, inference } = createHarness(() => {
      throw new Error("a bug");
    });
    expect(await rejectionMessage(call())).toBe("a bug");
    await inference.whenIdle();
    expect(holds).toHaveLength(1);
    expect(settlements).toEqual([{ cost: 0n, outcome: undefined }]);
  });

  test("falls back to the next model after a failure, and is recorded as failed once", async () => {
    const hosts: string[] = [];
    const { call, holds, settlements, inference } = createHarness(async ({ url }) => {
      hosts.push(new URL(url).host);
      return failedReply();
    });
    expect(await rejectionMessage(call())).toBe("mistral answered 500");
    await inference.whenIdle();
    expect(new Set(hosts)).toEqual(new Set(["api.openai.com", "api.mistral.ai"]));
    expect(holds).toHaveLength(1);
    expect(settlements).toEqual([{ cost: 0n, outcome: "upstream_error" }]);
  });

  test("does not fall back after its client has left", async () => {
    const client = new AbortController();
    const hosts: string[] = [];
    const { call, settlements, inference } = createHarness(async ({ url }) => {
      hosts.push(new URL(url).host);
      client.abort();
      return failedReply();
    });
    expect(await rejectionMessage(call(client.signal))).toBe("openai answered 500");
    await inference.whenIdle();
    expect(hosts).toEqual(["api.openai.com"]);
    expect(settlements).toHaveLength(1);
  });

  test("does not fall back after half of a stream's time limit", async () => {
    const hosts: string[] = [];
    const harness = createHarness(async ({ url }) => {
      hosts.push(new URL(url).host);
      harness.now += DEFAULT_TIMEOUTS.streamMs / 2 + 1;
      return failedReply();
    });
    expect(await rejectionMessage(harness.call())).toBe("openai answered 500");
    await harness.inference.whenIdle();
    expect(hosts).toEqual(["api.openai.com"]);
  });
});
