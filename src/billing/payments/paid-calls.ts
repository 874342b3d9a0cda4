// Pays for model calls with the payment in a request. If the balance does not cover a call, that payment buys credits and
// the call runs on them; without a payment, the 402 says how to pay. The credits stay if the call fails.

import { Fault, invalid } from "../../base/fault.ts";
import type { BillingDeps } from "../billing-deps.ts";
import {
  creditsFor,
  creditsOfCents,
  formatCents,
  formatCredits,
  priceCovering,
} from "../invoices/cents.ts";
import {
  type Payable,
  type PaymentProtocol,
  type ProtocolResult,
  type ResponseHeaders,
  totalCentsOf,
} from "./payment-protocol.ts";

/** How long a call waits for other payments of its account. */
const QUEUE_TIMEOUT_MS = 15_000;

export interface PaidCallDeps {
  readonly billing: BillingDeps;
  /** The least that an agent pays, with the fee. */
  readonly topUpCents: number;
  readonly protocols: readonly PaymentProtocol[];
  readonly now: () => number;
}

interface PaidCall {
  readonly accountId: string;
  readonly keyId: string;
  readonly path: string;
  readonly headers: Headers;
  /** The time of arrival. */
  readonly now: number;
}

export type PayAndRun = (call: PaidCall, work: () => Promise<Response>) => Promise<Response>;

export function createPayAndRun(deps: PaidCallDeps): PayAndRun {
  // One payment per account at a time: the credits that one call buys may also cover the others.
  const inFlight = new Map<string, Promise<unknown>>();
  return async (call, work) => {
    for (;;) {
      const outcome = await responseOrShortfall(work);
      if (outcome instanceof Response) return outcome;
      const payable = payableFor(deps, call, shortfallOf(outcome) ?? outcome);
      if (payable === undefined) throw outcome;
      const sent = sentPayment(deps.protocols, call.headers);
      if (sent === undefined) throw paymentRequired(deps, call, { payable, shortfall: outcome });
      if (!isShortfall(outcome)) throw outcome;
      const others = inFlight.get(call.accountId);
      if (others === undefined) {
        const accepting = sent.protocol.accept(payable, sent.payment);
        const finished = accepting.then(release, release);
        inFlight.set(call.accountId, finished);
        const result = await accepting;
        return await runPaidCall(deps, call, { payable, shortfall: outcome, result }, work);
      }
      await others;
      if (deps.now() - call.now > QUEUE_TIMEOUT_MS) throw tooManyPayments();
    }

    function release(): void {
      inFlight.delete(call.accountId);
    }
  };
}

interface SentPayment {
  readonly protocol: PaymentProtocol;
  readonly payment: string;
}

function sentPayment(
  protocols: readonly PaymentProtocol[],
  headers: Headers,
): SentPayment | undefined {
  const [sent, second] = protocols.flatMap((protocol) => {
    const payment = protocol.paymentIn(headers);
    return payment === undefined ? [] : [{ protocol, payment }];
  });
  if (second !== undefined)
    throw invalid(
      "payment-signature",
      "The request contains two payments. Send either `PAYMENT-SIGNATURE` or `Authorization: Payment`.",
    );
  return sent;
}

interface UnpaidCall {
  readonly payable: Payable;
  readonly shortfall: Fault;
  readonly result?: ProtocolResult;
}

async function runPaidCall(
  deps: PaidCallDeps,
  call: PaidCall,
  { payable, shortfall, result }: UnpaidCall & { readonly result: ProtocolResult },
  work: () => Promise<Response>,
): Promise<Response> {
  if (result.kind === "refused") throw paymentRequired(deps, call, { payable, shortfall, result });
  try {
    const response = await work();
    const headers = { ...result.headers, ...(response.ok ? result.successHeaders : {}) };
    for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
    return response;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isShortfall(error))
      throw paymentRequired(deps, call, { payable, shortfall: error, result });
    throw withHeaders(error, result.headers);
  }
}

async function responseOrShortfall(work: () => Promise<Response>): Promise<Response | Fault> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Fault && shortfallOf(error) !== undefined) return error;
    throw error;
  }
}

function isShortfall({ code }: Fault): boolean {
  return code === "insufficient_credits";
}

/** The fault of the missing balance, also if it is attached to the fault of a caller's provider key. */
function shortfallOf(fault: Fault): Fault | undefined {
  return isShortfall(fault) ? fault : fault.options.balanceFault;
}

/**
 * Pays for the maximum cost of the call with the fee, or `topUpCents` if that is more. The amount depends only on the request, so the
 * amount in a 402 is the amount that the same request is paid with.
 */
function payableFor(
  { billing, topUpCents }: PaidCallDeps,
  { accountId, keyId }: PaidCall,
  shortfall: Fault,
): Payable | undefined {
  const required = shortfall.options.fields?.["required_credits"];
  if (typeof required !== "number") return undefined;
  const credits = creditsFor(Math.max(priceCovering(required), topUpCents));
  const invoice = { credits, actor: { type: "key", id: keyId } } as const;
  return credits > creditsOfCents(billing.limits.maxCents) ? undefined : { accountId, invoice };
}

/** The original fault, usually a 402, with the challenges added. */
function paymentRequired(
  { protocols }: PaidCallDeps,
  { path }: PaidCall,
  { payable, shortfall, result }: UnpaidCall,
): Fault {
  const { options, publicMessage } = shortfall;
  const refused = result?.kind === "refused" ? result.reason : undefined;
  const error = refused ?? (result === undefined ? undefined : "already used");
  const credits = formatCredits(payable.invoice.credits);
  const description = `${credits} of credits for ${formatCents(totalCentsOf(payable))} including the fee; the call uses them.`;
  const offers = protocols.flatMap((protocol) => {
    const headers = protocol.challenge(payable, { path, description }, error);
    return headers === undefined ? [] : [{ headers, step: protocol.nextStep(path, description) }];
  });
  return new Fault(shortfall.code, shortfall.message, {
    ...options,
    status: shortfall.status,
    message:
      refused === undefined
        ? publicMessage
        : `The payment was rejected: ${refused}. ${publicMessage}`,
    fields: { ...options.fields, ...(refused === undefined ? {} : { payment_error: refused }) },
    next: [...(options.next ?? []), ...offers.map(({ step }) => step)],
    headers: Object.assign(
      {},
      options.headers,
      ...offers.map(({ headers }) => headers),
      result?.headers,
    ),
  });
}

export function withHeaders(fault: Fault, headers: ResponseHeaders): Fault {
  const { options } = fault;
  return new Fault(fault.code, fault.message, {
    ...options,
    headers: { ...options.headers, ...headers },
  });
}

function tooManyPayments(): Fault {
  return new Fault("overloaded", "too many payments of one account", {
    message:
      "Other payments of this account are in progress. Nothing was charged. Send the same request again in a moment.",
    retryAfterSeconds: 2,
  });
}
