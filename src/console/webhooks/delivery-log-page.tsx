/** @jsxImportSource hono/jsx */
// The deliveries of a webhook with their attempts, and the buttons that replay them.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { ATTEMPTS_STORED_MAX, type Delivery } from "../../activity/deliveries.ts";
import type { Webhook } from "../../activity/webhook-rows.ts";
import type { Page } from "../../base/pagination.ts";
import { formatMilliseconds } from "../../base/text/format.ts";
import { MINUTE_MS } from "../../base/time.ts";
import {
  Card,
  CodeBlock,
  CopyText,
  Details,
  EmptyState,
  Notice,
  Tag,
  type Tone,
} from "../../http/pages/components/content.tsx";
import { ErrorMessage, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime, RelativeTime } from "../../http/pages/components/local-time.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import { OverlapField } from "../overlap-field.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { EventFields } from "./event-fields.tsx";
import { SecretNotice } from "./secret-notice.tsx";

export interface DeliveryLogPageProps extends WorkspaceView {
  readonly webhook: Webhook;
  readonly deliveries: Page<Delivery>;
  readonly now: number;
  /** One delivery, with the body of its request. */
  readonly shown?: { readonly delivery: Delivery; readonly request: string } | undefined;
  readonly done?: string | undefined;
  /** A new signing secret, which is shown once. */
  readonly secret?: string;
  readonly errorMessage?: string;
}

export function deliveryLogPath(accountId: string, webhookId: string): string {
  return `${workspacePath(accountId, "/webhooks")}/${webhookId}`;
}

export function deliveryLogPage(props: DeliveryLogPageProps): PageLayout {
  const { user, workspace, webhook, deliveries, shown, errorMessage, secret } = props;
  const canChange =
    hasPermission(workspace.role, "webhooks.change") && webhook.status !== "deleted";
  const isPending = [shown?.delivery, ...deliveries.data].some(
    (delivery) => delivery !== undefined && isDueSoon(delivery, props.now),
  );
  const { host } = new URL(webhook.url);
  const path = deliveryLogPath(workspace.accountId, webhook.id);
  return consolePage({
    title: `Deliveries to ${host}`,
    workspace,
    user,
    page: "/webhooks",
    crumbs: [{ href: workspacePath(workspace.accountId, "/webhooks"), label: "Webhooks" }],
    main: (
      <>
        {secret === undefined ? null : <SecretNotice secret={secret} />}
        <DoneNotice texts={LOG_DONE_TEXTS} done={props.done} />
        <ErrorMessage message={errorMessage} />
        {webhook.status === "active" ? null : (
          <Notice tone="danger">
            This webhook is disabled: {webhook.disabledReason ?? "by request"}. Enable it to replay
            deliveries.
          </Notice>
        )}
        <p class="muted">{webhook.url}. Deliveries are kept for 30 days.</p>
        <div id="followed" data-follow={isPending ? "" : undefined}>
          {shown === undefined ? null : <DeliveryCard {...shown} />}
          <Card id="deliveries" title="Deliveries">
            {deliveries.data.length === 0 ? (
              <NoDeliveries {...props} />
            ) : (
              <DeliveryTable {...props} />
            )}
            <OlderLink path={path} query={{}} cursor={deliveries.next_cursor} />
          </Card>
        </div>
        {canChange ? <SettingsCard {...props} /> : null}
      </>
    ),
  });
}

const LOG_DONE_TEXTS = {
  replay: "The delivery is sent again, as a new attempt below.",
  events: "The events are saved. They apply to new events.",
} as const;

const FOLLOWED_MS = MINUTE_MS;

/** The page follows a delivery until its next attempt is far off. */
function isDueSoon({ status, dueAt }: Delivery, now: number): boolean {
  return status === "pending" && dueAt <= now + FOLLOWED_MS;
}

export const DELIVERY_TONES: Readonly<Record<Delivery["status"], Tone | undefined>> = {
  pending: "warn",
  delivered: "good",
  failed: "danger",
  cancelled: undefined,
};

function NoDeliveries({ user, workspace, webhook }: DeliveryLogPageProps): Child {
  const canSend = hasPermission(workspace.role, "webhooks.change") && webhook.status === "active";
  return (
    <EmptyState title="No deliveries yet">
      <p class="muted">Each event that is sent appears here with the response of your server.</p>
      {canSend ? (
        <PostForm
          user={user}
          action={workspacePath(workspace.accountId, "/webhooks")}
          fields={{ webhook: webhook.id }}
        >
          <button type="submit" name="do" value="test" class="secondary">
            Send test event
          </button>
        </PostForm>
      ) : null}
    </EmptyState>
  );
}

