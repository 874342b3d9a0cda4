/** @jsxImportSource hono/jsx */
// Who did what in a workspace, the newest first.

import type { Child } from "hono/jsx";
import type { Entry } from "../audit/audit.ts";
import { shownActor } from "../audit/record.ts";
import { dayOf } from "../base/day.ts";
import type { Page } from "../base/page.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage, pathOf } from "./frame.tsx";
import { detailText, minute } from "./words.ts";
import type { Place } from "./workspace.ts";

export const ENTRIES_SHOWN = 50;

export function auditPage(visitor: Visitor, place: Place, page: Page<Entry>): PageFrame {
  const entries = page.data;
  return consolePage({
    title: "Audit log",
    place,
    visitor,
    page: "/audit",
    main:
      entries.length === 0 ? (
        <p>Nothing was changed yet.</p>
      ) : (
        <>
          <div class="scroll" role="region" aria-label="Entries" tabindex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col" class="date">
                    When
                  </th>
                  <th scope="col">Who</th>
                  <th scope="col">What, and on what</th>
                </tr>
              </thead>
              <tbody>
                {entries.map((entry) => (
                  <tr>
                    <th scope="row" class="date">
                      {dayOf(entry.at)}
                      <span class="type">{minute(entry.at).slice("YYYY-MM-DD ".length)}</span>
                    </th>
                    <td>
                      <Who actor={shownActor(entry.actor)} />
                    </td>
                    <td>
                      {entry.action}
                      {entry.target === null ? null : (
                        <>
                          <br />
                          <code>{entry.target}</code>
                        </>
                      )}
                      <span class="type">
                        <bdi>{detailText(entry.detail)}</bdi>
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {page.next_cursor === null ? null : (
            <p>
              <a href={`${pathOf(place.accountId, "/audit")}?cursor=${page.next_cursor}`}>
                Older entries
              </a>
            </p>
          )}
        </>
      ),
  });
}

function Who({ actor: { type, id } }: { readonly actor: Entry["actor"] }): Child {
  if (type === id) return type;
  return (
    <>
      {type}
      <br />
      <code>{id}</code>
    </>
  );
}
