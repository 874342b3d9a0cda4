/** @jsxImportSource hono/jsx */
// Auto top-up: its status, the payment method and the rules that the owner sets.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { creditsOfCents, formatCents, priceOf, usdOfCents } from "../../billing/invoices/cents.ts";
import type { AutoTopUpSummary, StopReason } from "../../billing/top-up/auto-top-up.ts";
import type { AutoTopUp } from "../../billing/top-up/top-up-rows.ts";
import { Card, Tag, UsageBar } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import { workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import type { RejectedForm } from "./rejected-form.ts";

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
  processor_refused:
    "the payment service refused this gateway's request, which only the operator can fix; it is tried again every 30 minutes",
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
        once, on <DateTime at={settings.dueAt} />.
      </p>
    );
  return null;
}

interface TopUpCardProps extends WorkspaceView {
  readonly topUp: AutoTopUpSummary;
  readonly canSaveMethods: boolean;
  readonly rejected?: RejectedForm;
}

const STATUS_TONES = { on: "good", off: undefined, stopped: "danger" } as const;

export function TopUpCard(props: TopUpCardProps): Child {
  const { user, workspace, topUp, canSaveMethods, rejected } = props;
  const form = rejected?.form === "allow" ? rejected : undefined;
  const { settings, method } = topUp;
  const status = settings?.status ?? "off";
  const mayChange = hasPermission(workspace.role, "billing.auto_top_up");
  return (
    <Card id="auto" title="Auto top-up" aside={<Tag tone={STATUS_TONES[status]}>{status}</Tag>}>
      <TopUpStatus topUp={topUp} />
      {canSaveMethods ? null : (
        <p>Auto top-up is not available: this gateway accepts bank transfers only.</p>
      )}
      {canSaveMethods && mayChange ? (
        <>
          <PaymentMethodForm user={user} workspace={workspace} method={method} />
          {method === null ? (
            <ErrorMessage message={form?.error.message} />
          ) : (
            <TopUpRulesForm {...props} />
          )}
        </>
      ) : null}
      {mayChange ? null : <p class="note">Only the owner can change auto top-up.</p>}
      {mayChange && status !== "off" ? (
        <PostForm
          id="auto-off"
          user={user}
          action={workspacePath(workspace.accountId, "/billing")}
          fields={{ do: "turn_off" }}
        />
      ) : null}
    </Card>
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
        working. You set the threshold, the amount of each purchase and a monthly limit after you
        add a payment method.
      </p>
    );
  const { thresholdCents, amountCents, ceilingCents, dueAt } = settings;
  const atCeiling = boughtCents + amountCents > ceilingCents;
  return (
    <>
      <p>
        When the balance falls below {formatCents(thresholdCents)}, auto top-up buys{" "}
        {formatCents(amountCents)} of credits and charges{" "}
        {formatCents(priceOf(creditsOfCents(amountCents)))} before tax.
      </p>
      <UsageBar label="Bought this month" used={BigInt(boughtCents)} limit={BigInt(ceilingCents)} />
      <p class="note">
        Bought this month: {formatCents(boughtCents)} of {formatCents(ceilingCents)}.
      </p>
      {settings.status === "on" && atCeiling ? (
        <p class="note">
          Another purchase would exceed the monthly limit.
          {dueAt === null ? null : (
            <>
              {" "}
              Purchases resume on <DateTime at={dueAt} />.
            </>
          )}
        </p>
      ) : null}
    </>
  );
}

interface PaymentMethodFormProps extends WorkspaceView {
  readonly method: string | null;
}

function PaymentMethodForm({ user, workspace, method }: PaymentMethodFormProps): Child {
  return (
    <PostForm user={user} action={workspacePath(workspace.accountId, "/billing")}>
      {method === null ? null : (
        <p>
          Payment method: <strong>{method}</strong>
        </p>
      )}
      <div class="actions">
        <button type="submit" name="do" value="save_method" class="secondary">
          {method === null ? "Add payment method" : "Replace"}
          {method === null ? null : <span class="visually-hidden"> payment method</span>}
        </button>
        {method === null ? null : (
          <button type="submit" name="do" value="remove_method" class="danger">
            Remove<span class="visually-hidden"> payment method</span>
          </button>
        )}
      </div>
    </PostForm>
  );
}

const RULE_FIELDS = [
  ["threshold_usd", "Threshold (USD)", "thresholdCents"],
  ["amount_usd", "Purchase (USD)", "amountCents"],
  ["monthly_ceiling_usd", "Monthly limit (USD)", "ceilingCents"],
] as const;

function TopUpRulesForm({ user, workspace, topUp: { settings }, rejected }: TopUpCardProps): Child {
  const form = rejected?.form === "allow" ? rejected : undefined;
  const isFieldError = RULE_FIELDS.some(([name]) => name === form?.error.field);
  return (
    <PostForm
      user={user}
      action={workspacePath(workspace.accountId, "/billing")}
      fields={{ do: "allow" }}
    >
      <ErrorMessage message={isFieldError ? undefined : form?.error.message} />
      <div class="fields short">
        {RULE_FIELDS.map(([name, label, field]) => (
          <Field
            id={`auto-${name}`}
            name={name}
            label={label}
            inputMode="decimal"
            value={
              form?.values[name] ??
              (settings === undefined ? "" : String(usdOfCents(settings[field])))
            }
            error={form?.error.field === name ? form.error.message : undefined}
            isRequired
          />
        ))}
      </div>
      <p class="hint">
        The 5% fee and tax are added to each purchase. Months are in UTC. Anyone who has a key can
        spend these credits; you can limit keys and set budgets.
      </p>
      <div class="actions">
        <button type="submit" class="secondary">
          {settings?.status === "on" ? "Save amounts" : "Turn on auto top-up"}
        </button>
        {settings === undefined || settings.status === "off" ? null : (
          <button type="submit" form="auto-off" class="danger">
            Turn off auto top-up
          </button>
        )}
      </div>
    </PostForm>
  );
}

function stopReasonText({ stoppedReason }: AutoTopUp): string {
  const known = Object.entries(STOP_REASON_TEXT).find(([reason]) => reason === stoppedReason);
  return known?.[1] ?? "something went wrong";
}
