/** @jsxImportSource hono/jsx */
// Who did what in a workspace, the newest first.

import { dayOf } from "../base/day.ts";
import type { Entry } from "../audit/audit.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage } from "./frame.tsx";
import { detailText, minute } from "./words.ts";
import type { Place } from "./workspace.ts";

export const ENTRIES_SHOWN = 50;

export function auditPage(visitor: Visitor, place: Place, entries: readonly Entry[]): PageFrame {
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
          {entries.length < ENTRIES_SHOWN ? null : (
            <p>
              The newest {ENTRIES_SHOWN}. <code>GET /v1/audit</code> lists all of them.
            </p>
          )}
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
                      {entry.actor.type}
                      <br />
                      <code>{entry.actor.id}</code>
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
        </>
      ),
  });
}
