/** @jsxImportSource hono/jsx */
// The billing details: the buyer on invoices, and who gets the receipts.

import type { Child } from "hono/jsx";
import { type BillingDetails, CONTACTS_MAX } from "../../accounts/billing-details.ts";
import { hasPermission } from "../../accounts/members.ts";
import { Card, Details } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm, TextField } from "../../http/pages/components/form.tsx";
import { workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";
import type { RejectedForm } from "./rejected-form.ts";

interface DetailsCardProps extends WorkspaceView {
  readonly details: BillingDetails;
  readonly rejected?: RejectedForm;
}

export function DetailsCard(props: DetailsCardProps): Child {
  const { workspace, details } = props;
  return (
    <Card id="details" title="Billing details">
      {hasPermission(workspace.role, "billing.buy") ? (
        <DetailsForm {...props} />
      ) : (
        <Details
          items={[
            ["Name", details.name ?? "–"],
            ["Address", details.address ?? "–"],
            ["Tax ID", details.tax_id ?? "–"],
            ["PO number", details.po_number ?? "–"],
          ]}
        />
      )}
    </Card>
  );
}

function DetailsForm({ user, workspace, details, rejected }: DetailsCardProps): Child {
  const form = rejected?.form === "details" ? rejected : undefined;
  const field = (name: keyof BillingDetails) => ({
    id: `details-${name}`,
    name,
    value: form?.values[name] ?? textOf(details[name]),
    error: form?.error.field === name ? form.error.message : undefined,
  });
  return (
    <PostForm
      user={user}
      action={workspacePath(workspace.accountId, "/billing")}
      fields={{ do: "details" }}
      submit="Save details"
      isSecondary
    >
      <ErrorMessage message={form?.error.field === undefined ? form?.error.message : undefined} />
      <div class="side-by-side">
        <div>
          <Field {...field("name")} label="Legal name" autoComplete="organization" />
          <TextField {...field("address")} label="Address" autoComplete="street-address" />
        </div>
        <div>
          <Field {...field("tax_id")} label="VAT or tax ID" />
          <Field {...field("po_number")} label="PO number" />
          <Field
            {...field("contacts")}
            label="Billing contacts"
            hint={`Up to ${CONTACTS_MAX} email addresses, separated by commas.${workspace.sendsEmails ? " They get the receipts." : ""}`}
          />
        </div>
      </div>
      <p class="hint">Shown on invoices that are paid from now on.</p>
    </PostForm>
  );
}

function textOf(value: string | readonly string[] | null): string {
  return value === null ? "" : typeof value === "string" ? value : value.join(", ");
}
