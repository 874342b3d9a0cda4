// The routing stage: which candidates may serve a call.

import type { Fault } from "../../base/fault.ts";
import type { Candidates } from "../routing/candidates.ts";
import { findCandidates, type RoutingDeps } from "../routing/routing.ts";
import type { ParsedCall, RoutedCall } from "./call.ts";
import { allowedCandidates } from "./key-policy.ts";
import { sharedCredentialsFault } from "./shared-credentials.ts";

/** Most calls need no promise. */
export function routeCall(
  deps: RoutingDeps,
  { input, request, statefulCall }: ParsedCall,
): RoutedCall | Promise<RoutedCall> {
  const catalog = deps.catalog.current();
  const pricedAt = input.now;
  const toRoutedCall = (found: Candidates): RoutedCall => {
    const sharedFault =
      statefulCall === undefined
        ? sharedCredentialsFault(request)
        : statefulCall.sharedCredentialsFault();
    const usable = usableCandidates(found, sharedFault);
    const candidates = allowedCandidates(usable, input.caller, pricedAt);
    return { input, request, statefulCall, catalog, pricedAt, candidates };
  };
  const found = findCandidates(request, input.api, input.caller, deps);
  return found instanceof Promise ? found.then(toRoutedCall) : toRoutedCall(found);
}

/** If a request must not use the gateway's credentials, only the caller's own provider keys are left. */
function usableCandidates(candidates: Candidates, sharedFault: Fault | undefined): Candidates {
  if (sharedFault === undefined) return candidates;
  const [first, ...others] = candidates.filter(({ credential }) => credential.byok);
  if (first === undefined) throw sharedFault;
  return [first, ...others];
}
