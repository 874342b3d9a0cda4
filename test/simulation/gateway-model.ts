// A simulated gateway process: the real ledger, lease, sweeper, reconciliation and idempotency on the store model, and the
// real hold, response and settlement of a model call, in the order of src/inference/lifecycle/infer.ts.

import { secret } from "../../src/base/crypto/secret.ts";
import { Fault } from "../../src/base/fault.ts";
import { createLog } from "../../src/base/log.ts";
import {
  createIdempotency,
  type Idempotency,
  releaseAbandonedKeys,
  runningKeys,
} from "../../src/idempotency/idempotency.ts";
import type {
  CallInput,
  HeldCall,
  Hold,
  OpenCall,
  SettledCall,
} from "../../src/inference/lifecycle/call.ts";
import {
  confirmHold,
  lostHoldFault,
  suspendedFault,
} from "../../src/inference/lifecycle/hold/confirm-hold.ts";
import { spentFault } from "../../src/inference/lifecycle/hold/hold-faults.ts";
import { ensureHold, type HoldDeps, releaseHold } from "../../src/inference/lifecycle/hold/hold.ts";
import { createKeyRates } from "../../src/inference/lifecycle/hold/key-rates.ts";
import { toStoredReply } from "../../src/inference/lifecycle/reply/idempotent-reply.ts";
import {
  chargeUsage,
  NOTHING_BILLED,
  withinHold,
} from "../../src/inference/lifecycle/reply/meter.ts";
import {
  respond,
  type RespondDeps,
} from "../../src/inference/lifecycle/reply/respond-to-caller.ts";
import {
  heldCharge,
  settle,
  type SettleDeps,
  settleFailed,
} from "../../src/inference/lifecycle/settle.ts";
import {
  type ClaimedReply,
  withIdempotency,
} from "../../src/inference/lifecycle/with-idempotency.ts";
import { estimateCost } from "../../src/inference/metering/cost-estimate.ts";
import type { Credential } from "../../src/inference/providers/credentials.ts";
import { parseRequest } from "../../src/inference/request/parse-request.ts";
import type { Candidate } from "../../src/inference/routing/candidates.ts";
import { TRANCHE_TOKENS } from "../../src/inference/streaming/recent-outputs.ts";
import {
  checkHold,
  type HoldEnd,
  isCovered,
  type RollDeps,
  type RollingHold,
  startRollingHold,
} from "../../src/inference/streaming/rolling-hold.ts";
import type { TransportPlan } from "../../src/inference/translate/transport-plan.ts";
import type { FailedCandidate } from "../../src/inference/upstream/attempt.ts";
import type { UpstreamReply } from "../../src/inference/upstream/read-upstream-reply.ts";
import { findLiveKey } from "../../src/keys/live-keys.ts";
import { createLease, type Lease } from "../../src/ledger/lease.ts";
import { createLedger, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import { createOwnHolds } from "../../src/ledger/own-holds.ts";
import { createHoldReconciler } from "../../src/ledger/reconcile.ts";
import { createSweeper, sweepHolds } from "../../src/ledger/sweep.ts";
import { builtInModels, catalogOf, findModel } from "../../src/models/catalog.ts";
import { createPromptLog } from "../../src/prompt-log/prompt-log.ts";
import { isWrittenAtOnce, writeCallRecords } from "../../src/server/call-records.ts";
import type { Db } from "../../src/store/db.ts";
import type { StoreModel } from "./store-model.ts";
import type { Actor, World } from "./world.ts";

export const START = Date.UTC(2026, 0, 15);
const HOLD_LIFETIME_MS = 45 * 60_000;
const REQUEST_TIMEOUT_MS = 90_000;
export const RESTART_MS = 500;
/** About the time of a transaction. */
const SETTLEMENT_MS = 20;
const MASTER = secret("simulation".repeat(4));
const NANO_PER_USD = 1e9;

const CATALOG = catalogOf(builtInModels());
const REQUEST = parseRequest(
  "chat",
  JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "hello" }] }),
);
const STREAM_REQUEST = parseRequest("chat", JSON.stringify({ ...REQUEST.json, stream: true }));
/** So many first parts of a hold that rolls are what its call may cost. */
const TRANCHES = 4;
const CANDIDATE = simulatorCandidate();
const ESTIMATE = estimateCost(REQUEST, CANDIDATE.model, CANDIDATE.credential.provider, {
  catalog: CATALOG,
  now: START,
  byok: false,
});
const PROVIDER_FAILURE: FailedCandidate = {
  ok: false,
  fault: new Fault("upstream_error", "the provider failed"),
  isClientGone: false,
  wasSent: true,
};
/** A client of the simulation is refused at once. */
const NO_WAITING = { isAwaited: () => false, wait: async () => false, release: () => {} };
const WHOLE_REPLY: UpstreamReply = { kind: "whole", text: "", json: {}, headers: {} };

