// The hold of a stream that grows while the provider generates. It always covers what the provider may have billed by now, and
// some seconds more, so that closing the connection ends the bill within the hold. docs/decisions/0036-rolling-holds.md has the bound.

import type { StreamMeter } from "@postern/wires";
import { minNano, type Nano } from "../../base/money/money.ts";
import type { RaiseOutcome, RaiseRequest } from "../../ledger/decide.ts";
import { affordableOutput, maxCost } from "../../models/price-bound.ts";
import type { CostEstimate } from "../metering/cost-estimate.ts";
import { TRANCHE_TOKENS } from "./recent-outputs.ts";
import type { SharedTimer } from "./shared-timer.ts";

/** Faster than providers generate what has not arrived: reasoning, or text while the client does not read. */
const UNSEEN_TOKENS_PER_SECOND = 250;
/** More is held before so few tokens are left: four seconds of such output, for the timer, the commit and the close. */
const LOOKAHEAD_TOKENS = 1_024;
/** After a refusal, credits of other calls may come free. */
const RETRY_MS = 1_000;

/** Why a hold cannot be raised further. */
export type HoldEnd = "budget" | "hold_lost" | "store_unavailable";

export interface RollDeps {
  readonly raise: (request: RaiseRequest) => Promise<RaiseOutcome>;
  readonly now: () => number;
  readonly monotonicNow: () => number;
  readonly timer: SharedTimer;
}

export interface RollingCall {
  readonly request: Pick<RaiseRequest, "id" | "accountId" | "keyId" | "sessionId">;
  readonly hold: { amount: Nano; readonly limit: Nano };
  readonly estimate: Pick<CostEstimate, "bound" | "outputTokens">;
  /** Whether the provider bills output that it does not send, such as reasoning. */
  readonly hidesOutput: boolean;
}

export interface RollingHold {
  readonly deps: RollDeps;
  readonly call: RollingCall;
  /** The most that the provider generates: it was sent this limit. */
  readonly outputMax: number;
  /** Called when a stream that waited may go on, or has to end. */
  onChange: () => void;
  stopTimer: () => void;
  /** When the provider may have begun to generate. */
  startedAt: number | undefined;
  /** Output tokens that the hold covers. */
  covered: number;
  outputTokens: number;
  isRaising: boolean;
  retryAt: number;
  refusal: HoldEnd | undefined;
  /** Set once the stream must end, because the provider may bill more than can be held. */
  ended: HoldEnd | undefined;
}

/** What a call holds at first for its input and so much of its output. */
export function firstHold(
  { bound, outputTokens, amount }: CostEstimate,
  firstTokens: number,
): Nano {
  return minNano(maxCost(bound, Math.min(outputTokens, firstTokens)), amount);
}

export function startRollingHold(deps: RollDeps, call: RollingCall): RollingHold {
  const { estimate, hold, hidesOutput } = call;
  const roll: RollingHold = {
    deps,
    call,
    outputMax: affordableOutput(estimate.bound, hold.limit, estimate.outputTokens),
    onChange: () => {},
    stopTimer: () => {},
    startedAt: hidesOutput ? deps.monotonicNow() : undefined,
    covered: 0,
    outputTokens: 0,
    isRaising: false,
    retryAt: 0,
    refusal: undefined,
    ended: undefined,
  };
  roll.covered = coveredBy(roll, hold.amount);
  roll.stopTimer = deps.timer.add((at) => update(roll, at));
  return roll;
}

export function stopRollingHold(roll: RollingHold): void {
  roll.stopTimer();
  roll.onChange = () => {};
}

/** Tokens around each tool call, which have no text. */
const TOOL_CALL_TOKENS = 16;

/** An upper bound of the output tokens that have arrived: no token of text is shorter than a byte. */
export function arrivedTokens({
  outputBytes,
  toolCalls,
}: Pick<StreamMeter, "outputBytes" | "toolCalls">): number {
  return outputBytes + TOOL_CALL_TOKENS * toolCalls;
}

/** `outputTokens`: an upper bound of what has arrived so far. */
export function checkHold(roll: RollingHold, at: number, outputTokens: number): void {
  roll.outputTokens = outputTokens;
  if (outputTokens > 0) roll.startedAt ??= at;
  update(roll, at);
}

/** Whether more has arrived than the hold covers until the ledger has answered. */
export function isBehind(roll: RollingHold): boolean {
  return roll.isRaising && !isCovered(roll, roll.outputTokens);
}

/** Whether so many output tokens are held for. */
export function isCovered({ outputMax, covered }: RollingHold, outputTokens: number): boolean {
  return Math.min(outputTokens, outputMax) <= covered;
}

/** The most output tokens that the provider can have billed. */
export function generatedBy(
  { startedAt, outputTokens, outputMax }: RollingHold,
  at: number,
): number {
  const elapsedMs = startedAt === undefined ? 0 : at - startedAt;
  const unseen = Math.ceil((elapsedMs * UNSEEN_TOKENS_PER_SECOND) / 1_000);
  return Math.min(outputMax, Math.max(unseen, outputTokens));
}

function update(roll: RollingHold, at: number): void {
  if (roll.ended !== undefined || roll.isRaising || roll.covered >= roll.outputMax) return;
  const generated = generatedBy(roll, at);
  if (generated + LOOKAHEAD_TOKENS <= roll.covered) return;
  if (at >= roll.retryAt) raise(roll, generated);
  else endIfSpent(roll, at);
}

function raise(roll: RollingHold, generated: number): void {
  const { deps, call, outputMax } = roll;
  const { hold, estimate, request } = call;
  const target = Math.min(outputMax, generated + TRANCHE_TOKENS);
  const amount = minNano(maxCost(estimate.bound, target), hold.limit);
  roll.isRaising = true;
  deps.raise({ ...request, amount, now: deps.now() }).then(
    (outcome) => {
      if (outcome.status !== "raised")
        return onAnswer(roll, outcome.status === "lost" ? "hold_lost" : "budget");
      hold.amount = outcome.amount;
      roll.covered = coveredBy(roll, outcome.amount);
      onAnswer(roll, outcome.amount < amount ? "budget" : undefined);
    },
    () => onAnswer(roll, "store_unavailable"),
  );
}

function onAnswer(roll: RollingHold, refusal: HoldEnd | undefined): void {
  const at = roll.deps.monotonicNow();
  roll.isRaising = false;
  roll.refusal = refusal;
  roll.retryAt = refusal === undefined ? 0 : at + RETRY_MS;
  if (refusal === "hold_lost") roll.ended = refusal;
  else endIfSpent(roll, at);
  if (roll.ended === undefined || refusal === "hold_lost") roll.onChange();
}

function endIfSpent(roll: RollingHold, at: number): void {
  if (roll.refusal === undefined || generatedBy(roll, at) <= roll.covered) return;
  roll.ended = roll.refusal;
  roll.onChange();
}

function coveredBy({ call: { hold, estimate }, outputMax }: RollingHold, amount: Nano): number {
  if (amount >= hold.limit) return outputMax;
  return affordableOutput(estimate.bound, amount, outputMax);
}
