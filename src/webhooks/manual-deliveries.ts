// Deliveries that a caller asks for: a test event, and the replay of an earlier delivery.

import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import {
  type Delivery,
  getDelivery,
  hasPendingDelivery,
  requeueDelivery,
} from "../activity/deliveries.ts";
import { emitTestEvent, TEST_EVENT_TYPE } from "../activity/events.ts";
import { lockWebhook } from "../activity/webhook-rows.ts";
import { Fault } from "../base/fault.ts";
import type { Tx } from "../store/db.ts";

/** Emits a test event for this webhook. Returns the delivery's id. */
export async function testWebhook(tx: Tx, act: Act, id: string): Promise<string> {
  const { accountId, now } = act;
  await authorize(tx, act, "webhooks.change");
  const { status } = await lockWebhook(tx, accountId, id);
  if (status !== "active") throw webhookDisabled(id);
  if (await hasPendingDelivery(tx, id, TEST_EVENT_TYPE))
    throw new Fault("conflict", "a test event is pending", {
      message: "An earlier test event is still being delivered. Wait until its delivery has ended.",
      next: [
        { method: "GET", url: `/v1/webhooks/${id}/deliveries`, why: "Read the test's delivery." },
      ],
    });
  await recordAuditEntry(tx, { ...act, action: "webhook.tested", target: id });
  return emitTestEvent(tx, accountId, id, now);
}

/** Sends a delivery again at once, with a new round of attempts, whatever its status. */
export async function replayDelivery(
  tx: Tx,
  act: Act,
  { webhookId, id }: { readonly webhookId: string; readonly id: string },
): Promise<Delivery> {
  const { accountId, now } = act;
  await authorize(tx, act, "webhooks.change");
  const webhook = await lockWebhook(tx, accountId, webhookId);
  await getDelivery(tx, accountId, webhookId, id);
  if (webhook.status !== "active") throw webhookDisabled(webhookId);
  await requeueDelivery(tx, id, now);
  const detail = { delivery: id };
  await recordAuditEntry(tx, {
    ...act,
    action: "webhook.delivery_replayed",
    target: webhookId,
    detail,
  });
  return getDelivery(tx, accountId, webhookId, id);
}

function webhookDisabled(id: string): Fault {
  return new Fault("conflict", "webhook is not active", {
    message:
      'This webhook is disabled. Enable it first: PATCH /v1/webhooks/{id} {"status": "active"}.',
    next: [
      {
        method: "PATCH",
        url: `/v1/webhooks/${id}`,
        body: { status: "active" },
        why: "Enable the webhook.",
      },
    ],
  });
}
