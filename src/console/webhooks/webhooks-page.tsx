/** @jsxImportSource hono/jsx */
// The webhooks of a workspace with their latest deliveries.

import type { Child } from "hono/jsx";
import type { Delivery } from "../../events/deliveries.ts";
import type { Webhook } from "../../webhooks/webhooks.ts";
import { DateTime } from "../../http/pages/components/time.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { SessionUser } from "../../http/route.ts";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { pluralize } from "../../base/format.ts";
import { deliveryLogPath } from "./delivery-log-page.tsx";
import type { WorkspaceContext } from "../authorize.ts";

export interface WebhookWithDeliveries {
  readonly webhook: Webhook;
  readonly deliveries: readonly Delivery[];
}

export interface WebhooksPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly webhooks: readonly WebhookWithDeliveries[];
  /** The webhook whose deletion needs confirmation. */
  readonly deleteWebhookId?: string | undefined;
  /** A new signing secret, which is shown once. */
  readonly secret?: string;
  readonly errorMessage?: string;
  /** The URL of the rejected form. */
  readonly urlValue?: string | undefined;
}

export function webhooksPage(props: WebhooksPageProps): PageLayout {
  const { user, workspace, webhooks, secret, errorMessage, urlValue } = props;
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
            <h2>Signing secret</h2>
            <p>Copy it now. It is not shown again.</p>
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
        <p>Postern sends the events of this workspace to these URLs as signed POST requests.</p>
        {webhooks.map((item) => (
          <WebhookCard item={item} page={props} />
        ))}
        <section class="card" aria-labelledby="add">
          <h2 id="add">Add a webhook</h2>
          <form method="post" action={action}>
            <HiddenFields user={user} fields={{ do: "add", once: newFormToken() }} />
            <label for="webhook-url">URL (https)</label>
            <input id="webhook-url" name="url" type="url" required value={urlValue} />
            <div class="actions">
              <button type="submit">Add webhook</button>
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
        <p class="note">No deliveries yet.</p>
      ) : (
        <ul>
          {deliveries.map((delivery) => (
            <li>
              <DateTime at={delivery.createdAt} />: {delivery.eventType}, {delivery.status} after{" "}
              {pluralize(delivery.tries, "attempt")}
            </li>
          ))}
        </ul>
      )}
      <p>
        <a href={deliveryLogPath(workspace.accountId, webhook.id)}>
          Delivery log <span class="visually-hidden">of {webhook.url}</span>
        </a>
      </p>
      {deleteWebhookId === webhook.id ? (
        <Confirm
          user={user}
          action={action}
          fields={{ do: "remove", webhook: webhook.id }}
          confirmLabel="Delete webhook"
          cancelHref={action}
        >
          Delete the webhook for {webhook.url}? It receives no more events, pending retries are
          dropped, and its signing secret is deleted. This cannot be undone.
        </Confirm>
      ) : (
        <form method="post" action={action}>
          <HiddenFields user={user} fields={{ webhook: webhook.id }} />
          <div class="actions">
            <button type="submit" name="do" value={isActive ? "test" : "enable"} class="secondary">
              {isActive ? "Send test event" : "Enable"}{" "}
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
