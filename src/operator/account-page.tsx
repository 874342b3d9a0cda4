/** @jsxImportSource hono/jsx */
// One account, with everything that an operator may do to it.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import { minute, money } from "../console/words.ts";
import { SumTable } from "../console/overview-page.tsx";
import type { PageFrame } from "../http/layout.tsx";
import type { AccountFile, Movement } from "./account.ts";
import { AccountForms } from "./account-forms.tsx";
import { State } from "./accounts-page.tsx";
import { EntryTable } from "./audit-page.tsx";
import { Figures, operatorPage, pathOfAccount, signed, Table, Wrong } from "./frame.tsx";
import { InvoiceTable } from "./payments-page.tsx";
import { type Operator, OPERATOR_PATH } from "./sessions.ts";

export const DONE_WORDS = {
  granted: "The credit was granted.",
  adjusted: "The balance was adjusted.",
  frozen: "The account is frozen: it makes no calls.",
  unfrozen: "The operator's freeze is lifted.",
  written_off: "The house bears what the account owed.",
  unchanged: "That was so already; nothing was changed.",
} as const;
export type AccountDone = keyof typeof DONE_WORDS;

export interface AccountPageState {
  readonly file: AccountFile;
  readonly done?: AccountDone | undefined;
  readonly wrong?: string;
  /** What was typed into the form that was refused. */
  readonly typed?: Readonly<Record<string, string>>;
}

export function accountPage(operator: Operator, state: AccountPageState): PageFrame {
  const { file, done, wrong, typed = {} } = state;
  const { account } = file;
  return operatorPage({
    title: account.id,
    heading: <code>{account.id}</code>,
    operator,
    path: pathOfAccount(account.id),
    main: (
      <>
        {done === undefined ? null : (
          <p class="notice" role="status">
            {DONE_WORDS[done]}
          </p>
        )}
        <Wrong wrong={wrong} />
        <FreezeNotice file={file} />
        <Summary file={file} />
        <AccountForms operator={operator} file={file} typed={typed} />
        <h2>Keys</h2>
        <Keys file={file} />
        <h2>Members</h2>
        <Members file={file} />
        <h2>Invoices</h2>
        {file.invoices.length === 0 ? <p>None.</p> : <InvoiceTable invoices={file.invoices} />}
        <h2>Movements of its money, but for usage</h2>
        <Movements movements={file.movements} />
        <h2 id="usage">Usage in the last thirty days</h2>
        {file.usage.data.length === 0 ? (
          <p>None.</p>
        ) : (
          <SumTable by="model" sums={file.usage.data} />
        )}
        {file.usage.next_cursor === null ? null : (
          <p>
            There are more.{" "}
            <a
              href={`${pathOfAccount(account.id)}?${new URLSearchParams({ models: file.usage.next_cursor }).toString()}#usage`}
            >
              More models
            </a>
          </p>
        )}
        <h2>Audit log</h2>
        {file.entries.length === 0 ? <p>Nothing yet.</p> : <EntryTable entries={file.entries} />}
        <p>
          <a href={`${OPERATOR_PATH}/audit?account=${account.id}`}>All entries of this account</a>
        </p>
      </>
    ),
  });
}

function FreezeNotice({ file: { freeze } }: { readonly file: AccountFile }): Child {
  if (freeze === undefined) return null;
  return (
    <p class="notice danger">
      {freeze.by === "operator"
        ? `Frozen by an operator since ${minute(freeze.since)}: ${freeze.reason}`
        : `Frozen by a dispute: ${money(freeze.owed)} are owed. Buying credits pays that first.`}
    </p>
  );
}

function Summary({ file }: { readonly file: AccountFile }): Child {
  const { account, createdFrom, promo, paid, held, owed, freeze, lastUsedAt } = file;
  return (
    <>
      <Figures
        figures={[
          ["Balance", money(promo + paid)],
          ["of it paid", money(paid)],
          ["of it promotional", money(promo)],
          ["Held by open calls", money(held)],
          ["Owed", money(owed)],
          [
            "State",
            <State
              state={
                freeze === undefined ? "active" : freeze.by === "operator" ? "frozen" : "owing"
              }
            />,
          ],
        ]}
      />
      <p>
        Created {minute(account.createdAt)} from the network {createdFrom}, by an agent{" "}
        {account.email === null ? "that named no address" : `that named ${account.email}`};{" "}
        {account.claimedAt === null
          ? "no human has claimed it"
          : `claimed ${minute(account.claimedAt)}`}
        ; {lastUsedAt === null ? "never used" : `last used ${minute(lastUsedAt)}`}.
      </p>
    </>
  );
}

function Keys({ file: { keys, moreKeys } }: { readonly file: AccountFile }): Child {
  return (
    <>
      <Table
        label="Keys"
        columns={[
          { name: "Key" },
          { name: "Name" },
          { name: "Begins and ends" },
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
              ? "live"
              : `expires ${minute(key.expiresAt)}`
            : `revoked ${dayOf(key.revokedAt)}`,
          key.lastUsedAt === null ? "never" : minute(key.lastUsedAt),
          money(key.spent),
        ])}
      />
      {moreKeys ? (
        <p class="note">
          There may be more: these are the newest, and those that are not revoked come first.
        </p>
      ) : null}
    </>
  );
}

function Members({ file: { members } }: { readonly file: AccountFile }): Child {
  if (members.length === 0) return <p>None: it belongs to an agent alone.</p>;
  return (
    <Table
      label="Members"
      columns={[{ name: "Member" }, { name: "Role" }, { name: "Since", isDate: true }]}
      rows={members.map(({ email, role, addedAt }) => [email, role, dayOf(addedAt)])}
    />
  );
}

function Movements({ movements }: { readonly movements: readonly Movement[] }): Child {
  return (
    <Table
      label="Movements"
      columns={[
        { name: "When", isDate: true },
        { name: "What" },
        { name: "From and to" },
        { name: "Amount", isNumber: true },
        { name: "Balance", isNumber: true },
        { name: "Why" },
      ]}
      rows={movements.map((one) => [
        minute(one.at),
        <>
          {one.kind.replaceAll("_", " ")}
          <span class="type">{one.id}</span>
        </>,
        `${one.from} → ${one.to}`,
        signed(one.amount),
        one.change === 0n ? "–" : one.change > 0n ? `+${signed(one.change)}` : signed(one.change),
        one.memo ?? "",
      ])}
    />
  );
}
