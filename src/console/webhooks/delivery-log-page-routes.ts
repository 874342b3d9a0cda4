// The routes of the page of a webhook: its deliveries, its events and its secret.

import { z } from "zod";
import type { Act } from "../../activity/audit.ts";
import { getDelivery, listDeliveries } from "../../activity/deliveries.ts";
import { deliveryBody } from "../../activity/event-record.ts";
import { ALL_EVENTS, findEvent } from "../../activity/events.ts";
import { getWebhook } from "../../activity/webhook-rows.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { FORM_TOKEN, submitOnce } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import type { Tx } from "../../store/db.ts";
import { replayDelivery } from "../../webhooks/manual-deliveries.ts";
import type { Webhooks } from "../../webhooks/webhooks.ts";
import { withQuery } from "../confirm.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import { Overlap, overlapMs } from "../overlap-field.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspacePage, workspaceForm } from "../workspace-routes.ts";
import { deliveryLogPage, deliveryLogPath } from "./delivery-log-page.tsx";
import { chosenEvents, EVENT_FIELDS } from "./event-fields.tsx";

const DELIVERIES_PER_PAGE = 25;
const WebhookPath = AccountPath.extend({ webhook: z.string() });

interface DeliveryLogDeps extends ConsoleReadDeps {
  readonly webhooks: Webhooks;
  readonly idempotency: Idempotency;
}

export function deliveryLogRoutes(deps: DeliveryLogDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

async function readLog(
  { db }: ConsoleReadDeps,
  { account, webhook: id }: z.infer<typeof WebhookPath>,
  {
    cursor,
    delivery: deliveryId,
  }: { readonly cursor?: string | undefined; readonly delivery?: string | undefined } = {},
) {
  const page = { limit: DELIVERIES_PER_PAGE, ...(cursor === undefined ? {} : { cursor }) };
  const [webhook, deliveries] = await Promise.all([
    getWebhook(db, account, id),
    listDeliveries(db, account, id, page),
  ]);
  if (deliveryId === undefined) return { webhook, deliveries };
  const delivery = await getDelivery(db, account, id, deliveryId);
  const event = await findEvent(db, account, delivery.eventId);
  const body = event === undefined ? "{}" : deliveryBody(event);
  const request = JSON.stringify(JSON.parse(body), null, 2);
  return { webhook, deliveries, shown: { delivery, request } };
}

function showRoute(deps: DeliveryLogDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/webhooks/{webhook}",
    id: "showWebhookDeliveries",
    summary: "Show a webhook and its deliveries",
    params: WebhookPath,
    query: z.object({
      cursor: cursorSchema("dlv"),
      delivery: z.string().max(64).optional(),
      ...DoneQuery,
    }),
    permission: "webhooks.read",
    run: async ({ view, params, query: { done, ...shown }, now }) =>
      deliveryLogPage({ ...view, ...(await readLog(deps, params, shown)), done, now }),
  });
}

const WebhookForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("replay"), delivery: z.string() }),
  z.object({ do: z.literal("events"), ...EVENT_FIELDS }),
  z.object({
    do: z.literal("rotate"),
    overlap: Overlap,
    /** Absent if the form was not rendered by this page. */
    once: z.string().regex(FORM_TOKEN).optional(),
  }),
]);
type WebhookForm = z.infer<typeof WebhookForm>;

function changeRoute(deps: DeliveryLogDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/webhooks/{webhook}",
    id: "changeWorkspaceWebhook",
    summary: "Replay a delivery, choose the events of a webhook or rotate its secret",
    params: WebhookPath,
    body: WebhookForm,
    requestExample: { do: "replay", delivery: "dlv_01kah5t3mq7d2c9w4e6r8t0yax" },
    permission: "webhooks.change",
    write: (tx, { act, params, body }) => applyForm(tx, deps, act, { id: params.webhook, body }),
    done: async ({ view, account, params, body, now }, secret) => {
      const path = deliveryLogPath(account, params.webhook);
      if (secret !== undefined)
        return deliveryLogPage({ ...view, ...(await readLog(deps, params)), secret, now });
      return body.do === "replay"
        ? withQuery(path, { delivery: body.delivery, done: body.do })
        : donePath(path, body.do);
    },
    rejected: async ({ view, params, now }, { message: errorMessage }) =>
      deliveryLogPage({ ...view, ...(await readLog(deps, params)), errorMessage, now }),
  });
}

/** Returns the new signing secret if the form rotated it. */
async function applyForm(
  tx: Tx,
  { webhooks, idempotency }: DeliveryLogDeps,
  act: Act,
  { id, body }: { readonly id: string; readonly body: WebhookForm },
): Promise<string | undefined> {
  switch (body.do) {
    case "replay":
      await replayDelivery(tx, act, { webhookId: id, id: body.delivery });
      return undefined;
    case "events":
      await webhooks.change(tx, act, id, { events: chosenEvents(body) ?? [ALL_EVENTS] });
      return undefined;
    case "rotate": {
      const rotation = { id, overlapMs: overlapMs(body.overlap) };
      const rotate = async () => (await webhooks.rotate(tx, act, rotation)).secret.reveal();
      const { once: token } = body;
      if (token === undefined) return await rotate();
      const scope = `${act.actor.id} console.webhook_secret ${id}`;
      const { accountId, now } = act;
      const submission = { accountId, scope, token, payload: body, now };
      return await submitOnce(tx, idempotency, submission, rotate);
    }
  }
}
