// A reply that exceeds a limit of the gateway. It is charged, because the provider has produced it.

import { Fault } from "../../base/fault.ts";

export function tooLongFault(): Fault {
  return new Fault("upstream_error", "the reply exceeds a limit of the gateway", {
    message:
      "The reply is longer than this gateway relays, and what was generated is charged. Request less at once: a lower output limit, fewer choices, or no log probabilities.",
  });
}
