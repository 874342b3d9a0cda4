// Runs the turns of a call whose tools the gateway runs: the model asks for a search as a function call, the gateway runs it and
// sends the results as the next turn, and all turns become one reply. The call has one hold and one settlement.

import type {
  FetchError,
  NativePart,
  Part,
  SearchCall,
  SearchSource,
  Turn,
  Usage,
} from "@postern/wires";
import {
  FEE_METERS,
  fetchResultText,
  searchResultText,
  toolResult,
  TOKEN_METERS,
  urlsIn,
  writeFetch,
  writeMcpCall,
  writeSearchCall,
} from "@postern/wires";
import { parseObject, stringIn } from "../../base/json.ts";
import type { Log } from "../../base/log.ts";
import type { Nano } from "../../base/money/money.ts";
import { limitsOf } from "../../models/catalog.ts";
import { affordableOutput, costBound } from "../../models/price-bound.ts";
import { tokenTotals } from "../metering/charge.ts";
import { estimateTextTokens } from "../metering/text-estimate.ts";
import type { McpResult } from "../remote-mcp/mcp-client.ts";
import { commonForm } from "../request/common-form.ts";
import {
  DEFAULT_TOOL_CALLS,
  GATEWAY_PAGE_TOKENS,
  GATEWAY_PAGE_TOKENS_MAX,
  gatewayToolBounds,
  MAX_TOOL_CALLS,
} from "../request/tool-bounds.ts";
import type { PricedCandidate } from "../routing/priced-candidates.ts";
import type { LoopTurn, ToolLoop } from "../translate/transport-plan.ts";
import { type AttemptDeps, attemptCandidate, type CandidateResult } from "../upstream/attempt.ts";
import type { FetchPage } from "../web-search/fetch-page.ts";
import type { SearchWeb } from "../web-search/search-backends.ts";
import type { HeldCall } from "./call.ts";
import { attemptRequestFor, type PlanDeps } from "./plan-call.ts";
import { chargeUsage } from "./reply/meter.ts";

export interface ToolLoopDeps {
  /** Undefined where the gateway does not search, or fetches no pages. */
  readonly searchWeb: SearchWeb | undefined;
  readonly fetchPage: FetchPage | undefined;
  /** Takes one of the account's fetches of this minute. */
  readonly mayFetch: (accountId: string) => boolean;
  readonly send: AttemptDeps;
  readonly plan: PlanDeps;
  readonly now: () => number;
  readonly monotonicNow: () => number;
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
  /** The URLs that may be fetched. */
  readonly urls: Set<string>;
  readonly search: ToolUses;
  readonly fetch: ToolUses;
  readonly mcp: ToolUses;
  /** The number of calls of all tools together that the hold covers. */
  readonly callsMax: number;
  turnCount: number;
  /** The usage of each complete turn. */
  readonly usages: Usage[];
}

interface ToolUses {
  readonly name: string | undefined;
  readonly max: number;
  count: number;
  /** The calls with a result, which are charged. */
  billed: number;
}

export function startLoop(
  deps: ToolLoopDeps,
  call: HeldCall,
  loop: ToolLoop,
  next: PricedCandidate | undefined,
): LoopState {
  const { search, fetch } = loop;
  const { request, estimate, candidate } = call;
  const { toolCallsMax, toolCallsHeld } = estimate;
  const openMax = toolCallsMax ?? toolCallsHeld ?? DEFAULT_TOOL_CALLS;
  const { toolCalls: callsMax } = gatewayToolBounds(commonForm(request), openMax, candidate.model);
  const usesOf = (tool: typeof search | typeof fetch): ToolUses => ({
    name: tool?.name,
    max: tool === undefined ? 0 : Math.min(tool.maxUses ?? openMax, MAX_TOOL_CALLS),
    count: 0,
    billed: 0,
  });
  return {
    deps,
    call,
    loop,
    next,
    turns: [],
    sources: new Map(),
    urls: new Set(fetch?.urls.flatMap(normalUrls)),
    search: usesOf(search),
    fetch: usesOf(fetch),
    mcp: { name: undefined, max: loop.mcp.size === 0 ? 0 : callsMax, count: 0, billed: 0 },
    callsMax,
    turnCount: 1,
    usages: [],
  };
}