export interface GatewayModel extends Actor {
  /** Undefined while it starts. */
  running: RunningGateway | undefined;
  readonly now: () => number;
  readonly kill: (downMs: number) => void;
  readonly freeze: (ms: number) => void;
  /** If not 0, it is suspended for so long while it settles its next call. */
  freezesAtSettlementMs: number;
  /** How often it was killed or suspended. */
  interruptions: number;
  /** How many of its transactions failed. */
  failures: number;
  /** Whether a client waits for a reply. */
  readonly isBusy: () => boolean;
  /** What a client gets: the result, or why there is none. */
  readonly request: <T>(work: (gateway: RunningGateway) => Promise<T>) => Promise<Reply<T>>;
}

export type Reply<T> =
  | { readonly status: "ok"; readonly value: T }
  | { readonly status: "failed"; readonly error: unknown }
  /** The process died or did not respond: whether it did the work is not known. */
  | { readonly status: "lost" };

export interface RunningGateway {
  readonly db: Db;
  readonly epoch: number;
  readonly now: () => number;
  readonly ledger: Ledger<SettledCall>;
  readonly lease: Lease;
  readonly idempotency: Idempotency;
  /** The ids of calls that have not ended. */
  readonly openCalls: Set<string>;
  readonly onServed: (call: ServedCall, cost: bigint, holdId: string) => void;
  /** Called before a collected reply is settled; `isCut` if only a part of it could be held for. */
  readonly onCollected: (callId: string, cost: bigint, isCut: boolean) => void;
  /** Called when a hold was decided on a lease. */
  readonly onLeased: (call: SimulatedCall) => void;
  /** Called when a hold is to be raised; the returned function if it was not raised to all that was asked for. */
  readonly onRaise: (accountId: string) => (callId: string) => void;
  readonly onSettling: (callId: string) => void;
}

type ServedCall = Pick<SimulatedCall, "id" | "accountId">;

export interface SimulatedCall {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly amount: bigint;
  readonly cost: bigint;
  readonly providerMs: number;
  /** The provider's reply arrives in so many parts. */
  readonly parts: number;
  /** Whether its hold grows with its reply. */
  readonly rolls: boolean;
  /** Whether its reply is sent whole. If its credits are short, it is collected from a stream. */
  readonly isWhole: boolean;
  readonly providerFails: boolean;
  readonly idempotencyKey: string | undefined;
}

export interface GatewayModelDeps {
  readonly world: World;
  readonly store: StoreModel;
  /** Called when a part of a reply leaves. */
  readonly onServed: (
    gateway: GatewayModel,
    call: ServedCall,
    served: {
      readonly cost: bigint;
      readonly holdId: string;
      /** Of the gateway, when the call began to be settled. */
      readonly interruptions: number;
    },
  ) => void;
  readonly onCollected: RunningGateway["onCollected"];
  readonly onLeased: (call: SimulatedCall) => void;
  readonly onRaise: (gateway: GatewayModel, accountId: string) => (callId: string) => void;
}

