/** @jsxImportSource hono/jsx */
// The webhooks of a workspace, with their last deliveries.

import type { Child } from "hono/jsx";
import type { Delivery } from "../../events/deliveries.ts";
import type { Webhook } from "../../webhooks/webhooks.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { SessionUser } from "../../http/route.ts";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { formatDateTime } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";

export interface WebhookWithDeliveries {
  readonly webhook: Webhook;
  readonly deliveries: readonly Delivery[];
}

export interface WebhooksPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly webhooks: readonly WebhookWithDeliveries[];
  /** The webhook that is asked about once more before it is deleted. */
  readonly deleteWebhookId?: string | undefined;
  /** A signing secret that was just made, to be shown this once. */
  readonly secret?: string;
  readonly errorMessage?: string;
  /** The address that was refused. */
  readonly formValues?: string | undefined;
}

export function webhooksPage(props: WebhooksPageProps): PageLayout {
  const { user, workspace, webhooks, secret, errorMessage, formValues } = props;
  const action = workspacePath(workspace.accountId, "/webhooks");
  return consolePage({
    title: "Webhooks",
    workspace,
    user,
    page: "/webhooks",
    main: (
      <>
        {secret === undefined ? null : (
          <section class="card notice" role="status">
            <h2>The signing secret, shown this once</h2>
            <pre>
              <code>{secret}</code>
            </pre>
          </section>
        )}
        {errorMessage === undefined ? null : (
          <p class="error" role="alert">
            {errorMessage}
          </p>
        )}
        <p>Postern posts what happens in this workspace to these addresses, signed.</p>
        {webhooks.map((item) => (
          <WebhookCard item={item} page={props} />
        ))}
        <section class="card" aria-labelledby="add">
          <h2 id="add">Add an address</h2>
          <form method="post" action={action}>
            <HiddenFields user={user} fields={{ do: "add", once: newFormToken() }} />
            <label for="webhook-url">Address, with https://</label>
            <input id="webhook-url" name="url" type="url" required value={formValues} />
            <div class="actions">
              <button type="submit">Add the webhook</button>
            </div>
          </form>
        </section>
      </>
    ),
  });
}

interface WebhookCardProps {
  readonly item: WebhookWithDeliveries;
  readonly page: WebhooksPageProps;
}

function WebhookCard({ item, page }: WebhookCardProps): Child {
  const { webhook, deliveries } = item;
  const { user, workspace, deleteWebhookId } = page;
  const action = workspacePath(workspace.accountId, "/webhooks");
  const isActive = webhook.status === "active";
  return (
    <section class="card" aria-labelledby={webhook.id}>
      <h2 id={webhook.id}>{webhook.url}</h2>
      <p>{isActive ? "Active." : `Disabled: ${webhook.disabledReason ?? "by request"}.`}</p>
      {deliveries.length === 0 ? (
        <p class="note">Nothing was sent yet.</p>
      ) : (
        <ul>
          {deliveries.map((delivery) => (
            <li>
              {formatDateTime(delivery.createdAt)}: {delivery.eventType}, {delivery.status} after{" "}
              {delivery.tries} {delivery.tries === 1 ? "try" : "tries"}
            </li>
          ))}
        </ul>
      )}
      {deleteWebhookId === webhook.id ? (
        <Confirm
          user={user}
          action={action}
          fields={{ do: "remove", webhook: webhook.id }}
          confirmLabel="Delete the webhook"
          cancelLabel="Keep it"
          cancelHref={action}
        >
          Delete {webhook.url} for good? Nothing more is sent there, and its signing secret is
          forgotten. What waits to be tried again is given up.
        </Confirm>
      ) : (
        <form method="post" action={action}>
          <HiddenFields user={user} fields={{ webhook: webhook.id }} />
          <div class="actions">
            <button type="submit" name="do" value={isActive ? "test" : "enable"} class="secondary">
              {isActive ? "Send a test" : "Enable"}{" "}
              <span class="visually-hidden">
                {isActive ? "to" : ""} {webhook.url}
              </span>
            </button>
            <ConfirmLink
              href={withQuery(action, { delete: webhook.id })}
              label="Delete"
              subject={webhook.url}
            />
          </div>
        </form>
      )}
    </section>
  );
}
