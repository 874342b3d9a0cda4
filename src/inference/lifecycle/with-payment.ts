// Model calls that are paid with money instead of credits: those that the balance does not cover, and those without an API key.

import { invalid } from "../../base/fault.ts";
import type { Nano } from "../../base/money/money.ts";
import { splitTarget } from "../../http/request/request-target.ts";
import type { Caller } from "../../http/route.ts";
import { parseRequest } from "../request/parse-request.ts";
import type { CallInput } from "./call.ts";
import { estimateItem, type EstimateItemDeps } from "./estimate-item.ts";

export interface PaymentDeps {
  /** Runs the call, takes the payment that it lacks credits for, and runs it again. */
  readonly payAndRun: (call: PayableCall, run: () => Promise<Response>) => Promise<Response>;
  readonly trackCall: TrackCall;
}

/** A shutdown waits for payments as it does for calls. */
type TrackCall = () => () => void;

interface PayableCall extends Caller {
  readonly path: string;
  readonly headers: Headers;
  readonly now: number;
}

export async function withPayment(
  { payAndRun, trackCall }: PaymentDeps,
  { caller, headers, now }: CallInput,
  url: string,
  run: () => Promise<Response>,
): Promise<Response> {
  const [path] = splitTarget(url);
  const untrack = trackCall();
  try {
    return await payAndRun({ ...caller, path, headers, now }, run);
  } finally {
    untrack();
  }
}

export interface WalletDeps {
  readonly estimate: EstimateItemDeps;
  readonly runWalletCall: (call: WalletCall) => Promise<Response>;
  readonly trackCall: TrackCall;
}

interface WalletCall extends Pick<CallInput, "requestId" | "headers" | "signal"> {
  readonly path: string;
  readonly maxCost: () => Promise<Nano>;
  readonly run: (paid: {
    readonly caller: Caller;
    readonly ceiling: Nano;
    readonly signal: AbortSignal;
  }) => Promise<Response>;
}

/** Runs a call that came without an API key: a wallet signs what it can cost at most, and pays what it used. */
export async function withWallet(
  { estimate, runWalletCall, trackCall }: WalletDeps,
  input: CallInput,
  url: string,
  run: (call: CallInput) => Promise<Response>,
): Promise<Response> {
  const { requestId, headers, signal } = input;
  if (parseRequest(input.api, input.text).json["background"] === true)
    throw invalid(
      "background",
      "A call without an API key cannot run in the background: it is paid when it ends. Send `background: false`, or create an account with POST /v1/accounts.",
    );
  const [path] = splitTarget(url);
  const untrack = trackCall();
  try {
    return await runWalletCall({
      requestId,
      path,
      headers,
      signal,
      maxCost: () => estimateItem(estimate, input),
      run: (paid) => run({ ...input, ...paid }),
    });
  } finally {
    untrack();
  }
}
