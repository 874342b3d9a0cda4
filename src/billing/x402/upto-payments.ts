// Payments of calls by wallets without an account, with the scheme `upto`. What the wallet signed is stored, and what the
// call can cost is credited, before the provider is called. After the call the rest of the credit is returned and the charge
// is settled on the chain once. Any process can resume a payment after a crash.

import { Fault } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Log } from "../../base/log.ts";
import { minNano, type Nano, usdText } from "../../base/money/money.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import type { AuthenticatedKey } from "../../http/route.ts";
import { lockBalance } from "../../ledger/payments/adjustments.ts";
import {
  type PaymentAmounts,
  type PaymentMovement,
  postPayment,
  postReturn,
} from "../../ledger/payments/payments.ts";
import { clampDueTimes, type DueTable } from "../../store/clamp-due.ts";
import { type Db, lockByName, type Reader, type Tx } from "../../store/db.ts";
import type { ChainClient, ChainLookup } from "./chain-client.ts";
import type { FacilitatorClient } from "./facilitator-client.ts";
import {
  ceilingIdOf,
  ceilingMismatch,
  nanoOfUnits,
  type SignedCeiling,
  unitsForCharge,
} from "./upto-messages.ts";
import {
  countPaymentsBy,
  findMeteredPayment,
  insertMeteredPayment,
  leaseMeteredPayment,
  listDueMeteredPayments,
  lockMeteredPayment,
  type MeteredPayment,
  lockExposure,
  updateMeteredPayment,
} from "./upto-payment-rows.ts";
import { paymentResponseHeader, type PaymentTerms, type SettleResponse } from "./x402-messages.ts";

/** After this time another process may resume a payment; longer than a settlement takes. */
const LEASE_MS = MINUTE_MS;
const RETRY_MS = 5 * SECOND_MS;
const LATE_RETRY_MS = MINUTE_MS;
/** A settlement may still appear on the chain this long after its signature has expired. */
const EXPIRY_GRACE_MS = 2 * MINUTE_MS;
/** For this long before its deadline, a signature is only settled: calls are ended. */
export const SETTLE_MS = 2 * MINUTE_MS;
/** How long a wallet is refused after a loss. */
const REFUSED_MS = 30 * DAY_MS;
const BATCH_MAX = 50;
/** At most the end of a signature, with its grace. */
const DUE_TABLE: DueTable = { table: "metered_payment", maxAheadMs: 3 * HOUR_MS };

export interface UptoDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly paymentTerms: PaymentTerms;
  readonly facilitator: FacilitatorClient;
  readonly chain: ChainClient;
  /** The most that calls may owe which are not settled yet, with the losses of a day. */
  readonly riskMax: Nano;
  /** The account of a wallet: undefined before its first payment. */
  readonly findCaller: (payer: string, now: number) => Promise<AuthenticatedKey | undefined>;
  /** Throws a conflict if the wallet has an account. */
  readonly openAccount: (tx: Tx, payer: string, now: number) => Promise<string>;
  /** Undefined if the call was not charged, or is not yet. */
  readonly findCall: (
    reader: Reader,
    accountId: string,
    requestId: string,
  ) => Promise<MeteredCall | undefined>;
  /** Payments whose calls run in this process. */
  readonly running: Set<string>;
}

export interface MeteredCall {
  readonly charge: Nano;
  /** The signed receipt of the call, with its payment. */
  readonly receipt: (payment: JsonObject, fee: Nano) => string | undefined;
}

export type Authorization =
  | { readonly kind: "authorized"; readonly payment: MeteredPayment }
  /** Nothing was stored. */
  | { readonly kind: "refused"; readonly reason: string };

/** Throws if the authorization was used before, or if too much is at risk. */
export async function authorize(
  upto: UptoDeps,
  signed: SignedCeiling,
  call: { readonly requestId: string; readonly credit: Nano },
): Promise<Authorization> {
  const { paymentTerms, facilitator, db, now } = upto;
  const used = await findMeteredPayment(db, ceilingIdOf(signed));
  if (used !== undefined) throw usedFault(upto, used);
  const required = unitsForCharge(call.credit, paymentTerms.token.decimals);
  const terms = { ...paymentTerms, required, now: now() };
  // The wallet is verified for all that it signed, which may be more than the call needs.
  const reason =
    ceilingMismatch(signed, terms) ?? (await facilitator.verify(signed, signed.accepted));
  if (reason !== undefined) return { kind: "refused", reason };
  const balance = await upto.chain.balanceOf(signed).catch((cause: unknown) => {
    throw unavailableFault(cause);
  });
  const store = async (): Promise<Authorization> => {
    const caller = await upto.findCaller(signed.payload.permit2Authorization.from, now());
    const ceiling = { signed, ...call, required, balance, accountId: caller?.accountId };
    return await db.write((tx) => insertOpen(tx, upto, ceiling));
  };
  // Another first payment of this wallet may open its account at the same time.
  return await store().catch((error: unknown) => {
    if (error instanceof Fault && error.code === "conflict") return store();
    throw error;
  });
}

