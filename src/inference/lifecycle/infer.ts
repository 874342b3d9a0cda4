// The life of a model call: read, hold, send, relay, meter, settle. Whatever happens on the way, the hold is resolved
// once and a record is written in the same step as the charge.

import type { Fault } from "../../base/fault.ts";
import { respondStream, respondWhole } from "./respond.ts";
import { parseRequest } from "../request/parse-request.ts";
import { type CallInput, holdIds, type InferDeps } from "./call.ts";
import type { Candidate, Candidates } from "../routing/candidates.ts";
import { priceCandidates } from "../routing/priced-candidates.ts";
import { findCandidates } from "../routing/routing.ts";
import { settleFailed } from "./settle.ts";
import { sharedCredentialsFault } from "./shared-credentials.ts";
import { type FallbackResult, runFallbacks } from "./run-fallbacks.ts";

export async function infer(deps: InferDeps, input: CallInput): Promise<Response> {
  const parsed = input.statefulCall?.request ?? parseRequest(input.api, input.text);
  const pending = input.statefulCall ?? deps.resolveStatefulCall?.(parsed, input);
  const statefulCall = pending instanceof Promise ? await pending : pending;
  if (statefulCall instanceof Response) return statefulCall;
  const request = statefulCall?.request ?? parsed;
  const catalog = deps.catalog.current();
  const routing = findCandidates(request, input.api, input.caller.accountId, deps);
  const sharedFault =
    statefulCall === undefined
      ? sharedCredentialsFault(request)
      : statefulCall.sharedCredentialsFault();
  const candidates = usableCandidates(
    routing instanceof Promise ? await routing : routing,
    sharedFault,
  );
  const pricedCandidates = priceCandidates(request, candidates, { catalog, now: input.now });

  const untrack = deps.trackCall();
  let fallback: FallbackResult | undefined;
  let fault: Fault;
  try {
    fallback = await runFallbacks(
      deps,
      { input, request, statefulCall, catalog, untrack },
      pricedCandidates,
    );
    const { call, priced, result } = fallback;
    if (result.ok) {
      rememberProvider(deps, result.candidate);
      return result.reply.kind === "whole"
        ? await respondWhole(deps, call, result.candidate, result.reply)
        : respondStream(deps, call, result.candidate, result.reply);
    }
    await settleFailed(deps, call, priced.candidate, result);
    fault = result.fault;
  } catch (error) {
    // Nothing stays held, whatever went wrong in here; what is settled already stays as it is.
    if (fallback !== undefined)
      await deps.ledger
        .settle({ ...holdIds(fallback.call), cost: 0n, now: deps.now() })
        .catch(() => {});
    untrack();
    throw error;
  }
  throw fault;
}

function usableCandidates(candidates: Candidates, sharedFault: Fault | undefined): Candidates {
  if (sharedFault === undefined) return candidates;
  const [first, ...others] = candidates.filter((candidate) => candidate.credential.byok);
  if (first === undefined) throw sharedFault;
  return [first, ...others];
}

// The next turn of this conversation finds its prompt in this provider's cache.
function rememberProvider(deps: InferDeps, { stickyKey, credential }: Candidate): void {
  if (stickyKey !== undefined)
    deps.routing.sticky.record(
      stickyKey.conversation,
      stickyKey.requestedModel,
      credential.provider.id,
      deps.now(),
    );
}
