/** @jsxImportSource hono/jsx */
// What a workspace spent, by model, by key and by day.

import type { Child } from "hono/jsx";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage, pathOf } from "./frame.tsx";
import { SumTable } from "./overview-page.tsx";
import type { Place, Spending, SpendingCursors } from "./workspace.ts";

export interface UsageState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly spending: Spending;
  readonly from: SpendingCursors;
}

export function usagePage({ visitor, place, spending, from }: UsageState): PageFrame {
  const { byModel, byKey, byDay, labels } = spending;
  const path = pathOf(place.accountId, "/usage");
  return consolePage({
    title: "Usage",
    place,
    visitor,
    page: "/usage",
    main:
      byDay.length === 0 ? (
        <p>No model was called in the last thirty days.</p>
      ) : (
        <>
          <p>The last thirty days. Single calls are in GET /v1/usage, as JSON or CSV.</p>
          <h2 id="models">By model</h2>
          <SumTable by="model" sums={byModel.data} />
          <More path={path} from={from} table="models" next={byModel.next_cursor} />
          <h2 id="keys">By key</h2>
          <SumTable
            by="key"
            sums={byKey.data}
            headOf={(id) => <KeyName id={id} label={labels.get(id)} />}
          />
          <More path={path} from={from} table="keys" next={byKey.next_cursor} />
          <h2>By day</h2>
          <SumTable by="day" sums={byDay} />
        </>
      ),
  });
}

function KeyName({
  id,
  label,
}: {
  readonly id: string;
  readonly label: ReturnType<Spending["labels"]["get"]>;
}): Child {
  return label === undefined ? (
    id
  ) : (
    <>
      <bdi>{label.name ?? "Unnamed key"}</bdi> <code>{`${label.prefix}…${label.last4}`}</code>
      <span class="type">{id}</span>
    </>
  );
}

interface MoreProps {
  readonly path: string;
  readonly from: SpendingCursors;
  readonly table: keyof SpendingCursors;
  readonly next: string | null;
}

/** The way on in one table, which leaves the other one where it is. */
function More({ path, from, table, next }: MoreProps): Child {
  if (next === null && from[table] === undefined) return null;
  const target = (cursor: string | null): string => {
    const places = Object.entries({ ...from, [table]: cursor ?? undefined });
    const given = places.filter((one): one is [string, string] => one[1] !== undefined);
    return `${path}?${new URLSearchParams(given).toString()}#${table}`;
  };
  return (
    <p>
      {next === null ? (
        <a href={target(null)}>The first {table}</a>
      ) : (
        <>
          There are more. <a href={target(next)}>More {table}</a>
        </>
      )}
    </p>
  );
}
