// A call through all stages with a fake ledger and a fake HTTP client: what happens to its hold when a stage fails.

import { describe, expect, test } from "bun:test";
import { type Send, fromFetchResponse } from "@postern/http-client";
import { secret } from "../../../src/base/crypto/secret.ts";
import { createLog } from "../../../src/base/log.ts";
import { createBodyQuota } from "../../../src/http/request/body-quota.ts";
import { createInference, type Inference } from "../../../src/inference/inference.ts";
import type { SettledCall } from "../../../src/inference/lifecycle/call.ts";
import { infer } from "../../../src/inference/lifecycle/infer.ts";
import { lastAttemptStartMs } from "../../../src/inference/lifecycle/timeouts.ts";
import { DEFAULT_TIMEOUTS } from "../../../src/inference/lifecycle/timeouts.ts";
import { NO_FORWARDED_HEADERS } from "../../../src/inference/request/forwarded-headers.ts";
import type { FindProviderKey } from "../../../src/inference/routing/candidates.ts";
import type { HoldRequest } from "../../../src/ledger/decide.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { createLiveCatalog } from "../../../src/models/live-catalog.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { bodyOf, type Json } from "../support/harness.ts";

const START = Date.UTC(2026, 10, 22);
const MODELS = ["openai/gpt-5-mini", "mistral/mistral-small-latest"];
const FAILURE = '{"error":{"message":"down"}}';

interface Settlement {
  readonly cost: bigint;
  readonly outcome: string | undefined;
}

interface Harness {
  readonly inference: Inference;
  readonly holds: HoldRequest[];
  readonly settlements: Settlement[];
  /** The circuits whose probe was released. */
  readonly releasedProbes: string[];
  readonly call: (signal?: AbortSignal, more?: Json) => Promise<Response>;
  now: number;
}

function createHarness(
  sendHttp: Send,
  findProviderKey: FindProviderKey = () => undefined,
): Harness {
  const holds: HoldRequest[] = [];
  const settlements: Settlement[] = [];
  const releasedProbes: string[] = [];
  const ledger: Ledger<SettledCall> = {
    hold: async (request) => {
      holds.push(request);
      return { status: "held", amount: request.amount };
    },
    tryHoldSync: () => undefined,
    raise: async ({ amount }) => ({ status: "raised", amount }),
    settle: async ({ cost, record }) => {
      settlements.push({ cost, outcome: record?.usage.outcome });
      return { status: "settled", charged: cost, overrun: 0n, late: false };
    },
    deferredSettlements: () => [],
    extendHold: () => {},
    returnLeases: () => {},
    queueDepth: () => 0,
    isFailing: () => false,
    idle: async () => {},
  };
  const inference = createInference({
    catalog: createLiveCatalog({ now: START }),
    findPreset: async () => undefined,
    openGuards: async () => ({}),
    ledger,
    lease: { term: () => 1, renew: async () => true, confirmHold: async () => "held" },
    log: createLog({ level: "error", isPretty: false, write: () => {}, now: Date.now }),
    now: () => harness.now,
    timeouts: DEFAULT_TIMEOUTS,
    sendHttp,
    settings: { openai: { apiKey: secret("sk-a") }, mistral: { apiKey: secret("sk-b") } },
    readKeyVariable: () => undefined,
    dataPolicy: { zdrProviders: new Set() },
    allowUnknownFields: new Set(),
    simulator: undefined,
    limits: () => ({ requestsPerMinute: 60, openCallsPerKey: 5 }),
    files: {
      fetchFile: () => Promise.reject(new Error("no files")),
      bodyQuota: createBodyQuota(),
      perMinute: 0,
    },
    searchWeb: undefined,
    fetchesPages: false,
    mcp: {
      findMcpServers: async () => [],
      openConnection: () => {
        throw new Error("no MCP servers");
      },
    },
    pseudonymOf: () => "pseudonym",
    sendsAnthropicUserId: false,
    isClaimed: async () => false,
    countOpenCalls: async () => 0,
    findLimitRaiser: async () => ({ by: "none", canClaim: false }),
    isSignInDisabled: false,
    paymentOptions: { hasPage: true, acceptsX402: false, acceptsMpp: false, minUsd: 1 },
    offers: {
      baseUrl: "http://localhost",
      sign: () => "",
      verify: async () => undefined,
    },
    signReceipt: () => undefined,
    findKey: async () => undefined,
    findProviderKey,
  });
  const [model] = MODELS;
  const { send } = inference.infer;
  const releaseProbe = (circuit: string) => void releasedProbes.push(circuit);
  const deps = {
    ...inference.infer,
    send: { ...send, breaker: { ...send.breaker, releaseProbe } },
  };
  const harness: Harness = {
    inference,
    holds,
    settlements,
    releasedProbes,
    now: START,
    call: (signal = new AbortController().signal, more = {}) =>
      infer(deps, {
        api: "chat",
        text: JSON.stringify(bodyOf("chat", "hello", { model, models: MODELS.slice(1), ...more })),
        caller: { accountId: "acct_1", keyId: "key_1" },
        requestId: "req_1",
        now: START,
        headers: new Headers(),
        forwardedHeaders: NO_FORWARDED_HEADERS,
        signal,
        labels: [],
        session: undefined,
        idempotent: undefined,
      }),
  };
  return harness;
}

