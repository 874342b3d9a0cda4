// Runs the turns of a call in which the gateway searches the web: the model asks for a search as a function call, the gateway
// runs it and sends the results as the next turn, and all turns become one reply. The call has one hold and one settlement.

import type { NativePart, Part, SearchCall, SearchSource, Turn, Usage } from "@postern/wires";
import {
  FEE_METERS,
  searchResultText,
  toolResult,
  TOKEN_METERS,
  writeSearchCall,
} from "@postern/wires";
import { parseObject, stringIn } from "../../base/json.ts";
import type { Log } from "../../base/log.ts";
import { limitsOf } from "../../models/catalog.ts";
import { affordableOutput, costBound } from "../../models/price-bound.ts";
import { tokenTotals } from "../metering/charge.ts";
import { DEFAULT_TOOL_CALLS } from "../request/tool-bounds.ts";
import type { PricedCandidate } from "../routing/priced-candidates.ts";
import type { LoopTurn, ToolLoop } from "../translate/transport-plan.ts";
import { type AttemptDeps, attemptCandidate, type CandidateResult } from "../upstream/attempt.ts";
import type { SearchWeb } from "../web-search/search-backends.ts";
import type { HeldCall } from "./call.ts";
import { attemptRequestFor, type PlanDeps } from "./plan-call.ts";
import { chargeUsage } from "./reply/meter.ts";

export interface ToolLoopDeps {
  /** Undefined where the gateway does not search. */
  readonly searchWeb: SearchWeb | undefined;
  readonly send: AttemptDeps;
  readonly plan: PlanDeps;
  readonly now: () => number;
  /** For a call that still runs. */
  readonly extendHold: (requestId: string) => void;
  readonly log: Log;
}

export type ToolCall = Extract<Part, { readonly type: "tool_call" }>;

const QUERY_MAX_LENGTH = 1_000;
/** Providers refuse a lower output limit. */
const OUTPUT_MIN_TOKENS = 16;
/** Framing of a turn, beyond the bytes of its text. */
const TURN_TOKENS = 200;

/** What the loop has done so far. */
export interface LoopState {
  readonly deps: ToolLoopDeps;
  readonly call: HeldCall;
  readonly loop: ToolLoop;
  readonly next: PricedCandidate | undefined;
  /** The turns after the caller's. */
  readonly turns: Turn[];
  readonly sources: Map<string, SearchSource>;
  readonly usesMax: number;
  uses: number;
  searches: number;
  turnCount: number;
  /** Of complete turns; undefined once a provider reports none. */
  usage: Usage | undefined;
}

export function startLoop(
  deps: ToolLoopDeps,
  call: HeldCall,
  loop: ToolLoop,
  next: PricedCandidate | undefined,
): LoopState {
  const usesMax = loop.search.maxUses ?? call.estimate.toolCallsMax ?? DEFAULT_TOOL_CALLS;
  return {
    deps,
    call,
    loop,
    next,
    turns: [],
    sources: new Map(),
    usesMax: Math.min(usesMax, call.estimate.toolCallsMax ?? usesMax),
    uses: 0,
    searches: 0,
    turnCount: 1,
    usage: { tokens: {}, fees: {} },
  };
}

/** Unique in the conversation, because ids of calls derive from it. */
export function replyIdOf({ call, turnCount }: LoopState): string {
  return turnCount === 1 ? call.input.requestId : `${call.input.requestId}${turnCount}`;
}

export function addUsage(state: LoopState, usage: Usage | undefined): void {
  state.usage = state.usage && usage && sumOf(state.usage, usage);
}

/** The usage so far, with the searches that the gateway ran. */
export function usageOfLoop({ usage, searches }: LoopState): Usage | undefined {
  if (usage === undefined || searches === 0) return usage;
  return { ...usage, fees: { ...usage.fees, web_search: searches } };
}

function sumOf(left: Usage, right: Usage): Usage {
  const stated = (left.statedCostUsd ?? 0) + (right.statedCostUsd ?? 0);
  const additional = [...(left.additional ?? []), ...(right.additional ?? [])];
  return {
    ...left,
    ...right,
    tokens: sumOfMeters(TOKEN_METERS, left.tokens, right.tokens),
    fees: sumOfMeters(FEE_METERS, left.fees, right.fees),
    ...(additional.length > 0 && { additional }),
    ...(stated > 0 && { statedCostUsd: stated }),
  };
}

function sumOfMeters<M extends string>(
  meters: readonly M[],
  left: Readonly<Partial<Record<M, number>>>,
  right: Readonly<Partial<Record<M, number>>>,
): Partial<Record<M, number>> {
  const sum: Partial<Record<M, number>> = {};
  for (const meter of meters) {
    const count = (left[meter] ?? 0) + (right[meter] ?? 0);
    if (count > 0) sum[meter] = count;
  }
  return sum;
}

export function isSearchCall({ loop }: LoopState, part: { readonly type: string }): boolean {
  return part.type === "tool_call" && "name" in part && part.name === loop.search.name;
}