export function startGatewayModel(deps: GatewayModelDeps, name: string): GatewayModel {
  const { world, store } = deps;
  const pending = new Set<() => void>();
  const gateway: GatewayModel = {
    name,
    life: 0,
    frozenUntil: 0,
    clockOffsetMs: 0,
    freezesAtSettlementMs: 0,
    interruptions: 0,
    failures: 0,
    running: undefined,
    now: () => START + Math.floor(world.now() + gateway.clockOffsetMs),
    kill: (downMs) => {
      world.trace(`kill ${name}`);
      gateway.life += 1;
      gateway.interruptions += 1;
      gateway.running = undefined;
      gateway.frozenUntil = 0;
      store.dropConnections(gateway);
      for (const lose of pending) lose();
      world.schedule(gateway, downMs, boot);
    },
    freeze: (ms) => {
      world.trace(`freeze ${name} ${ms}`);
      gateway.interruptions += 1;
      gateway.frozenUntil = world.now() + ms;
      store.endIdle(gateway);
    },
    isBusy: () => pending.size > 0,
    request: <T>(work: (running: RunningGateway) => Promise<T>) =>
      new Promise<Reply<T>>((resolve) => {
        const finish = (reply: Reply<T>): void => {
          pending.delete(lose);
          world.schedule(undefined, 1 + world.random.next(), () => resolve(reply));
        };
        const lose = (): void => finish({ status: "lost" });
        pending.add(lose);
        world.schedule(undefined, REQUEST_TIMEOUT_MS, lose);
        world.schedule(gateway, 1 + world.random.next(), () => {
          const { running } = gateway;
          if (running === undefined) return finish({ status: "failed", error: "starting" });
          work(running).then(
            (value) => finish({ status: "ok", value }),
            (error: unknown) => finish({ status: "failed", error }),
          );
        });
      }),
  };
  const settling = new Map<string, number>();
  const onServed: RunningGateway["onServed"] = (call, cost, holdId) => {
    const interruptions = settling.get(call.id) ?? gateway.interruptions;
    deps.onServed(gateway, call, { cost, holdId, interruptions });
  };
  const { onCollected, onLeased } = deps;
  const onRaise: RunningGateway["onRaise"] = (accountId) => deps.onRaise(gateway, accountId);
  const onSettling = (callId: string): void => {
    settling.set(callId, gateway.interruptions);
    const ms = gateway.freezesAtSettlementMs;
    if (ms === 0) return;
    gateway.freezesAtSettlementMs = 0;
    world.schedule(gateway, world.random.integer(SETTLEMENT_MS), () => gateway.freeze(ms));
  };
  const boot = (): void => {
    const { hasLeases } = world;
    const onFatal = (): void => gateway.kill(RESTART_MS);
    startProcess(gateway, countFailures(gateway, store.dbOf(gateway)), { onFatal, hasLeases }).then(
      (running) => {
        gateway.running = { ...running, onServed, onCollected, onLeased, onRaise, onSettling };
      },
      () => gateway.kill(RESTART_MS),
    );
  };
  world.schedule(gateway, world.random.next(), boot);
  return gateway;
}

function countFailures(gateway: GatewayModel, db: Db): Db {
  const write: Db["write"] = async (...args) => {
    try {
      return await db.write(...args);
    } catch (error) {
      gateway.failures += 1;
      throw error;
    }
  };
  return { ...db, write };
}

function simulatorCandidate(): Candidate {
  const resolved = findModel(CATALOG, "sim/echo");
  if (resolved === undefined) throw new Error("the catalog has no simulator");
  // Safe: these are the only fields that are read.
  const credential = {
    provider: { id: "sim", stopsBillingOnAbort: true },
    byok: false,
  } as Credential;
  return { wires: ["chat"], model: resolved.model, upstreamName: "echo", credential };
}

async function startProcess(
  { name, now }: GatewayModel,
  db: Db,
  { onFatal, hasLeases }: { readonly onFatal: () => void; readonly hasLeases: boolean },
): Promise<
  Omit<RunningGateway, "onServed" | "onCollected" | "onLeased" | "onRaise" | "onSettling">
