/** @jsxImportSource hono/jsx */
// One account, with the forms to change it.

import type { Child } from "hono/jsx";
import {
  formatCosts,
  formatDateTime,
  formatInteger,
  formatSum,
  formatUsd,
} from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { Card, CopyText, Details, Figures } from "../../http/pages/components/content.tsx";
import { ErrorMessage } from "../../http/pages/components/form.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { secretHint } from "../../keys/key-credential.ts";
import { AuditEntryTable } from "../audit/operator-audit-page.tsx";
import { operatorPage, accountPath } from "../operator-layout.tsx";
import { PaymentTable } from "../payments/payments-page.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import type { AccountDetails, AccountTransfer } from "./account-details.ts";
import { AccountForms } from "./account-forms.tsx";
import { AccountStateBadge } from "./accounts-page.tsx";
import { ConfirmChange } from "./change-confirmation.tsx";
import type { ChangeFields } from "./change-requests.ts";

export const ACTION_RESULT_TEXT = {
  granted: "Credit granted.",
  adjusted: "Balance adjusted.",
  frozen: "Account frozen. New calls are rejected.",
  unfrozen: "Account unfrozen.",
  written_off: "Debt written off.",
  requested: "Requested. Another operator must approve it on the page Approvals.",
  unchanged: "Nothing changed: this was already done.",
} as const;
export type AccountActionResult = keyof typeof ACTION_RESULT_TEXT;

export interface AccountPageProps {
  readonly details: AccountDetails;
  readonly result?: AccountActionResult | undefined;
  readonly errorMessage?: string;
  /** The values of the rejected form. */
  readonly formValues?: Readonly<Record<string, string>>;
  /** The change that the operator must confirm. */
  readonly confirmation?: { readonly fields: ChangeFields; readonly needsApproval: boolean };
}

export function accountPage(operator: Operator, props: AccountPageProps): PageLayout {
  const { details, result, errorMessage, formValues = {} } = props;
  const { account } = details;
  const { confirmation } = props;
  return operatorPage({
    title: account.name ?? account.id,
    heading: <bdi>{account.name ?? account.id}</bdi>,
    crumbs: [{ href: OPERATOR_PATH, label: "Accounts" }],
    operator,
    path: accountPath(account.id),
    main: (
      <>
        {result === undefined ? null : (
          <p class="notice" role="status">
            {ACTION_RESULT_TEXT[result]}
          </p>
        )}
        <ErrorMessage message={errorMessage} />
        {confirmation === undefined ? null : (
          <ConfirmChange operator={operator} accountId={account.id} {...confirmation} />
        )}
        <FreezeNotice details={details} />
        <Summary details={details} />
        <AccountForms operator={operator} details={details} formValues={formValues} />
        <Card id="keys" title="Keys">
          <KeyTable details={details} />
        </Card>
        <Card id="members" title="Members">
          <MemberTable details={details} />
        </Card>
        <Card id="usage" title="Usage in the last 30 days">
          <UsageTable sums={details.usage} />
        </Card>
        <Card id="invoices" title="Invoices">
          {details.invoices.length === 0 ? (
            <p class="muted">No invoices.</p>
          ) : (
            <PaymentTable invoices={details.invoices} />
          )}
        </Card>
        <Card id="transfers" title="Transfers, without usage">
          <TransferTable transfers={details.transfers} />
        </Card>
        <Card
          id="audit"
          title="Audit log"
          aside={<a href={`${OPERATOR_PATH}/audit?account=${account.id}`}>All entries</a>}
        >
          {details.auditEntries.length === 0 ? (
            <p class="muted">No entries.</p>
          ) : (
            <AuditEntryTable entries={details.auditEntries} names={details.auditNames} />
          )}
        </Card>
      </>
    ),
  });
}

function FreezeNotice({ details: { freeze } }: { readonly details: AccountDetails }): Child {
  if (freeze === undefined) return null;
  if (freeze.by === "closing")
    return (
      <p class="notice danger">
        Closing since {formatDateTime(freeze.since)}: its data is erased 14 days later.
      </p>
    );
  return (
    <p class="notice danger">
      {freeze.by === "operator"
        ? `Frozen by an operator since ${formatDateTime(freeze.since)}: ${freeze.reason}`
        : `Frozen by a debt of ${formatUsd(freeze.owed)}. New credits pay it first.`}
    </p>
  );
}

