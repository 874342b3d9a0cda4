// What is held of a whole reply that credits, limits or budgets are too short for: a first part, if its provider can be asked for a
// stream. Checked against sums for random wallets, limits, budgets and open calls.

import { expect, test } from "bun:test";
import * as fc from "fast-check";
import { minNano, type Nano } from "../../src/base/money/money.ts";
import { zeroSpend } from "../../src/base/money/spend-window.ts";
import {
  decideHold,
  type HoldOutcome,
  type HoldRequest,
  type HoldRows,
} from "../../src/ledger/decide.ts";
import { runs } from "../support/full.ts";

const NOW = Date.UTC(2026, 10, 29, 12);
/** Small multiples of it meet each other often; a wallet with 50 of them is a paying one's. */
const UNIT = 100_000_000n;
const ZERO = zeroSpend(NOW);

const units = (max: number) => fc.nat(max).map((count) => BigInt(count) * UNIT);
const limit = fc.option(fc.record({ limit: units(60), spent: units(30) }), { nil: undefined });
/** Open calls of the account; some have the key or the session of the call. */
const openCalls = fc.array(
  fc.record({ amount: units(12), hasKey: fc.boolean(), hasSession: fc.boolean() }),
  { maxLength: 3 },
);

interface Case {
  readonly promo: Nano;
  readonly paid: Nano;
  readonly open: readonly {
    readonly amount: Nano;
    readonly hasKey: boolean;
    readonly hasSession: boolean;
  }[];
  readonly key: { readonly limit: Nano; readonly spent: Nano } | undefined;
  readonly session: { readonly limit: Nano; readonly spent: Nano } | undefined;
  readonly budget: { readonly limit: Nano; readonly spent: Nano } | undefined;
  /** Of a call: `amount` is at least `upfront`, and that at least `least`. */
  readonly amount: Nano;
  readonly upfront: Nano;
  readonly least: Nano;
  readonly minimum: Nano | undefined;
}

const CASES: fc.Arbitrary<Case> = fc
  .record({
    promo: units(40),
    paid: units(60),
    open: openCalls,
    key: limit,
    session: limit,
    budget: limit,
    parts: fc.tuple(units(10), units(10), units(30)),
    minimum: fc.option(units(12), { nil: undefined }),
  })
  .map(({ parts: [first, second, third], minimum, ...rest }) => {
    const least = first + UNIT;
    const upfront = least + second;
    const amount = upfront + third + UNIT;
    const lowered = minimum === undefined ? undefined : minNano(least + minimum, amount);
    return { ...rest, least, upfront, amount, minimum: lowered };
  });

function rowsOf({ promo, paid, open, key, session, budget }: Case): HoldRows {
  const heldBy = (calls: Case["open"]): Nano => calls.reduce((sum, { amount }) => sum + amount, 0n);
  const ofSession = open.filter(({ hasKey, hasSession }) => hasKey && hasSession);
  return {
    wallet: {
      promo,
      paid,
      held: heldBy(open),
      ...(budget !== undefined && {
        budget: {
          limits: { day: budget.limit, month: null },
          spent: { ...ZERO, day: budget.spent, month: budget.spent },
        },
      }),
    },
    keySpend: {
      held: heldBy(open.filter(({ hasKey }) => hasKey)),
      openCalls: open.length,
      theoreticalArrivalAt: 0,
      spent: { ...ZERO, total: key?.spent ?? 0n },
    },
    key: {
      accountId: "acct",
      policy: null,
      scopes: null,
      revokedAt: null,
      expiresAt: null,
      limit: key?.limit ?? null,
      window: null,
      alertPercents: null,
    },
    session: session && {
      keyId: "key",
      createdAt: NOW,
      lastCallAt: NOW,
      limit: session.limit,
      held: heldBy(ofSession),
      spent: session.spent,
      stoppedAt: null,
    },
  };
}

/** What credits, limits and budgets leave for the call; all of it, as if no call were open, and what is free now. */
function remainingOf(one: Case): { readonly all: Nano; readonly free: Nano } {
  const { wallet, keySpend, session } = rowsOf(one);
  const parts = [
    [one.promo + one.paid, wallet?.held],
    one.key && [one.key.limit - one.key.spent, keySpend?.held],
    one.session && [one.session.limit - one.session.spent, session?.held],
    one.budget && [one.budget.limit - one.budget.spent, wallet?.held],
  ].flatMap((part) => (part === undefined ? [] : [{ all: part[0] ?? 0n, held: part[1] ?? 0n }]));
  const least = (values: readonly Nano[]): Nano => values.reduce(minNano);
  return {
    all: least(parts.map(({ all }) => all)),
    free: least(parts.map(({ all, held }) => all - held)),
  };
}

function requestOf({ amount, upfront, least, minimum, session }: Case): HoldRequest {
  return {
    id: "call",
    accountId: "acct",
    keyId: "key",
    amount,
    minimum,
    onShortage: { upfront, minimum: least },
    now: NOW,
    expiresAt: NOW + 1,
    session: session && { id: "session" },
  };
}

const heldAmount = (outcome: HoldOutcome): Nano | undefined =>
  outcome.status === "held" ? outcome.amount : undefined;

test("a whole reply holds all of its cost, or a first part exactly if all can never be held beside another call's", () => {
  const seen = { whole: 0, part: 0, shortened: 0, refused: 0 };
  const property = fc.property(CASES, (one) => {
    const rows = rowsOf(one);
    const before = rows.wallet?.held ?? 0n;
    const { all, free } = remainingOf(one);
    const outcome = decideHold(requestOf(one), rows);
    const isShort = all < one.amount + one.upfront;
    const wanted = isShort ? one.upfront : one.amount;
    const needed = isShort ? one.least : (one.minimum ?? one.amount);
    if (free < needed) {
      expect(outcome.status).not.toBe("held");
      expect(rows.wallet?.held).toBe(before);
      seen.refused += 1;
      return;
    }
    expect(outcome).toMatchObject({ status: "held", amount: minNano(wanted, free) });
    // With a limit, the call holds more while its reply arrives.
    expect("limit" in outcome ? outcome.limit : undefined).toBe(
      isShort ? minNano(one.amount, free) : undefined,
    );
    expect(rows.wallet?.held).toBe(before + minNano(wanted, free));
    seen[isShort ? (free < one.upfront ? "shortened" : "part") : "whole"] += 1;
  });
  fc.assert(property, { numRuns: runs(3_000) });
  expect(Object.values(seen).every((count) => count > 0)).toBe(true);
});

test("a whole reply that may be collected is never refused where it was not, and holds no more", () => {
  let served = 0;
  const property = fc.property(CASES, (one) => {
    // The smallest useful hold of a call is never below that of its first part.
    const { onShortage: _, ...plain } = requestOf(one);
    const without = heldAmount(decideHold(plain, rowsOf(one)));
    const outcome = decideHold(requestOf(one), rowsOf(one));
    const amount = heldAmount(outcome);
    if (without === undefined) served += amount === undefined ? 0 : 1;
    else {
      expect(amount).toBeDefined();
      expect(amount ?? 0n).toBeLessThanOrEqual(without);
    }
    // Only open calls are in the way: it waits for them as it did before.
    if (remainingOf(one).all >= one.amount + one.upfront) expect(amount).toBe(without);
  });
  fc.assert(property, { numRuns: runs(3_000) });
  expect(served).toBeGreaterThan(0);
});
