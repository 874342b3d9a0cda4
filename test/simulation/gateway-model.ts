// A simulated gateway process: the real ledger, lease, sweeper, reconciliation and idempotency on the store model, and the
// steps of a model call in their order in src/inference/lifecycle/infer.ts, with a provider that only takes time.

import { secret } from "../../src/base/crypto/secret.ts";
import { Fault } from "../../src/base/fault.ts";
import { createIdempotency, releaseAbandonedKeys } from "../../src/idempotency/idempotency.ts";
import type {
  CallInput,
  HeldCall,
  SettledCall,
  StoredReply,
} from "../../src/inference/lifecycle/call.ts";
import { confirmHold } from "../../src/inference/lifecycle/hold/confirm-hold.ts";
import { isUncovered } from "../../src/inference/lifecycle/uncovered-call.ts";
import { withIdempotency } from "../../src/inference/lifecycle/with-idempotency.ts";
import { isLiveKey } from "../../src/keys/live-keys.ts";
import { createLease, type Lease } from "../../src/ledger/lease.ts";
import { createLedger, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import { createOwnHolds } from "../../src/ledger/own-holds.ts";
import { createHoldReconciler } from "../../src/ledger/reconcile.ts";
import { createSweeper, sweepHolds } from "../../src/ledger/sweep.ts";
import { writeCallRecords } from "../../src/server/call-records.ts";
import type { Db } from "../../src/store/db.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import type { StoreModel } from "./store-model.ts";
import type { Actor, World } from "./world.ts";

export const START = Date.UTC(2026, 0, 15);
const HOLD_LIFETIME_MS = 45 * 60_000;
const REQUEST_TIMEOUT_MS = 90_000;
export const RESTART_MS = 500;
/** About the time of a transaction. */
const SETTLEMENT_MS = 20;
const IDEMPOTENCY = createIdempotency(secret("simulation".repeat(4)));

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
  /** The ids of calls that have not ended. */
  readonly openCalls: Set<string>;
  readonly onServed: (callId: string) => void;
  readonly onSettling: () => void;
}

export interface SimulatedCall {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly amount: bigint;
  readonly cost: bigint;
  readonly providerMs: number;
  /** The provider's reply arrives in so many parts. */
  readonly parts: number;
  readonly providerFails: boolean;
  readonly idempotencyKey: string | undefined;
}

export interface GatewayModelDeps {
  readonly world: World;
  readonly store: StoreModel;
  /** Called when a part of a reply leaves. */
  readonly onServed: (gateway: GatewayModel, callId: string) => void;
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
  const onServed = (callId: string): void => deps.onServed(gateway, callId);
  const onSettling = (): void => {
    const ms = gateway.freezesAtSettlementMs;
    if (ms === 0) return;
    gateway.freezesAtSettlementMs = 0;
    world.schedule(gateway, world.random.integer(SETTLEMENT_MS), () => gateway.freeze(ms));
  };
  const boot = (): void => {
    startProcess(gateway, store.dbOf(gateway), () => gateway.kill(RESTART_MS)).then(
      (running) => {
        gateway.running = { ...running, onServed, onSettling };
      },
      () => gateway.kill(RESTART_MS),
    );
  };
  world.schedule(gateway, world.random.next(), boot);
  return gateway;
}

async function startProcess(
  { name, now }: GatewayModel,
  db: Db,
  onFatal: () => void,
): Promise<Omit<RunningGateway, "onServed" | "onSettling">> {
  const epoch = await startEpoch(db, name, now());
  await sweepHolds(db, now());
  const ownHolds = createOwnHolds<SettledCall>();
  const identity = { db, process: name, epoch, now };
  const ledger = createLedger<SettledCall>({
    ...identity,
    ownHolds,
    writeRecords: (tx, records, charges) => writeCallRecords(tx, { records, charges }, IDEMPOTENCY),
  });
  const lease = createLease(identity);
  const beat = async (): Promise<void> => {
    if (!(await lease.renew())) onFatal();
  };
  runEvery(5_000, beat);
  runEvery(10_000, createSweeper(identity));
  runEvery(30_000, createHoldReconciler({ ...identity, ledger, ownHolds }));
  runEvery(60_000, () => releaseAbandonedKeys(db, now()));
  return { db, epoch, now, ledger, lease, openCalls: new Set() };
}

function runEvery(intervalMs: number, run: () => Promise<unknown>): void {
  setTimeout(() => {
    const next = (): void => runEvery(intervalMs, run);
    run().then(next, next);
  }, intervalMs);
}

/** Resolves with the id of the call whose reply is delivered: an earlier one's if the key was used. */
export async function serveCall(gateway: RunningGateway, call: SimulatedCall): Promise<string> {
  const { db, now } = gateway;
  if (call.idempotencyKey === undefined) return trackCall(gateway, call);
  const scope = `${call.accountId} call`;
  const idempotent = { scope, key: call.idempotencyKey, body: "call", now: now() };
  let replayed: StoredReply | undefined;
  let served = "";
  const deps = {
    db,
    now,
    isKeyActive: isLiveKey,
    release: IDEMPOTENCY.release,
    begin: async (...args: Parameters<typeof IDEMPOTENCY.begin>) => {
      replayed = await IDEMPOTENCY.begin(...args);
      return replayed;
    },
  };
  // Safe: these are the only fields that it reads.
  const input = { text: "{}", caller: { keyId: call.keyId }, requestId: call.id } as CallInput;
  await withIdempotency(deps, input, idempotent, async () => {
    served = await trackCall(gateway, call, idempotent);
    return new Response(null);
  });
  return replayed === undefined ? served : replayed.body.trim();
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

async function runCall(
  gateway: RunningGateway,
  call: SimulatedCall,
  idempotent?: Idempotent,
): Promise<string> {
  const { ledger, lease, now, onServed, onSettling } = gateway;
  const { id, accountId, keyId, amount } = call;
  const owner = { id, accountId, keyId };
  let isHeld = false;
  const settle = async (cost: bigint, isServed: boolean): Promise<boolean> => {
    const reply = isServed ? { status: 200, body: `\n${id}` } : undefined;
    const usage = usageRecord({
      ...owner,
      cost,
      createdAt: now(),
      outcome: isServed ? "completed" : "upstream_error",
    });
    const record = { usage, idempotent: idempotent && { call: idempotent, reply } };
    return !isUncovered(
      await ledger.settle({ ...owner, cost, now: now(), refuseUncovered: true, record }),
    );
  };
  try {
    const leaseTerm = lease.term();
    const hold = { amount, isPaid: true, leaseTerm };
    // Safe: these are the only fields that it reads.
    const held = { input: { requestId: id, caller: owner }, hold } as unknown as HeldCall;
    const expiresAt = now() + HOLD_LIFETIME_MS;
    const outcome = await ledger.hold({ ...owner, amount, now: now(), expiresAt });
    if (outcome.status !== "held") throw new Fault("insufficient_credits", outcome.status);
    isHeld = true;
    for (let part = 0; part < call.parts; part++) {
      await new Promise((resolve) => setTimeout(resolve, call.providerMs / call.parts));
      if (!(await confirmHold(lease, held))) {
        await settle(0n, false);
        throw new Fault("overloaded", "suspended");
      }
      onServed(id);
    }
    if (call.providerFails) {
      await settle(0n, false);
      throw new Fault("upstream_error", "the provider failed");
    }
    onSettling();
    if (!(await settle(call.cost, true))) throw new Fault("overloaded", "suspended");
    return id;
  } catch (error) {
    if (isHeld) await ledger.settle({ ...owner, cost: 0n, now: now() }).catch(() => {});
    throw error;
  }
}
