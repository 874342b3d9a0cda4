// The routes of the page of batches. Owners and admins see them, cancel one and download its results, which have content.

import { z } from "zod";
import { authorize } from "../../accounts/members.ts";
import { listBatches } from "../../batches/batch-rows.ts";
import { type Batches, getBatch, unfinishedFault } from "../../batches/batches.ts";
import { resultsResponse } from "../../batches/results.ts";
import type { Route } from "../../http/route.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { batchesPage } from "./batches-page.tsx";

export interface BatchPageDeps extends ConsoleReadDeps {
  readonly batches: Batches;
}

const PATH = "/console/{account}/batches";
const PER_PAGE = 50;
const BatchPath = AccountPath.extend({ batch: z.string().max(200) });

export function batchPageRoutes(deps: BatchPageDeps): readonly Route[] {
  return [listRoute(deps), resultsRoute(deps), cancelRoute(deps)];
}

function listRoute(deps: BatchPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceBatches",
    summary: "Show the batches of a workspace",
    query: z.object({
      ...DoneQuery,
      cursor: z.string().max(200).optional(),
      cancel: z.string().max(200).optional(),
    }),
    permission: "batches.manage",
    run: async ({ view, account, query: { cursor, cancel, done } }) => {
      const page = { limit: PER_PAGE, cursor, keyId: undefined };
      const found = await listBatches(deps.db, account, page);
      const batches = found.slice(0, PER_PAGE);
      const next = found.length > PER_PAGE ? (batches.at(-1)?.id ?? null) : null;
      return batchesPage({ ...view, batches, next, cancel, done });
    },
  });
}

function resultsRoute(deps: BatchPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/{batch}/results`,
    id: "downloadWorkspaceBatchResults",
    summary: "Download the results of a batch",
    params: BatchPath,
    permission: "batches.manage",
    run: async ({ account, params: { batch: id } }) => {
      const { db, kek } = deps.batches;
      const batch = await getBatch(db, account, id);
      if (batch.endedAt === null) throw unfinishedFault(id);
      const response = resultsResponse(db, kek, { batch, form: batch.form });
      response.headers.set("content-disposition", `attachment; filename="${batch.id}.jsonl"`);
      return response;
    },
  });
}

function cancelRoute(deps: BatchPageDeps): Route {
  return workspaceForm(deps, {
    path: `${PATH}/{batch}`,
    id: "cancelWorkspaceBatch",
    summary: "Cancel a batch of a workspace",
    params: BatchPath,
    body: z.object({}),
    requestExample: {},
    permission: "batches.manage",
    write: async (tx, { act, params: { batch } }) => {
      await authorize(tx, act, "batches.manage");
      return deps.batches.cancel(tx, act, batch);
    },
    done: ({ account }) => donePath(workspacePath(account, "/batches"), "canceled"),
  });
}
