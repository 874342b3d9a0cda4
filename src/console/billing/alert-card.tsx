/** @jsxImportSource hono/jsx */
// The low-balance alert, and where the other alerts on spending are set.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { type Nano, usdText } from "../../base/money/money.ts";
import { formatUsd } from "../../base/text/format.ts";
import { Card, Tag } from "../../http/pages/components/content.tsx";
import { Field } from "../../http/pages/components/form.tsx";
import type { SessionUser } from "../../http/route.ts";
import { HiddenFields, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../require-access.ts";
import type { RejectedForm } from "./rejected-form.ts";

interface AlertCardProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly lowThreshold: Nano;
  readonly rejected?: RejectedForm;
}

export function AlertCard({ user, workspace, lowThreshold, rejected }: AlertCardProps): Child {
  const { accountId, role } = workspace;
  const form = rejected?.form === "alert" ? rejected : undefined;
  const isOn = lowThreshold > 0n;
  return (
    <Card
      id="alerts"
      title="Low-balance alert"
      aside={<Tag tone={isOn ? "good" : undefined}>{isOn ? "on" : "off"}</Tag>}
    >
      {hasPermission(role, "billing.buy") ? (
        <form method="post" action={workspacePath(accountId, "/billing")}>
          <HiddenFields user={user} fields={{ do: "alert" }} />
          <Field
            id="low-usd"
            name="low_usd"
            label="Alert when the balance falls below (USD)"
            inputMode="decimal"
            value={form?.values["low_usd"] ?? usdText(lowThreshold)}
            error={form?.error.message}
            hint="Sent by email and to webhooks. 0 turns the alert off."
            isRequired
          />
          <div class="actions">
            <button type="submit" class="secondary">
              Save alert
            </button>
          </div>
        </form>
      ) : (
        <p>
          {isOn
            ? `An alert is sent when the balance falls below ${formatUsd(lowThreshold)}.`
            : "No alert is sent when the balance is low."}
        </p>
      )}
      <ul class="links">
        <li>
          <a href={workspacePath(accountId, "/budgets")}>Budgets</a> limit a day or a month and
          alert at 50%, 80% and 100%.
        </li>
        <li>
          <a href={workspacePath(accountId, "/keys")}>Keys</a> can have a limit and alerts of their
          own.
        </li>
        <li>
          <a href="/emails">Your emails</a> are where you choose which alerts you get.
        </li>
      </ul>
    </Card>
  );
}
