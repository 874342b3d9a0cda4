// Generators of random histories: the operations on each account, and the events of the run that all accounts share.

import * as fc from "fast-check";
import { DAY_MS, HOUR_MS } from "../../../src/base/time.ts";

export const PROCESSES = 2;
export const KEYS = 2;
const ROUNDS_MAX = 7;

type HoldPlan = {
  readonly kind: "hold";
  readonly key: number;
  readonly amount: number;
  readonly minimum: number | null;
  readonly isRateLimited: boolean;
  readonly openMax: number | null;
  readonly lifetimeMs: number;
};
type SettlePlan = {
  readonly kind: "settle";
  /** Selects one of the earlier holds. */
  readonly pick: number;
  readonly cost: "zero" | "below" | "equal" | "above" | "far above" | "byok";
};
type RaisePlan = {
  readonly kind: "raise";
  /** Selects one of the earlier holds. */
  readonly pick: number;
  readonly amount: number;
};
export type CallPlan = HoldPlan | SettlePlan | RaisePlan;

export type AdminPlan =
  | {
      readonly kind: "deposit";
      readonly bucket: "promo" | "paid";
      readonly amount: number;
      readonly isRepeated: boolean;
    }
  | { readonly kind: "revoke"; readonly key: number }
  | { readonly kind: "expire"; readonly key: number; readonly afterMs: number | null }
  | {
      readonly kind: "limit";
      readonly key: number;
      readonly limit: number | null;
      readonly window: "day" | "week" | "month" | null;
    }
  | {
      readonly kind: "budget";
      /** Absent fields are not changed. */
      readonly day?: number | null | undefined;
      readonly month?: number | null | undefined;
    };

type RoundPlan = {
  /** The concurrent calls of each process. */
  readonly calls: readonly (readonly CallPlan[])[];
  /** Runs concurrently with the calls. */
  readonly admin: AdminPlan | null;
};

export type HistoryPlan = {
  readonly promo: number;
  readonly paid: number;
  readonly rounds: readonly RoundPlan[];
};

export type EventPlan =
  | { readonly kind: "time"; readonly ms: number }
  | { readonly kind: "sweep" }
  | { readonly kind: "crash"; readonly process: number; readonly isCommitted: boolean }
  | { readonly kind: "restart"; readonly process: number }
  | { readonly kind: "silence"; readonly process: number }
  | { readonly kind: "reply lost"; readonly process: number };

export type RunPlan = {
  readonly histories: readonly HistoryPlan[];
  /** One before each round. */
  readonly events: readonly EventPlan[];
};

const amount = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 120 }) },
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 2_000_000_000 }) },
);
const key = fc.integer({ min: 0, max: KEYS - 1 });
const process = fc.integer({ min: 0, max: PROCESSES - 1 });

const hold: fc.Arbitrary<HoldPlan> = fc.record({
  kind: fc.constant("hold" as const),
  key,
  amount,
  minimum: fc.option(fc.integer({ min: 0, max: 60 }), { freq: 3 }),
  isRateLimited: fc.boolean(),
  openMax: fc.option(fc.integer({ min: 0, max: 3 }), { freq: 3 }),
  lifetimeMs: fc.constantFrom(5, 2_000, 900_000, 900_000, 900_000),
});
const settle: fc.Arbitrary<SettlePlan> = fc.record({
  kind: fc.constant("settle" as const),
  pick: fc.nat({ max: 30 }),
  cost: fc.constantFrom("zero", "below", "below", "equal", "above", "far above", "byok"),
});
const raise: fc.Arbitrary<RaisePlan> = fc.record({
  kind: fc.constant("raise" as const),
  pick: fc.nat({ max: 30 }),
  amount,
});
const calls = fc.array(
  fc.oneof(
    { weight: 2, arbitrary: hold },
    { weight: 2, arbitrary: settle },
    { weight: 1, arbitrary: raise },
  ),
  { maxLength: 4 },
);

const admin: fc.Arbitrary<AdminPlan> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("deposit" as const),
      bucket: fc.constantFrom("promo", "paid"),
      amount: fc.integer({ min: 1, max: 150 }),
      isRepeated: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("revoke" as const), key }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("expire" as const),
      key,
      afterMs: fc.constantFrom(null, -1, 0, 10, 100_000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("limit" as const),
      key,
      limit: fc.option(fc.integer({ min: 0, max: 150 }), { freq: 5 }),
      window: fc.constantFrom(null, "day", "week", "month"),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record(
      {
        kind: fc.constant("budget" as const),
        day: fc.option(fc.integer({ min: 0, max: 150 }), { freq: 5 }),
        month: fc.option(fc.integer({ min: 0, max: 250 }), { freq: 5 }),
      },
      { requiredKeys: ["kind"] },
    ),
  },
);

const history: fc.Arbitrary<HistoryPlan> = fc.record({
  promo: fc.integer({ min: 0, max: 200 }),
  paid: fc.integer({ min: 0, max: 200 }),
  rounds: fc.array(
    fc.record({ calls: fc.tuple(calls, calls), admin: fc.option(admin, { freq: 2 }) }),
    { minLength: 1, maxLength: ROUNDS_MAX },
  ),
});

const event: fc.Arbitrary<EventPlan> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("time" as const),
      ms: fc.constantFrom(
        0,
        1,
        7,
        50,
        1_000,
        HOUR_MS,
        DAY_MS,
        8 * DAY_MS,
        32 * DAY_MS,
        -1_000,
        -2 * HOUR_MS,
        -25 * HOUR_MS,
      ),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("sweep" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("crash" as const),
      process,
      isCommitted: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("restart" as const), process }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("silence" as const), process }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("reply lost" as const), process }) },
);

export function runPlans(histories: number): fc.Arbitrary<RunPlan> {
  return fc.record({
    histories: fc.array(history, { minLength: histories, maxLength: histories }),
    events: fc.array(event, { minLength: ROUNDS_MAX, maxLength: ROUNDS_MAX }),
  });
}