> {
  const epoch = await startEpoch(db, name, now());
  await sweepHolds(db, now());
  const ownHolds = createOwnHolds<SettledCall>();
  const idempotency = createIdempotency(MASTER, { name, epoch });
  const promptLog = createPromptLog(MASTER, 30);
  const identity = { db, process: name, epoch, now };
  const ledger = createLedger<SettledCall>({
    ...identity,
    ownHolds,
    leases: hasLeases ? { now, busyHolds: 1 } : undefined,
    isWrittenAtOnce,
    writeRecords: (tx, records, charges) =>
      writeCallRecords(tx, { records, charges }, { idempotency, promptLog }),
  });
  const lease = createLease(identity);
  const beat = async (): Promise<void> => {
    if (!(await lease.renew())) onFatal();
  };
  runEvery(5_000, beat);
  runEvery(10_000, createSweeper({ ...identity, otherWork: runningKeys }));
  runEvery(30_000, createHoldReconciler({ ...identity, ledger, ownHolds }));
  runEvery(60_000, () => releaseAbandonedKeys(db, now()));
  return { db, epoch, now, ledger, lease, idempotency, openCalls: new Set() };
}

function runEvery(intervalMs: number, run: () => Promise<unknown>): void {
  setTimeout(() => {
    const next = (): void => runEvery(intervalMs, run);
    run().then(next, next);
  }, intervalMs);
}

/** Resolves with the id of the call whose reply is delivered: an earlier one's if the key was used. */
export async function serveCall(gateway: RunningGateway, call: SimulatedCall): Promise<string> {
  const { db, now, idempotency } = gateway;
  if (call.idempotencyKey === undefined) return trackCall(gateway, call);
  const { accountId, idempotencyKey: key } = call;
  const idempotent = { accountId, scope: "call", key, body: "call", now: now() };
  let replayed: ClaimedReply | undefined;
  let served = "";
  const deps = {
    db,
    now,
    findKey: findLiveKey,
    release: idempotency.release,
    begin: async (...args: Parameters<Idempotency["begin"]>) => {
      replayed = await idempotency.begin(...args);
      return replayed;
    },
  };
  // Safe: these are the only fields that it reads.
  const input = {
    text: "{}",
    caller: { accountId: call.accountId, keyId: call.keyId },
    requestId: call.id,
  } as CallInput;
  await withIdempotency(deps, input, idempotent, async () => {
    served = await trackCall(gateway, call, idempotent);
    return new Response(null);
  });
  return replayed === undefined ? served : (replayed.body.split("\n").at(-1) ?? "");
}

type Idempotent = NonNullable<CallInput["idempotent"]>;

async function trackCall(
  gateway: RunningGateway,
  call: SimulatedCall,
  idempotent?: Idempotent,
): Promise<string> {
  const { openCalls } = gateway;
  openCalls.add(call.id);
  try {
    return await runCall(gateway, call, idempotent);
  } finally {
    openCalls.delete(call.id);
  }
}

/** The stages of `infer`, with a provider that only takes time. A reply in several parts is a stream, or collected from one. */
async function runCall(
  gateway: RunningGateway,
  call: SimulatedCall,
  idempotent?: Idempotent,
): Promise<string> {
  const { lease, onServed, onLeased, onSettling } = gateway;
  const deps = lifecycleDepsOf(gateway);
  const opened = openCallOf(gateway, call, idempotent);
  try {
    const [priced] = opened.candidates;
    const hold = await ensureHold(deps.hold, opened, { priced, remaining: [], isFallback: false });
    const { rowId = call.id } = hold;
    if (rowId !== call.id) onLeased(call);
    const whole = hold.isRolling ? costAtLimit(call, hold.limit) : call.cost;
    const held = heldCallOf(opened, hold, whole);
    const roll = hold.isRolling ? startRoll(gateway, held) : undefined;
    const parts = call.isWhole && roll === undefined ? 1 : call.parts;
    for (let part = 1; part <= parts; part++) {
      await new Promise((resolve) => setTimeout(resolve, call.providerMs / parts));
      if (parts === 1) break;
      const cost = (whole * BigInt(part)) / BigInt(parts);
      const end = roll && (await coverPart(roll, held, cost));
      if (call.isWhole) {
        if (end === undefined) continue;
        return await cutCollected(gateway, deps, held, { end, cost });
      }
      if (end === "budget") return await cutStream(deps.settle, held, cost);
      if (end !== undefined || (await confirmHold(lease, held)) !== "held")
        return await endStream(deps.settle, held, "shut_down");
      onServed(call, whole, rowId);
    }
    if (call.providerFails) {
      await settleFailed(deps.settle, held, PROVIDER_FAILURE);
      throw PROVIDER_FAILURE.fault;
    }
    onSettling(call.id);
    if (parts > 1 && !call.isWhole) return await endStream(deps.settle, held, "completed");
    if (parts > 1) gateway.onCollected(call.id, whole, false);
    await respond(deps.respond, held, WHOLE_REPLY);
    onServed(call, whole, rowId);
    return call.id;
  } catch (error) {
    await releaseHold(deps.hold, opened).catch(() => {});
    throw error;
  }
}

