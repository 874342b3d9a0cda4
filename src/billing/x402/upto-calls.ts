// Runs a model call without an API key: a 402 that says what the call can cost at most, and with the wallet's signature of
// that, the call, its charge and its settlement. A whole reply leaves after its settlement; a stream ends with it.

import { Fault } from "../../base/fault.ts";
import type { Nano } from "../../base/money/money.ts";
import { MINUTE_MS } from "../../base/time.ts";
import type { AuthenticatedKey } from "../../http/route.ts";
import { withHeaders } from "../payments/paid-calls.ts";
import { ceilingRequirementsFor, parseCeilingHeader, unitsForCharge } from "./upto-messages.ts";
import type { MeteredPayment } from "./upto-payment-rows.ts";
import {
  authorize,
  endCall,
  paymentHeaders,
  receiptOf,
  resumeSoon,
  SETTLE_MS,
  type UptoDeps,
} from "./upto-payments.ts";
import { paymentRequiredHeader } from "./x402-messages.ts";

const FACILITATOR_CACHE_MS = 5 * MINUTE_MS;
const RECEIPT_HEADER = "x-postern-receipt";

/** A request without an API key. */
export interface WalletCall {
  readonly requestId: string;
  readonly path: string;
  readonly headers: Headers;
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
  /** What the call can cost at most. */
  readonly maxCost: () => Promise<Nano>;
  /** Runs it. It holds, and costs, at most `ceiling`, and ends when `signal` aborts. */
  readonly run: (paid: {
    readonly caller: AuthenticatedKey;
    readonly ceiling: Nano;
    readonly signal: AbortSignal;
  }) => Promise<Response>;
}

export type RunWalletCall = (call: WalletCall) => Promise<Response>;

export function createRunWalletCall(upto: UptoDeps, baseUrl: string): RunWalletCall {
  const findFacilitator = cacheFacilitator(upto);
  return async (call) => {
    const header = call.headers.get("payment-signature");
    const signed = header === null ? undefined : parseCeilingHeader(header);
    const credit = await call.maxCost();
    const required = async (refused?: string): Promise<Fault> => {
      const amount = unitsForCharge(credit, upto.paymentTerms.token.decimals);
      const accepts = ceilingRequirementsFor(upto.paymentTerms, amount, await findFacilitator());
      const resource = { url: baseUrl + call.path, description: DESCRIPTION };
      return requiredFault(paymentRequiredHeader(accepts, resource, refused ?? NO_HEADER), refused);
    };
    if (signed === undefined) throw await required();
    const authorized = await authorize(upto, signed, { requestId: call.requestId, credit });
    if (authorized.kind === "refused") throw await required(authorized.reason);
    return await runPaid(upto, call, authorized.payment);
  };
}

const NO_HEADER = "PAYMENT-SIGNATURE header is required";
const DESCRIPTION = "The most that the call can cost, with the fee. It is charged what it used.";

/** The address may change: a facilitator has several. */
function cacheFacilitator({ facilitator, paymentTerms, now }: UptoDeps): () => Promise<string> {
  let cached: { readonly address: string; readonly staleAt: number } | undefined;
  return async () => {
    if (cached !== undefined && cached.staleAt > now()) return cached.address;
    const address = await facilitator.findUptoAddress(paymentTerms.network);
    cached = { address, staleAt: now() + FACILITATOR_CACHE_MS };
    return address;
  };
}

function requiredFault(header: string, refused: string | undefined): Fault {
  const how =
    "Sign the ceiling in the PAYMENT-REQUIRED header (x402, scheme `upto`) and repeat the request with the PAYMENT-SIGNATURE header; you pay what the call uses. Or send an API key as `authorization: Bearer <API_KEY>`.";
  return new Fault("payment_required", "call without a key", {
    message: refused === undefined ? how : `The payment was rejected: ${refused}. ${how}`,
    fields: refused === undefined ? {} : { payment_error: refused },
    headers: { "payment-required": header },
    next: [
      {
        method: "POST",
        url: "/v1/accounts",
        why: "Create an account with an API key and a starting credit.",
      },
    ],
  });
}