interface VerifiedCeiling {
  readonly signed: SignedCeiling;
  readonly requestId: string;
  readonly credit: Nano;
  readonly required: bigint;
  readonly balance: bigint;
  readonly accountId: string | undefined;
}

async function insertOpen(
  tx: Tx,
  upto: UptoDeps,
  { signed, requestId, credit, required, balance, accountId: existing }: VerifiedCeiling,
): Promise<Authorization> {
  const { paymentTerms, now, riskMax } = upto;
  const { decimals } = paymentTerms.token;
  const at = now();
  const payer = signed.payload.permit2Authorization.from;
  const accountId = existing ?? (await upto.openAccount(tx, payer, at));
  // Payments of one wallet wait for each other here.
  const { owed } = await lockBalance(tx, accountId);
  const since = { riskSince: at - DAY_MS, lostSince: at - REFUSED_MS };
  const { atRisk, ofPayer, hasLost } = await lockExposure(tx, { payer, ...since });
  if (hasLost || owed > 0n)
    return { kind: "refused", reason: "an earlier call of this wallet could not be settled" };
  const ceiling = nanoOfUnits(required, decimals);
  if (ofPayer + ceiling > nanoOfUnits(balance, decimals))
    return { kind: "refused", reason: "insufficient_balance for all open calls of this wallet" };
  if (atRisk + ceiling > riskMax) throw riskFault();
  const payment = { accountId, requestId, signed, credit, ceiling, now: at, dueAt: at + LEASE_MS };
  if (!(await insertMeteredPayment(tx, payment)))
    return { kind: "refused", reason: "the authorization is used already" };
  const inserted = await lockMeteredPayment(tx, ceilingIdOf(signed));
  await postPayment(tx, movement(inserted, { kind: "authorization", at, amounts: { credit } }));
  return { kind: "authorized", payment: inserted };
}

/** After the call has ended. Only what closes the call settles it at once; anything later resumes it with its lease. */
export async function endCall(upto: UptoDeps, payment: MeteredPayment): Promise<MeteredPayment> {
  const { closed, isFirst } = await closeCall(upto, payment);
  return isFirst ? await settleAmount(upto, closed, true) : closed;
}

interface ClosedCall {
  readonly closed: MeteredPayment;
  /** False if the call was closed before. */
  readonly isFirst: boolean;
}

/** Returns the rest of the credit, and says what is to be settled. */
async function closeCall(upto: UptoDeps, { id }: MeteredPayment): Promise<ClosedCall> {
  const { db, now, paymentTerms } = upto;
  const { accountId, requestId } = await requirePayment(upto, id);
  return await db.write(async (tx) => {
    // No call is held or settled until this ends.
    await lockBalance(tx, accountId);
    const payment = await lockMeteredPayment(tx, id);
    if (payment.state !== "open") return { closed: payment, isFirst: false };
    const call = await upto.findCall(tx, accountId, requestId);
    if (call === undefined && (await isHeld(tx, payment)))
      return { closed: payment, isFirst: false };
    // No call costs more than its credit; if one did, the wallet would not pay it.
    const charge = minNano(call?.charge ?? 0n, payment.credit);
    const { decimals } = paymentTerms.token;
    const amount = nanoOfUnits(unitsForCharge(charge, decimals), decimals);
    const at = now();
    const unused = { credit: payment.credit - charge };
    await postReturn(tx, movement(payment, { kind: "release", at, amounts: unused }));
    const fee = { fee: amount - charge };
    await postPayment(tx, movement(payment, { kind: "capture", at, amounts: fee }));
    const state = amount === 0n ? "released" : "due";
    const dueAt = state === "due" ? at + LEASE_MS : null;
    const change = { state, charge, amount, dueAt } as const;
    return { closed: await updateMeteredPayment(tx, payment, change), isFirst: true };
  });
}