/** As the model may write it. */
function normalUrls(url: string): readonly string[] {
  return URL.canParse(url) ? [new URL(url).href] : [];
}

/** Unique in the conversation, because ids of calls derive from it. */
export function replyIdOf({ call, turnCount }: LoopState): string {
  return turnCount === 1 ? call.input.requestId : `${call.input.requestId}${turnCount}`;
}

/** A turn whose usage the provider does not report is counted by its texts. */
export function addUsage(
  state: LoopState,
  turn: Pick<LoopTurn, "body">,
  reported: Usage | undefined,
  output: () => string,
): void {
  state.usages.push(reported ?? countedUsage(turn.body, output()));
}

/** `isClamped`: it is charged up to the hold, and not as exact. */
function countedUsage(input: string, output: string): Usage {
  const tokens = { input: estimateTextTokens(input), output: estimateTextTokens(output) };
  return { tokens, fees: {}, isClamped: true };
}

/** The usage so far, with the tools that the gateway ran. */
export function usageOfLoop({ usages, search, fetch, call, deps }: LoopState): Usage {
  const run = { web_search: search.billed, web_fetch: fetch.billed };
  const usage = usages.reduce(sumOf, { tokens: {}, fees: {} });
  const { statedCostUsd } = usage;
  const all = { ...usage, fees: sumOfMeters(FEE_METERS, usage.fees, run) };
  if (statedCostUsd === undefined) return all;
  // The provider states the cost of its own turns, and may not of each.
  const unstated = usages.filter((one) => (one.statedCostUsd ?? 0) === 0);
  const rest = [...unstated, { tokens: {}, fees: run }].reduce(
    (sum, one) => sum + chargeUsage(call, one, deps.now()).cost,
    0n,
  );
  return { ...all, statedCostUsd: statedCostUsd + Number(rest) / NANO_PER_USD };
}

const NANO_PER_USD = 1e9;

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

/** Whether the gateway runs the call. */
export function isOwnCall(
  { search, fetch, loop }: LoopState,
  part: { readonly type: string; readonly name?: string | undefined },
): boolean {
  if (part.type !== "tool_call" || part.name === undefined) return false;
  return part.name === search.name || part.name === fetch.name || loop.mcp.has(part.name);
}

/** Replies that are cut or refused have no complete calls. */
const RUNS_CALLS: ReadonlySet<string> = new Set(["tool_calls", "stop", "pause"]);

/** The calls of a finished turn that the gateway runs. */
export function ownCallsOf(
  state: LoopState,
  parts: readonly Part[],
  reason: string,
): readonly ToolCall[] {
  if (!RUNS_CALLS.has(reason)) return [];
  return parts.filter((part): part is ToolCall => isOwnCall(state, part));
}

interface RanCalls {
  /** The calls in the form of the caller's API. */
  readonly written: readonly NativePart[];
  readonly results: readonly Part[];
}

/** The next turn would be for no reader. */
export function hasCallerLeft({ call: { isAbandoned, input } }: LoopState): boolean {
  return isAbandoned === true || input.signal.aborted;
}

export async function runCalls(state: LoopState, calls: readonly ToolCall[]): Promise<RanCalls> {
  const written: NativePart[] = [];
  const results: Part[] = [];
  for (const call of calls) {
    // A search for a caller that has left would be paid for in vain.
    if (hasCallerLeft(state)) break;
    const id = `${replyIdOf(state)
      .replaceAll(/[^A-Za-z0-9]/g, "")
      .slice(-24)}_${results.length}`;
    const run = runnerOf(state, call);
    const { parts, text } = await run(state, call, id);
    written.push(...parts);
    results.push(toolResult(call, text));
  }
  return { written, results };
}

function runnerOf({ loop, fetch }: LoopState, { name }: ToolCall): typeof runSearch {
  if (loop.mcp.has(name)) return runMcp;
  return name === fetch.name ? runFetch : runSearch;
}

