/** @jsxImportSource hono/jsx */
// The audit log of all accounts, and of events outside of accounts such as operator sign-ins.

import type { Child } from "hono/jsx";
import {
  AUDIT_ACTIONS,
  type AuditEntry,
  type AllAccountsAuditFilter,
} from "../../activity/audit.ts";
import { formatAuditDetail } from "../../activity/format-detail.ts";
import type { Page } from "../../base/pagination.ts";
import { formatDateTime } from "../../base/text/format.ts";
import { FilterSelect } from "../../http/pages/components/form.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import type { ActorNames } from "../../keys/actor-names.ts";
import type { AccountNames } from "../accounts/account-names.ts";
import { AccountLink, operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

const PATH = `${OPERATOR_PATH}/audit`;

export interface AuditPageProps {
  readonly filter: AllAccountsAuditFilter;
  readonly entries: Page<AuditEntry>;
  readonly accountNames: AccountNames;
  readonly names: ActorNames;
}

export function auditPage(
  operator: Operator,
  { filter, entries, accountNames, names }: AuditPageProps,
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
            <AuditEntryTable entries={entries.data} names={names} accountNames={accountNames} />
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
  names,
  accountNames,
}: {
  readonly entries: readonly AuditEntry[];
  readonly names: ActorNames;
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
        <ActorCell entry={entry} names={names} />,
        <>
          {entry.action}
          {accountNames === undefined || entry.accountId === null ? null : (
            <>
              <AccountLink id={entry.accountId} names={accountNames} />
              {accountNames.has(entry.accountId) ? (
                <span class="type">{entry.accountId}</span>
              ) : null}
            </>
          )}
          {entry.target === null || entry.target === entry.accountId ? null : (
            <span class="type">
              {names.has(entry.target) ? <bdi class="name">{names.get(entry.target)}</bdi> : null}
              {names.has(entry.target) ? `, ${entry.target}` : entry.target}
            </span>
          )}
        </>,
        detailText(entry),
      ])}
    />
  );
}

/** The name, or an email address for an operator; then the type, the id and the network. */
function ActorCell({
  entry: { actor, network },
  names,
}: {
  readonly entry: AuditEntry;
  readonly names: ActorNames;
}): Child {
  const name = names.get(actor.id);
  const facts = [actor.type, name === undefined ? null : actor.id, network];
  return (
    <>
      <bdi class="name">{name ?? actor.id}</bdi>
      <span class="type">{facts.filter((fact) => fact !== null).join(", ")}</span>
    </>
  );
}

function detailText({ detail }: AuditEntry): Child {
  const text = formatAuditDetail(detail);
  return text === "" ? null : <bdi class="name">{text}</bdi>;
}
