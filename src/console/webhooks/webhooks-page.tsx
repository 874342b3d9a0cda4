/** @jsxImportSource hono/jsx */
// The webhooks of a workspace as a table with the latest delivery of each, and the form that adds one.

import type { Child } from "hono/jsx";
import type { Delivery } from "../../activity/deliveries.ts";
import { ALL_EVENTS } from "../../activity/events.ts";
import type { Webhook } from "../../activity/webhook-rows.ts";
import { Card, EmptyState, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { Confirm, CONFIRM_ID, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { DELIVERY_TONES, deliveryLogPath } from "./delivery-log-page.tsx";
import { EventFields } from "./event-fields.tsx";
import { SecretNotice } from "./secret-notice.tsx";

export interface WebhookWithDelivery {
  readonly webhook: Webhook;
  /** Undefined if nothing was sent yet. */
  readonly latest: Delivery | undefined;
}

export interface WebhooksPageProps extends WorkspaceView {
  readonly webhooks: readonly WebhookWithDelivery[];
  /** The webhook whose deletion needs confirmation. */
  readonly deleteWebhookId?: string | undefined;
  readonly done?: string | undefined;
  /** A new signing secret, which is shown once. */
  readonly secret?: string;
  readonly errorMessage?: string;
  /** A rejected form that adds a webhook. */
  readonly rejected?: {
    readonly url: string;
    readonly events: readonly string[] | undefined;
    readonly error: string;
  };
}

const WEBHOOK_DONE_TEXTS = {
  test: "The test event is sent. Its result is in the delivery log.",
  enable: "The webhook is enabled. It receives new events.",
  remove: "The webhook is deleted. It receives no more events.",
} as const;

export function webhooksPage(props: WebhooksPageProps): PageLayout {
  const { user, workspace, webhooks, secret, errorMessage } = props;
  return consolePage({
    title: "Webhooks",
    workspace,
    user,
    page: "/webhooks",
    main: (
      <>
        {secret === undefined ? null : <SecretNotice secret={secret} />}
        <DoneNotice texts={WEBHOOK_DONE_TEXTS} done={props.done} />
        <ErrorMessage message={errorMessage} />
        <DeleteConfirmation {...props} />
        <p>Postern sends the events of this workspace to these URLs as signed POST requests.</p>
        <div class="card">
          {webhooks.length === 0 ? (
            <EmptyState title="No webhooks yet">
              <p class="muted">
                A webhook tells your server about low balances, budgets, payments and keys. See{" "}
                <a href="/docs/webhooks">Webhooks</a> for the events and the signature.
              </p>
            </EmptyState>
          ) : (
            <WebhookTable {...props} />
          )}
        </div>
        <AddForm {...props} />
      </>
    ),
  });
}

function DeleteConfirmation({
  user,
  workspace,
  webhooks,
  deleteWebhookId,
}: WebhooksPageProps): Child {
  const webhook = webhooks.find(({ webhook: { id } }) => id === deleteWebhookId)?.webhook;
  if (webhook === undefined) return null;
  const action = workspacePath(workspace.accountId, "/webhooks");
  return (
    <Confirm
      user={user}
      action={action}
      fields={{ do: "remove", webhook: webhook.id }}
      confirmLabel="Delete webhook"
      cancelHref={action}
    >
      Delete the webhook for {webhook.url}? It receives no more events, pending retries are dropped,
      and its signing secret is deleted. This cannot be undone.
    </Confirm>
  );
}

function WebhookTable({ user, workspace, webhooks }: WebhooksPageProps): Child {
  const { accountId } = workspace;
  return (
    <Table
      label="Webhooks"
      isStacked
      columns={[
        { name: "URL" },
        { name: "Status" },
        { name: "Latest delivery" },
        { name: "Events" },
        { name: "Actions", isNumber: true },
      ]}
      rows={webhooks.map(({ webhook, latest }) => [
        <a
          class="line"
          id={webhook.id}
          href={deliveryLogPath(accountId, webhook.id)}
          title={webhook.url}
        >
          {webhook.url}
        </a>,
        <WebhookState webhook={webhook} />,
        <LatestDelivery latest={latest} />,
        <span class="line" title={webhook.events.join(", ")}>
          {webhook.events.includes(ALL_EVENTS) ? "all" : webhook.events.join(", ")}
        </span>,
        <WebhookActions user={user} accountId={accountId} webhook={webhook} />,
      ])}
    />
  );
}

function WebhookState({ webhook }: { readonly webhook: Webhook }): Child {
  if (webhook.status === "active") return <Tag tone="good">Active</Tag>;
  return (
    <span title={webhook.disabledReason ?? "Disabled by request"}>
      <Tag tone="danger">Disabled</Tag>
    </span>
  );
}

function LatestDelivery({ latest }: { readonly latest: Delivery | undefined }): Child {
  if (latest === undefined) return "none";
  const { status, eventType, createdAt } = latest;
  return (
    <>
      <Tag tone={DELIVERY_TONES[status]}>{status}</Tag>
      <span class="type">
        {eventType}, <RelativeTime at={createdAt} />
      </span>
    </>
  );
}

interface WebhookActionsProps {
  readonly user: SessionUser;
  readonly accountId: string;
  readonly webhook: Webhook;
}

function WebhookActions({
  user,
  accountId,
  webhook: { id, url, status },
}: WebhookActionsProps): Child {
  const action = workspacePath(accountId, "/webhooks");
  const isActive = status === "active";
  return (
    <PostForm class="row-actions" user={user} action={action} fields={{ webhook: id }}>
      <button type="submit" name="do" value={isActive ? "test" : "enable"} class="plain">
        {isActive ? "Send test event" : "Enable"}{" "}
        <span class="visually-hidden">
          {isActive ? "to" : ""} {url}
        </span>
      </button>
      <a href={`${withQuery(action, { delete: id })}#${CONFIRM_ID}`}>
        Delete <span class="visually-hidden">{url}</span>
      </a>
    </PostForm>
  );
}

function AddForm({ user, workspace, rejected }: WebhooksPageProps): Child {
  return (
    <Card id="add" title="Add a webhook">
      <PostForm
        user={user}
        action={workspacePath(workspace.accountId, "/webhooks")}
        fields={{ do: "add", once: newFormToken() }}
        submit="Add webhook"
      >
        <Field
          id="webhook-url"
          name="url"
          type="url"
          label="URL (https)"
          value={rejected?.url}
          error={rejected?.error}
          hint="The next page shows the secret that signs the events."
          isRequired
        />
        <EventFields id="webhook" events={rejected?.events} />
      </PostForm>
    </Card>
  );
}