function Summary({ details }: { readonly details: AccountDetails }): Child {
  const { account, createdFrom, verifiedAgent, promo, paid, held, owed, freeze, lastUsedAt } =
    details;
  const state = freeze === undefined ? "active" : freeze.by === "debt" ? "owing" : "frozen";
  const balance = formatSum([paid, promo]);
  return (
    <>
      <Figures
        figures={[
          { label: "Balance", value: balance.total },
          { label: "Paid", value: balance.parts[0] },
          { label: "Promotional", value: balance.parts[1] },
          { label: "On hold", value: formatUsd(held) },
          { label: "Owed", value: formatUsd(owed) },
        ]}
      />
      <Card id="account" title="Account" aside={<AccountStateBadge state={state} />}>
        <div class="side-by-side">
          <Details
            items={[
              ["Id", <CopyText text={account.id} />],
              ["Created", formatDateTime(account.createdAt)],
              ["From network", <code>{createdFrom}</code>],
              ...(verifiedAgent === null
                ? []
                : [["Signed by an agent of", verifiedAgent] as const]),
            ]}
          />
          <Details
            items={[
              [
                "Claimed",
                account.claimedAt === null ? "not claimed" : formatDateTime(account.claimedAt),
              ],
              ["Email given by the agent", account.email ?? "none"],
              ["Last used", lastUsedAt === null ? "never" : formatDateTime(lastUsedAt)],
            ]}
          />
        </div>
      </Card>
    </>
  );
}

function KeyTable({ details: { keys, hasMoreKeys } }: { readonly details: AccountDetails }): Child {
  const spent = formatCosts(keys.map((key) => key.spent));
  return (
    <>
      <Table
        label="Keys"
        isStacked
        columns={[
          { name: "Key" },
          { name: "Name" },
          { name: "Prefix and suffix" },
          { name: "Status" },
          { name: "Last used", isDate: true },
          { name: "Spent", isNumber: true },
        ]}
        rows={keys.map((key, index) => [
          <code>{key.id}</code>,
          <bdi class="name">{key.name ?? "–"}</bdi>,
          <code>{secretHint(key)}</code>,
          key.revokedAt === null
            ? key.expiresAt === null
              ? "active"
              : `expires ${formatDateTime(key.expiresAt)}`
            : `revoked ${utcDay(key.revokedAt)}`,
          key.lastUsedAt === null ? "never" : formatDateTime(key.lastUsedAt),
          spent[index],
        ])}
      />
      {hasMoreKeys ? <p class="note">Older keys are not shown. Active keys come first.</p> : null}
    </>
  );
}

function MemberTable({ details: { members } }: { readonly details: AccountDetails }): Child {
  if (members.length === 0)
    return <p class="muted">No members: no human has claimed this account.</p>;
  return (
    <Table
      label="Members"
      isStacked
      columns={[{ name: "Member" }, { name: "Role" }, { name: "Since", isDate: true }]}
      rows={members.map(({ email, role, addedAt }) => [email, role, utcDay(addedAt)])}
    />
  );
}

/** Names of models come from callers, so their number has no limit. */
const MODELS_MAX = 100;

function UsageTable({ sums }: { readonly sums: AccountDetails["usage"] }): Child {
  if (sums.length === 0) return <p class="muted">No calls.</p>;
  const shown = sums.slice(0, MODELS_MAX);
  const costs = formatCosts(shown.map(({ cost }) => cost));
  return (
    <>
      <Table
        label="Usage by model"
        isStacked
        columns={[
          { name: "Model" },
          { name: "Calls", isNumber: true },
          { name: "Input tokens", isNumber: true },
          { name: "Output tokens", isNumber: true },
          { name: "Cost", isNumber: true },
        ]}
        rows={shown.map((sum, index) => [
          sum.group,
          formatInteger(sum.calls),
          formatInteger(sum.inputTokens),
          formatInteger(sum.outputTokens),
          costs[index] ?? "",
        ])}
      />
      {sums.length > MODELS_MAX ? (
        <p class="muted">
          {formatInteger(sums.length - MODELS_MAX)} models with lower costs are not shown.
        </p>
      ) : null}
    </>
  );
}

/** The ledger is in nano-dollars: a column of two decimals would hide most charges. */
const TRANSFER_DECIMALS = 6;

function TransferTable({ transfers }: { readonly transfers: readonly AccountTransfer[] }): Child {
  const amounts = formatCosts(
    transfers.map(({ amount }) => amount),
    TRANSFER_DECIMALS,
  );
  const changes = formatCosts(
    transfers.map(({ balanceChange }) => balanceChange),
    TRANSFER_DECIMALS,
  );
  return (
    <Table
      label="Transfers"
      isStacked
      columns={[
        { name: "Time", isDate: true },
        { name: "Type", isWide: true },
        { name: "From and to", isWide: true },
        { name: "Amount", isNumber: true },
        { name: "Balance change", isNumber: true },
        { name: "Reason" },
      ]}
      rows={transfers.map((transfer, index) => [
        formatDateTime(transfer.at),
        <>
          {transfer.kind.replaceAll("_", " ")}
          <span class="type">{transfer.id}</span>
        </>,
        `${transfer.from} → ${transfer.to}`,
        amounts[index],
        transfer.balanceChange === 0n
          ? "–"
          : `${transfer.balanceChange > 0n ? "+" : ""}${changes[index]}`,
        transfer.memo ?? "",
      ])}
    />
  );
}
