/** @jsxImportSource hono/jsx */
// All accounts, or those that a search finds.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import type { Page } from "../base/page.ts";
import { minute, money, number } from "../console/words.ts";
import type { PageFrame } from "../http/layout.tsx";
import { ACCOUNT_STATES, type AccountLine, type AccountState } from "./accounts.ts";
import { Choice, More, operatorPage, pathOfAccount, Table } from "./frame.tsx";
import { type Operator, OPERATOR_PATH } from "./sessions.ts";

export interface AccountsState {
  readonly search?: string | undefined;
  readonly state?: AccountState | undefined;
  readonly accounts: Page<AccountLine>;
}

export function accountsPage(
  operator: Operator,
  { search, state, accounts }: AccountsState,
): PageFrame {
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
              ? "There is no account yet."
              : "Nothing was found. A search is the beginning of an account's or a key's id, an invoice's id, the first twelve characters of a key, or a whole email address."}
          </p>
        ) : (
          <Table
            label="Accounts"
            columns={[
              { name: "Account" },
              { name: "State" },
              { name: "Paid", isNumber: true },
              { name: "Promotional", isNumber: true },
              { name: "Held", isNumber: true },
              { name: "Owed", isNumber: true },
              { name: "Keys", isNumber: true },
              { name: "Members", isNumber: true },
              { name: "Created", isDate: true },
              { name: "Last used", isDate: true },
            ]}
            rows={accounts.data.map(rowOf)}
          />
        )}
        <More path={OPERATOR_PATH} query={{ search, state }} cursor={accounts.next_cursor} />
      </>
    ),
  });
}

function rowOf(account: AccountLine): readonly Child[] {
  return [
    <>
      <a href={pathOfAccount(account.id)}>
        <code>{account.id}</code>
      </a>
      {account.email === null ? null : <span class="type">{account.email}</span>}
    </>,
    <State state={account.state} />,
    money(account.paid),
    money(account.promo),
    money(account.held),
    account.owed === 0n ? "–" : money(account.owed),
    number(account.liveKeys),
    number(account.members),
    dayOf(account.createdAt),
    account.lastUsedAt === null ? "never" : minute(account.lastUsedAt),
  ];
}

const STATE_LOOKS: Readonly<Record<AccountState, string>> = {
  active: "tag good",
  frozen: "tag danger",
  owing: "tag warn",
};

export function State({ state }: { readonly state: AccountState }): Child {
  return <span class={STATE_LOOKS[state]}>{state}</span>;
}

function SearchForm({ search, state }: Pick<AccountsState, "search" | "state">): Child {
  return (
    <form class="line" method="get" action={OPERATOR_PATH} role="search">
      <div class="long">
        <label for="search">Account, key, invoice or email address</label>
        <input id="search" name="search" value={search ?? ""} maxlength={320} autocomplete="off" />
      </div>
      <Choice name="state" label="State" all="any" words={ACCOUNT_STATES} chosen={state} />
      <button type="submit">Search</button>
    </form>
  );
}
