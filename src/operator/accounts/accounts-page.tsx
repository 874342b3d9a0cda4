/** @jsxImportSource hono/jsx */
// The list of accounts, with its search.

import type { Child } from "hono/jsx";
import type { Page } from "../../base/pagination.ts";
import { formatCosts, formatDateTime, formatInteger } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { FilterSelect } from "../../http/pages/components/form.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { operatorPage, accountPath } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import { ACCOUNT_STATES, type AccountSummary, type AccountState } from "./account-list.ts";

export interface AccountsPageProps {
  readonly search?: string | undefined;
  readonly state?: AccountState | undefined;
  readonly accounts: Page<AccountSummary>;
}

export function accountsPage(
  operator: Operator,
  { search, state, accounts }: AccountsPageProps,
): PageLayout {
  const isAll = (search ?? "").trim() === "" && state === undefined;
  return operatorPage({
    title: "Accounts",
    operator,
    path: OPERATOR_PATH,
    main: (
      <>
        <SearchForm search={search} state={state} />
        {accounts.data.length === 0 ? (
          <p class="notice">
            {isAll
              ? "No accounts yet."
              : "No accounts found. Search by the beginning of an account or key id, a full invoice id, the first 12 characters of a key, or a full email address."}
          </p>
        ) : (
          <div class="card">
            <Table
              label="Accounts"
              isStacked
              columns={[
                { name: "Account" },
                { name: "Status" },
                { name: "Paid", isNumber: true },
                { name: "Promotional", isNumber: true },
                { name: "Held", isNumber: true },
                { name: "Owed", isNumber: true },
                { name: "Keys", isNumber: true },
                { name: "Members", isNumber: true },
                { name: "Created", isDate: true },
                { name: "Last used", isDate: true },
              ]}
              rows={accountRows(accounts.data)}
            />
          </div>
        )}
        <OlderLink path={OPERATOR_PATH} query={{ search, state }} cursor={accounts.next_cursor} />
      </>
    ),
  });
}

function accountRows(accounts: readonly AccountSummary[]): readonly (readonly Child[])[] {
  const column = (name: "paid" | "promo" | "held" | "owed"): readonly string[] =>
    formatCosts(accounts.map((account) => account[name]));
  const [paid, promo, held, owed] = [
    column("paid"),
    column("promo"),
    column("held"),
    column("owed"),
  ];
  return accounts.map((account, index) => [
    <>
      <a href={accountPath(account.id)} title={account.id}>
        {account.name === null ? <code>{account.id}</code> : <bdi class="name">{account.name}</bdi>}
      </a>
      {account.name === null ? null : (
        <span class="type">
          <code>{account.id}</code>
        </span>
      )}
      {account.email === null ? null : (
        <span class="type">
          <span class="name">{account.email}</span>
        </span>
      )}
    </>,
    <AccountStateBadge state={account.state} />,
    paid[index],
    promo[index],
    held[index],
    account.owed === 0n ? "–" : owed[index],
    formatInteger(account.liveKeys),
    formatInteger(account.members),
    utcDay(account.createdAt),
    account.lastUsedAt === null ? "never" : formatDateTime(account.lastUsedAt),
  ]);
}

const STATE_CLASSES: Readonly<Record<AccountState, string>> = {
  active: "tag good",
  frozen: "tag danger",
  owing: "tag warn",
};

export function AccountStateBadge({ state }: { readonly state: AccountState }): Child {
  return <span class={STATE_CLASSES[state]}>{state}</span>;
}

function SearchForm({ search, state }: Pick<AccountsPageProps, "search" | "state">): Child {
  return (
    <form class="inline" method="get" action={OPERATOR_PATH} role="search">
      <div class="long">
        <label for="search">Account, key, invoice or email address</label>
        <input id="search" name="search" value={search ?? ""} maxlength={320} autocomplete="off" />
      </div>
      <FilterSelect
        name="state"
        label="Status"
        allLabel="any"
        options={ACCOUNT_STATES}
        selected={state}
      />
      <button type="submit">Search</button>
    </form>
  );
}
