// The routing stage: which candidates may serve a call.

import { WIRE_TRAITS } from "@postern/wires";
import type { Fault } from "../../base/fault.ts";
import type { Candidates } from "../routing/candidates.ts";
import { findCandidates, type RoutingDeps } from "../routing/routing.ts";
import type { ParsedCall, RoutedCall } from "./call.ts";
import { type DataPolicyDeps, keepDataPolicy } from "./enforce-data-policy.ts";
import { allowedCandidates } from "./enforce-key-policy.ts";
import { type ItemUse, sharedCredentialsFault } from "./shared-credentials.ts";

/** Not async: most calls are routed without waiting, and a promise costs CPU. */
export function routeCall(
  deps: RoutingDeps & DataPolicyDeps,
  { input, request, statefulCall }: ParsedCall,
): RoutedCall | Promise<RoutedCall> {
  const catalog = deps.catalog.current();
  const pricedAt = input.now;
  const faultOf: SharedFault = (use) =>
    statefulCall === undefined
      ? sharedCredentialsFault(request, use)
      : statefulCall.sharedCredentialsFault(use);
  const toRoutedCall = (found: Candidates): RoutedCall => {
    const usable = usableCandidates(found, faultOf);
    const permitted = keepDataPolicy(usable, request, input.caller, deps);
    const candidates = allowedCandidates(permitted, input);
    return { input, request, statefulCall, catalog, pricedAt, candidates };
  };
  const found = findCandidates(request, input.api, input.caller, deps);
  return found instanceof Promise ? found.then(toRoutedCall) : toRoutedCall(found);
}

type SharedFault = (use: Pick<ItemUse, "sendsCalls">) => Fault | undefined;

/** If a request must not use the gateway's credentials, only the caller's own provider keys are left. */
function usableCandidates(candidates: Candidates, faultOf: SharedFault): Candidates {
  const sharedFault = faultOf({ sendsCalls: true });
  if (sharedFault === undefined) return candidates;
  const translatable = faultOf({ sendsCalls: false }) === undefined;
  const [first, ...others] = candidates.filter(
    ({ credential, wires }) =>
      credential.byok || (translatable && !wires.some((wire) => WIRE_TRAITS[wire].sendsCodeRuns)),
  );
  if (first === undefined) throw sharedFault;
  return [first, ...others];
}