const OUTPUT_TOKENS = BigInt(TRANCHES * TRANCHE_TOKENS);

/** The output limit ends a stream at what its hold may grow to. A cost of whole tokens, as providers bill. */
function costAtLimit({ cost, amount }: SimulatedCall, limit: bigint): bigint {
  const tokens = ((cost < limit ? cost : limit) * OUTPUT_TOKENS) / amount;
  return (tokens * amount) / OUTPUT_TOKENS;
}

function startRoll({ ledger, now, onRaise }: RunningGateway, held: HeldCall): RollingHold {
  const { input, hold, estimate } = held;
  const { accountId, keyId } = input.caller;
  const deps: RollDeps = {
    raise: async (request) => {
      const onShort = onRaise(accountId);
      const outcome = await ledger.raise(request);
      const isWhole = outcome.status === "raised" && outcome.amount >= request.amount;
      if (!isWhole && outcome.status !== "lost") onShort(request.id);
      return outcome;
    },
    now,
    monotonicNow: () => performance.now(),
    timer: { add: () => () => {} },
  };
  const request = { id: input.requestId, accountId, keyId, sessionId: undefined };
  held.roll = startRollingHold(deps, { request, hold, estimate, hidesOutput: false });
  return held.roll;
}

/** As a relay does before it sends what has arrived: why the stream must end, if no more can be held. */
async function coverPart(
  roll: RollingHold,
  { estimate }: HeldCall,
  cost: bigint,
): Promise<HoldEnd | undefined> {
  const tokens = Number((cost * OUTPUT_TOKENS + estimate.amount - 1n) / estimate.amount);
  for (;;) {
    const changed = new Promise<void>((resolve) => {
      roll.onChange = resolve;
    });
    checkHold(roll, performance.now(), tokens);
    if (roll.ended !== undefined || isCovered(roll, tokens)) return roll.ended;
    await changed;
  }
}

async function cutStream(deps: SettleDeps, call: HeldCall, cost: bigint): Promise<never> {
  const usage = { tokens: {}, fees: {}, statedCostUsd: Number(cost) / NANO_PER_USD };
  const billed = withinHold(call, chargeUsage(call, usage, deps.now()));
  await settle(deps, call, { ...billed, outcome: "budget_cut", status: 200 });
  throw spentFault();
}

/** As `collectReply` ends a reply of which no more could be held. */
async function cutCollected(
  { onCollected, onServed, onSettling }: RunningGateway,
  { settle: settleDeps, respond: respondDeps }: LifecycleDeps,
  call: HeldCall,
  { end, cost }: { readonly end: HoldEnd; readonly cost: bigint },
): Promise<string> {
  const { input, hold } = call;
  const id = input.requestId;
  if (end !== "budget") {
    const fault = lostHoldFault(end);
    await settleFailed(settleDeps, call, {
      ok: false,
      fault,
      isClientGone: false,
      isShutDown: true,
    });
    throw fault;
  }
  const usage = { tokens: {}, fees: {}, statedCostUsd: Number(cost) / NANO_PER_USD };
  const cut = withinHold(call, chargeUsage(call, usage, respondDeps.now()));
  call.cut = cut;
  onSettling(id);
  onCollected(id, cut.cost, true);
  await respond(respondDeps, call, WHOLE_REPLY);
  onServed({ id, accountId: input.caller.accountId }, cut.cost, hold.rowId ?? id);
  return id;
}