/** Settles the amount. Only if it was never tried before is a refusal final: otherwise the first attempt may have succeeded. */
async function settleAmount(
  upto: UptoDeps,
  payment: MeteredPayment,
  isFirst: boolean,
): Promise<MeteredPayment> {
  if (payment.state !== "due") return payment;
  const { facilitator, now, log } = upto;
  const { signed, id, expiresAt } = payment;
  const settlement = await facilitator.settle(signed, {
    ...signed.accepted,
    amount: String(unitsOf(upto, payment)),
  });
  if (settlement.kind === "paid") return await recordPaid(upto, payment, settlement.transaction);
  const { reason } = settlement;
  log.warn("an upto payment was not settled", { payment: id, kind: settlement.kind, reason });
  // The chain is asked once the signature has expired.
  if (settlement.kind === "refused" && isFirst)
    return await recordLost(upto, payment, { reason, dueAt: expiresAt + EXPIRY_GRACE_MS });
  return await upto.db.write(async (tx) => {
    const current = await lockMeteredPayment(tx, id);
    const isLate = now() - current.createdAt > LATE_RETRY_MS;
    const dueAt = now() + (isLate ? LATE_RETRY_MS : RETRY_MS);
    return current.state === "due"
      ? await updateMeteredPayment(tx, current, { reason, dueAt })
      : current;
  });
}

/** Resumes the payments of calls that have ended without it: after a crash, an abort, or an unknown outcome. */
export async function pollUpto(upto: UptoDeps): Promise<void> {
  const { db, now, log } = upto;
  await clampDueTimes(db, DUE_TABLE, now());
  for (const payment of await listDueMeteredPayments(db, { now: now(), limit: BATCH_MAX })) {
    const dueAt = now() + LEASE_MS;
    if (!(await leaseMeteredPayment(db, payment, dueAt))) continue;
    await resume(upto, { ...payment, dueAt }).catch((cause: unknown) => {
      log.warn("failed to resume an upto payment", { payment: payment.id, cause });
    });
  }
}

/** A call that was aborted is charged a moment later. */
export async function resumeSoon({ db, now }: UptoDeps, { id }: MeteredPayment): Promise<void> {
  await db.write((tx) =>
    tx.run("update metered_payment set due_at = ? where id = ? and state = 'open'", [
      now() + RETRY_MS,
      id,
    ]),
  );
}

async function resume(upto: UptoDeps, payment: MeteredPayment): Promise<void> {
  const { db, chain, now } = upto;
  const { id, state, signed, createdAt, expiresAt } = payment;
  if (state === "open") {
    if (!upto.running.has(id) && !(await isHeld(db, payment))) await endCall(upto, payment);
    return;
  }
  const found = await chain.findSettlement(signed, unitsOf(upto, payment), createdAt);
  if (found.kind === "paid" && (await recordProved(upto, payment, found)).state === "paid") return;
  // A transfer that paid for another call proves nothing.
  const absentAt = found.kind === "absent" ? found.at : now() - EXPIRY_GRACE_MS;
  if (absentAt > expiresAt) {
    const reason = payment.reason ?? "the signature has expired";
    await recordLost(upto, payment, { reason, dueAt: null });
  } else if (state === "due" && now() < expiresAt) await settleAmount(upto, payment, false);
}

type PaidCall = Pick<MeteredPayment, "accountId" | "requestId">;

async function isHeld(reader: Reader, { accountId, requestId }: PaidCall): Promise<boolean> {
  const row = await reader.get("select 1 as is_open from hold where id = ? and account_id = ?", [
    requestId,
    accountId,
  ]);
  return row !== undefined;
}

async function recordPaid(
  upto: UptoDeps,
  { id }: MeteredPayment,
  transaction: string,
): Promise<MeteredPayment> {
  return await changeSettled(upto, id, (tx, payment, at) => setPaid(tx, payment, transaction, at));
}

/** A wallet can name several calls in the data of one transaction: each of its transfers pays for one call. */
async function recordProved(
  upto: UptoDeps,
  { id }: MeteredPayment,
  { transaction, payments }: Extract<ChainLookup, { kind: "paid" }>,
): Promise<MeteredPayment> {
  return await changeSettled(upto, id, async (tx, payment, at) => {
    // Else two payments that are recorded at the same time would not count each other.
    await lockByName(tx, "metered_payment");
    const others = await countPaymentsBy(tx, payment, transaction);
    return others < payments ? await setPaid(tx, payment, transaction, at) : {};
  });
}

/** Also of a payment that was recorded as lost by mistake. */
async function setPaid(
  tx: Tx,
  payment: MeteredPayment,
  transaction: string,
  at: number,
): Promise<SettledChange> {
  const { charge: excess, amount } = payment;
  const amounts = { excess, fee: amount - excess };
  if (payment.state === "lost")
    await postPayment(tx, movement(payment, { kind: "recovery", at, amounts }));
  return { state: "paid", transaction, reason: null, dueAt: null };
}

async function recordLost(
  upto: UptoDeps,
  { id }: MeteredPayment,
  { reason, dueAt }: Pick<MeteredPayment, "dueAt"> & { readonly reason: string },
): Promise<MeteredPayment> {
  return await changeSettled(upto, id, async (tx, payment, at) => {
    const { charge: excess, amount } = payment;
    const amounts = { excess, fee: amount - excess };
    if (payment.state === "due")
      await postReturn(tx, movement(payment, { kind: "loss", at, amounts }));
    return { state: "lost", reason, dueAt };
  });
}

