/** @jsxImportSource hono/jsx */
// Saves a development card: not a real card, but one that behaves as its name says.

import { DEVELOPMENT_CARDS } from "../../billing/payments/development-cards.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../authorize.ts";

export function developmentCardPage(user: SessionUser, workspace: WorkspaceContext): PageLayout {
  const action = `${workspacePath(workspace.accountId, "/billing")}/card`;
  return consolePage({
    title: "Save a payment method",
    workspace,
    user,
    page: "/billing",
    main: (
      <>
        <p class="notice warn">This gateway runs in development mode. No money moves.</p>
        {Object.entries(DEVELOPMENT_CARDS).map(([card, name]) => (
          <form method="post" action={action}>
            <HiddenFields user={user} fields={{ card }} />
            <div class="actions">
              <button type="submit" class="secondary">
                {name}
              </button>
            </div>
          </form>
        ))}
        <p>
          <a href={workspacePath(workspace.accountId, "/billing")}>Cancel</a>
        </p>
      </>
    ),
  });
}
