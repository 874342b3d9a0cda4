/** @jsxImportSource hono/jsx */
// Who did what in a workspace, the newest first.

import type { Entry } from "../audit/audit.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage } from "./frame.tsx";
import { minute } from "./words.ts";
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
                  <th scope="col">When</th>
                  <th scope="col">Who</th>
                  <th scope="col">What</th>
                  <th scope="col">On</th>
                </tr>
              </thead>
              <tbody>
                {entries.map((entry) => (
                  <tr>
                    <th scope="row">{minute(entry.at)}</th>
                    <td>
                      {entry.actor.type} <code>{entry.actor.id}</code>
                    </td>
                    <td>
                      {entry.action}
                      {typeof entry.detail["reason"] === "string" ? (
                        <p class="note">{entry.detail["reason"]}</p>
                      ) : null}
                    </td>
                    <td>
                      <code>{entry.target ?? ""}</code>
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
