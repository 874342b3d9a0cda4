// An independent model of the ledger for one account: it keeps every operation and recomputes all sums for each
// question, where the ledger keeps balances.

type ModelHold = {
  readonly key: number;
  readonly amount: bigint;
  readonly process: number;
  readonly epoch: number;
  readonly state: "open" | "swept" | "resolved";
  readonly sweptAt?: number;
};

type ModelKey = {
  readonly revoked: boolean;
  readonly expiresAt: number | null;
  readonly limit: bigint | null;
  readonly window: "day" | "week" | "month" | null;
};

type Charge = {
  readonly key: number;
  readonly at: number;
  readonly promo: bigint;
  readonly paid: bigint;
  readonly overrun: bigint;
};

type ModelBudget = { readonly day: bigint | null; readonly month: bigint | null };

export type Model = {
  readonly createdAt: number;
  readonly budget: ModelBudget;
  /** When the budget was changed. */
  readonly budgetChanges: readonly number[];
  readonly deposits: ReadonlyMap<
    string,
    { readonly bucket: "promo" | "paid"; readonly amount: bigint }
  >;
  readonly charges: readonly Charge[];
  /** What was taken to pay debts. */
  readonly collections: readonly Pick<Charge, "promo" | "paid">[];
  readonly holds: ReadonlyMap<string, ModelHold>;
  readonly keys: readonly ModelKey[];
  /** What the sweeper has selected without a lock; it reads the holds again under one. */
  readonly sweepCandidates: readonly string[];
  /** Rate-limited holds by key and time. */
  readonly rateLimited: readonly {
    readonly key: number;
    readonly at: number;
    readonly interval: number;
    readonly burst: number;
  }[];
};

export type Clock = {
  readonly now: number;
  readonly epochs: readonly number[];
  readonly seen: readonly number[];
};

export type ModelOperation =
  | {
      kind: "hold";
      id: string;
      key: number;
      amount: bigint;
      minimum: bigint | null;
      rateLimit: { interval: number; burst: number } | null;
      openMax: number | null;
      process: number;
      expiresAt: number;
    }
  | { kind: "raise"; id: string; amount: bigint }
  | { kind: "settle"; id: string; cost: bigint; byok: boolean }
  | { kind: "deposit"; id: string; bucket: "promo" | "paid"; amount: bigint }
  | { kind: "collect" }
  | { kind: "key"; key: number; change: Partial<ModelKey> }
  | { kind: "budget"; change: Partial<ModelBudget> }
  | { kind: "select dead" }
  | { kind: "sweep" }
  | { kind: "delete old" };

/** How long the ledger keeps swept holds. */
const WEEK_MS = 7 * 24 * 3_600_000;

export const emptyModel = (createdAt: number, keys: number): Model => ({
  createdAt,
  budget: { day: null, month: null },
  budgetChanges: [],
  deposits: new Map(),
  charges: [],
  collections: [],
  holds: new Map(),
  keys: Array.from({ length: keys }, () => ({
    revoked: false,
    expiresAt: null,
    limit: null,
    window: null,
  })),
  sweepCandidates: [],
  rateLimited: [],
});

const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, one) => total + one, 0n);
const minNano = (...amounts: readonly bigint[]): bigint =>
  amounts.reduce((a, b) => (b < a ? b : a));
const open = (model: Model): ModelHold[] =>
  [...model.holds.values()].filter((hold) => hold.state === "open");

export function balances(model: Model): {
  promo: bigint;
  paid: bigint;
  held: bigint;
  owed: bigint;
} {
  const bucket = (name: "promo" | "paid"): bigint =>
    sum(
      [...model.deposits.values()].filter((one) => one.bucket === name).map((one) => one.amount),
    ) - sum([...model.charges, ...model.collections].map((one) => one[name]));
  return {
    promo: bucket("promo"),
    paid: bucket("paid"),
    held: sum(open(model).map((one) => one.amount)),
    owed:
      sum(model.charges.map((one) => one.overrun)) -
      sum(model.collections.map((one) => one.promo + one.paid)),
  };
}

