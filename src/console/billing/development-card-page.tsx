/** @jsxImportSource hono/jsx */
// Saves a development card: not a real card, but one that behaves as its name says.

import { DEVELOPMENT_CARDS } from "../../billing/payments/development-cards.ts";
import { Card, Notice } from "../../http/pages/components/content.tsx";
import { PostForm } from "../../http/pages/components/form.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../require-access.ts";

export function developmentCardPage(user: SessionUser, workspace: WorkspaceContext): PageLayout {
  const action = `${workspacePath(workspace.accountId, "/billing")}/card`;
  return consolePage({
    title: "Save a payment method",
    workspace,
    user,
    page: "/billing",
    crumbs: [{ href: workspacePath(workspace.accountId, "/billing"), label: "Billing" }],
    main: (
      <>
        <Notice tone="warn">This gateway runs in development mode. No money moves.</Notice>
        <Card id="cards" title="Test cards">
          {Object.entries(DEVELOPMENT_CARDS).map(([card, name]) => (
            <PostForm user={user} action={action} fields={{ card }}>
              <button type="submit" class="secondary">
                {name}
              </button>
            </PostForm>
          ))}
          <p>
            <a href={workspacePath(workspace.accountId, "/billing")}>Cancel</a>
          </p>
        </Card>
      </>
    ),
  });
}
