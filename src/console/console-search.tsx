/** @jsxImportSource hono/jsx */
// Search over the pages of a workspace, its keys and the models that can be called: a page, and JSON for the dialog of the
// app script, which also searches the documentation.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { Card, EmptyState } from "../http/pages/components/content.tsx";
import { Table } from "../http/pages/components/table.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { Route, SessionUser } from "../http/route.ts";
import type { Key } from "../keys/key.ts";
import { listKeysFrom } from "../keys/keys.ts";
import { withQuery } from "./confirm.tsx";
import { consolePage, navGroups, searchPath, workspacePath } from "./console-layout.tsx";
import type { ConsoleReadDeps, WorkspaceContext } from "./require-access.ts";
import { keyName } from "./usage/read-usage.ts";
import { workspacePage } from "./workspace-routes.ts";

export interface SearchDeps extends ConsoleReadDeps {
  /** The ids of the models that this gateway can call now. */
  readonly callableModels: () => readonly string[];
}

interface SearchResult {
  readonly kind: "Page" | "Key" | "Model" | "Call";
  readonly label: string;
  readonly href: string;
}

const RESULTS_MAX = 8;
const QUERY_MAX = 100;

export function searchRoute(deps: SearchDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/search",
    id: "searchWorkspace",
    summary: "Search pages, models and keys",
    query: z.object({ q: z.string().max(QUERY_MAX).default("") }),
    permission: "keys.read",
    run: async ({ view: { user, workspace }, query, headers, now }) => {
      const text = query.q.trim().toLowerCase();
      const results = text === "" ? [] : await search(deps, workspace, { text, now });
      // The dialog has the pages from the sidebar.
      if (headers.get("accept")?.startsWith("application/json") === true)
        return Response.json(
          { data: results.filter(({ kind }) => kind !== "Page") },
          { headers: { "cache-control": "no-store" } },
        );
      return searchPage(user, workspace, { text: query.q, results });
    },
  });
}

async function search(
  { db, callableModels }: SearchDeps,
  workspace: WorkspaceContext,
  { text, now }: { readonly text: string; readonly now: number },
): Promise<readonly SearchResult[]> {
  const { accountId } = workspace;
  const keys = await listKeysFrom(db, accountId, { revoked: false, now });
  const logs = workspacePath(accountId, "/logs");
  const pages = navGroups(workspace).flatMap(({ links }) => links);
  return [
    ...pages
      .filter(({ label }) => label.toLowerCase().includes(text))
      .map(({ href, label }): SearchResult => ({ kind: "Page", label, href })),
    ...(/^req_[0-9a-z]{26}$/.test(text)
      ? [{ kind: "Call", label: text, href: `${logs}/${text}` } as const]
      : []),
    ...keys
      .filter((key) => isMatch(key, text))
      .slice(0, RESULTS_MAX)
      .map((key): SearchResult => ({
        kind: "Key",
        label: keyName(key),
        href: withQuery(logs, { key: key.id }),
      })),
    ...callableModels()
      .filter((id) => id.toLowerCase().includes(text))
      .slice(0, RESULTS_MAX)
      .map((id): SearchResult => ({
        kind: "Model",
        label: id,
        href: withQuery(logs, { model: id }),
      })),
  ];
}

function isMatch({ id, name, last4 }: Key, text: string): boolean {
  return [id, name ?? "", last4].some((field) => field.toLowerCase().includes(text));
}

function searchPage(
  user: SessionUser,
  workspace: WorkspaceContext,
  { text, results }: { readonly text: string; readonly results: readonly SearchResult[] },
): PageLayout {
  return consolePage({
    title: "Search",
    workspace,
    user,
    page: "",
    crumbs: [{ href: workspacePath(workspace.accountId, ""), label: "Overview" }],
    main: (
      <>
        <form class="inline" method="get" action={searchPath(workspace.accountId)}>
          <div class="long">
            <label for="q">Page, model, key or request id</label>
            <input id="q" name="q" type="search" maxlength={QUERY_MAX} value={text} />
          </div>
          <button type="submit">Search</button>
        </form>
        {text.trim() === "" ? null : <Results text={text} results={results} />}
      </>
    ),
  });
}

function Results({
  text,
  results,
}: {
  readonly text: string;
  readonly results: readonly SearchResult[];
}): Child {
  return (
    <Card id="results" title={`Results for “${text.trim()}”`}>
      {results.length === 0 ? (
        <EmptyState title="Nothing found" />
      ) : (
        <Table
          label="Search results"
          columns={[{ name: "Result" }, { name: "Type" }]}
          rows={results.map(({ kind, label, href }) => [
            <a class="name" href={href}>
              {label}
            </a>,
            kind,
          ])}
        />
      )}
      <p>
        <a href={withQuery("/docs/search", { q: text.trim() })}>
          Search the documentation for “{text.trim()}”
        </a>
      </p>
    </Card>
  );
}