const costOf = ({ promo, paid, overrun }: Omit<Charge, "key" | "at">): bigint =>
  promo + paid + overrun;

export function keyState(
  model: Model,
  key: number,
): { held: bigint; calls: number; spent: bigint; day: number } {
  const mine = open(model).filter((one) => one.key === key);
  const charges = model.charges.filter((one) => one.key === key);
  return {
    held: sum(mine.map((one) => one.amount)),
    calls: mine.length,
    spent: sum(charges.map(costOf)),
    day: Math.max(midnight(model.createdAt), ...chargeDays(charges)),
  };
}

/** The name of a window sorts by time. A week is named by its Monday. */
function windowName(window: ModelKey["window"], at: number): string {
  if (window === null) return "";
  const date = new Date(at);
  if (window === "week") date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  return date.toISOString().slice(0, window === "month" ? 7 : 10);
}

/** A clock that steps back does not return to an earlier window. */
function spentIn(model: Model, key: number, window: ModelKey["window"], now: number): bigint {
  let current = windowName(window, model.createdAt);
  let spent = 0n;
  for (const one of [
    ...model.charges.filter((charge) => charge.key === key),
    { at: now, promo: 0n, paid: 0n, overrun: 0n },
  ]) {
    const name = windowName(window, one.at);
    if (name > current) [current, spent] = [name, 0n];
    spent += costOf(one);
  }
  return spent;
}

function remainingKeyLimit(model: Model, key: number, now: number): bigint | null {
  const rules = model.keys[key];
  if (rules === undefined || rules.limit === null) return null;
  const at = chargeTime(model, key, now);
  const remaining = rules.limit - spentIn(model, key, rules.window, at) - keyState(model, key).held;
  return remaining < 0n ? 0n : remaining;
}

const midnight = (at: number): number =>
  Date.parse(`${new Date(at).toISOString().slice(0, 10)}T00:00:00Z`);

const chargeDays = (charges: readonly Charge[]): number[] => charges.map((one) => midnight(one.at));
const hasBudget = (model: Model): boolean =>
  model.budget.day !== null || model.budget.month !== null;

/**
 * With a budget, all keys of a workspace share their windows: no key returns to an earlier day than another has
 * started.
 */
function chargeTime(model: Model, key: number, now: number): number {
  const own = chargeDays(model.charges.filter((one) => one.key === key));
  const all = hasBudget(model)
    ? [...chargeDays(model.charges), ...model.budgetChanges.map(midnight)]
    : [];
  return Math.max(now, midnight(model.createdAt), ...own, ...all);
}

/** The reported use: now, or on the last day that the workspace has started. */
export function budgetUsed(model: Model, now: number): { day: bigint; month: bigint } {
  const at = Math.max(
    now,
    midnight(model.createdAt),
    ...chargeDays(model.charges),
    ...(hasBudget(model) ? model.budgetChanges.map(midnight) : []),
  );
  return { day: budgetSpent(model, "day", at), month: budgetSpent(model, "month", at) };
}

/** Charges of all keys in the window. */
function budgetSpent(model: Model, window: keyof ModelBudget, at: number): bigint {
  const name = windowName(window, at);
  return sum(model.charges.filter((one) => windowName(window, one.at) >= name).map(costOf));
}

/** What each window still allows; the month first, because its reset is reported first. */
function remainingBudgets(
  model: Model,
  key: number,
  now: number,
): readonly (readonly [window: keyof ModelBudget, remaining: bigint])[] {
  const at = chargeTime(model, key, now);
  return (["month", "day"] as const).flatMap((window) => {
    const limit = model.budget[window];
    if (limit === null) return [];
    const remaining = limit - budgetSpent(model, window, at) - balances(model).held;
    return [[window, remaining < 0n ? 0n : remaining] as const];
  });
}

