/** @jsxImportSource hono/jsx */
// Auto top-up: its status, the payment method and the rules that the owner sets.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import type { StopReason } from "../../billing/top-up/auto-top-up.ts";
import { feeOf, formatCents, usdOfCents } from "../../billing/invoices/cents.ts";
import type { AutoTopUp } from "../../billing/top-up/top-up-rows.ts";
import type { AutoTopUpSummary } from "../../billing/top-up/auto-top-up-summary.ts";
import type { SessionUser } from "../../http/route.ts";
import { HiddenFields, workspacePath } from "../console-layout.tsx";
import { formatDateTime } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";

const STOP_REASON_TEXT: Readonly<Record<StopReason, string>> = {
  payment_failed: "two payments in a row failed",
  payment_not_credited:
    "a payment could not be matched to an invoice, and the operator is looking into it",
  no_payment_method: "the saved payment method can no longer be charged",
  payment_disputed: "a payment of this workspace was disputed",
  payment_refunded: "a payment was refunded, and the balance is below the threshold",
};
const FAILURE_TEXT: Readonly<Record<string, string>> = {
  declined: "the payment was declined",
  authentication_required: "the bank requires confirmation of the payment",
  method_gone: "the payment method no longer exists",
  processor_unreachable: "the payment service could not be reached",
  not_credited: "the payment could not be matched to an invoice",
};

/** A warning if auto top-up has failed or stopped. */
export function TopUpNotice({
  workspace,
  topUp: { settings, lastTopUp },
  linksToBilling = false,
}: {
  readonly workspace: WorkspaceContext;
  readonly topUp: AutoTopUpSummary;
  /** Set on pages other than the billing page. */
  readonly linksToBilling?: boolean;
}): Child {
  if (settings === undefined || settings.status === "off") return null;
  const failed = lastTopUp?.state === "failed" ? FAILURE_TEXT[lastTopUp.reason ?? ""] : undefined;
  if (settings.status === "stopped")
    return (
      <p class="notice danger" role="alert">
        Auto top-up stopped: {stopReasonText(settings)}
        {settings.stoppedReason === "payment_failed" && failed !== undefined
          ? ` (last: ${failed})`
          : ""}
        . No credits are bought until the owner turns it on again
        {linksToBilling ? (
          <>
            {" "}
            on the <a href={workspacePath(workspace.accountId, "/billing")}>billing page</a>
          </>
        ) : null}
        .
      </p>
    );
  if (settings.failures > 0 && settings.dueAt !== null)
    return (
      <p class="notice warn" role="status">
        The last automatic purchase failed: {failed ?? "the payment failed"}. It will be retried
        once, on {formatDateTime(settings.dueAt)}.
      </p>
    );
  return null;
}

/** The amounts of a rejected form, as entered. */
export interface BillingFormValues {
  readonly form: "buy" | "allow";
  readonly amount_usd: string;
  readonly threshold_usd?: string;
  readonly monthly_ceiling_usd?: string;
}

export interface TopUpCardProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly topUp: AutoTopUpSummary;
  readonly canSaveMethods: boolean;
  readonly formValues?: BillingFormValues;
}

export function TopUpCard({
  user,
  workspace,
  topUp,
  canSaveMethods,
  formValues,
}: TopUpCardProps): Child {
  const { settings, method } = topUp;
  const mayChange = hasPermission(workspace.role, "billing.auto_top_up");
  return (
    <section class="card" aria-labelledby="auto">
      <h2 id="auto">Auto top-up is {settings?.status ?? "off"}</h2>
      <TopUpStatus topUp={topUp} />
      {canSaveMethods ? null : (
        <p>Auto top-up is not available: this gateway accepts bank transfers only.</p>
      )}
      {canSaveMethods && mayChange ? (
        <>
          <PaymentMethodForm user={user} workspace={workspace} method={method} />
          {method === null ? null : (
            <TopUpRulesForm
              user={user}
              workspace={workspace}
              settings={settings}
              formValues={formValues}
            />
          )}
        </>
      ) : null}
      {mayChange ? null : <p class="note">Only the owner can change auto top-up.</p>}
      {mayChange && settings !== undefined && settings.status !== "off" ? (
        <form method="post" action={workspacePath(workspace.accountId, "/billing")}>
          <HiddenFields user={user} fields={{ do: "turn_off" }} />
          <div class="actions">
            <button type="submit" class="secondary">
              Turn off auto top-up
            </button>
          </div>
        </form>
      ) : null}
    </section>
  );
}

