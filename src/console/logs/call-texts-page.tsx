/** @jsxImportSource hono/jsx */
// The logged request and reply of one call.

import type { Child } from "hono/jsx";
import { parseObject } from "../../base/json.ts";
import { Card } from "../../http/pages/components/content.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Prompt } from "../../prompt-log/prompt-log.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";

interface CallTextsProps extends WorkspaceView {
  /** The id of the call. */
  readonly id: string;
  readonly prompt: Prompt;
}

export function callTextsPage({ user, workspace, id, prompt }: CallTextsProps): PageLayout {
  const logs = workspacePath(workspace.accountId, "/logs");
  return consolePage({
    title: `Request and reply of ${id}`,
    heading: "Request and reply",
    workspace,
    user,
    page: "/logs",
    crumbs: [
      { href: logs, label: "Logs" },
      { href: `${logs}/${id}`, label: id },
    ],
    main: (
      <>
        <TextCard id="request" title="Request" text={prompt.request} />
        <TextCard id="reply" title="Reply" text={prompt.reply} />
        <p class="note">
          Encrypted, and deleted at <DateTime at={prompt.expiresAt} />. This view is in the audit
          log.
        </p>
      </>
    ),
  });
}

interface TextCardProps {
  readonly id: string;
  readonly title: string;
  readonly text: string | null;
}

function TextCard({ id, title, text }: TextCardProps): Child {
  return (
    <Card id={id} title={title}>
      {text === null ? (
        <p>The caller got no reply.</p>
      ) : (
        <pre>
          <code>{indented(text)}</code>
        </pre>
      )}
    </Card>
  );
}

/** JSON with line breaks; a stream as it was sent. */
function indented(text: string): string {
  const json = parseObject(text);
  return json === undefined ? text : JSON.stringify(json, null, 2);
}