const remainingLimits = (model: Model, key: number, now: number): bigint[] => {
  const remaining = remainingKeyLimit(model, key, now);
  return [
    ...(remaining === null ? [] : [remaining]),
    ...remainingBudgets(model, key, now).map(([, one]) => one),
  ];
};

function rateLimitWaitMs(
  model: Model,
  key: number,
  rateLimit: { interval: number; burst: number },
  now: number,
): number {
  let next = 0;
  const seenAt = (at: number, { interval, burst }: { interval: number; burst: number }): number =>
    next > at + interval * burst + 10_000
      ? at + interval * (burst - 1)
      : Math.min(next, at + interval * burst);
  for (const one of model.rateLimited.filter((limited) => limited.key === key))
    next = Math.max(seenAt(one.at, one), one.at) + one.interval;
  return seenAt(now, rateLimit) - rateLimit.interval * (rateLimit.burst - 1) - now;
}

/** The model after the operation, and the expected reply of the ledger. */
export function applyOperation(
  model: Model,
  operation: ModelOperation,
  clock: Clock,
): readonly [Model, string] {
  switch (operation.kind) {
    case "hold":
      return hold(model, operation, clock);
    case "raise":
      return raise(model, operation, clock);
    case "settle":
      return settle(model, operation, clock);
    case "deposit":
      if (model.deposits.has(operation.id)) return [model, "false"];
      return [
        collect({
          ...model,
          deposits: new Map(model.deposits).set(operation.id, {
            bucket: operation.bucket,
            amount: operation.amount,
          }),
        }),
        "true",
      ];
    case "collect":
      return [collect(model), ""];
    case "key":
      return [
        {
          ...model,
          keys: model.keys.map((key, index) =>
            index === operation.key ? { ...key, ...operation.change } : key,
          ),
        },
        "",
      ];
    case "budget":
      return [
        {
          ...model,
          budget: { ...model.budget, ...operation.change },
          budgetChanges: [...model.budgetChanges, clock.now],
        },
        "",
      ];
    case "select dead": {
      const isDead = (one: ModelHold): boolean =>
        one.epoch < (clock.epochs[one.process] ?? 0) ||
        (clock.seen[one.process] ?? 0) < clock.now - 30_000;
      const sweepCandidates = [...model.holds]
        .filter(([, one]) => one.state === "open" && isDead(one))
        .map(([id]) => id);
      return [{ ...model, sweepCandidates }, ""];
    }
    case "sweep": {
      const holds = new Map(model.holds);
      for (const id of model.sweepCandidates) {
        const one = holds.get(id);
        if (one?.state === "open") holds.set(id, { ...one, state: "swept", sweptAt: clock.now });
      }
      return [{ ...model, holds, sweepCandidates: [] }, ""];
    }
    case "delete old": {
      const isOld = (one: ModelHold): boolean =>
        one.state === "swept" && (one.sweptAt ?? 0) < clock.now - WEEK_MS;
      const holds = [...model.holds].map(
        ([id, one]) => [id, isOld(one) ? { ...one, state: "resolved" as const } : one] as const,
      );
      return [{ ...model, holds: new Map(holds) }, ""];
    }
  }
}

/** Pays the debt from what is neither spent nor held. */
function collect(model: Model): Model {
  const { promo, paid, held, owed } = balances(model);
  const taken = minNano(owed, promo + paid - held);
  const fromPromo = minNano(taken, promo);
  const collection = { promo: fromPromo, paid: taken - fromPromo };
  return { ...model, collections: [...model.collections, collection] };
}

