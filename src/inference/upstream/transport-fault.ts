// The errors of the connection to a provider, and of replies that cannot be used.

import { Fault } from "../../base/fault.ts";
import type { Credential } from "../providers/credentials.ts";

export type TransportFailure =
  | "unreachable"
  | "timed_out"
  | "connection_lost"
  | "incomplete"
  | "malformed";

export function transportFault(
  kind: TransportFailure,
  detail: string,
  { provider: { id, name } }: Credential,
): Fault {
  return new Fault(kind === "timed_out" ? "upstream_timeout" : "upstream_error", detail, {
    message: `${transportMessage(kind, name)} Try again, or use another model.`,
    fields: { provider: id },
  });
}

function transportMessage(kind: TransportFailure, provider: string): string {
  switch (kind) {
    case "unreachable":
      return `${provider} could not be reached.`;
    case "timed_out":
      return `${provider} did not respond in time.`;
    case "connection_lost":
      return `The connection to ${provider} was lost.`;
    case "incomplete":
      return `${provider} ended its stream before the reply was complete.`;
    case "malformed":
      return `${provider} sent an invalid response.`;
  }
}
