// The hold of a stream that grows while the provider generates. It always covers what the provider may have billed by now, and
// some seconds more, so that closing the connection ends the bill within the hold. Decision 0036 has the bound.

import type { Nano } from "../../../base/money/money.ts";
import { minNano } from "../../../base/money/money.ts";
import type { Ledger } from "../../../ledger/ledger.ts";
import { affordableOutput, maxCost } from "../../../models/price-bound.ts";
import type { CostEstimate } from "../../metering/cost-estimate.ts";
import type { SharedTimer } from "../../streaming/shared-timer.ts";
import type { CallInput, Hold, SettledCall } from "../call.ts";

/** Output that a stream holds at first, and by which it raises its hold. Most replies are shorter. */
export const TRANCHE_TOKENS = 4_096;
/** Faster than providers generate what has not arrived: reasoning, or text while the client does not read. */
const UNSEEN_TOKENS_PER_SECOND = 250;
/** More is held before so few tokens are left: four seconds of such output, for the timer, the commit and the close. */
const LOOKAHEAD_TOKENS = 1_024;
/** After a refusal, credits of other calls may come free. */
const RETRY_MS = 1_000;

/** Why a hold cannot be raised further. */
export type HoldEnd = "budget" | "hold_lost" | "store_unavailable";

export interface RollDeps {
  readonly ledger: Pick<Ledger<SettledCall>, "raise">;
  readonly now: () => number;
  readonly monotonicNow: () => number;
  readonly timer: SharedTimer;
}

export interface RolledCall {
  readonly input: CallInput;
  readonly hold: Hold;
  readonly estimate: CostEstimate;
  /** Whether the provider bills output that it does not send, such as reasoning. */
  readonly hidesOutput: boolean;
}

/** What a stream holds at first for its input and a first part of its output. */
export function firstHold({ bound, outputTokens, amount }: CostEstimate): Nano {
  return minNano(maxCost(bound, Math.min(outputTokens, TRANCHE_TOKENS)), amount);
}

export class RollingHold {
  /** Called when a stream that waited may go on, or has to end. */
  onChange: () => void = () => {};
  readonly #deps: RollDeps;
  readonly #call: RolledCall;
  /** When the provider may have begun to generate. */
  #startedAt: number | undefined;
  /** The most that the provider generates: it was sent this limit. */
  readonly #outputMax: number;
  readonly #stopTimer: () => void;
  /** Output tokens that the hold covers. */
  #covered: number;
  #outputBytes = 0;
  #isRaising = false;
  #retryAt = 0;
  #refusal: HoldEnd | undefined;
  #ended: HoldEnd | undefined;

  constructor(deps: RollDeps, call: RolledCall) {
    const { estimate, hold } = call;
    this.#deps = deps;
    this.#call = call;
    this.#startedAt = call.hidesOutput ? deps.monotonicNow() : undefined;
    this.#outputMax = affordableOutput(estimate.bound, hold.limit, estimate.outputTokens);
    this.#covered = this.#coveredBy(hold.amount);
    this.#stopTimer = deps.timer.add((at) => this.#update(at));
  }

  /** Set once the stream must end, because the provider may bill more than can be held. */
  get ended(): HoldEnd | undefined {
    return this.#ended;
  }

  /** Whether more has arrived than the hold covers until the ledger has answered. */
  get isBehind(): boolean {
    return this.#isRaising && Math.min(this.#outputBytes, this.#outputMax) > this.#covered;
  }

  /** The most output tokens that the provider can have billed. No token is shorter than a byte. */
  generatedAt(at: number): number {
    const elapsedMs = this.#startedAt === undefined ? 0 : at - this.#startedAt;
    const unseen = Math.ceil((elapsedMs * UNSEEN_TOKENS_PER_SECOND) / 1_000);
    return Math.min(this.#outputMax, Math.max(unseen, this.#outputBytes));
  }

  generated(): number {
    return this.generatedAt(this.#deps.monotonicNow());
  }

  /** `outputBytes`: all that has arrived so far. */
  check(at: number, outputBytes: number): void {
    this.#outputBytes = outputBytes;
    if (outputBytes > 0) this.#startedAt ??= at;
    this.#update(at);
  }

  stop(): void {
    this.#stopTimer();
    this.onChange = () => {};
  }

  #update(at: number): void {
    if (this.#ended !== undefined || this.#isRaising || this.#covered >= this.#outputMax) return;
    const generated = this.generatedAt(at);
    if (generated + LOOKAHEAD_TOKENS <= this.#covered) return;
    if (at >= this.#retryAt) this.#raise(generated);
    else this.#endIfSpent(at);
  }

  #raise(generated: number): void {
    const { ledger, now, monotonicNow } = this.#deps;
    const { input, hold, estimate } = this.#call;
    const { accountId, keyId } = input.caller;
    const target = Math.min(this.#outputMax, generated + TRANCHE_TOKENS);
    const amount = minNano(maxCost(estimate.bound, target), hold.limit);
    const sessionId = input.session?.id;
    this.#isRaising = true;
    const onAnswer = (refusal: HoldEnd | undefined): void => {
      const at = monotonicNow();
      this.#isRaising = false;
      this.#refusal = refusal;
      this.#retryAt = refusal === undefined ? 0 : at + RETRY_MS;
      if (refusal === "hold_lost") this.#ended = refusal;
      if (this.#ended === undefined) this.#endIfSpent(at);
      if (this.#ended === undefined || refusal === "hold_lost") this.onChange();
    };
    ledger.raise({ id: input.requestId, accountId, keyId, amount, now: now(), sessionId }).then(
      (outcome) => {
        if (outcome.status !== "raised")
          return onAnswer(outcome.status === "lost" ? "hold_lost" : "budget");
        hold.amount = outcome.amount;
        this.#covered = this.#coveredBy(outcome.amount);
        onAnswer(outcome.amount < amount ? "budget" : undefined);
      },
      () => onAnswer("store_unavailable"),
    );
  }

  #endIfSpent(at: number): void {
    if (this.#refusal === undefined || this.generatedAt(at) <= this.#covered) return;
    this.#ended = this.#refusal;
    this.onChange();
  }

  #coveredBy(amount: Nano): number {
    const { hold, estimate } = this.#call;
    if (amount >= hold.limit) return this.#outputMax;
    return affordableOutput(estimate.bound, amount, this.#outputMax);
  }
}
