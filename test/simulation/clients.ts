// The clients of a simulation: callers that repeat what failed, a payment processor that reports facts several times and in any
// order, and people who claim accounts. Each keeps the responses that it got, which are compared with the store at the end.

import { secret } from "../../src/base/crypto/secret.ts";
import { Fault } from "../../src/base/fault.ts";
import { insertInvoice } from "../../src/billing/invoices/invoices.ts";
import { applyFact } from "../../src/billing/payments/payment-facts.ts";
import type { FactKind, PaymentFact } from "../../src/billing/payments/payment-processor.ts";
import { type Claimer, createClaims } from "../../src/claims/claims.ts";
import { revokeKey } from "../../src/keys/keys.ts";
import { setFreeze } from "../../src/ledger/freezes.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import { isUnavailable } from "../../src/store/db.ts";
import { shownNow } from "../claims/shown-now.ts";
import { promoDeposit } from "../ledger/fixtures.ts";
import { actIn } from "../support/act.ts";
import { type GatewayModel, type Reply, type RunningGateway, serveCall } from "./gateway-model.ts";
import type { World } from "./world.ts";

export const AMOUNT = 500_000_000n;
export const CALL_ACCOUNTS = ["acct_a", "acct_b"] as const;
export const CLAIMED_ACCOUNTS = ["acct_a", "acct_b", "acct_c"] as const;
export const INVOICE_CENTS = 100;
const REFUND_CENTS = 30;
const CENT = 10_000_000n;
const RETRY_MS = 700;
/** A caller without credits rests for so long, because refusals find few defects. */
const REFUSED_PAUSE_MS = 6_000;
const RETRY_DOUBLINGS_MAX = 4;
const CLAIMS = createClaims({
  master: secret("simulation".repeat(4)),
  limits: { startsPerAccount: 0, bonusPerDay: 0n },
});

export interface Observations {
  /** Ids of calls whose reply was delivered, and their cost. */
  readonly served: Map<string, bigint>;
  /** What each call costs of which a part left. */
  readonly costs: Map<string, bigint>;
  /** Whether the process that served a call was neither killed nor suspended since it settled it. */
  readonly servers: Map<string, () => boolean>;
  /** Calls whose charge may be missing, because the store lost it: their hold or their process is gone too. */
  readonly lostCalls: Set<string>;
  /** Ids of replies that were cut because no more could be held: they are not kept for a repetition. */
  readonly cuts: Set<string>;
  /** For each idempotency key, the ids of the replies. */
  readonly repliesByKey: Map<string, Set<string>>;
  /** What clients still repeat until there is a result. */
  readonly waiting: Map<string, WaitingRequest>;
  readonly facts: PaymentFact[];
  readonly invoices: Map<string, string>;
  /** Errors that a gateway does not expect: it would respond with 500. */
  readonly internalErrors: string[];
  /** Keys that were revoked and accounts that were frozen, once that was confirmed. */
  readonly stopped: Set<string>;
  /** The people whom a response named as owner of an account. */
  readonly owners: Map<string, Set<string>>;
}

interface AskedGateway {
  readonly gateway: GatewayModel;
  readonly life: number;
}

interface WaitingRequest {
  /** Of the last failure. */
  readonly reason: string;
  readonly asked: readonly AskedGateway[];
}

export interface ClientWorld {
  readonly world: World;
  readonly gateways: readonly GatewayModel[];
  readonly observed: Observations;
}

export function emptyObservations(): Observations {
  return {
    served: new Map(),
    costs: new Map(),
    servers: new Map(),
    lostCalls: new Set(),
    cuts: new Set(),
    repliesByKey: new Map(),
    waiting: new Map(),
    facts: [],
    invoices: new Map(),
    internalErrors: [],
    stopped: new Set(),
    owners: new Map(),
  };
}

function pause(world: World, ms: number): Promise<void> {
  return new Promise((resolve) => world.schedule(undefined, ms, resolve));
}

/** Sends to any gateway until there is a result; a refusal that will not change is a result too. */
async function sendUntilDone<T>(
  { world, gateways, observed }: ClientWorld,
  name: string,
  work: (gateway: RunningGateway, attempt: number) => Promise<T>,
): Promise<Reply<T>> {
  const asked: AskedGateway[] = [];
  for (let attempt = 0; ; attempt++) {
    const gateway = world.random.pick(gateways);
    asked.push({ gateway, life: gateway.life });
    const reply = await gateway.request((running) => work(running, attempt));
    noteInternalError(observed, name, reply);
    if (reply.status === "ok" || isFinal(reply)) {
      observed.waiting.delete(name);
      return reply;
    }
    if (reply.status === "lost") asked.push({ gateway, life: -1 });
    const reason = reply.status === "lost" ? "lost" : String(reply.error);
    observed.waiting.set(name, { reason, asked });
    const retryMs = RETRY_MS * 2 ** Math.min(attempt, RETRY_DOUBLINGS_MAX);
    await pause(world, retryMs * (0.5 + world.random.next()));
  }
}

