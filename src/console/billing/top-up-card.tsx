/** @jsxImportSource hono/jsx */
// Buying credits by itself, as the owner allows it: the payment method, the amounts, and how it stands.

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
  payment_not_credited: "a payment came that fits no invoice, which the operator looks into",
  no_payment_method: "the saved payment method can no longer be charged",
  payment_disputed: "a payment of this workspace was disputed",
  payment_refunded: "money was given back, and the balance is below the threshold",
};
const FAILURE_TEXT: Readonly<Record<string, string>> = {
  declined: "the payment was declined",
  authentication_required: "the bank wants its customer to confirm the payment",
  method_gone: "the payment method is gone",
  processor_unreachable: "the payment service could not be reached",
  not_credited: "the payment fits no invoice",
};

/** What somebody has to know without looking for it. */
export function TopUpNotice({
  workspace,
  topUp: { settings, lastTopUp },
  linksToBilling = false,
}: {
  readonly workspace: WorkspaceContext;
  readonly topUp: AutoTopUpSummary;
  /** On another page than that of billing. */
  readonly linksToBilling?: boolean;
}): Child {
  if (settings === undefined || settings.status === "off") return null;
  const failed = lastTopUp?.state === "failed" ? FAILURE_TEXT[lastTopUp.reason ?? ""] : undefined;
  if (settings.status === "stopped")
    return (
      <p class="notice danger" role="alert">
        Auto top-up has stopped: {stopReasonText(settings)}
        {settings.stoppedReason === "payment_failed" && failed !== undefined
          ? `, the last one because ${failed}`
          : ""}
        . No credits are bought until the owner turns it on again
        {linksToBilling ? (
          <>
            , on the <a href={workspacePath(workspace.accountId, "/billing")}>billing page</a>
          </>
        ) : null}
        .
      </p>
    );
  if (settings.failures > 0 && settings.dueAt !== null)
    return (
      <p class="notice warn" role="status">
        The last automatic purchase failed: {failed ?? "the payment failed"}. It is tried once more
        at {formatDateTime(settings.dueAt)}.
      </p>
    );
  return null;
}

/** The amounts of a form that was refused, as they were typed. */
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
        <p>This gateway is paid by bank transfer, so there is nothing that it could charge.</p>
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
      {mayChange ? null : <p class="note">The owner turns it on and off.</p>}
      {mayChange && settings !== undefined && settings.status !== "off" ? (
        <form method="post" action={workspacePath(workspace.accountId, "/billing")}>
          <HiddenFields user={user} fields={{ do: "turn_off" }} />
          <div class="actions">
            <button type="submit" class="secondary">
              Turn it off
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
        It buys credits by itself when the balance falls below a threshold, so that agents do not
        come to a halt.
      </p>
    );
  const { thresholdCents, amountCents, ceilingCents, dueAt } = settings;
  const atCeiling = boughtCents + amountCents > ceilingCents;
  return (
    <>
      <p>
        Below {formatCents(thresholdCents)} it buys credits for {formatCents(amountCents)}, which
        charges {formatCents(amountCents + feeOf(amountCents))} before tax. This month it has bought
        for {formatCents(boughtCents)} of {formatCents(ceilingCents)} at most.
      </p>
      {settings.status === "on" && atCeiling ? (
        <p class="note">
          Another purchase would pass the month's ceiling.
          {dueAt === null ? "" : ` It goes on at ${formatDateTime(dueAt)}.`}
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
          "No payment method is saved."
        ) : (
          <>
            It charges: <strong>{method}</strong>.
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
          {method === null ? "Save a payment method" : "Save another one"}
        </button>
        {method === null ? null : (
          <button type="submit" name="do" value="remove_method" class="danger">
            Remove it
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
  ["threshold_usd", "Buy when the balance is below, in US dollars", "thresholdCents"],
  ["amount_usd", "Buy credits for, in US dollars", "amountCents"],
  ["monthly_ceiling_usd", "In a calendar month for no more than, in US dollars", "ceilingCents"],
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
        The fee of 5 % and tax come on top of each purchase. Months are those of UTC. Whoever holds
        a key of this workspace can spend what is bought; keys and the workspace can be limited.
      </p>
      <div class="actions">
        <button type="submit">
          {settings?.status === "on" ? "Change the amounts" : "Turn it on"}
        </button>
      </div>
    </form>
  );
}

function stopReasonText({ stoppedReason }: AutoTopUp): string {
  const known = Object.entries(STOP_REASON_TEXT).find(([reason]) => reason === stoppedReason);
  return known?.[1] ?? "something went wrong";
}
