/** @jsxImportSource hono/jsx */
// The audit log of all accounts, and of events outside of accounts such as operator sign-ins.

import type { Child } from "hono/jsx";
import { AUDIT_ACTIONS, type AuditEntry, type AllAccountsAuditFilter } from "../../audit/audit.ts";
import { formatAuditDetail } from "../../audit/format-detail.ts";
import type { Page } from "../../base/pagination.ts";
import { formatDateTime } from "../../base/text/format.ts";
import { FilterSelect } from "../../http/pages/components/form.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { AccountNames } from "../accounts/account-names.ts";
import { AccountLink, operatorPage } from "../operator-layout.tsx";
import { type Operator, OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

const PATH = `${OPERATOR_PATH}/audit`;

export interface AuditPageProps {
  readonly filter: AllAccountsAuditFilter;
  readonly entries: Page<AuditEntry>;
  readonly accountNames: AccountNames;
}

export function auditPage(
  operator: Operator,
  { filter, entries, accountNames }: AuditPageProps,
): PageLayout {
  const { accountId, actor, action } = filter;
  return operatorPage({
    title: "Audit log",
    operator,
    path: PATH,
    main: (
      <>
        <form class="inline" method="get" action={PATH} role="search">
          <div class="long">
            <label for="account">Account</label>
            <input id="account" name="account" value={accountId ?? ""} autocomplete="off" />
          </div>
          <div class="long">
            <label for="actor">Actor (key, person or operator)</label>
            <input id="actor" name="actor" value={actor ?? ""} autocomplete="off" />
          </div>
          <FilterSelect
            name="action"
            label="Action"
            allLabel="any"
            options={Object.keys(AUDIT_ACTIONS)}
            selected={action}
          />
          <button type="submit">Search</button>
        </form>
        {entries.data.length === 0 ? (
          <p class="notice">No entries found.</p>
        ) : (
          <div class="card">
            <AuditEntryTable entries={entries.data} accountNames={accountNames} />
          </div>
        )}
        <OlderLink
          path={PATH}
          query={{ account: accountId, actor, action }}
          cursor={entries.next_cursor}
        />
      </>
    ),
  });
}

export function AuditEntryTable({
  entries,
  accountNames,
}: {
  readonly entries: readonly AuditEntry[];
  /** Shows the account of each entry. */
  readonly accountNames?: AccountNames;
}): Child {
  return (
    <Table
      label="Audit entries"
      isStacked
      columns={[
        { name: "Time", isDate: true },
        { name: "Actor", isWide: true },
        { name: "Action", isWide: true },
        { name: "Details", isWide: true },
      ]}
      rows={entries.map((entry) => [
        formatDateTime(entry.at),
        <>
          {entry.actor.type}
          <span class="type">
            {entry.actor.id}
            {entry.network === null ? "" : `, ${entry.network}`}
          </span>
        </>,
        <>
          {entry.action}
          {accountNames === undefined || entry.accountId === null ? null : (
            <AccountLink id={entry.accountId} names={accountNames} />
          )}
          {entry.target === null || entry.target === entry.accountId ? null : (
            <span class="type">{entry.target}</span>
          )}
        </>,
        detailText(entry),
      ])}
    />
  );
}

function detailText({ detail }: AuditEntry): Child {
  const text = formatAuditDetail(detail);
  return text === "" ? null : <bdi>{text}</bdi>;
}
