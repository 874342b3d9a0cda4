/** @jsxImportSource hono/jsx */
// Where a card of development is saved: it is none, and does what its name says.

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
        <p class="notice warn">This is a gateway in development. No money moves.</p>
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
          <a href={workspacePath(workspace.accountId, "/billing")}>Back, without saving</a>
        </p>
      </>
    ),
  });
}
