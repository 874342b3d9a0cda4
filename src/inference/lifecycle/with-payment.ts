// Lets a model call that the balance does not cover pay for itself.

import { splitTarget } from "../../http/request/request-target.ts";
import type { Caller } from "../../http/route.ts";
import type { CallInput } from "./call.ts";

export interface PaymentDeps {
  /** Runs the call, takes the payment that it lacks credits for, and runs it again. */
  readonly payAndRun: (call: PayableCall, run: () => Promise<Response>) => Promise<Response>;
  /** A shutdown waits for payments as it does for calls. */
  readonly trackCall: () => () => void;
}

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