/** Whether a process died, or was silent, that may still have had to release what the request claimed. */
export function wasLost({ asked }: WaitingRequest): boolean {
  return asked.some(({ gateway, life }) => gateway.life !== life);
}

function noteInternalError(
  { internalErrors }: Observations,
  name: string,
  reply: Reply<unknown>,
): void {
  if (reply.status !== "failed" || !(reply.error instanceof Error)) return;
  if (reply.error instanceof Fault || isUnavailable(reply.error)) return;
  internalErrors.push(`${name} got ${reply.error.message}`);
}

function isRefusal(reply: Reply<unknown>, code: string): boolean {
  return reply.status === "failed" && reply.error instanceof Fault && reply.error.code === code;
}

const FINAL_CODES: ReadonlySet<string> = new Set([
  "insufficient_credits",
  "workspace_frozen",
  "invalid_api_key",
  "upstream_error",
]);

function isFinal(reply: Reply<unknown>): boolean {
  return (
    reply.status === "failed" && reply.error instanceof Fault && FINAL_CODES.has(reply.error.code)
  );
}

/** Makes calls one after another until the end. */
export async function runCaller(clients: ClientWorld, caller: number, end: number): Promise<void> {
  const { world, observed } = clients;
  const { random } = world;
  const { hasLeases, hasRestingCallers } = world;
  let pauseMs = 0;
  let isOtherRevoked = false;
  // A lease is for two calls at least.
  const amount = hasLeases ? AMOUNT / random.pick([2n, 8n, 40n, 40n]) : AMOUNT;
  for (let number = 0; ; number++) {
    await pause(world, random.integer(hasLeases ? 400 : 6_000) + pauseMs);
    pauseMs = 0;
    if (world.now() > end) return;
    const name = `c${caller}.${number}`;
    const accountId =
      hasLeases && random.chance(0.8) ? CALL_ACCOUNTS[0] : random.pick(CALL_ACCOUNTS);
    const isLong = random.chance(hasLeases ? 0.05 : 0.2);
    const providerMs = isLong ? random.integer(40_000) : random.integer(hasLeases ? 300 : 1_500);
    const plan = {
      accountId,
      keyId:
        hasLeases && !isOtherRevoked && random.chance(0.5)
          ? `${accountId}.other`
          : `${accountId}.key`,
      amount,
      cost: (amount * BigInt(50 + random.integer(51))) / 100n,
      providerMs,
      parts: 1 + random.integer(4),
      rolls: world.hasRollingHolds,
      isWhole: world.hasCollectedReplies && random.chance(0.5),
      providerFails: random.chance(0.05),
      idempotencyKey: random.chance(hasLeases ? 0.2 : 0.6) ? name : undefined,
    };
    const work = (gateway: RunningGateway, attempt: number): Promise<string> =>
      serveCall(gateway, { ...plan, id: `req_${name}.${attempt}` });
    // Only a call with a key can be repeated without a second charge.
    const reply =
      plan.idempotencyKey === undefined
        ? await gatewayOf(clients, caller).request((gateway) => work(gateway, 0))
        : await sendUntilDone(clients, name, work);
    noteInternalError(observed, name, reply);
    if (hasRestingCallers && isRefusal(reply, "insufficient_credits"))
      pauseMs = random.integer(REFUSED_PAUSE_MS);
    if (hasRestingCallers && isRefusal(reply, "invalid_api_key")) isOtherRevoked = true;
    if (reply.status !== "ok") continue;
    observed.served.set(reply.value, observed.costs.get(reply.value) ?? plan.cost);
    const replies = observed.repliesByKey.get(name) ?? new Set();
    observed.repliesByKey.set(name, replies.add(reply.value));
    if (plan.idempotencyKey === undefined || !random.chance(0.3)) continue;
    const again = await sendUntilDone(clients, name, (gateway, attempt) =>
      work(gateway, 1_000 + attempt),
    );
    if (again.status === "ok") replies.add(again.value);
  }
}

/** A key is busy, and gets a lease, if its calls meet in one process. */
function gatewayOf({ world, gateways }: ClientWorld, caller: number): GatewayModel {
  const own = world.hasLeases ? gateways[caller % gateways.length] : undefined;
  return own ?? world.random.pick(gateways);
}

/** Revokes keys, and freezes accounts for a while: no call may start on a lease after either was confirmed. */
export function runOperators(clients: ClientWorld, spanMs: number): void {
  for (const accountId of CALL_ACCOUNTS) {
    void runRevocation(clients, accountId, spanMs);
    void runFreeze(clients, accountId, spanMs);
  }
}

async function runRevocation(
  clients: ClientWorld,
  accountId: string,
  spanMs: number,
): Promise<void> {
  const { world, observed } = clients;
  await pause(world, world.random.integer(spanMs));
  const id = `${accountId}.other`;
  const revoked = await sendUntilDone(clients, `revoke ${id}`, ({ db, now }) =>
    db.write((tx) => revokeKey(tx, actIn(accountId, now()), id)),
  );
  if (revoked.status === "ok") observed.stopped.add(id);
}