/** As a relay ends a stream: an incomplete one costs nothing here. */
async function endStream(
  deps: SettleDeps,
  call: HeldCall,
  outcome: "completed" | "shut_down",
): Promise<string> {
  const { requestId } = call.input;
  const isComplete = outcome === "completed";
  const billed = isComplete
    ? await heldCharge(deps, call, chargeUsage(call, call.plan.readUsage({}), deps.now()))
    : NOTHING_BILLED;
  const stored = isComplete ? toStoredReply(new Headers(), requestId) : undefined;
  const { isUncovered } = await settle(deps, call, { ...billed, outcome, status: 200, stored });
  if (isUncovered || !isComplete) throw suspendedFault();
  return requestId;
}

interface LifecycleDeps {
  readonly hold: HoldDeps;
  readonly settle: SettleDeps;
  readonly respond: RespondDeps;
}

function lifecycleDepsOf({ ledger, lease, now }: RunningGateway): LifecycleDeps {
  const settleDeps: SettleDeps = {
    ledger,
    now,
    log: createLog({ level: "error", isPretty: false, now, write: () => {} }),
    heldCredit: NO_WAITING,
    abandonedCalls: { count: () => {} },
    tokenCounts: { add: () => {} },
    recordOutcome: () => {},
  };
  return {
    hold: {
      ledger,
      lease,
      now,
      lifetimeMs: HOLD_LIFETIME_MS,
      rates: createKeyRates(() => 0),
      openCallsMax: undefined,
      isClaimed: async () => false,
      heldCredit: NO_WAITING,
      recentOutputs: { firstTokens: () => TRANCHE_TOKENS },
      countOpenCalls: async () => 0,
      findLimitRaiser: async () => ({ by: "none", canClaim: false }),
      isSignInDisabled: false,
      paymentOptions: { hasPage: true, acceptsX402: false, acceptsMpp: false, minUsd: 1 },
    },
    settle: settleDeps,
    // Safe: the other fields are only read for streams.
    respond: { lease, now, settle: settleDeps } as unknown as RespondDeps,
  };
}

function openCallOf(
  { now }: RunningGateway,
  { id, accountId, keyId, amount, parts, rolls, isWhole }: SimulatedCall,
  idempotent: Idempotent | undefined,
): OpenCall {
  const input = {
    api: REQUEST.api,
    requestId: id,
    caller: { accountId, keyId },
    now: now(),
    headers: new Headers(),
    labels: [],
    signal: { aborted: false },
    idempotent,
  };
  const isRolling = rolls && parts > 1;
  const outputTokens = Number(OUTPUT_TOKENS);
  const perOutputToken = { num: amount * 1_000n, den: OUTPUT_TOKENS };
  const estimate = {
    ...ESTIMATE,
    amount,
    minimum: undefined,
    ...(isRolling && { outputTokens, bound: [{ fixed: { num: 0n, den: 1n }, perOutputToken }] }),
  };
  return {
    // Safe: these are the only fields that the stages after routing read.
    input: input as unknown as CallInput,
    request: isRolling && !isWhole ? STREAM_REQUEST : REQUEST,
    statefulCall: undefined,
    catalog: CATALOG,
    pricedAt: input.now,
    candidates: [{ candidate: CANDIDATE, estimate }],
    ceiling: undefined,
    holdsAll: !isRolling,
    receipt: undefined,
    attempts: [],
    untrack: () => {},
  };
}

function heldCallOf(opened: OpenCall, hold: Hold, cost: bigint): HeldCall {
  const [{ candidate, estimate }] = opened.candidates;
  const { requestId } = opened.input;
  const usage = { tokens: {}, fees: {}, statedCostUsd: Number(cost) / NANO_PER_USD };
  // Safe: these are the only fields that are read after the provider's reply.
  const plan = {
    dropped: [],
    readUsage: () => usage,
    writeReply: () => ({ text: requestId, dropped: [] }),
  } as unknown as TransportPlan;
  return { ...opened, candidate, estimate, hold, outputMax: undefined, plan };
}
