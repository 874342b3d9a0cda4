/** @jsxImportSource hono/jsx */
// The frame of the operator's pages, and the parts that several of them show.

import type { Child } from "hono/jsx";
import type { Nano } from "../base/money.ts";
import { money } from "../console/words.ts";
import type { NavLink, PageFrame } from "../http/layout.tsx";
import { type Operator, OPERATOR_PATH } from "./sessions.ts";

const NAV: readonly NavLink[] = [
  { href: OPERATOR_PATH, label: "Accounts" },
  { href: `${OPERATOR_PATH}/report`, label: "Report" },
  { href: `${OPERATOR_PATH}/payments`, label: "Payments" },
  { href: `${OPERATOR_PATH}/audit`, label: "Audit log" },
];

export function pathOfAccount(accountId: string): string {
  return `${OPERATOR_PATH}/accounts/${accountId}`;
}

export interface OperatorPage {
  readonly title: string;
  readonly heading?: Child;
  readonly operator: Operator;
  readonly path: string;
  readonly main: Child;
}

export function operatorPage({ title, heading, operator, path, main }: OperatorPage): PageFrame {
  return {
    title: `${title} – Operator – Postern`,
    isPrivate: true,
    isWide: true,
    path,
    nav: NAV,
    main: (
      <>
        <h1>{heading ?? title}</h1>
        {main}
      </>
    ),
    foot: (
      <form method="post" action={`${OPERATOR_PATH}/signout`}>
        <input type="hidden" name="csrf" value={operator.csrf} />
        <p>
          Signed in as the operator {operator.email}. Everything that you change here is written
          down under that name.{" "}
          <button type="submit" class="quiet">
            Sign out
          </button>
        </p>
      </form>
    ),
  };
}

/** Dollars of any sign: `−$2.50`. */
export function signed(amount: Nano): string {
  return amount < 0n ? `−${money(-amount)}` : money(amount);
}

export function Figures({
  figures,
}: {
  readonly figures: readonly (readonly [name: string, value: Child])[];
}): Child {
  return (
    <dl class="figures">
      {figures.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Asks a list for all of it, or for one word's. */
export function Choice({
  name,
  label,
  all,
  words,
  chosen,
}: {
  readonly name: string;
  readonly label: string;
  /** What stands for no choice. */
  readonly all: string;
  readonly words: readonly string[];
  readonly chosen: string | undefined;
}): Child {
  return (
    <div>
      <label for={name}>{label}</label>
      <select id={name} name={name}>
        <option value="">{all}</option>
        {words.map((word) => (
          <option value={word} selected={word === chosen}>
            {word}
          </option>
        ))}
      </select>
    </div>
  );
}

export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
  readonly isDate?: boolean;
}

/** A table whose first cell names its row. */
export function Table({
  label,
  columns,
  rows,
  foot,
}: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Child[])[];
  readonly foot?: readonly Child[];
}): Child {
  const kind = (place: number): string | undefined => {
    const { isNumber = false, isDate = false } = columns[place] ?? {};
    return isNumber ? "number" : isDate ? "date" : undefined;
  };
  return (
    <div class="scroll" role="region" aria-label={label} tabindex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name }, place) => (
              <th scope="col" class={kind(place)}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([head, ...cells]) => (
            <tr>
              <th scope="row" class={kind(0)}>
                {head}
              </th>
              {cells.map((cell, place) => (
                <td class={kind(place + 1)}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
        {foot === undefined ? null : (
          <tfoot>
            <tr>
              {foot.map((cell, place) => (
                <td class={kind(place)}>{cell}</td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}

export function More({
  path,
  query,
  cursor,
}: {
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly cursor: string | null;
}): Child {
  if (cursor === null) return null;
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [[name, value]],
  );
  const search = new URLSearchParams([...given, ["cursor", cursor]]);
  return (
    <p>
      <a href={`${path}?${search.toString()}`}>Older ones</a>
    </p>
  );
}

export function Wrong({ wrong }: { readonly wrong: string | undefined }): Child {
  return wrong === undefined ? null : (
    <p class="wrong" role="alert">
      {wrong}
    </p>
  );
}
