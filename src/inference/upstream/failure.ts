// Why an attempt got no usable reply, and the error that the caller gets for it.

import { Fault } from "../../base/fault.ts";
import type { Credential } from "../providers/credentials.ts";
import { isRetriable, providerErrorFault, type ProviderFailure } from "./provider-error.ts";
import { tooLongFault } from "./too-long-reply.ts";
import { transportFault, type TransportFailure } from "./transport-fault.ts";

export type AttemptFailure =
  | { readonly kind: TransportFailure; readonly detail: string; readonly canRetry: boolean }
  /** The provider replied with an error: as a status, or within a reply or a stream of status 200. */
  | {
      readonly kind: "provider_error";
      readonly status: number;
      readonly text: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "client_closed";
      /** Whether the provider has received the request. */
      readonly wasSent: boolean;
    }
  | { readonly kind: "shut_down" }
  /** The whole reply exceeds the gateway's limit. */
  | { readonly kind: "too_long"; readonly tail: string };

export interface FailedAttempt {
  readonly ok: false;
  readonly fault: Fault;
  /** The status in the call's record. */
  readonly status: number;
  readonly canRetry: boolean;
  readonly isClientGone: boolean;
  /** Whether the caller left after the request was written to the provider. */
  readonly wasSent?: boolean;
  /** Whether the gateway itself ended the attempt, at the end of its drain. */
  readonly isShutDown?: boolean;
  /** Whether there was no connection to send the request on, so that the request cannot be the cause. */
  readonly isConnectFailure?: boolean;
  /** The end of a reply that is longer than the gateway returns. */
  readonly tail?: string;
  /** Whether the provider had the request and did not respond in time. */
  readonly isTimedOut?: boolean;
}

/** The call was in flight at the end of the drain. */
export function shutDownFault(): Fault {
  return new Fault("overloaded", "the gateway shut down during the call", {
    message: "The gateway shut down during the call. Send the request again.",
    retryAfterSeconds: 1,
  });
}

/** As in nginx's log. It counts as a failure of neither side. */
const CLIENT_CLOSED_STATUS = 499;

export function toFailedAttempt(
  failure: AttemptFailure,
  request: Pick<ProviderFailure, "wire" | "isTranslated">,
  credential: Credential,
): FailedAttempt {
  if (failure.kind === "client_closed") {
    const status = CLIENT_CLOSED_STATUS;
    const fault = new Fault("upstream_error", "client closed the request", { status });
    return {
      ok: false,
      fault,
      status,
      canRetry: false,
      isClientGone: true,
      wasSent: failure.wasSent,
    };
  }
  if (failure.kind === "shut_down") {
    const fault = shutDownFault();
    const { status } = fault;
    return { ok: false, fault, status, canRetry: false, isClientGone: false, isShutDown: true };
  }
  if (failure.kind === "provider_error") {
    const { status, headers, text } = failure;
    const fault = providerErrorFault({ ...request, status, headers, text }, credential);
    return { ok: false, fault, status, canRetry: isRetriable(status), isClientGone: false };
  }
  if (failure.kind === "too_long") {
    const { tail } = failure;
    return {
      ok: false,
      fault: tooLongFault(),
      status: 200,
      canRetry: false,
      isClientGone: false,
      tail,
    };
  }
  const { kind, detail, canRetry } = failure;
  const status = kind === "timed_out" ? 504 : 502;
  const fault = transportFault(kind, detail, credential);
  const isTimedOut = kind === "timed_out";
  return { ok: false, fault, status, canRetry, isClientGone: false, isTimedOut };
}
