// The life of a model call: read, hold, send, relay, meter, settle. Whatever happens on the way, the hold is resolved
// once and a record is written in the same step as the charge.

import type { Fault } from "../base/fault.ts";
import { answerStream, answerWhole } from "./answer-call.ts";
import { readAsk } from "./ask.ts";
import { type CallInput, idsOf, type InferParts } from "./call.ts";
import type { Candidate, Candidates } from "./candidates.ts";
import { legsOf } from "./legs.ts";
import { candidatesOf } from "./routing.ts";
import { settleFailed } from "./settle-call.ts";
import { refusedOnShared } from "./tenant-guard.ts";
import { type Tried, tryLegs } from "./try-legs.ts";

export async function infer(parts: InferParts, input: CallInput): Promise<Response> {
  const asked = input.state?.ask ?? readAsk(input.api, input.text);
  const pending = input.state ?? parts.stateOf?.(asked, input);
  const state = pending instanceof Promise ? await pending : pending;
  if (state instanceof Response) return state;
  const ask = state?.ask ?? asked;
  const catalog = parts.catalog.current();
  const found = candidatesOf(ask, input.api, input.caller.accountId, parts);
  const refusal = state === undefined ? refusedOnShared(ask) : state.refusal();
  const candidates = usable(found instanceof Promise ? await found : found, refusal);
  const legs = legsOf(ask, candidates, { catalog, now: input.now });

  const closed = parts.onOpen();
  let tried: Tried | undefined;
  let failed: Fault;
  try {
    tried = await tryLegs(parts, { input, ask, state, catalog, closed }, legs);
    const { call, leg, result } = tried;
    if (result.ok) {
      rememberTurn(parts, result.candidate);
      return result.answered.kind === "whole"
        ? await answerWhole(parts, call, result.candidate, result.answered)
        : answerStream(parts, call, result.candidate, result.answered);
    }
    await settleFailed(parts, call, leg.candidate, result);
    failed = result.fault;
  } catch (error) {
    // Nothing stays held, whatever went wrong in here; what is settled already stays as it is.
    if (tried !== undefined)
      await parts.ledger
        .settle({ ...idsOf(tried.call), cost: 0n, now: parts.now() })
        .catch(() => {});
    closed();
    throw error;
  }
  throw failed;
}

function usable(candidates: Candidates, refusal: Fault | undefined): Candidates {
  if (refusal === undefined) return candidates;
  const [first, ...others] = candidates.filter((candidate) => candidate.credential.byok);
  if (first === undefined) throw refusal;
  return [first, ...others];
}

// The next turn of this conversation finds its prompt in this provider's cache.
function rememberTurn(parts: InferParts, { turn, credential }: Candidate): void {
  if (turn !== undefined)
    parts.routing.sticky.answered(
      turn.conversation,
      turn.asked,
      credential.provider.id,
      parts.now(),
    );
}
