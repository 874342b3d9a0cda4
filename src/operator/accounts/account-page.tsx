/** @jsxImportSource hono/jsx */
// One account, with the forms to change it.

import { WorkspaceName } from "../../http/pages/components/content.tsx";
import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import { formatDateTime, formatUsd } from "../../base/format.ts";
import { UsageTable } from "../../usage/usage-table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { AccountDetails, AccountTransfer } from "./account-details.ts";
import { AccountForms } from "./account-forms.tsx";
import { AccountStateBadge } from "./accounts-page.tsx";
import { AuditEntryTable } from "../audit/audit-page.tsx";
import { operatorPage, accountPath } from "../operator-layout.tsx";
import { DefinitionList } from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import { ErrorMessage } from "../../http/pages/components/form.tsx";
import { PaymentTable } from "../payments/payments-page.tsx";
import { type Operator, OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

export const ACTION_RESULT_TEXT = {
  granted: "Credit granted.",
  adjusted: "Balance adjusted.",
  frozen: "Account frozen. New calls are rejected.",
  unfrozen: "Account unfrozen.",
  written_off: "Debt written off.",
  unchanged: "Nothing changed: this was already done.",
} as const;
export type AccountActionResult = keyof typeof ACTION_RESULT_TEXT;

export interface AccountPageProps {
  readonly details: AccountDetails;
  readonly result?: AccountActionResult | undefined;
  readonly errorMessage?: string;
  /** The values of the rejected form. */
  readonly formValues?: Readonly<Record<string, string>>;
}

export function accountPage(operator: Operator, props: AccountPageProps): PageLayout {
  const { details, result, errorMessage, formValues = {} } = props;
  const { account } = details;
  return operatorPage({
    title: account.name ?? account.id,
    heading: <WorkspaceName id={account.id} name={account.name} />,
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
        <FreezeNotice details={details} />
        <Summary details={details} />
        <AccountForms operator={operator} details={details} formValues={formValues} />
        <h2>Keys</h2>
        <KeyTable details={details} />
        <h2>Members</h2>
        <MemberTable details={details} />
        <h2>Invoices</h2>
        {details.invoices.length === 0 ? (
          <p>No invoices.</p>
        ) : (
          <PaymentTable invoices={details.invoices} />
        )}
        <h2>Transfers, without usage</h2>
        <TransferTable transfers={details.transfers} />
        <h2 id="usage">Usage in the last 30 days</h2>
        {details.usage.data.length === 0 ? (
          <p>No calls.</p>
        ) : (
          <UsageTable groupBy="model" sums={details.usage.data} />
        )}
        {details.usage.next_cursor === null ? null : (
          <p>
            <a
              href={`${accountPath(account.id)}?${new URLSearchParams({ models: details.usage.next_cursor }).toString()}#usage`}
            >
              More models
            </a>
          </p>
        )}
        <h2>Audit log</h2>
        {details.auditEntries.length === 0 ? (
          <p>No entries.</p>
        ) : (
          <AuditEntryTable entries={details.auditEntries} />
        )}
        <p>
          <a href={`${OPERATOR_PATH}/audit?account=${account.id}`}>
            All audit entries of this account
          </a>
        </p>
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
        : `Frozen by a dispute: ${formatUsd(freeze.owed)} owed. New credits pay this debt first.`}
    </p>
  );
}

function Summary({ details }: { readonly details: AccountDetails }): Child {
  const { account, createdFrom, verifiedAgent, promo, paid, held, owed, freeze, lastUsedAt } =
    details;
  return (
    <>
      <DefinitionList
        items={[
          ["Balance", formatUsd(promo + paid)],
          ["Paid", formatUsd(paid)],
          ["Promotional", formatUsd(promo)],
          ["On hold", formatUsd(held)],
          ["Owed", formatUsd(owed)],
          [
            "State",
            <AccountStateBadge
              state={freeze === undefined ? "active" : freeze.by === "debt" ? "owing" : "frozen"}
            />,
          ],
        ]}
      />
      <p>
        Created {formatDateTime(account.createdAt)} from network {createdFrom}
        {verifiedAgent === null ? "" : `, signed by an agent of ${verifiedAgent}`} · Email given by
        the agent: {account.email ?? "none"} ·{" "}
        {account.claimedAt === null
          ? "Not claimed"
          : `Claimed ${formatDateTime(account.claimedAt)}`}{" "}
        · Last used {lastUsedAt === null ? "never" : formatDateTime(lastUsedAt)}
      </p>
    </>
  );
}

function KeyTable({ details: { keys, hasMoreKeys } }: { readonly details: AccountDetails }): Child {
  return (
    <>
      <Table
        label="Keys"
        isStacked
        columns={[
          { name: "Key" },
          { name: "Name" },
          { name: "Prefix and suffix" },
          { name: "State" },
          { name: "Last used", isDate: true },
          { name: "Spent", isNumber: true },
        ]}
        rows={keys.map((key) => [
          <code>{key.id}</code>,
          <bdi class="name">{key.name ?? "–"}</bdi>,
          <code>{`${key.prefix}…${key.last4}`}</code>,
          key.revokedAt === null
            ? key.expiresAt === null
              ? "active"
              : `expires ${formatDateTime(key.expiresAt)}`
            : `revoked ${utcDay(key.revokedAt)}`,
          key.lastUsedAt === null ? "never" : formatDateTime(key.lastUsedAt),
          formatUsd(key.spent),
        ])}
      />
      {hasMoreKeys ? <p class="note">Older keys are not shown. Active keys come first.</p> : null}
    </>
  );
}

function MemberTable({ details: { members } }: { readonly details: AccountDetails }): Child {
  if (members.length === 0) return <p>No members: no human has claimed this account.</p>;
  return (
    <Table
      label="Members"
      isStacked
      columns={[{ name: "Member" }, { name: "Role" }, { name: "Since", isDate: true }]}
      rows={members.map(({ email, role, addedAt }) => [email, role, utcDay(addedAt)])}
    />
  );
}

function TransferTable({ transfers }: { readonly transfers: readonly AccountTransfer[] }): Child {
  return (
    <Table
      label="Transfers"
      isStacked
      columns={[
        { name: "Time", isDate: true },
        { name: "Type" },
        { name: "From and to" },
        { name: "Amount", isNumber: true },
        { name: "Balance change", isNumber: true },
        { name: "Reason" },
      ]}
      rows={transfers.map((transfer) => [
        formatDateTime(transfer.at),
        <>
          {transfer.kind.replaceAll("_", " ")}
          <span class="type">{transfer.id}</span>
        </>,
        `${transfer.from} → ${transfer.to}`,
        formatUsd(transfer.amount),
        transfer.balanceChange === 0n
          ? "–"
          : transfer.balanceChange > 0n
            ? `+${formatUsd(transfer.balanceChange)}`
            : formatUsd(transfer.balanceChange),
        transfer.memo ?? "",
      ])}
    />
  );
}
