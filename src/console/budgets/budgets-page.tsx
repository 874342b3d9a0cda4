/** @jsxImportSource hono/jsx */
// The daily and monthly budgets of a workspace, how much of them is used, and the form to set them. All members see
// them; only the owner changes them.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { BUDGET_FIELDS, changeBudgets, parseBudget } from "../../accounts/budgets.ts";
import { hasPermission } from "../../accounts/members.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { type Nano, usdText } from "../../base/money/money.ts";
import { formatSum } from "../../base/text/format.ts";
import { Card, Tag, UsageBar } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import { BUDGET_WINDOWS, type BudgetState, type BudgetWindow } from "../../ledger/budget-rules.ts";
import { type BudgetStates, getBudgets } from "../../ledger/wallet-budgets.ts";
import type { Db } from "../../store/db.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";

interface BudgetsPageProps extends WorkspaceView {
  readonly budgets: BudgetStates;
  /** The values of the rejected form. */
  readonly formValues?: Readonly<Partial<Record<BudgetWindow, string>>>;
  readonly error?: FormError;
  readonly done?: string | undefined;
}

const WINDOW_TITLES = { day: "Today", month: "This month" } as const;
const WINDOW_LABELS = { day: "Daily budget (USD)", month: "Monthly budget (USD)" } as const;

export function budgetsPage({
  user,
  workspace,
  budgets,
  formValues,
  error,
  done,
}: BudgetsPageProps): PageLayout {
  return consolePage({
    title: "Budgets",
    workspace,
    user,
    page: "/budgets",
    main: (
      <>
        <DoneNotice texts={DONE_TEXTS} done={done} />
        <p>
          A budget limits what all keys of the workspace spend together. Calls that would exceed it
          are rejected. Days and months are in UTC.
        </p>
        <div class="side-by-side">
          {BUDGET_WINDOWS.map((window) => (
            <BudgetCard state={budgets[window]} />
          ))}
        </div>
        {hasPermission(workspace.role, "budgets.change") ? (
          <BudgetForm
            user={user}
            workspace={workspace}
            values={formValues ?? limitValues(budgets)}
            error={error}
          />
        ) : (
          <p class="note">Only owners, admins and billing members can change budgets.</p>
        )}
      </>
    ),
  });
}

const DONE_TEXTS = { saved: "The budgets are saved. They apply to the next call." } as const;

function BudgetCard({ state }: { readonly state: BudgetState }): Child {
  const { window, limit, used, held, remaining, endsAt } = state;
  const percent = limit === null || limit === 0n ? 0 : Number((used * 100n) / limit);
  const shown = formatSum([used, held, remaining ?? 0n], limit ?? undefined);
  const [shownUsed, shownHeld, shownLeft] = shown.parts;
  const running = held === 0n ? "" : ` ${shownHeld} is on hold for running calls.`;
  const tone = percent >= 100 ? "danger" : percent >= 80 ? "warn" : "good";
  return (
    <Card
      id={`${window}-title`}
      title={WINDOW_TITLES[window]}
      aside={limit === null ? <Tag>no budget</Tag> : <Tag tone={tone}>{percent}% used</Tag>}
    >
      <p class="amount">
        <b>{shownUsed}</b> {limit === null ? "spent" : `of ${shown.total}`}
      </p>
      {limit === null ? (
        <p class="note">No budget is set.</p>
      ) : (
        <>
          <UsageBar label={WINDOW_TITLES[window]} used={used} limit={limit} />
          <p class="note">
            {shownLeft} left.{running} Resets on <DateTime at={endsAt} />.
          </p>
        </>
      )}
    </Card>
  );
}

interface BudgetFormProps extends WorkspaceView {
  readonly values: Readonly<Partial<Record<BudgetWindow, string>>>;
  readonly error: FormError | undefined;
}

function BudgetForm({ user, workspace, values, error }: BudgetFormProps): Child {
  const isFieldError = BUDGET_WINDOWS.some((window) => BUDGET_FIELDS[window] === error?.field);
  return (
    <Card id="set" title="Set budgets">
      <ErrorMessage message={isFieldError ? undefined : error?.message} />
      <PostForm
        user={user}
        action={workspacePath(workspace.accountId, "/budgets")}
        submit="Save budgets"
      >
        <div class="fields">
          {BUDGET_WINDOWS.map((window) => (
            <Field
              id={`budget-${window}`}
              name={BUDGET_FIELDS[window]}
              label={WINDOW_LABELS[window]}
              inputMode="decimal"
              value={values[window] ?? ""}
              error={error?.field === BUDGET_FIELDS[window] ? error.message : undefined}
            />
          ))}
        </div>
        <p class="hint">
          Leave a field empty for no budget. 0 rejects all calls that cost credits.{" "}
          {workspace.sendsEmails ? "Emails and webhooks" : "Webhooks"} are sent at 50%, 80% and 100%
          of a budget.
        </p>
      </PostForm>
    </Card>
  );
}

function limitValues(budgets: BudgetStates): Readonly<Record<BudgetWindow, string>> {
  const text = ({ limit }: BudgetState): string => (limit === null ? "" : usdText(limit));
  return { day: text(budgets.day), month: text(budgets.month) };
}

interface BudgetPageDeps extends ConsoleReadDeps {
  readonly db: Db;
}

const PATH = "/console/{account}/budgets";

export function budgetPageRoutes(deps: BudgetPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: BudgetPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceBudgets",
    summary: "Show the budgets of a workspace",
    query: z.object(DoneQuery),
    permission: "budgets.read",
    run: async ({ view, account, query: { done }, now }) =>
      budgetsPage({ ...view, budgets: await getBudgets(deps.db, account, now), done }),
  });
}

const BudgetBody = z.object({
  [BUDGET_FIELDS.day]: z.string(),
  [BUDGET_FIELDS.month]: z.string(),
});

function changeRoute(deps: BudgetPageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeWorkspaceBudgets",
    summary: "Set the budgets of a workspace",
    body: BudgetBody,
    requestExample: { daily_usd: "5", monthly_usd: "100" },
    permission: "budgets.change",
    write: async (tx, { act, body }) => {
      const limits = {
        day: parseBudgetInput(BUDGET_FIELDS.day, body.daily_usd),
        month: parseBudgetInput(BUDGET_FIELDS.month, body.monthly_usd),
      };
      await changeBudgets(tx, act, limits);
    },
    done: ({ account }) => donePath(workspacePath(account, "/budgets"), "saved"),
    rejected: async ({ view, account, body, now }, error) => {
      const budgets = await getBudgets(deps.db, account, now);
      const formValues = { day: body.daily_usd, month: body.monthly_usd };
      return budgetsPage({ ...view, budgets, formValues, error });
    },
  });
}

/** An empty field means no budget. */
function parseBudgetInput(field: Parameters<typeof parseBudget>[0], input: string): Nano | null {
  const text = plainAmount(input);
  return text === "" ? null : (parseBudget(field, text) ?? null);
}
