// The routes of the page of connected apps. All members see them; a revocation ends the key of one.

import { z } from "zod";
import type { Route } from "../../http/route.ts";
import { readActorNames } from "../../keys/actor-names.ts";
import { listAppKeys } from "../../keys/keys.ts";
import { revokeKeyForMember } from "../../keys/member-keys.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";
import { connectedAppsPage } from "./connected-apps-page.tsx";

const PATH = "/console/{account}/connected-apps";

export function connectedAppRoutes(deps: ConsoleReadDeps): readonly Route[] {
  return [listRoute(deps), revokeRoute(deps)];
}

function listRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showConnectedApps",
    summary: "List the connected apps of a workspace",
    query: z.object({ ...DoneQuery, ask: z.string().max(100).optional() }),
    permission: "keys.read",
    run: async ({ view, account, query: { ask, done }, now }) => {
      const apps = await listAppKeys(deps.db, account, now);
      const people = await readActorNames(
        deps.db,
        account,
        apps.map(({ createdBy }) => createdBy),
      );
      return connectedAppsPage({ ...view, apps, people, ask, done });
    },
  });
}

function revokeRoute(deps: ConsoleReadDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "revokeConnectedApp",
    summary: "Revoke the key of a connected app",
    body: z.object({ key: z.string().max(100) }),
    requestExample: { key: "key_01kah5t3mq7d2c9w4e6r8t0yax" },
    permission: "keys.revoke",
    write: (tx, { act, body: { key } }) => revokeKeyForMember(tx, act, key),
    done: ({ account }) => donePath(workspacePath(account, "/connected-apps"), "revoked"),
  });
}
