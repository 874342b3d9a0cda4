/** @jsxImportSource hono/jsx */
// The webhooks of a workspace, with their last deliveries.

import type { Child } from "hono/jsx";
import type { Delivery } from "../events/deliveries.ts";
import type { Webhook } from "../events/webhooks.ts";
import type { PageFrame } from "../http/layout.tsx";
import { newFormName } from "../idempotency/form.ts";
import type { Visitor } from "../http/route.ts";
import { AskingLink, Question, withQuery } from "./ask-first.tsx";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import { minute } from "./words.ts";
import type { Place } from "./workspace.ts";

export interface ShownWebhook {
  readonly webhook: Webhook;
  readonly deliveries: readonly Delivery[];
}

export interface WebhooksState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly webhooks: readonly ShownWebhook[];
  /** The webhook that is asked about once more before it is deleted. */
  readonly toDelete?: string | undefined;
  /** A signing secret that was just made, to be shown this once. */
  readonly secret?: string;
  readonly wrong?: string;
  /** The address that was refused. */
  readonly typed?: string | undefined;
}

export function webhooksPage(state: WebhooksState): PageFrame {
  const { visitor, place, webhooks, secret, wrong, typed } = state;
  const action = pathOf(place.accountId, "/webhooks");
  return consolePage({
    title: "Webhooks",
    place,
    visitor,
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
        {wrong === undefined ? null : (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
        <p>Postern posts what happens in this workspace to these addresses, signed.</p>
        {webhooks.map((shown) => (
          <WebhookCard shown={shown} state={state} />
        ))}
        <section class="card" aria-labelledby="add">
          <h2 id="add">Add an address</h2>
          <form method="post" action={action}>
            <Hidden visitor={visitor} fields={{ do: "add", once: newFormName() }} />
            <label for="webhook-url">Address, with https://</label>
            <input id="webhook-url" name="url" type="url" required value={typed} />
            <div class="choices">
              <button type="submit">Add the webhook</button>
            </div>
          </form>
        </section>
      </>
    ),
  });
}

interface WebhookCardProps {
  readonly shown: ShownWebhook;
  readonly state: WebhooksState;
}

function WebhookCard({ shown, state }: WebhookCardProps): Child {
  const { webhook, deliveries } = shown;
  const { visitor, place, toDelete } = state;
  const action = pathOf(place.accountId, "/webhooks");
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
              {minute(delivery.createdAt)}: {delivery.eventType}, {delivery.status} after{" "}
              {delivery.tries} {delivery.tries === 1 ? "try" : "tries"}
            </li>
          ))}
        </ul>
      )}
      {toDelete === webhook.id ? (
        <Question
          visitor={visitor}
          action={action}
          fields={{ do: "remove", webhook: webhook.id }}
          yes="Delete the webhook"
          no="Keep it"
          back={action}
        >
          Delete {webhook.url} for good? Nothing more is sent there, and its signing secret is
          forgotten. What waits to be tried again is given up.
        </Question>
      ) : (
        <form method="post" action={action}>
          <Hidden visitor={visitor} fields={{ webhook: webhook.id }} />
          <div class="choices">
            <button type="submit" name="do" value={isActive ? "test" : "enable"} class="quiet">
              {isActive ? "Send a test" : "Enable"}{" "}
              <span class="visually-hidden">
                {isActive ? "to" : ""} {webhook.url}
              </span>
            </button>
            <AskingLink
              href={withQuery(action, { delete: webhook.id })}
              label="Delete"
              of={webhook.url}
            />
          </div>
        </form>
      )}
    </section>
  );
}
