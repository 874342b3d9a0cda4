// Admits model calls before their bodies are read: a call waits, or is refused, while the process has more than it can serve.

import { Fault } from "../../base/fault.ts";
import type { OpenCalls } from "../guards/open-calls.ts";
import type { OverloadGuard } from "../guards/overload.ts";
import type { RequestContext, Step } from "../request-context.ts";

export interface AdmissionLimits {
  readonly openCalls?: OpenCalls | undefined;
  readonly overload?: OverloadGuard | undefined;
}

export function admitCall({ openCalls, overload }: AdmissionLimits): Step {
  return (context) => {
    const { key } = context.caller;
    if (key === undefined) return undefined;
    openCalls?.rejectIfFull(key.keyId);
    if (overload === undefined) return undefined;
    const admission = overload.admit(key.accountId);
    if (admission !== undefined) return waitForAdmission(context, admission, overload);
    context.onResponse.push(overload.finish);
    return undefined;
  };
}

async function waitForAdmission(
  { request, onResponse }: RequestContext,
  admission: Promise<void>,
  overload: OverloadGuard,
): Promise<undefined> {
  // Read before the wait: a signal that is created after the client has disconnected may never abort.
  const { signal } = request;
  await admission;
  onResponse.push(overload.finish);
  // This error is never sent, because the client has disconnected.
  if (signal.aborted)
    throw new Fault("request_timeout", "the client left while its call was queued");
  return undefined;
}

/** Counts a call as open only once its body was read: until then it is bounded by the limits of uploads. */
export function countOpenCall({ openCalls }: AdmissionLimits): Step {
  return ({ caller: { key }, onResponse }) => {
    if (openCalls !== undefined && key !== undefined) onResponse.push(openCalls.enter(key.keyId));
    return undefined;
  };
}
