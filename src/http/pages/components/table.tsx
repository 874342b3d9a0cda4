/** @jsxImportSource hono/jsx */
// Tables of the app pages, and the links to their further pages.

import type { Child } from "hono/jsx";

export interface Column {
  readonly name: string;
  /** What the values are, shown on hover. */
  readonly title?: string;
  readonly isNumber?: boolean;
  readonly isDate?: boolean;
  /** Left out on narrow screens. */
  readonly isExtra?: boolean;
  /** A line of its own in a stacked row. */
  readonly isWide?: boolean;
  /** The page sorted by this column, the highest first. */
  readonly sortHref?: string | undefined;
  readonly isSorted?: boolean;
}

interface TableProps {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Child[])[];
  readonly footer?: readonly Child[];
  /** Scrolls within the page, below its column headings. */
  readonly isTall?: boolean;
  /** The column headings stay visible while the page scrolls, where the screen is wide enough. */
  readonly isLong?: boolean;
  /** On narrow screens each row is a block of names and values, for tables with too many columns. */
  readonly isStacked?: boolean;
}

/** A table whose first column has the row headers. */
export function Table(props: TableProps): Child {
  const { label, columns, rows, footer, isStacked = false } = props;
  const role = roleOf(isStacked);
  return (
    <div class={scrollClass(props)} role="region" aria-label={label} tabindex={0}>
      <table role={role("table")}>
        <thead role={role("rowgroup")}>
          <tr role={role("row")}>
            {columns.map((column) => (
              <th
                scope="col"
                role={role("columnheader")}
                class={cellClass(column)}
                title={column.title}
                aria-sort={column.isSorted === true ? "descending" : undefined}
              >
                {column.sortHref === undefined ? (
                  column.name
                ) : (
                  <a href={column.sortHref}>{column.name}</a>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role={role("rowgroup")}>
          {rows.map((cells) => (
            <Row columns={columns} cells={cells} isStacked={isStacked} />
          ))}
        </tbody>
        {footer === undefined ? null : (
          <tfoot>
            <tr>
              {footer.map((cell, index) => (
                <td class={cellClass(columns[index])}>{cell}</td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}

function Row({
  columns,
  cells: [head, ...cells],
  isStacked,
}: {
  readonly columns: readonly Column[];
  readonly cells: readonly Child[];
  readonly isStacked: boolean;
}): Child {
  const role = roleOf(isStacked);
  return (
    <tr role={role("row")}>
      <th scope="row" role={role("rowheader")} class={cellClass(columns[0])}>
        {head}
      </th>
      {cells.map((cell, index) => (
        <td
          role={role("cell")}
          class={cellClass(columns[index + 1])}
          data-label={isStacked ? columns[index + 1]?.name : undefined}
        >
          {cell}
        </td>
      ))}
    </tr>
  );
}

/** A table whose rows are blocks loses its roles in browsers, unless they are stated. */
function roleOf(isStacked: boolean): (name: string) => string | undefined {
  return (name) => (isStacked ? name : undefined);
}

function scrollClass({ isTall, isLong, isStacked }: TableProps): string {
  return classes(["scroll", isTall && "tall", isLong && "long", isStacked && "stacked"]);
}

function cellClass({ isNumber, isDate, isExtra, isWide }: Partial<Column> = {}):
  | string
  | undefined {
  const names = [
    isNumber && "number",
    isDate && "date",
    isExtra && "hide-narrow",
    isWide && "wide",
  ];
  return classes(names) || undefined;
}

function classes(names: readonly (string | false | undefined)[]): string {
  return names.filter((name) => typeof name === "string").join(" ");
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
