/** @jsxImportSource hono/jsx */
// The page after a workspace was created: its first key, which is shown once, and ready-made calls.

import type { Child } from "hono/jsx";
import type { Nano } from "../../base/money/money.ts";
import { formatUsd } from "../../base/text/format.ts";
import { Card, CodeBlock } from "../../http/pages/components/content.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { CallSnippets, type SnippetSettings } from "../usage/call-snippets.tsx";

export interface FirstKeyPageProps extends WorkspaceView {
  /** The raw key. */
  readonly raw: string;
  readonly bonus: Nano;
  readonly snippets: SnippetSettings;
}

export function firstKeyPage({
  user,
  workspace,
  raw,
  bonus,
  snippets,
}: FirstKeyPageProps): PageLayout {
  const { accountId } = workspace;
  return consolePage({
    title: "Your workspace is ready",
    workspace,
    user,
    page: "",
    actions: (
      <a class="button" href={workspacePath(accountId, "")}>
        Open the overview
      </a>
    ),
    main: (
      <>
        <BalanceText workspace={workspace} bonus={bonus} />
        <Card id="first-key" title="1. Copy your first key">
          <p>It is not shown again: Postern stores only a hash of it.</p>
          <CodeBlock code={`export POSTERN_API_KEY=${raw}`} />
        </Card>
        <Card id="first-call" title="2. Call a model">
          <CallSnippets snippets={snippets} />
        </Card>
        <p>
          3. The call appears in <a href={workspacePath(accountId, "/logs")}>Logs</a>, with its
          cost. Limit what the key may spend under{" "}
          <a href={workspacePath(accountId, "/keys")}>Keys</a>.
        </p>
      </>
    ),
  });
}

function BalanceText({ workspace, bonus }: Pick<FirstKeyPageProps, "workspace" | "bonus">): Child {
  return bonus > 0n ? (
    <p class="notice" role="status">
      The workspace starts with {formatUsd(bonus)} of credits.
    </p>
  ) : (
    <p class="notice warn" role="status">
      The workspace starts without credits: each person gets starting credits once, and a gateway
      has a daily budget for them.{" "}
      <a href={workspacePath(workspace.accountId, "/billing")}>Buy credits</a> to call models, or
      bring your own provider key.
    </p>
  );
}
