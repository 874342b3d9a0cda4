/** @jsxImportSource hono/jsx */
// What a workspace may spend in a day and in a month, how much of it is used, and where it is set.

import type { Child } from "hono/jsx";
import { mayDo } from "../accounts/members.ts";
import { usdText } from "../base/money.ts";
import { BUDGET_FIELDS } from "../budgets/budgets.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { BUDGET_WINDOWS, type BudgetState, type BudgetWindow } from "../ledger/budget-rules.ts";
import type { BudgetStates } from "../ledger/budgets.ts";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import { minute, money } from "./words.ts";
import type { Place } from "./workspace.ts";

export interface BudgetsShown {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly budgets: BudgetStates;
  /** What was typed and could not be taken. */
  readonly typed?: Readonly<Partial<Record<BudgetWindow, string>>>;
  readonly wrong?: string;
}

const NAMES = { day: "Today", month: "This month" } as const;
const LABELS = { day: "A day", month: "A month" } as const;

export function budgetsPage({ visitor, place, budgets, typed, wrong }: BudgetsShown): PageFrame {
  return consolePage({
    title: "Budgets",
    place,
    visitor,
    page: "/budgets",
    main: (
      <>
        {wrong === undefined ? null : (
          <p id="wrong" class="wrong" role="alert">
            {wrong}
          </p>
        )}
        <p>
          A budget bounds what all keys of the workspace spend together. A call that does not fit is
          refused. Days and months are those of UTC.
        </p>
        {BUDGET_WINDOWS.map((window) => (
          <Gauge state={budgets[window]} />
        ))}
        {mayDo(place.role, "budgets.change") ? (
          <BudgetForm visitor={visitor} place={place} values={typed ?? valuesOf(budgets)} />
        ) : (
          <p class="note">The owner sets the budgets.</p>
        )}
      </>
    ),
  });
}

function Gauge({ state }: { readonly state: BudgetState }): Child {
  const { window, limit, used, held, room, endsAt } = state;
  const percent = limit === null || limit === 0n ? 0 : Number((used * 100n) / limit);
  const running = held === 0n ? "" : ` ${money(held)} is held by calls that run now.`;
  return (
    <section class="card" aria-labelledby={`${window}-title`}>
      <h2 id={`${window}-title`}>
        {NAMES[window]}: {money(used)} {limit === null ? "spent" : `of ${money(limit)}`}
      </h2>
      {limit === null ? (
        <p>No budget.</p>
      ) : (
        <>
          <progress
            class={percent >= 100 ? "danger" : percent >= 80 ? "warn" : undefined}
            max={100}
            value={Math.min(percent, 100)}
            aria-labelledby={`${window}-title`}
          >
            {percent} %
          </progress>
          <p>
            {room === 0n ? "Nothing is left." : `${money(room ?? 0n)} is left.`}
            {running} It begins anew on {minute(endsAt)}.
          </p>
        </>
      )}
    </section>
  );
}

interface BudgetFormProps {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly values: Readonly<Partial<Record<BudgetWindow, string>>>;
}

function BudgetForm({ visitor, place, values }: BudgetFormProps): Child {
  return (
    <section class="card" aria-labelledby="set">
      <h2 id="set">Set the budgets</h2>
      <form method="post" action={pathOf(place.accountId, "/budgets")}>
        <Hidden visitor={visitor} fields={{}} />
        {BUDGET_WINDOWS.map((window) => (
          <>
            <label for={`budget-${window}`}>{LABELS[window]}, in US dollars</label>
            <input
              id={`budget-${window}`}
              name={BUDGET_FIELDS[window]}
              inputmode="decimal"
              pattern="[0-9]{1,7}([.][0-9]{1,9})?"
              value={values[window] ?? ""}
              aria-describedby="budget-hint"
            />
          </>
        ))}
        <p id="budget-hint" class="hint">
          Leave it empty for no budget; 0 stops all calls that cost something. Webhooks hear of
          half, four fifths and all of a budget.
        </p>
        <div class="choices">
          <button type="submit">Set the budgets</button>
        </div>
      </form>
    </section>
  );
}

function valuesOf(budgets: BudgetStates): Readonly<Record<BudgetWindow, string>> {
  const text = ({ limit }: BudgetState): string => (limit === null ? "" : usdText(limit));
  return { day: text(budgets.day), month: text(budgets.month) };
}
