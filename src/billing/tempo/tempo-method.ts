// The method `tempo` of Machine Payments: a stablecoin transfer on the Tempo network, as a transaction that the payer has
// signed and this gateway sends. It is stored before it is sent, and names one challenge.

import { z } from "zod";
import type { Secret } from "../../base/crypto/secret.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { type PaymentChallenge, expiresAt } from "../mpp/challenge.ts";
import type { MachinePaymentMethod, MethodResult, NewCredential } from "../mpp/mpp-protocol.ts";
import {
  type AgentPayment,
  findAgentPayment,
  updateAgentPayment,
} from "../payments/agent-payment-rows.ts";
import {
  type AgentPaymentDeps,
  awaitOutcome,
  pollAgentPayments,
  recordIntent,
  recordPaid,
  recordRefusal,
  recordUnknown,
  RETRY_MS,
} from "../payments/agent-payments.ts";
import { ingestFacts } from "../payments/payment-facts.ts";
import { type Payable, totalCentsOf } from "../payments/payment-protocol.ts";
import { createTempoNode, type SentTransfer, type TempoNode } from "./tempo-node.ts";
import {
  mismatchReason,
  parseTransaction,
  type TempoTerms,
  type TempoTransaction,
  transferOf,
} from "./tempo-transaction.ts";

const METHOD = "tempo";
/** All dollar tokens of Tempo have six decimals. */
const UNITS_PER_CENT = 10_000n;
const TRANSACTION_DIGITS_MAX = 6_000;
/** A block takes half a second. */
const OUTCOME_POLL_MS = 250;
const OUTCOME_POLLS_MAX = 20;
const LATE_RETRY_MS = 2 * MINUTE_MS;

const Payload = z.object({
  type: z.literal("transaction"),
  signature: z.string().regex(new RegExp(`^0x([0-9a-fA-F]{2}){1,${TRANSACTION_DIGITS_MAX / 2}}$`)),
});
const Proof = z.object({ transaction: z.string() });

export interface TempoOptions {
  readonly chainId: number;
  readonly token: { readonly address: string; readonly name: string };
  readonly payTo: string;
  readonly rpcUrl: Secret;
}

export interface TempoDeps extends AgentPaymentDeps {
  readonly options: Omit<TempoOptions, "rpcUrl">;
  readonly node: TempoNode;
  /** How often a transaction that was just sent is looked up on the chain; lower in tests. */
  readonly chainPollsMax?: number;
}

export function createTempoDeps(
  { rpcUrl, ...options }: TempoOptions,
  { billing, now }: Pick<AgentPaymentDeps, "billing" | "now">,
): TempoDeps {
  return { billing, now, options, node: createTempoNode(rpcUrl, `eip155:${options.chainId}`) };
}

export function createTempoMethod(deps: TempoDeps): MachinePaymentMethod {
  const { chainId, token, payTo } = deps.options;
  return {
    name: METHOD,
    requestFor: (payable) => ({
      amount: String(amountOf(payable)),
      currency: token.address,
      recipient: payTo,
      // A transfer that the payer sends itself would be paid before it could be refused.
      methodDetails: { chainId, supportedModes: ["pull"] },
    }),
    accept: (payable, credential) => acceptTransaction(deps, payable, credential),
  };
}

/** Resumes every due payment: after a crash, or while its outcome is unknown. */
export async function pollTempo(deps: TempoDeps): Promise<void> {
  await pollAgentPayments(deps, METHOD, (payment) => resume(deps, payment));
}

async function acceptTransaction(
  deps: TempoDeps,
  payable: Payable,
  { challenge, payload, source, refusal }: NewCredential,
): Promise<MethodResult> {
  const transaction = transactionIn(payload);
  const id = `${METHOD}:${transaction.chainId}:${transaction.hash}`;
  const payer = payerOf(source);
  if ((await findAgentPayment(deps.billing.db, id)) === undefined) {
    const terms = termsOf(deps, payable, challenge);
    const reason =
      refusal ??
      mismatchReason(transaction, terms, deps.now()) ??
      (await simulate(deps, transaction, payer));
    if (reason !== undefined) return refused(reason);
    const recorded = await recordIntent(deps, payable, {
      id,
      method: METHOD,
      proof: { transaction: `0x${transaction.bytes}` },
      payer: payer ?? "unknown",
      expiresAt: sentTransferOf(transaction).expiresAt,
    });
    if (recorded !== undefined) await settle(deps, recorded, { isFirst: true });
  }
  return await outcomeOf(deps, payable, id);
}

function transactionIn(payload: unknown): TempoTransaction {
  const parsed = Payload.safeParse(payload);
  const transaction = parsed.success ? parseTransaction(parsed.data.signature) : undefined;
  if (transaction !== undefined) return transaction;
  throw invalid(
    "authorization",
    'The credential\'s payload must be `{"type":"transaction","signature":"0x76…"}`: a signed Tempo transaction that this gateway sends. Transfers that the payer has sent itself (`"type":"hash"`) are not accepted.',
  );
}

/** The address of `did:pkh:eip155:<chain>:<address>`. */
function payerOf(source: string | undefined): string | undefined {
  return /^did:pkh:eip155:\d+:(0x[0-9a-fA-F]{40})$/.exec(source ?? "")?.[1]?.toLowerCase();
}

