// Pays for model calls with x402. If the balance does not cover a call, the payment in its header buys credits and the
// call runs on them; without a payment, the 402 says how to pay. The credits stay if the call fails.

import type { AuditSource } from "../../audit/audit.ts";
import { Fault, type NextStep } from "../../base/fault.ts";
import { NANO_PER_CREDIT } from "../../base/money.ts";
import { formatCents, nanoOfCents } from "../invoices/cents.ts";
import {
  type Payable,
  type X402Deps,
  type PaymentResult,
  acceptPayment,
  totalCentsOf,
} from "./x402-payments.ts";
import {
  paymentRequiredHeader,
  paymentResponseHeader,
  paymentRequirementsFor,
} from "./protocol.ts";

/** How long a call waits for other payments of its account. */
const QUEUE_TIMEOUT_MS = 15_000;

export interface PaidCall {
  readonly accountId: string;
  readonly keyId: string;
  readonly path: string;
  readonly headers: Headers;
  /** The time of arrival. */
  readonly now: number;
}

export type WithPayment = (call: PaidCall, work: () => Promise<Response>) => Promise<Response>;

export function createWithPayment(x402: X402Deps): WithPayment {
  // One payment per account at a time: the credits that one call buys may also cover the others.
  const inFlight = new Map<string, Promise<unknown>>();
  return async (call, work) => {
    for (;;) {
      const outcome = await responseOrShortfall(work);
      if (outcome instanceof Response) return outcome;
      const payable = payableFor(x402, call, shortfallOf(outcome) ?? outcome);
      if (payable === undefined) throw outcome;
      const header = call.headers.get("payment-signature");
      if (header === null) throw paymentRequired(x402, call, { payable, shortfall: outcome });
      if (!isShortfall(outcome)) throw outcome;
      const others = inFlight.get(call.accountId);
      if (others === undefined) {
        const accepting = acceptPayment(x402, payable, header);
        const finished = accepting.then(release, release);
        inFlight.set(call.accountId, finished);
        return await runPaidCall(x402, call, {
          payable,
          shortfall: outcome,
          paymentResult: await accepting,
          work,
        });
      }
      await others;
      if (x402.now() - call.now > QUEUE_TIMEOUT_MS) throw tooManyPayments();
    }

    function release(): void {
      inFlight.delete(call.accountId);
    }
  };
}

interface UnpaidCall {
  readonly payable: Payable;
  readonly shortfall: Fault;
}

async function runPaidCall(
  x402: X402Deps,
  call: PaidCall,
  {
    payable,
    shortfall,
    paymentResult,
    work,
  }: UnpaidCall & { readonly paymentResult: PaymentResult; work: () => Promise<Response> },
): Promise<Response> {
  if (paymentResult.kind === "refused")
    throw paymentRequired(x402, call, { payable, shortfall, paymentResult });
  const responseHeaders = {
    "payment-response": paymentResponseHeader(paymentResult.settleResponse),
  };
  try {
    const response = await work();
    for (const [name, value] of Object.entries(responseHeaders)) response.headers.set(name, value);
    return response;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isShortfall(error))
      throw paymentRequired(x402, call, { payable, shortfall: error, paymentResult });
    throw withHeaders(error, responseHeaders);
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

/** The balance fault, also if it comes second to the failure of a caller's provider key. */
function shortfallOf(fault: Fault): Fault | undefined {
  return isShortfall(fault) ? fault : fault.options.balanceFault;
}

/**
 * Buys the maximum cost of the call, or `topUpCents` if that is more. The amount depends only on the request, so the
 * amount in a 402 is the amount that the same request is paid with.
 */
function payableFor(
  { billing, topUpCents }: X402Deps,
  { accountId, keyId }: PaidCall,
  shortfall: Fault,
): Payable | undefined {
  const required = shortfall.options.fields?.["required_credits"];
  if (typeof required !== "number") return undefined;
  const cent = nanoOfCents(1);
  const cents = Number((BigInt(required) * NANO_PER_CREDIT + cent - 1n) / cent);
  const amountCents = Math.max(cents, topUpCents);
  // Model calls do not record the caller's network.
  const source: AuditSource = { actor: { type: "key", id: keyId }, network: null };
  const invoice = { amountCents, source };
  return amountCents > billing.limits.maxCents ? undefined : { accountId, invoice };
}

/** The original fault, usually a 402, with the x402 challenge added. */
function paymentRequired(
  x402: X402Deps,
  { path }: PaidCall,
  { payable, shortfall, paymentResult }: UnpaidCall & { readonly paymentResult?: PaymentResult },
): Fault {
  const { options, publicMessage } = shortfall;
  const refused = paymentResult?.kind === "refused" ? paymentResult.reason : undefined;
  const credits = formatCents(payable.invoice.amountCents);
  const description = `${credits} of credits for ${formatCents(totalCentsOf(payable))} including the fee; the call uses them.`;
  const pay: NextStep = {
    method: "POST",
    url: path,
    why: `Or pay with x402: sign the payment in the PAYMENT-REQUIRED header and repeat this request with the PAYMENT-SIGNATURE header. This buys ${description}`,
  };
  const error =
    refused ??
    (paymentResult === undefined ? "PAYMENT-SIGNATURE header is required" : "already used");
  const requirement = paymentRequirementsFor(x402.paymentTerms, totalCentsOf(payable));
  const resource = { url: x402.baseUrl + path, description };
  return new Fault(shortfall.code, shortfall.message, {
    ...options,
    status: shortfall.status,
    message:
      refused === undefined
        ? publicMessage
        : `The payment was rejected: ${refused}. ${publicMessage}`,
    fields: { ...options.fields, ...(refused === undefined ? {} : { payment_error: refused }) },
    next: [...(options.next ?? []), pay],
    headers: {
      ...options.headers,
      "payment-required": paymentRequiredHeader(requirement, resource, error),
      ...(paymentResult?.settleResponse === undefined
        ? {}
        : { "payment-response": paymentResponseHeader(paymentResult.settleResponse) }),
    },
  });
}

function withHeaders(fault: Fault, headers: Readonly<Record<string, string>>): Fault {
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