interface RanCall {
  /** The call in the form of the caller's API. */
  readonly parts: readonly NativePart[];
  /** What the model reads. */
  readonly text: string;
}

async function runSearch(state: LoopState, call: ToolCall, id: string): Promise<RanCall> {
  const { deps, loop, sources: known, search } = state;
  const query = argumentOf(call, "query")?.slice(0, QUERY_MAX_LENGTH).toWellFormed();
  const written = (found: Omit<SearchCall, "queries">, text: string): RanCall => ({
    parts: writeSearchCall(loop.api, { ...found, queries: query === undefined ? [] : [query] }, id),
    text,
  });
  const failed = (error: NonNullable<SearchCall["error"]>, text: string): RanCall =>
    written({ sources: [], error }, text);
  if (query === undefined) return failed("invalid_tool_input", "The search needs a `query`.");
  const mayRun = mayUse(state, search, "web_search");
  if (!mayRun || loop.search === undefined || deps.searchWeb === undefined)
    return failed("max_uses_exceeded", "No more searches are allowed in this reply.");
  search.count += 1;
  try {
    const { allowedDomains, blockedDomains, country } = loop.search;
    const { signal } = state.call.input;
    const wanted = { query, allowedDomains, blockedDomains, country, signal };
    const sources = await deps.searchWeb(wanted);
    search.billed += 1;
    for (const source of sources) {
      known.set(source.url, source);
      state.urls.add(source.url);
    }
    return written({ sources }, searchResultText(sources));
  } catch (cause) {
    deps.log.warn("web search failed", { request_id: state.call.input.requestId, cause });
    return failed("unavailable", "The search failed. Answer without it, or try another query.");
  }
}

const FETCH_PROBLEMS: Readonly<Record<FetchError, string>> = {
  invalid_tool_input: "The fetch needs a `url`.",
  url_not_allowed:
    "This URL may not be fetched: only URLs that the user named or that a search returned, at domains that the user allows.",
  url_not_accessible: "The page could not be fetched.",
  unsupported_content_type: "The page is not text.",
  max_uses_exceeded: "No more pages may be fetched in this reply.",
  unavailable: "No page can be fetched now.",
};

async function runFetch(state: LoopState, call: ToolCall, id: string): Promise<RanCall> {
  const { deps, loop, fetch, urls } = state;
  const [url = ""] = normalUrls(argumentOf(call, "url") ?? "");
  const failed = (error: FetchError): RanCall => ({
    parts: writeFetch(loop.api, { url, error }, id),
    text: FETCH_PROBLEMS[error],
  });
  if (url === "") return failed("invalid_tool_input");
  const mayRun = mayUse(state, fetch, "web_fetch");
  if (!mayRun || loop.fetch === undefined || deps.fetchPage === undefined)
    return failed("max_uses_exceeded");
  // Otherwise a page could have the model send what it has read to any server.
  if (!urls.has(url)) return failed("url_not_allowed");
  fetch.count += 1;
  const { allowedDomains, blockedDomains, maxContentTokens = GATEWAY_PAGE_TOKENS } = loop.fetch;
  const { signal, caller } = state.call.input;
  const fetching = deps.fetchPage({
    url,
    allowedDomains,
    blockedDomains,
    maxTokens: Math.min(maxContentTokens, GATEWAY_PAGE_TOKENS_MAX),
    signal,
    mayRequest: () => deps.mayFetch(caller.accountId),
  });
  const fetched = await fetching.catch((cause: unknown) => {
    deps.log.warn("web fetch failed", { request_id: state.call.input.requestId, cause });
    return { error: "unavailable" as const };
  });
  if ("error" in fetched) return failed(fetched.error);
  fetch.billed += 1;
  const { page } = fetched;
  for (const found of urlsIn(page.text).flatMap(normalUrls)) urls.add(found);
  state.sources.set(url, { url, title: page.title, content: page.text });
  return { parts: writeFetch(loop.api, { url, page }, id), text: fetchResultText(page) };
}

