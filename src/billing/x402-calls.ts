// A model call that its balance does not cover may bring a payment: it is taken, buys credits, and the call runs on the
// balance. Whoever sends none is told how. What was bought stays in the account, whatever becomes of the call.

import type { Author } from "../audit/audit.ts";
import { Fault, type NextStep } from "../base/fault.ts";
import { NANO_PER_CREDIT } from "../base/money.ts";
import { moneyOfCents, nanoOfCents } from "./cents.ts";
import { type Bill, type Counter, type Taken, takePayment, totalOf } from "./x402.ts";
import { challengeOf, receiptHeader, requirementOf } from "./x402-terms.ts";

/** How long a call may wait for other payments of its account. */
const TURN_MS = 15_000;

export interface PaidCall {
  readonly accountId: string;
  readonly keyId: string;
  readonly path: string;
  readonly headers: Headers;
  /** When it arrived. */
  readonly now: number;
}

export type CallOrBuy = (call: PaidCall, work: () => Promise<Response>) => Promise<Response>;

export function createCallOrBuy(counter: Counter): CallOrBuy {
  // One payment of an account at a time: what one of its calls buys may do for the others.
  const under = new Map<string, Promise<unknown>>();
  return async (call, work) => {
    for (;;) {
      const answer = await answerOrShortfall(work);
      if (answer instanceof Response) return answer;
      const bill = billFor(counter, call, shortfallOf(answer) ?? answer);
      if (bill === undefined) throw answer;
      const header = call.headers.get("payment-signature");
      if (header === null) throw challenged(counter, call, { bill, shortfall: answer });
      if (!isShortfall(answer)) throw answer;
      const others = under.get(call.accountId);
      if (others === undefined) {
        const taking = takePayment(counter, bill, header);
        const over = taking.then(leave, leave);
        under.set(call.accountId, over);
        return await callPaid(counter, call, {
          bill,
          shortfall: answer,
          taken: await taking,
          work,
        });
      }
      await others;
      if (counter.now() - call.now > TURN_MS) throw tooBusy();
    }

    function leave(): void {
      under.delete(call.accountId);
    }
  };
}

interface Short {
  readonly bill: Bill;
  readonly shortfall: Fault;
}

async function callPaid(
  counter: Counter,
  call: PaidCall,
  {
    bill,
    shortfall,
    taken,
    work,
  }: Short & { readonly taken: Taken; work: () => Promise<Response> },
): Promise<Response> {
  if (taken.kind === "refused") throw challenged(counter, call, { bill, shortfall, taken });
  const receipt = { "payment-response": receiptHeader(taken.receipt) };
  try {
    const response = await work();
    for (const [name, value] of Object.entries(receipt)) response.headers.set(name, value);
    return response;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isShortfall(error)) throw challenged(counter, call, { bill, shortfall: error, taken });
    throw withHeaders(error, receipt);
  }
}

async function answerOrShortfall(work: () => Promise<Response>): Promise<Response | Fault> {
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

/** What a payment would cover: also where the failure of an own key stands before it. */
function shortfallOf(fault: Fault): Fault | undefined {
  return isShortfall(fault) ? fault : fault.options.shortfall;
}

/**
 * The most that the call may cost, or the usual amount where that is more. It depends on nothing but the request, so the
 * amount that a 402 names is the amount that the same request is paid with.
 */
function billFor(
  { till, topUpCents }: Counter,
  { accountId, keyId }: PaidCall,
  shortfall: Fault,
): Bill | undefined {
  const required = shortfall.options.fields?.["required_credits"];
  if (typeof required !== "number") return undefined;
  const cent = nanoOfCents(1);
  const cents = Number((BigInt(required) * NANO_PER_CREDIT + cent - 1n) / cent);
  const amountCents = Math.max(cents, topUpCents);
  // Where a model call comes from is not asked.
  const by: Author = { actor: { type: "key", id: keyId }, network: null };
  const invoice = { amountCents, by };
  return amountCents > till.limits.mostCents ? undefined : { accountId, invoice };
}

/** The 402, or what an own key met, as it was, and how to pay with x402. */
function challenged(
  counter: Counter,
  { path }: PaidCall,
  { bill, shortfall, taken }: Short & { readonly taken?: Taken },
): Fault {
  const { options, publicMessage } = shortfall;
  const refused = taken?.kind === "refused" ? taken.reason : undefined;
  const credits = moneyOfCents(bill.invoice.amountCents);
  const description = `${credits} of credits for ${moneyOfCents(totalOf(bill))}, fee included; the call runs on them.`;
  const pay: NextStep = {
    method: "POST",
    url: path,
    why: `Or pay with x402: sign what the PAYMENT-REQUIRED header asks for, and send this request again with the PAYMENT-SIGNATURE header. It buys ${description}`,
  };
  const error =
    refused ?? (taken === undefined ? "PAYMENT-SIGNATURE header is required" : "already used");
  const requirement = requirementOf(counter.terms, totalOf(bill));
  const resource = { url: counter.baseUrl + path, description };
  return new Fault(shortfall.code, shortfall.message, {
    ...options,
    status: shortfall.status,
    message:
      refused === undefined
        ? publicMessage
        : `The payment was not taken: ${refused}. ${publicMessage}`,
    fields: { ...options.fields, ...(refused === undefined ? {} : { payment_error: refused }) },
    next: [...(options.next ?? []), pay],
    headers: {
      ...options.headers,
      "payment-required": challengeOf(requirement, resource, error),
      ...(taken?.receipt === undefined ? {} : { "payment-response": receiptHeader(taken.receipt) }),
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

function tooBusy(): Fault {
  return new Fault("overloaded", "too many payments of one account", {
    message:
      "Other payments of this account are being taken, and this one was not. Send the same request again in a moment.",
    retryAfterSeconds: 2,
  });
}
