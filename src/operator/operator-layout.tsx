/** @jsxImportSource hono/jsx */
// The layout of the operator pages, and the components that several of them use.

import type { Child } from "hono/jsx";
import type { NavLink, PageLayout } from "../http/pages/layout.tsx";
import { type Operator, OPERATOR_PATH } from "./sign-in/operator-sessions.ts";

const NAV_LINKS: readonly NavLink[] = [
  { href: OPERATOR_PATH, label: "Accounts" },
  { href: `${OPERATOR_PATH}/report`, label: "Report" },
  { href: `${OPERATOR_PATH}/payments`, label: "Payments" },
  { href: `${OPERATOR_PATH}/audit`, label: "Audit log" },
];

export function accountPath(accountId: string): string {
  return `${OPERATOR_PATH}/accounts/${accountId}`;
}

export interface OperatorPageOptions {
  readonly title: string;
  readonly heading?: Child;
  readonly operator: Operator;
  readonly path: string;
  readonly main: Child;
}

export function operatorPage({
  title,
  heading,
  operator,
  path,
  main,
}: OperatorPageOptions): PageLayout {
  return {
    title: `${title} – Operator – Postern`,
    isPrivate: true,
    isWide: true,
    path,
    nav: NAV_LINKS,
    main: (
      <>
        <h1>{heading ?? title}</h1>
        {main}
      </>
    ),
    footer: (
      <form method="post" action={`${OPERATOR_PATH}/signout`}>
        <input type="hidden" name="csrf" value={operator.csrf} />
        <p>
          Signed in as operator {operator.email}. All changes are recorded in the audit log.{" "}
          <button type="submit" class="secondary">
            Sign out
          </button>
        </p>
      </form>
    ),
  };
}

export function DefinitionList({
  items,
}: {
  readonly items: readonly (readonly [name: string, value: Child])[];
}): Child {
  return (
    <dl class="stats">
      {items.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A select that filters a list by one value. */
export function FilterSelect({
  name,
  label,
  allLabel,
  options,
  selected,
}: {
  readonly name: string;
  readonly label: string;
  /** The label of the option without a filter. */
  readonly allLabel: string;
  readonly options: readonly string[];
  readonly selected: string | undefined;
}): Child {
  return (
    <div>
      <label for={name}>{label}</label>
      <select id={name} name={name}>
        <option value="">{allLabel}</option>
        {options.map((option) => (
          <option value={option} selected={option === selected}>
            {option}
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

/** A table whose first column has the row headers. */
export function Table({
  label,
  columns,
  rows,
  footer,
}: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Child[])[];
  readonly footer?: readonly Child[];
}): Child {
  const cellClass = (index: number): string | undefined => {
    const { isNumber = false, isDate = false } = columns[index] ?? {};
    return isNumber ? "number" : isDate ? "date" : undefined;
  };
  return (
    <div class="scroll" role="region" aria-label={label} tabindex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name }, index) => (
              <th scope="col" class={cellClass(index)}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([head, ...cells]) => (
            <tr>
              <th scope="row" class={cellClass(0)}>
                {head}
              </th>
              {cells.map((cell, index) => (
                <td class={cellClass(index + 1)}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
        {footer === undefined ? null : (
          <tfoot>
            <tr>
              {footer.map((cell, index) => (
                <td class={cellClass(index)}>{cell}</td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}

export function OlderLink({
  path,
  query,
  cursor,
}: {
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly cursor: string | null;
}): Child {
  if (cursor === null) return null;
  const defined = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [[name, value]],
  );
  const search = new URLSearchParams([...defined, ["cursor", cursor]]);
  return (
    <p>
      <a href={`${path}?${search.toString()}`}>Older</a>
    </p>
  );
}

export function ErrorMessage({ message }: { readonly message: string | undefined }): Child {
  return message === undefined ? null : (
    <p class="error" role="alert">
      {message}
    </p>
  );
}