const failedReply = () => fromFetchResponse(new Response(FAILURE, { status: 500 }));

describe("a call", () => {
  test("releases its hold and its circuit's probe if a stage throws", async () => {
    const { call, holds, settlements, releasedProbes, inference } = createHarness(() => {
      throw new Error("a bug");
    });
    expect(await rejectionMessage(call())).toBe("a bug");
    await inference.whenIdle();
    expect(holds).toHaveLength(1);
    expect(settlements).toEqual([{ cost: 0n, outcome: undefined }]);
    expect(releasedProbes).toEqual(["openai gateway gpt-5-mini"]);
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

  test("releases its circuit's probe if it fails through the caller's own fault", async () => {
    const { call, releasedProbes } = createHarness(async () =>
      fromFetchResponse(new Response(FAILURE, { status: 400 })),
    );
    expect(await rejectionMessage(call())).toBe("openai answered 400");
    expect(releasedProbes).toEqual(["openai gateway gpt-5-mini"]);
  });

  test("is not sent to a provider if its client has left before", async () => {
    let sent = 0;
    const { call, settlements } = createHarness(async () => {
      sent += 1;
      return failedReply();
    });
    expect(await rejectionMessage(call(AbortSignal.abort()))).toBe("client closed the request");
    expect(sent).toBe(0);
    expect(settlements).toEqual([{ cost: 0n, outcome: "client_aborted" }]);
  });

  test("is not sent again after its client has left", async () => {
    const client = new AbortController();
    let sent = 0;
    const { call } = createHarness(async () => {
      sent += 1;
      client.abort();
      return failedReply();
    });
    await rejectionMessage(call(client.signal, { models: undefined }));
    expect(sent).toBe(1);
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

  test("does not fall back after more than half of a call's time limit", async () => {
    const hosts: string[] = [];
    const harness = createHarness(async ({ url }) => {
      hosts.push(new URL(url).host);
      harness.now += lastAttemptStartMs(DEFAULT_TIMEOUTS) + 1;
      return failedReply();
    });
    expect(await rejectionMessage(harness.call())).toBe("openai answered 500");
    await harness.inference.whenIdle();
    expect(hosts).toEqual(["api.openai.com"]);
  });

  test("counts only its first hold towards the limits of its key", async () => {
    const apiKey = secret("sk-caller");
    const { call, holds } = createHarness(
      async () => failedReply(),
      (_, providerId) =>
        providerId === "openai" ? { id: "pk_1", apiKey, allowStore: false } : undefined,
    );
    expect(await rejectionMessage(call())).toBe("mistral answered 500");
    const [first, second, ...others] = holds;
    expect(others).toEqual([]);
    expect(first).toMatchObject({ amount: 0n, openCallsMax: 5, rateLimit: { intervalMs: 1_000 } });
    expect(second?.amount).toBeGreaterThan(0n);
    expect([second?.openCallsMax, second?.rateLimit]).toEqual([undefined, undefined]);
  });

  test("whose client leaves early is charged what was relayed, also beyond its hold", async () => {
    const chunk = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(3_000) } }] })}\n\n`;
    const { call, holds, settlements, inference } = createHarness(async () => {
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode(chunk)),
      });
      const headers = { "content-type": "text/event-stream" };
      return fromFetchResponse(new Response(body, { headers }));
    });
    // A model that does not reason: the gateway hangs up.
    const response = await call(undefined, {
      model: "openai/gpt-4.1-mini",
      models: undefined,
      stream: true,
    });
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    await inference.whenIdle();
    expect(settlements).toMatchObject([{ outcome: "client_aborted" }]);
    expect(settlements[0]?.cost).toBeGreaterThan(holds[0]?.amount ?? 0n);
  });
});