async function runMcp(state: LoopState, call: ToolCall, id: string): Promise<RanCall> {
  const { deps, loop, mcp } = state;
  const { mcp: servers, input } = state.call;
  const { server = "", tool = "" } = loop.mcp.get(call.name) ?? {};
  const answered = ({ text, isError }: McpResult): RanCall => ({
    parts: writeMcpCall(
      loop.api,
      { server, name: tool, arguments: call.arguments, output: text, isError },
      id,
    ),
    text,
  });
  const connection = servers?.connections.get(server);
  const definition = servers?.lists.get(server)?.find(({ name }) => name === tool);
  if (!mayUse(state, mcp) || connection === undefined || definition === undefined)
    return answered({ text: "No more calls of tools are allowed in this reply.", isError: true });
  const args = parseObject(call.arguments);
  if (args === undefined)
    return answered({ text: "The arguments are not a JSON object.", isError: true });
  mcp.count += 1;
  // Each may take as long as a turn.
  deps.extendHold(input.requestId);
  const from = deps.monotonicNow();
  const result = await connection.callTool(definition, args);
  const ms = Math.round(deps.monotonicNow() - from);
  servers?.calls.push({ server, tool, ok: !result.isError, ms });
  return answered(result);
}

/** Whether the limits of the request, and the hold, have another use of a tool. */
function mayUse(
  state: LoopState,
  { count, max }: ToolUses,
  meter?: "web_search" | "web_fetch",
): boolean {
  if (count >= max || callsLeft(state) <= 0) return false;
  if (meter === undefined) return true;
  const { call, deps } = state;
  const fee = chargeUsage(call, { tokens: {}, fees: { [meter]: 1 } }, deps.now()).cost;
  return spentBy(state) + fee <= call.hold.limit;
}

function callsLeft({ callsMax, search, fetch, mcp }: LoopState): number {
  return callsMax - search.count - fetch.count - mcp.count;
}

function spentBy(state: LoopState): Nano {
  return chargeUsage(state.call, usageOfLoop(state), state.deps.now()).cost;
}

function argumentOf(call: ToolCall, name: string): string | undefined {
  const value = stringIn(parseObject(call.arguments)?.[name])?.trim();
  return value === "" ? undefined : value;
}

/** The next request, or why there is none: the hold or the output limit does not cover it, or the model searches on and on. */
export function nextTurn(
  state: LoopState,
  answered: readonly Part[],
  results: readonly Part[],
): LoopTurn | "length" | "pause" {
  const { loop, turns, deps, call } = state;
  turns.push({ role: "assistant", parts: answered }, { role: "tool", parts: results });
  if (state.turnCount > state.callsMax) return "pause";
  const outputMax = outputLeft(state);
  if (outputMax < OUTPUT_MIN_TOKENS) return "length";
  state.turnCount += 1;
  deps.extendHold(call.input.requestId);
  // The hold covers as many turns as uses, and one to answer.
  const isLast = state.turnCount > state.callsMax || callsLeft(state) <= 0;
  const exhausted = [state.search, state.fetch].flatMap(({ name, max, count }) =>
    name !== undefined && (isLast || count >= max) ? [name] : [],
  );
  if (isLast) exhausted.push(...loop.mcp.keys());
  return loop.continueWith(turns, { outputMax, exhausted: new Set(exhausted) });
}

/** What the output limit and the hold leave for another turn. */
function outputLeft(state: LoopState): number {
  const { call, loop, turns } = state;
  const { estimate, hold, candidate } = call;
  const limits = limitsOf(candidate.model);
  const left = (loop.outputMax ?? limits.output) - tokenTotals(usageOfLoop(state)).outputTokens;
  // The caller's own provider key pays.
  if (candidate.credential.byok) return left;
  const appended = Buffer.byteLength(JSON.stringify(turns)) + TURN_TOKENS * turns.length;
  const inputTokens = Math.min(estimate.promptTokens + appended, limits.input);
  const bound = costBound(
    { ...estimate.bounds, inputTokens, repeatedTokens: 0, fees: {} },
    estimate.cards,
  );
  const hidden = estimate.hiddenTokens > 0 ? limits.output : 0;
  return affordableOutput(bound, hold.limit - spentBy(state), left + hidden) - hidden;
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
