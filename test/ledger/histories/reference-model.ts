// What the ledger must do to one account, said a second time and in another way: the model keeps what happened and adds
// it all up again for every question, where the ledger keeps balances.

export type ModelHold = {
  readonly key: number;
  readonly amount: bigint;
  readonly process: number;
  readonly epoch: number;
  readonly expiresAt: number;
  readonly state: "open" | "swept" | "resolved";
  readonly sweptAt?: number;
};

export type ModelKey = {
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

export type ModelBudget = { readonly day: bigint | null; readonly month: bigint | null };

export type Model = {
  readonly createdAt: number;
  readonly budget: ModelBudget;
  /** When the budget was set, whether or not it then bounded anything. */
  readonly budgeted: readonly number[];
  readonly deposits: ReadonlyMap<
    string,
    { readonly bucket: "promo" | "paid"; readonly amount: bigint }
  >;
  readonly charges: readonly Charge[];
  readonly holds: ReadonlyMap<string, ModelHold>;
  readonly keys: readonly ModelKey[];
  /** What the sweeper means to sweep. It looks without a lock, and looks again with one. */
  readonly sweepCandidates: readonly string[];
  /** When which key made a hold under a pace. */
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
      pace: { interval: number; burst: number } | null;
      openMax: number | null;
      process: number;
      expiresAt: number;
    }
  | { kind: "settle"; id: string; cost: bigint; byok: boolean }
  | { kind: "deposit"; id: string; bucket: "promo" | "paid"; amount: bigint }
  | { kind: "key"; key: number; change: Partial<ModelKey> }
  | { kind: "budget"; change: Partial<ModelBudget> }
  | { kind: "pick" }
  | { kind: "sweep" }
  | { kind: "forget" };

/** How long the ledger remembers what was swept. */
const WEEK_MS = 7 * 24 * 3_600_000;

export const emptyModel = (createdAt: number, keys: number): Model => ({
  createdAt,
  budget: { day: null, month: null },
  budgeted: [],
  deposits: new Map(),
  charges: [],
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

export function balances(model: Model): { promo: bigint; paid: bigint; held: bigint } {
  const bucket = (name: "promo" | "paid"): bigint =>
    sum(
      [...model.deposits.values()].filter((one) => one.bucket === name).map((one) => one.amount),
    ) - sum(model.charges.map((one) => one[name]));
  return {
    promo: bucket("promo"),
    paid: bucket("paid"),
    held: sum(open(model).map((one) => one.amount)),
  };
}

export function keyState(
  model: Model,
  key: number,
): { held: bigint; calls: number; spent: bigint; day: number } {
  const mine = open(model).filter((one) => one.key === key);
  const charges = model.charges.filter((one) => one.key === key);
  return {
    held: sum(mine.map((one) => one.amount)),
    calls: mine.length,
    spent: sum(charges.map((one) => one.promo + one.paid)),
    day: Math.max(midnight(model.createdAt), ...chargeDays(charges)),
  };
}

/** The window's name: it sorts by time. A week is named by its Monday. */
function windowName(window: ModelKey["window"], at: number): string {
  if (window === null) return "";
  const date = new Date(at);
  if (window === "week") date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  return date.toISOString().slice(0, window === "month" ? 7 : 10);
}

/** A window that has begun is not left again when the clock steps back. */
function spentIn(model: Model, key: number, window: ModelKey["window"], now: number): bigint {
  let current = windowName(window, model.createdAt);
  let spent = 0n;
  for (const one of [
    ...model.charges.filter((charge) => charge.key === key),
    { at: now, promo: 0n, paid: 0n },
  ]) {
    const name = windowName(window, one.at);
    if (name > current) [current, spent] = [name, 0n];
    spent += one.promo + one.paid;
  }
  return spent;
}

function remainingKeyLimit(model: Model, key: number, now: number): bigint | null {
  const rules = model.keys[key];
  if (rules === undefined || rules.limit === null) return null;
  const at = chargeTime(model, key, now);
  const left = rules.limit - spentIn(model, key, rules.window, at) - keyState(model, key).held;
  return left < 0n ? 0n : left;
}

const midnight = (at: number): number =>
  Date.parse(`${new Date(at).toISOString().slice(0, 10)}T00:00:00Z`);

const chargeDays = (charges: readonly Charge[]): number[] => charges.map((one) => midnight(one.at));
const hasBudget = (model: Model): boolean =>
  model.budget.day !== null || model.budget.month !== null;

/** With a budget, the keys of a workspace have one calendar: a day that one has begun, none leaves again. */
function chargeTime(model: Model, key: number, now: number): number {
  const own = chargeDays(model.charges.filter((one) => one.key === key));
  const all = hasBudget(model)
    ? [...chargeDays(model.charges), ...model.budgeted.map(midnight)]
    : [];
  return Math.max(now, midnight(model.createdAt), ...own, ...all);
}

/** What is shown as used, now or at the last day that the workspace has begun. */
export function budgetUsed(model: Model, now: number): { day: bigint; month: bigint } {
  const at = Math.max(
    now,
    midnight(model.createdAt),
    ...chargeDays(model.charges),
    ...(hasBudget(model) ? model.budgeted.map(midnight) : []),
  );
  return { day: budgetSpent(model, "day", at), month: budgetSpent(model, "month", at) };
}

/** What was charged in the calendar's window, whichever key it was. */
function budgetSpent(model: Model, window: keyof ModelBudget, at: number): bigint {
  const name = windowName(window, at);
  return sum(
    model.charges
      .filter((one) => windowName(window, one.at) >= name)
      .map((one) => one.promo + one.paid),
  );
}

/** The window that leaves too little, the month before the day; and what the less of both leaves. */
function remainingBudgets(
  model: Model,
  key: number,
  now: number,
): readonly (readonly [window: keyof ModelBudget, left: bigint])[] {
  const at = chargeTime(model, key, now);
  return (["month", "day"] as const).flatMap((window) => {
    const limit = model.budget[window];
    if (limit === null) return [];
    const left = limit - budgetSpent(model, window, at) - balances(model).held;
    return [[window, left < 0n ? 0n : left] as const];
  });
}

const remainingLimits = (model: Model, key: number, now: number): bigint[] => {
  const left = remainingKeyLimit(model, key, now);
  return [
    ...(left === null ? [] : [left]),
    ...remainingBudgets(model, key, now).map(([, one]) => one),
  ];
};

function rateLimitWaitMs(
  model: Model,
  key: number,
  pace: { interval: number; burst: number },
  now: number,
): number {
  let next = 0;
  const seenAt = (at: number, { interval, burst }: { interval: number; burst: number }): number =>
    next > at + interval * burst + 10_000
      ? at + interval * (burst - 1)
      : Math.min(next, at + interval * burst);
  for (const one of model.rateLimited.filter((paced) => paced.key === key))
    next = Math.max(seenAt(one.at, one), one.at) + one.interval;
  return seenAt(now, pace) - pace.interval * (pace.burst - 1) - now;
}

/** What the act does, and the words that the ledger must answer. */
export function applyOperation(
  model: Model,
  what: ModelOperation,
  clock: Clock,
): readonly [Model, string] {
  switch (what.kind) {
    case "hold":
      return hold(model, what, clock);
    case "settle":
      return settle(model, what, clock);
    case "deposit":
      if (model.deposits.has(what.id)) return [model, "false"];
      return [
        {
          ...model,
          deposits: new Map(model.deposits).set(what.id, {
            bucket: what.bucket,
            amount: what.amount,
          }),
        },
        "true",
      ];
    case "key":
      return [
        {
          ...model,
          keys: model.keys.map((key, place) =>
            place === what.key ? { ...key, ...what.change } : key,
          ),
        },
        "",
      ];
    case "budget":
      return [
        {
          ...model,
          budget: { ...model.budget, ...what.change },
          budgeted: [...model.budgeted, clock.now],
        },
        "",
      ];
    case "pick": {
      const isDead = (one: ModelHold): boolean =>
        one.expiresAt < clock.now ||
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
    case "forget": {
      const isOld = (one: ModelHold): boolean =>
        one.state === "swept" && (one.sweptAt ?? 0) < clock.now - WEEK_MS;
      const holds = [...model.holds].map(
        ([id, one]) => [id, isOld(one) ? { ...one, state: "resolved" as const } : one] as const,
      );
      return [{ ...model, holds: new Map(holds) }, ""];
    }
  }
}

function hold(
  model: Model,
  what: ModelOperation & { kind: "hold" },
  clock: Clock,
): readonly [Model, string] {
  const { now } = clock;
  const known = model.holds.get(what.id);
  if (known !== undefined) return [model, `held ${known.amount}`];
  const refusal = keyRejection(model, what, now);
  if (refusal !== undefined) return [model, refusal];
  const { promo, paid, held } = balances(model);
  const funds = promo + paid - held;
  const left = remainingKeyLimit(model, what.key, now);
  // A minimum above the amount asks for no more than the amount.
  const needed = minNano(what.minimum ?? what.amount, what.amount);
  if (what.amount > 0n && left !== null && needed > left) return [model, `key_limit ${left}`];
  const blocked = remainingBudgets(model, what.key, now).find(([, one]) => needed > one);
  if (what.amount > 0n && blocked !== undefined) return [model, `budget ${blocked.join(" ")}`];
  if (what.amount > 0n && needed > funds)
    return [model, `insufficient_credits ${funds} ${promo + paid}`];
  const amount =
    what.amount === 0n ? 0n : minNano(what.amount, funds, ...remainingLimits(model, what.key, now));
  const { process, expiresAt } = what;
  const made: ModelHold = {
    key: what.key,
    amount,
    process,
    epoch: clock.epochs[process] ?? 0,
    expiresAt,
    state: "open",
  };
  const paced = what.pace === null ? [] : [{ key: what.key, at: now, ...what.pace }];
  return [
    {
      ...model,
      holds: new Map(model.holds).set(what.id, made),
      rateLimited: [...model.rateLimited, ...paced],
    },
    `held ${amount}`,
  ];
}

function keyRejection(
  model: Model,
  what: ModelOperation & { kind: "hold" },
  now: number,
): string | undefined {
  const key = model.keys[what.key];
  if (key === undefined) return "key_rejected unknown";
  if (key.revoked) return "key_rejected revoked";
  if (key.expiresAt !== null && now >= key.expiresAt) return "key_rejected expired";
  const { calls } = keyState(model, what.key);
  if (what.openMax !== null && calls >= what.openMax) return `too_many_calls ${calls}`;
  const wait = what.pace === null ? 0 : rateLimitWaitMs(model, what.key, what.pace, now);
  return wait > 0 ? `rate_limited ${wait}` : undefined;
}

function settle(
  model: Model,
  what: ModelOperation & { kind: "settle" },
  clock: Clock,
): readonly [Model, string] {
  const found = model.holds.get(what.id);
  if (found === undefined || found.state === "resolved") return [model, "already"];
  const freed: Model = {
    ...model,
    holds: new Map(model.holds).set(what.id, { ...found, state: "resolved" }),
  };
  const { promo, paid, held } = balances(freed);
  const promised = found.state === "open" ? found.amount : 0n;
  const bounds = remainingLimits(freed, found.key, clock.now).map((left) =>
    left > promised ? left : promised,
  );
  const charged = minNano(what.cost, promo + paid - held, ...bounds);
  const fromPromo = minNano(charged, promo);
  const charge = {
    key: found.key,
    at: chargeTime(freed, found.key, clock.now),
    promo: fromPromo,
    paid: charged - fromPromo,
    overrun: what.cost - charged,
  };
  const late = found.state === "swept";
  return [
    { ...freed, charges: [...freed.charges, charge] },
    `settled ${charged} ${charge.overrun} ${late}`,
  ];
}
