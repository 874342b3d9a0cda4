/** @jsxImportSource hono/jsx */
// What a workspace spent, by model, by key and by day.

import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage } from "./frame.tsx";
import { SumTable } from "./overview-page.tsx";
import type { Place, Spending } from "./workspace.ts";

export function usagePage(visitor: Visitor, place: Place, spending: Spending): PageFrame {
  const empty = spending.byModel.length === 0;
  return consolePage({
    title: "Usage",
    place,
    visitor,
    page: "/usage",
    main: empty ? (
      <p>No model was called in the last thirty days.</p>
    ) : (
      <>
        <p>The last thirty days. Single calls are in GET /v1/usage, as JSON or CSV.</p>
        <h2>By model</h2>
        <SumTable name="Model" sums={spending.byModel} />
        <h2>By key</h2>
        <SumTable name="Key" sums={spending.byKey} />
        <h2>By day</h2>
        <SumTable name="Day" sums={spending.byDay} />
      </>
    ),
  });
}