type SettledChange = Parameters<typeof updateMeteredPayment>[2];

/** `paid` is final. */
async function changeSettled(
  { db, now }: UptoDeps,
  id: string,
  change: (tx: Tx, payment: MeteredPayment, at: number) => Promise<SettledChange>,
): Promise<MeteredPayment> {
  const { accountId } = await requirePayment({ db }, id);
  return await db.write(async (tx) => {
    await lockBalance(tx, accountId);
    const payment = await lockMeteredPayment(tx, id);
    if (payment.state === "paid") return payment;
    return await updateMeteredPayment(tx, payment, await change(tx, payment, now()));
  });
}

async function requirePayment({ db }: Pick<UptoDeps, "db">, id: string): Promise<MeteredPayment> {
  const payment = await findMeteredPayment(db, id);
  if (payment === undefined) throw new Error(`payment ${id} not found`);
  return payment;
}

const NO_AMOUNTS: PaymentAmounts = { credit: 0n, fee: 0n, tax: 0n, suspense: 0n, excess: 0n };

function movement(
  { id, accountId }: MeteredPayment,
  {
    kind,
    at: now,
    amounts,
  }: Pick<PaymentMovement, "kind"> & {
    readonly at: number;
    readonly amounts: Partial<PaymentAmounts>;
  },
): PaymentMovement {
  return {
    id: `${id}.${kind}`,
    accountId,
    processor: "x402",
    kind,
    amounts: { ...NO_AMOUNTS, ...amounts },
    ref: id,
    now,
  };
}

function unitsOf({ paymentTerms }: UptoDeps, { charge }: MeteredPayment): bigint {
  return unitsForCharge(charge, paymentTerms.token.decimals);
}

/** The content of `PAYMENT-RESPONSE`, once the call has ended. */
function settleResponseOf(upto: UptoDeps, payment: MeteredPayment): SettleResponse {
  const { state, payer, transaction, reason, signed } = payment;
  const { network } = signed.accepted;
  const amount = String(unitsOf(upto, payment));
  return state === "paid" || state === "released"
    ? { success: true, transaction: transaction ?? "", network, payer, amount }
    : {
        success: false,
        transaction: "",
        network,
        payer,
        amount,
        errorReason: state === "lost" ? (reason ?? "refused") : "settlement_pending",
      };
}

/** The signed receipt, which names the payment; undefined if there is no record of the call. */
export async function receiptOf(
  upto: UptoDeps,
  payment: MeteredPayment,
): Promise<string | undefined> {
  const { accountId, requestId, charge, amount, signed } = payment;
  const call = await upto.findCall(upto.db, accountId, requestId);
  const { network, asset, payTo, amount: ceiling } = signed.accepted;
  const { transaction, payer } = settleResponseOf(upto, payment);
  return call?.receipt(
    {
      scheme: "upto",
      network,
      asset,
      payTo,
      payer,
      ceiling,
      amount: String(unitsOf(upto, payment)),
      amount_usd: usdText(amount),
      transaction,
    },
    amount - charge,
  );
}

/** A reader of the chain can send a settled authorization again: the fault says what the chain says, and nothing of the call. */
function usedFault(upto: UptoDeps, payment: MeteredPayment): Fault {
  const isOpen = payment.state === "open";
  return new Fault("conflict", "the authorization is used already", {
    message: isOpen
      ? "This payment is for a call that still runs. Sign another payment for another call."
      : "This payment was used for an earlier call: PAYMENT-RESPONSE has its settlement. Sign another payment.",
    param: "payment-signature",
    headers: isOpen ? {} : paymentHeaders(upto, payment),
  });
}

export function paymentHeaders(
  upto: UptoDeps,
  payment: MeteredPayment,
): Readonly<Record<string, string>> {
  return { "payment-response": paymentResponseHeader(settleResponseOf(upto, payment)) };
}

function riskFault(): Fault {
  return new Fault("overloaded", "too much of upto payments is at risk", {
    message:
      "This gateway has reached the limit of calls that are paid after they ran. Nothing was charged. Send the request again later, lower its output limit, or create an account with POST /v1/accounts.",
    retryAfterSeconds: 60,
  });
}

function unavailableFault(cause: unknown): Fault {
  return new Fault("overloaded", "the node of the chain is not available", {
    message:
      "The payment could not be verified, because the node of the chain is not available. Nothing was charged. Send the same request again in a moment.",
    retryAfterSeconds: 5,
    cause,
  });
}