/** Replies that are cut or refused have no complete calls. */
const RUNS_CALLS: ReadonlySet<string> = new Set(["tool_calls", "stop", "pause"]);

/** The searches that a finished turn asks for. */
export function searchCallsOf(
  state: LoopState,
  parts: readonly Part[],
  reason: string,
): readonly ToolCall[] {
  if (!RUNS_CALLS.has(reason)) return [];
  return parts.filter((part): part is ToolCall => isSearchCall(state, part));
}

interface RanCalls {
  /** The calls in the form of the caller's API. */
  readonly written: readonly NativePart[];
  readonly results: readonly Part[];
}

export async function runCalls(state: LoopState, calls: readonly ToolCall[]): Promise<RanCalls> {
  const written: NativePart[] = [];
  const results: Part[] = [];
  for (const call of calls) {
    const { found, text } = await runSearch(state, call);
    const id = `${replyIdOf(state)
      .replaceAll(/[^A-Za-z0-9]/g, "")
      .slice(-24)}_${results.length}`;
    written.push(...writeSearchCall(state.loop.api, found, id));
    results.push(toolResult(call, text));
  }
  return { written, results };
}

async function runSearch(
  state: LoopState,
  call: ToolCall,
): Promise<{ readonly found: SearchCall; readonly text: string }> {
  const { deps, loop, sources: known } = state;
  const query = stringIn(parseObject(call.arguments)?.["query"])?.trim().slice(0, QUERY_MAX_LENGTH);
  const failed = (error: NonNullable<SearchCall["error"]>, text: string) => ({
    found: { queries: query === undefined ? [] : [query], sources: [], error },
    text,
  });
  if (query === undefined || query === "")
    return failed("invalid_tool_input", "The search needs a `query`.");
  if (state.uses >= state.usesMax || deps.searchWeb === undefined)
    return failed("max_uses_exceeded", "No more searches are allowed in this reply.");
  state.uses += 1;
  try {
    const signal = state.call.input.signal;
    const { allowedDomains, blockedDomains, country } = loop.search;
    const sources = await deps.searchWeb({
      query,
      allowedDomains,
      blockedDomains,
      country,
      signal,
    });
    state.searches += 1;
    for (const source of sources) known.set(source.url, source);
    return { found: { queries: [query], sources }, text: searchResultText(sources) };
  } catch (cause) {
    deps.log.warn("web search failed", { request_id: state.call.input.requestId, cause });
    return failed("unavailable", "The search failed. Answer without it, or try another query.");
  }
}

/** The next request, or why there is none: the hold or the output limit does not cover it, or the model searches on and on. */
export function nextTurn(
  state: LoopState,
  answered: readonly Part[],
  results: readonly Part[],
): LoopTurn | "length" | "pause" {
  const { loop, turns, deps, call } = state;
  turns.push({ role: "assistant", parts: answered }, { role: "tool", parts: results });
  if (state.turnCount > state.usesMax) return "pause";
  const outputMax = outputLeft(state);
  if (outputMax < OUTPUT_MIN_TOKENS) return "length";
  state.turnCount += 1;
  deps.extendHold(call.input.requestId);
  // The hold covers as many turns as searches, and one to answer.
  const maySearch = state.uses < state.usesMax && state.turnCount <= state.usesMax;
  return loop.continueWith(turns, { outputMax, maySearch });
}

/** What the output limit and the hold leave for another turn. */
function outputLeft(state: LoopState): number {
  const { call, loop, turns, deps } = state;
  const { estimate, hold, candidate } = call;
  const usage = usageOfLoop(state);
  const limits = limitsOf(candidate.model);
  // A provider that reports no usage is charged with the whole hold in any case.
  if (usage === undefined) return 0;
  const spent = chargeUsage(call, usage, deps.now()).charge.cost;
  const left = (loop.outputMax ?? limits.output) - tokenTotals(usage).outputTokens;
  const appended = Buffer.byteLength(JSON.stringify(turns)) + TURN_TOKENS * turns.length;
  const inputTokens = Math.min(estimate.promptTokens + appended, limits.input);
  const bound = costBound(
    { ...estimate.bounds, inputTokens, repeatedTokens: 0, fees: {} },
    estimate.cards,
  );
  const hidden = estimate.hiddenTokens > 0 ? limits.output : 0;
  return affordableOutput(bound, hold.limit - spent, left + hidden) - hidden;
}

/** Sends a later turn to the candidate of the first. */
export function sendTurn(
  { deps, call, next }: LoopState,
  turn: LoopTurn,
  isCanceled: () => boolean = () => false,
): Promise<CandidateResult> {
  const request = attemptRequestFor(deps.plan, { ...call, plan: { ...call.plan, ...turn } }, next);
  const isEnded = request.isCanceled;
  return attemptCandidate(
    call.candidate,
    { ...request, hasFallback: false, isCanceled: () => isCanceled() || isEnded() },
    // The same list as the call's, which its usage record shows.
    call.attempts,
    deps.send,
  );
}