async function runFreeze(clients: ClientWorld, accountId: string, spanMs: number): Promise<void> {
  const { world, observed } = clients;
  const { random } = world;
  await pause(world, random.integer(spanMs));
  const setTo = (name: string, isFrozen: boolean) =>
    sendUntilDone(clients, `${name} ${accountId}`, ({ db, now }) =>
      db.write(async (tx) => {
        await tx.lockMany("wallet", "account_id", [accountId]);
        await setFreeze(tx, accountId, isFrozen ? { at: now(), reason: "test" } : null);
      }),
    );
  await setTo("freeze", true);
  observed.stopped.add(accountId);
  await pause(world, random.integer(5_000));
  observed.stopped.delete(accountId);
  await setTo("unfreeze", false);
}

/** Deposits small amounts, so that accounts are always about to run out. */
export async function runSponsor(clients: ClientWorld, end: number): Promise<void> {
  const { world } = clients;
  for (let number = 0; ; number++) {
    await pause(world, world.random.integer(20_000));
    if (world.now() > end) return;
    const accountId = world.random.pick(CALL_ACCOUNTS);
    const name = `gift ${number}`;
    void sendUntilDone(clients, name, ({ db, now }) =>
      db.write((tx) => deposit(tx, promoDeposit(name, accountId, AMOUNT, now()))),
    );
  }
}

/** Buys credits, and sometimes takes them back. */
export async function runPayer(clients: ClientWorld, payer: number, spanMs: number): Promise<void> {
  const { world, observed } = clients;
  const { random } = world;
  await pause(world, random.integer(spanMs / 2));
  const accountId = random.pick(CALL_ACCOUNTS);
  const created = await sendUntilDone(clients, `invoice ${payer}`, ({ db, now }) =>
    db.write((tx) => insertInvoice(tx, actIn(accountId, now()), INVOICE_CENTS * 10_000)),
  );
  if (created.status !== "ok") return;
  const { id, totalCents } = created.value;
  observed.invoices.set(id, accountId);
  const factOf = (kind: FactKind, ref: string, amountCents: number): PaymentFact => ({
    processor: "simulated",
    ref,
    kind,
    payment: `pay ${payer}`,
    invoiceId: id,
    amountCents,
    taxCents: 0,
    currency: "usd",
    at: 1_000,
  });
  const total = totalCents;
  const facts = [factOf("paid", `pay ${payer}`, total)];
  if (random.chance(0.3)) facts.push(factOf("refunded", `refund ${payer}`, REFUND_CENTS));
  if (random.chance(0.2)) {
    facts.push(factOf("disputed", `dispute ${payer}`, total - REFUND_CENTS));
    facts.push(
      factOf("dispute_closed", `dispute ${payer}`, random.chance(0.5) ? total - REFUND_CENTS : 0),
    );
  }
  observed.facts.push(...facts);
  const deliveries = facts.flatMap((fact) => Array<PaymentFact>(1 + random.integer(3)).fill(fact));
  await Promise.all(
    deliveries.map(async (fact, index) => {
      const name = `fact ${payer}.${index}`;
      observed.waiting.set(name, { reason: "not sent", asked: [] });
      await pause(world, random.integer(spanMs / 2));
      await sendUntilDone(clients, name, ({ db, now }) =>
        db.write((tx) => applyFact(tx, fact, now())),
      );
    }),
  );
}

export const PEOPLE = ["usr_x", "usr_y"] as const;

/** An agent starts a claim for a person, who confirms it, sometimes in two windows. */
export async function runClaim(clients: ClientWorld, spanMs: number): Promise<void> {
  const { world, observed } = clients;
  const { random } = world;
  await pause(world, random.integer(spanMs));
  const accountId = random.pick(CLAIMED_ACCOUNTS);
  const personId = random.pick(PEOPLE);
  const email = `${personId}@example.com`;
  const claimer: Claimer = { personId, issuer: "https://id.example", subject: personId, email };
  const name = `claim ${accountId} ${personId} ${world.events()}`;
  const started = await sendUntilDone(clients, `start ${name}`, ({ db, now }) =>
    db.write((tx) => {
      const request = { accountId, keyId: `${accountId}.key`, email, network: "n", now: now() };
      return CLAIMS.start(tx, request);
    }),
  );
  if (started.status !== "ok") return;
  const { id: attemptId, userCode } = started.value;
  await Promise.all(
    Array.from({ length: 1 + random.integer(2) }, async (_, window) => {
      await pause(world, random.integer(2_000));
      const confirmed = await sendUntilDone(clients, `confirm ${name} ${window}`, ({ db, now }) =>
        db.write(async (tx) => {
          const shown = await shownNow(tx, accountId, now());
          const decision = { attemptId, claimer, userCode, keyChoices: [], shown, now: now() };
          return await CLAIMS.confirm(tx, decision);
        }),
      );
      if (confirmed.status !== "ok" || confirmed.value.status !== "claimed") return;
      if (confirmed.value.role !== "owner") return;
      observed.owners.set(accountId, (observed.owners.get(accountId) ?? new Set()).add(personId));
    }),
  );
}

export function nanoOf(cents: number): bigint {
  return BigInt(cents) * CENT;
}