function hold(
  model: Model,
  operation: ModelOperation & { kind: "hold" },
  clock: Clock,
): readonly [Model, string] {
  const { now } = clock;
  const existing = model.holds.get(operation.id);
  if (existing !== undefined) return [model, `held ${existing.amount}`];
  const rejection = keyRejection(model, operation, now);
  if (rejection !== undefined) return [model, rejection];
  const { promo, paid, held, owed } = balances(model);
  if (operation.amount > 0n && owed > 0n) return [model, `frozen ${owed}`];
  const funds = promo + paid - held;
  const remaining = remainingKeyLimit(model, operation.key, now);
  // A minimum above the amount holds only the amount.
  const needed = minNano(operation.minimum ?? operation.amount, operation.amount);
  if (operation.amount > 0n && remaining !== null && needed > remaining)
    return [model, `key_limit ${remaining}`];
  const blocked = remainingBudgets(model, operation.key, now).find(([, one]) => needed > one);
  if (operation.amount > 0n && blocked !== undefined) return [model, `budget ${blocked.join(" ")}`];
  if (operation.amount > 0n && needed > funds)
    return [model, `insufficient_credits ${funds} ${promo + paid}`];
  const amount =
    operation.amount === 0n
      ? 0n
      : minNano(operation.amount, funds, ...remainingLimits(model, operation.key, now));
  const { process } = operation;
  const added: ModelHold = {
    key: operation.key,
    amount,
    process,
    epoch: clock.epochs[process] ?? 0,
    state: "open",
  };
  const limited =
    operation.rateLimit === null ? [] : [{ key: operation.key, at: now, ...operation.rateLimit }];
  return [
    {
      ...model,
      holds: new Map(model.holds).set(operation.id, added),
      rateLimited: [...model.rateLimited, ...limited],
    },
    `held ${amount}`,
  ];
}

function keyRejection(
  model: Model,
  operation: ModelOperation & { kind: "hold" },
  now: number,
): string | undefined {
  const key = model.keys[operation.key];
  if (key === undefined) return "key_rejected unknown";
  if (key.revoked) return "key_rejected revoked";
  if (key.expiresAt !== null && now >= key.expiresAt) return "key_rejected expired";
  const { calls } = keyState(model, operation.key);
  if (operation.openMax !== null && calls >= operation.openMax) return `too_many_calls ${calls}`;
  const wait =
    operation.rateLimit === null
      ? 0
      : rateLimitWaitMs(model, operation.key, operation.rateLimit, now);
  return wait > 0 ? `rate_limited ${wait}` : undefined;
}

function raise(
  model: Model,
  { id, amount }: ModelOperation & { kind: "raise" },
  { now }: Clock,
): readonly [Model, string] {
  const raised = model.holds.get(id);
  if (raised?.state !== "open") return [model, "lost"];
  if (amount <= raised.amount) return [model, `raised ${raised.amount}`];
  const { promo, paid, held, owed } = balances(model);
  if (owed > 0n) return [model, "refused"];
  const added = minNano(
    amount - raised.amount,
    promo + paid - held,
    ...remainingLimits(model, raised.key, now),
  );
  if (added <= 0n) return [model, "refused"];
  const after = { ...raised, amount: raised.amount + added };
  return [{ ...model, holds: new Map(model.holds).set(id, after) }, `raised ${after.amount}`];
}

function settle(
  model: Model,
  operation: ModelOperation & { kind: "settle" },
  clock: Clock,
): readonly [Model, string] {
  const settledHold = model.holds.get(operation.id);
  if (settledHold === undefined || settledHold.state === "resolved") return [model, "already"];
  const released: Model = {
    ...model,
    holds: new Map(model.holds).set(operation.id, { ...settledHold, state: "resolved" }),
  };
  const { promo, paid, held } = balances(released);
  const charged = minNano(operation.cost, promo + paid - held);
  const fromPromo = minNano(charged, promo);
  const charge = {
    key: settledHold.key,
    at: chargeTime(released, settledHold.key, clock.now),
    promo: fromPromo,
    paid: charged - fromPromo,
    overrun: operation.cost - charged,
  };
  const late = settledHold.state === "swept";
  return [
    { ...released, charges: [...released.charges, charge] },
    `settled ${charged} ${charge.overrun} ${late}`,
  ];
}