async function runPaid(
  upto: UptoDeps,
  call: WalletCall,
  payment: MeteredPayment,
): Promise<Response> {
  const open = openCall(upto, call, payment);
  let response: Response;
  try {
    const caller = await upto.findCaller(payment.payer, upto.now());
    if (caller === undefined) throw new Error(`the wallet ${payment.payer} has no key`);
    response = await call.run({ caller, ceiling: payment.credit, signal: open.signal });
    if (isEventStream(response)) return endWithSettlement(upto, open, response);
    // Read before it is settled: what a reply costs that is sent in parts is known at its end.
    const body = await response.arrayBuffer();
    const ended = await open.finish();
    if (ended?.state === "lost") throw lostFault(upto, ended);
    return new Response(body, withEvidence(response, await evidenceOf(upto, ended)));
  } catch (error) {
    // A call that was aborted is charged a moment later: the job settles it.
    const ended = open.signal.aborted ? open.leave() : await open.finish();
    if (!(error instanceof Fault) || ended === undefined) throw error;
    throw withHeaders(error, paymentHeaders(upto, ended));
  }
}

interface OpenWalletCall {
  /** Aborts when the client leaves, and early enough before the deadline of the signature. */
  readonly signal: AbortSignal;
  /** Undefined if the job has to settle the call. */
  readonly finish: () => Promise<MeteredPayment | undefined>;
  readonly leave: () => undefined;
}

function openCall(upto: UptoDeps, { signal }: WalletCall, payment: MeteredPayment): OpenWalletCall {
  const { running, log, now } = upto;
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), payment.expiresAt - SETTLE_MS - now());
  running.add(payment.id);
  const leave = (): undefined => {
    clearTimeout(timer);
    if (running.delete(payment.id)) resumeSoon(upto, payment).catch(logFailure);
  };
  const logFailure = (cause: unknown): undefined => {
    log.error("failed to settle an upto payment at once", { payment: payment.id, cause });
  };
  return {
    signal: AbortSignal.any([signal, end.signal]),
    leave,
    finish: async () => {
      try {
        return await endCall(upto, payment);
      } catch (cause) {
        return logFailure(cause);
      } finally {
        clearTimeout(timer);
        running.delete(payment.id);
      }
    },
  };
}

function lostFault(upto: UptoDeps, payment: MeteredPayment): Fault {
  return new Fault("payment_required", "the settlement was refused", {
    message: `The payment could not be settled: ${payment.reason}. The reply was withheld, and nothing was charged. Create an account with POST /v1/accounts to call again.`,
    fields: { payment_error: payment.reason },
    headers: paymentHeaders(upto, payment),
  });
}

type Evidence = Readonly<Record<string, string>>;

async function evidenceOf(upto: UptoDeps, payment: MeteredPayment | undefined): Promise<Evidence> {
  if (payment === undefined) return {};
  const receipt = await receiptOf(upto, payment);
  return {
    ...paymentHeaders(upto, payment),
    ...(receipt === undefined ? {} : { [RECEIPT_HEADER]: receipt }),
  };
}

function withEvidence({ status, headers }: Response, evidence: Evidence): ResponseInit {
  const all = new Headers(headers);
  all.delete("content-length");
  for (const [name, value] of Object.entries(evidence)) all.set(name, value);
  return { status, headers: all };
}

function isEventStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") === true;
}

/**
 * The last bytes leave after the settlement, because many clients stop reading at the last event. Clients of server-sent
 * events ignore comments: lines that begin with a colon.
 */
function endWithSettlement(
  upto: UptoDeps,
  { signal, finish, leave }: OpenWalletCall,
  response: Response,
): Response {
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error("an event stream without a body");
  const cancel = (): void => void reader.cancel().catch(leave);
  signal.addEventListener("abort", cancel, { once: true });
  let next = reader.read();
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        const { value, done } = await next;
        if (value !== undefined) {
          next = reader.read();
          if (!(await endsNow(next))) return controller.enqueue(value);
        }
        // What was aborted is charged a moment later: the job settles it.
        const evidence = signal.aborted ? leave() : await evidenceOf(upto, await finish());
        if (!done && value !== undefined) controller.enqueue(value);
        const comments = Object.entries(evidence ?? {}).map(
          ([name, text]) => `: ${name} ${text}\n`,
        );
        if (comments.length > 0) controller.enqueue(encoder.encode(`${comments.join("")}\n`));
        controller.close();
      } catch (error) {
        leave();
        throw error;
      }
    },
    cancel: async (reason) => {
      leave();
      await reader.cancel(reason);
    },
  });
  return new Response(body, response);
}

/** A stream that has sent its last bytes is closed in the same turn of the event loop. */
async function endsNow(next: Promise<{ readonly done: boolean }>): Promise<boolean> {
  next.catch(() => {});
  const turn = new Promise<false>((resolve) => setImmediate(() => resolve(false)));
  return await Promise.race([next.then(({ done }) => done), turn]);
}

const encoder = new TextEncoder();
