/** @jsxImportSource hono/jsx */
// Tables of the app pages, and the links to their further pages.

import type { Child } from "hono/jsx";

export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
  readonly isDate?: boolean;
  /** Left out on narrow screens. */
  readonly isExtra?: boolean;
}

/** A table whose first column has the row headers. */
export function Table({
  label,
  columns,
  rows,
  footer,
  isTall = false,
}: {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Child[])[];
  readonly footer?: readonly Child[];
  /** Scrolls within the page, below its column headings. */
  readonly isTall?: boolean;
}): Child {
  const cellClass = (index: number): string | undefined => {
    const { isNumber = false, isDate = false, isExtra = false } = columns[index] ?? {};
    const names = [isNumber ? "number" : isDate ? "date" : "", isExtra ? "hide-narrow" : ""];
    return names.join(" ").trim() || undefined;
  };
  return (
    <div class={isTall ? "scroll tall" : "scroll"} role="region" aria-label={label} tabindex={0}>
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

/** A link to the rows after a cursor, which keeps the filters. */
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
