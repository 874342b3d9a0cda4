/** @jsxImportSource hono/jsx */
// The daily and monthly budgets of a workspace, how much of them is used, and the form to set them.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { usdText } from "../../base/money.ts";
import { BUDGET_FIELDS } from "../../budgets/budgets.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { BUDGET_WINDOWS, type BudgetState, type BudgetWindow } from "../../ledger/budget-rules.ts";
import type { BudgetStates } from "../../ledger/budgets.ts";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { formatDateTime, formatUsd } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";

export interface BudgetsPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly budgets: BudgetStates;
  /** The values of the rejected form. */
  readonly formValues?: Readonly<Partial<Record<BudgetWindow, string>>>;
  readonly errorMessage?: string;
}

const WINDOW_TITLES = { day: "Today", month: "This month" } as const;
const WINDOW_LABELS = { day: "Daily budget (USD)", month: "Monthly budget (USD)" } as const;

export function budgetsPage({
  user,
  workspace,
  budgets,
  formValues,
  errorMessage,
}: BudgetsPageProps): PageLayout {
  return consolePage({
    title: "Budgets",
    workspace,
    user,
    page: "/budgets",
    main: (
      <>
        {errorMessage === undefined ? null : (
          <p id="wrong" class="error" role="alert">
            {errorMessage}
          </p>
        )}
        <p>
          A budget limits what all keys of the workspace spend together. Calls that would exceed it
          are rejected. Days and months are in UTC.
        </p>
        {BUDGET_WINDOWS.map((window) => (
          <BudgetCard state={budgets[window]} />
        ))}
        {hasPermission(workspace.role, "budgets.change") ? (
          <BudgetForm
            user={user}
            workspace={workspace}
            values={formValues ?? limitValues(budgets)}
          />
        ) : (
          <p class="note">Only the owner can change budgets.</p>
        )}
      </>
    ),
  });
}

function BudgetCard({ state }: { readonly state: BudgetState }): Child {
  const { window, limit, used, held, remaining, endsAt } = state;
  const percent = limit === null || limit === 0n ? 0 : Number((used * 100n) / limit);
  const running = held === 0n ? "" : ` ${formatUsd(held)} is on hold for running calls.`;
  return (
    <section class="card" aria-labelledby={`${window}-title`}>
      <h2 id={`${window}-title`}>
        {WINDOW_TITLES[window]}: {formatUsd(used)}{" "}
        {limit === null ? "spent" : `of ${formatUsd(limit)}`}
      </h2>
      {limit === null ? (
        <p>No budget is set.</p>
      ) : (
        <>
          <progress
            class={percent >= 100 ? "danger" : percent >= 80 ? "warn" : undefined}
            max={100}
            value={Math.min(percent, 100)}
            aria-labelledby={`${window}-title`}
          >
            {percent}%
          </progress>
          <p>
            {formatUsd(remaining ?? 0n)} left.{running} Resets on {formatDateTime(endsAt)}.
          </p>
        </>
      )}
    </section>
  );
}

interface BudgetFormProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly values: Readonly<Partial<Record<BudgetWindow, string>>>;
}

function BudgetForm({ user, workspace, values }: BudgetFormProps): Child {
  return (
    <section class="card" aria-labelledby="set">
      <h2 id="set">Set budgets</h2>
      <form method="post" action={workspacePath(workspace.accountId, "/budgets")}>
        <HiddenFields user={user} fields={{}} />
        {BUDGET_WINDOWS.map((window) => (
          <>
            <label for={`budget-${window}`}>{WINDOW_LABELS[window]}</label>
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
          Leave a field empty for no budget. 0 rejects all calls that cost credits. Webhooks fire at
          50%, 80% and 100% of a budget.
        </p>
        <div class="actions">
          <button type="submit">Save budgets</button>
        </div>
      </form>
    </section>
  );
}

function limitValues(budgets: BudgetStates): Readonly<Record<BudgetWindow, string>> {
  const text = ({ limit }: BudgetState): string => (limit === null ? "" : usdText(limit));
  return { day: text(budgets.day), month: text(budgets.month) };
}
