/** @jsxImportSource hono/jsx */
// The deliveries of a webhook with their attempts, and the buttons that replay them.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import type { Delivery } from "../../activity/deliveries.ts";
import type { Webhook } from "../../activity/webhook-rows.ts";
import type { Page } from "../../base/pagination.ts";
import { formatMilliseconds } from "../../base/text/format.ts";
import { Card, EmptyState, Notice, Tag, type Tone } from "../../http/pages/components/content.tsx";
import { ErrorMessage } from "../../http/pages/components/form.tsx";
import { DateTime, RelativeTime } from "../../http/pages/components/local-time.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../require-access.ts";

export interface DeliveryLogPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly webhook: Webhook;
  readonly deliveries: Page<Delivery>;
  /** The delivery that was just replayed. */
  readonly replayed?: string | undefined;
  readonly errorMessage?: string;
}

export function deliveryLogPath(accountId: string, webhookId: string): string {
  return `${workspacePath(accountId, "/webhooks")}/${webhookId}`;
}

export function deliveryLogPage(props: DeliveryLogPageProps): PageLayout {
  const { user, workspace, webhook, deliveries, replayed, errorMessage } = props;
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
        {replayed === undefined ? null : (
          <Notice link={{ href: path, label: "Reload" }}>
            The delivery is sent again. Reload the page to see its result.
          </Notice>
        )}
        <ErrorMessage message={errorMessage} />
        {webhook.status === "active" ? null : (
          <Notice tone="danger">
            This webhook is disabled: {webhook.disabledReason ?? "by request"}. Enable it to replay
            deliveries.
          </Notice>
        )}
        <p class="muted">{webhook.url}. Deliveries are kept for 30 days.</p>
        <Card id="deliveries" title="Deliveries">
          {deliveries.data.length === 0 ? (
            <NoDeliveries {...props} />
          ) : (
            <DeliveryTable {...props} />
          )}
          <OlderLink path={path} query={{}} cursor={deliveries.next_cursor} />
        </Card>
        <Attempts deliveries={deliveries.data} />
      </>
    ),
  });
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
        <form method="post" action={workspacePath(workspace.accountId, "/webhooks")}>
          <HiddenFields user={user} fields={{ webhook: webhook.id }} />
          <button type="submit" name="do" value="test" class="secondary">
            Send test event
          </button>
        </form>
      ) : null}
    </EmptyState>
  );
}

function DeliveryTable({ user, workspace, webhook, deliveries }: DeliveryLogPageProps): Child {
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
        <span title={delivery.eventId}>{delivery.eventType}</span>,
        <Tag tone={DELIVERY_TONES[delivery.status]}>{delivery.status}</Tag>,
        responseText(delivery),
        String(delivery.tries),
        canReplay ? (
          <form method="post" action={deliveryLogPath(workspace.accountId, webhook.id)}>
            <HiddenFields user={user} fields={{ delivery: delivery.id }} />
            <button type="submit" class="secondary small">
              Replay <span class="visually-hidden">{delivery.eventType}</span>
            </button>
          </form>
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

function Attempts({ deliveries }: { readonly deliveries: readonly Delivery[] }): Child {
  const failed = deliveries.filter(({ attempts }) => attempts.some(({ error }) => error !== null));
  if (failed.length === 0) return null;
  return (
    <Card id="attempts" title="Failed attempts">
      {failed.map(({ eventType, attempts }) => (
        <details>
          <summary>
            {eventType}, <DateTime at={attempts[0]?.at ?? 0} />
          </summary>
          <Table
            label={`Attempts of ${eventType}`}
            columns={[{ name: "Time" }, { name: "Result" }, { name: "Took", isNumber: true }]}
            rows={attempts.map(({ at, status, error, response, durationMs }) => [
              <DateTime at={at} />,
              <>
                {status ?? ""} {error ?? ""}
                {response === "" ? null : <pre tabindex={0}>{response}</pre>}
              </>,
              formatMilliseconds(durationMs),
            ])}
          />
        </details>
      ))}
    </Card>
  );
}