function termsOf(
  { options }: TempoDeps,
  payable: Payable,
  challenge: PaymentChallenge,
): TempoTerms {
  const { chainId, token, payTo } = options;
  const { id, realm } = challenge;
  return {
    chainId: BigInt(chainId),
    token: token.address,
    payTo,
    amount: amountOf(payable),
    challenge: { id, realm, expiresAt: expiresAt(challenge) },
  };
}

function amountOf(payable: Payable): bigint {
  return BigInt(totalCentsOf(payable)) * UNITS_PER_CENT;
}

/** Spares payers without the money the fee of a transaction that fails. */
async function simulate(
  { node }: TempoDeps,
  { calls }: TempoTransaction,
  payer: string | undefined,
): Promise<string | undefined> {
  const [call] = calls;
  if (call === undefined || payer === undefined) return undefined;
  return await node.simulate({ token: call.to, data: call.data }, payer);
}

/** The transfer of a checked transaction. */
function sentTransferOf({ bytes, hash, calls, validBefore }: TempoTransaction): SentTransfer {
  const [call] = calls;
  const transfer = call && transferOf(call.data);
  if (call === undefined || transfer === undefined || validBefore === undefined)
    throw new Error(`transaction ${hash} is not a transfer`);
  return { ...transfer, bytes, hash, token: call.to, expiresAt: Number(validBefore) * 1_000 };
}

function storedTransferOf({ id, proof }: AgentPayment): SentTransfer {
  const transaction = parseTransaction(Proof.parse(proof).transaction);
  if (transaction === undefined) throw new Error(`agent payment ${id} has no transaction`);
  return sentTransferOf(transaction);
}

/** Only the first rejection is trusted: when a later one comes, the transaction may be on the chain already. */
async function settle(
  deps: TempoDeps,
  payment: AgentPayment,
  { isFirst }: { readonly isFirst: boolean },
): Promise<void> {
  const { node, chainPollsMax = OUTCOME_POLLS_MAX } = deps;
  const transfer = storedTransferOf(payment);
  let rejection: string | undefined;
  try {
    rejection = await node.send(transfer.bytes);
    for (let polls = 0; polls < chainPollsMax; polls++) {
      const outcome = await node.findOutcome(transfer);
      if (outcome.kind === "paid") return await credit(deps, payment, transfer);
      if (outcome.kind === "refused") return await recordRefusal(deps, payment, outcome);
      if (rejection !== undefined) break;
      await new Promise((resolve) => setTimeout(resolve, OUTCOME_POLL_MS));
    }
  } catch (cause) {
    return await recordUnknown(deps, payment, { reason: "the node did not respond", cause });
  }
  if (rejection === undefined || !isFirst)
    return await recordUnknown(deps, payment, { reason: rejection ?? "not included yet" });
  // If it is included after all, the lookup after its expiry finds it.
  const dueAt = transfer.expiresAt + LATE_RETRY_MS;
  await recordRefusal(deps, payment, { reason: rejection, dueAt });
}

async function resume(deps: TempoDeps, payment: AgentPayment): Promise<void> {
  const transfer = storedTransferOf(payment);
  if (payment.state === "paid") return await credit(deps, payment, transfer);
  if (payment.state === "open") return await settle(deps, payment, { isFirst: false });
  const { reason, state } = payment;
  const outcome = await deps.node.findOutcome(transfer);
  if (outcome.kind === "paid") return await credit(deps, payment, transfer);
  const now = deps.now();
  const dueAt = outcome.kind === "pending" ? now + LATE_RETRY_MS : null;
  await deps.billing.db.write((tx) =>
    updateAgentPayment(tx, payment, { state, reason, dueAt, now }),
  );
}

async function credit(deps: TempoDeps, payment: AgentPayment, { hash }: SentTransfer) {
  const { id, invoiceId, totalCents: amountCents } = payment;
  const fact = { processor: METHOD, ref: id, kind: "paid", payment: id, invoiceId } as const;
  await recordPaid(deps, payment, hash, (at) =>
    ingestFacts(deps.billing, [{ ...fact, amountCents, taxCents: 0, currency: "usd", at }], at),
  );
}

/** Throws while the outcome is unknown. */
async function outcomeOf(deps: TempoDeps, payable: Payable, id: string): Promise<MethodResult> {
  const payment = await awaitOutcome(deps, payable, id, (due) => resume(deps, due));
  if (payment === undefined) return refused("the transaction was already used for something else");
  const { state, transaction, reason, createdAt } = payment;
  if (state === "paid" && transaction !== null)
    return { kind: "paid", reference: transaction, at: createdAt };
  if (state === "refused") return refused(reason ?? "refused");
  throw new Fault("overloaded", "outcome of a Tempo transaction is unknown", {
    message:
      "The transaction was sent to the Tempo network, but it is not known yet whether it was included. Send the same request with the same Authorization header again. Do not sign another transaction.",
    param: "authorization",
    retryAfterSeconds: RETRY_MS / 1_000,
  });
}

function refused(reason: string): MethodResult {
  return { kind: "refused", reason };
}