function TopUpStatus({
  topUp: { settings, boughtCents },
}: {
  readonly topUp: AutoTopUpSummary;
}): Child {
  if (settings === undefined || settings.status === "off")
    return (
      <p>
        Auto top-up buys credits when the balance falls below a threshold, so that calls keep
        working.
      </p>
    );
  const { thresholdCents, amountCents, ceilingCents, dueAt } = settings;
  const atCeiling = boughtCents + amountCents > ceilingCents;
  return (
    <>
      <p>
        When the balance falls below {formatCents(thresholdCents)}, auto top-up buys{" "}
        {formatCents(amountCents)} of credits and charges{" "}
        {formatCents(amountCents + feeOf(amountCents))} before tax. Bought this month:{" "}
        {formatCents(boughtCents)} of {formatCents(ceilingCents)}.
      </p>
      {settings.status === "on" && atCeiling ? (
        <p class="note">
          Another purchase would exceed the monthly limit.
          {dueAt === null ? "" : ` Purchases resume on ${formatDateTime(dueAt)}.`}
        </p>
      ) : null}
    </>
  );
}

interface PaymentMethodFormProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly method: string | null;
}

function PaymentMethodForm({ user, workspace, method }: PaymentMethodFormProps): Child {
  return (
    <form method="post" action={workspacePath(workspace.accountId, "/billing")}>
      <HiddenFields user={user} fields={{}} />
      <p>
        {method === null ? (
          "No payment method saved."
        ) : (
          <>
            Payment method: <strong>{method}</strong>
          </>
        )}
      </p>
      <div class="actions">
        <button
          type="submit"
          name="do"
          value="save_method"
          class={method === null ? undefined : "secondary"}
        >
          {method === null ? "Save payment method" : "Replace payment method"}
        </button>
        {method === null ? null : (
          <button type="submit" name="do" value="remove_method" class="danger">
            Remove payment method
          </button>
        )}
      </div>
    </form>
  );
}

interface TopUpRulesFormProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly settings: AutoTopUp | undefined;
  readonly formValues: BillingFormValues | undefined;
}

const RULE_FIELDS = [
  ["threshold_usd", "Balance threshold (USD)", "thresholdCents"],
  ["amount_usd", "Amount per purchase (USD)", "amountCents"],
  ["monthly_ceiling_usd", "Monthly limit (USD)", "ceilingCents"],
] as const;

function TopUpRulesForm({ user, workspace, settings, formValues }: TopUpRulesFormProps): Child {
  const values = formValues?.form === "allow" ? formValues : undefined;
  return (
    <form method="post" action={workspacePath(workspace.accountId, "/billing")}>
      <HiddenFields user={user} fields={{ do: "allow" }} />
      {RULE_FIELDS.map(([name, label, field]) => (
        <>
          <label for={`auto-${name}`}>{label}</label>
          <input
            id={`auto-${name}`}
            name={name}
            inputmode="decimal"
            pattern="[0-9]{1,7}([.][0-9]{1,2})?"
            required
            value={
              values?.[name] ?? (settings === undefined ? "" : String(usdOfCents(settings[field])))
            }
            aria-describedby="auto-hint"
          />
        </>
      ))}
      <p id="auto-hint" class="hint">
        Credits are bought when the balance falls below the threshold. The 5% fee and tax are added
        to each purchase. Months are in UTC. Anyone who has a key can spend these credits; you can
        limit keys and set budgets.
      </p>
      <div class="actions">
        <button type="submit">{settings?.status === "on" ? "Save" : "Turn on auto top-up"}</button>
      </div>
    </form>
  );
}

function stopReasonText({ stoppedReason }: AutoTopUp): string {
  const known = Object.entries(STOP_REASON_TEXT).find(([reason]) => reason === stoppedReason);
  return known?.[1] ?? "something went wrong";
}