function DeliveryTable({ user, workspace, webhook, deliveries }: DeliveryLogPageProps): Child {
  const path = deliveryLogPath(workspace.accountId, webhook.id);
  const canReplay = hasPermission(workspace.role, "webhooks.change") && webhook.status === "active";
  return (
    <Table
      label="Deliveries"
      isStacked
      columns={[
        { name: "Time", isDate: true },
        { name: "Event", isWide: true },
        { name: "Status" },
        { name: "Response" },
        { name: "Attempts", isNumber: true },
        { name: "Action", isNumber: true },
      ]}
      rows={deliveries.data.map((delivery) => [
        <RelativeTime at={delivery.createdAt} />,
        <a href={withQuery(path, { delivery: delivery.id })} title={delivery.eventId}>
          {delivery.eventType}
        </a>,
        <Tag tone={DELIVERY_TONES[delivery.status]}>{delivery.status}</Tag>,
        responseText(delivery),
        String(delivery.attempts.length),
        canReplay ? (
          <PostForm user={user} action={path} fields={{ do: "replay", delivery: delivery.id }}>
            <button type="submit" class="secondary small">
              Replay <span class="visually-hidden">{delivery.eventType}</span>
            </button>
          </PostForm>
        ) : null,
      ])}
    />
  );
}

function responseText({ attempts }: Delivery): string {
  const last = attempts.at(-1);
  if (last === undefined) return "–";
  return last.status === null ? (last.error ?? "no response") : String(last.status);
}

function DeliveryCard({
  delivery,
  request,
}: {
  readonly delivery: Delivery;
  readonly request: string;
}): Child {
  const { attempts, status, dueAt } = delivery;
  return (
    <Card
      id="delivery"
      title={`Delivery of ${delivery.eventType}`}
      aside={<Tag tone={DELIVERY_TONES[status]}>{status}</Tag>}
    >
      <Details
        items={[
          ["Delivery", <CopyText text={delivery.id} />],
          ["Event", <CopyText text={delivery.eventId} />],
          ...(status === "pending" ? [["Next attempt", <DateTime at={dueAt} />] as const] : []),
        ]}
      />
      <h3>Request body</h3>
      <CodeBlock code={request} />
      <h3>Attempts</h3>
      {attempts.length === 0 ? <p class="muted">None yet.</p> : null}
      {attempts.toReversed().map(({ at, status: code, error, response, durationMs }, index) => (
        <details open={index === 0}>
          <summary>
            {attempts.length - index}. <DateTime at={at} />{" "}
            <Tag tone={error === null ? "good" : "danger"}>{code ?? "no response"}</Tag>{" "}
            {formatMilliseconds(durationMs)}
          </summary>
          {error === null ? null : <p>{error}</p>}
          {response === "" ? (
            <p class="muted">The response had no body.</p>
          ) : (
            <pre tabindex={0}>{response}</pre>
          )}
        </details>
      ))}
      {attempts.length < ATTEMPTS_STORED_MAX ? null : (
        <p class="note">The last {ATTEMPTS_STORED_MAX} attempts are kept.</p>
      )}
    </Card>
  );
}

function SettingsCard({ user, workspace, webhook }: DeliveryLogPageProps): Child {
  const { formerUntil } = webhook;
  const action = deliveryLogPath(workspace.accountId, webhook.id);
  return (
    <>
      <Card id="settings" title="Settings">
        <PostForm user={user} action={action} fields={{ do: "events" }} submit="Save events">
          <EventFields id="webhook" events={webhook.events} />
        </PostForm>
      </Card>
      <Card id="secret" title="Signing secret">
        <p>
          Rotating creates a new secret. During the overlap each event is signed with both.
          {formerUntil === 0 ? null : (
            <>
              {" "}
              The former secret signs until <DateTime at={formerUntil} />.
            </>
          )}
        </p>
        <PostForm
          user={user}
          action={action}
          fields={{ do: "rotate", once: newFormToken() }}
          submit="Rotate secret"
          isSecondary
        >
          <OverlapField id="overlap" secretName="current secret" />
        </PostForm>
      </Card>
    </>
  );
}
