// Deliveries that a caller asks for: a test event, and the replay of an earlier delivery.

import {
  type Delivery,
  getDelivery,
  hasPendingDelivery,
  requeueDelivery,
} from "../activity/deliveries.ts";
import { emitTestEvent, TEST_EVENT_TYPE } from "../activity/events.ts";
import { lockWebhook } from "../activity/webhooks.ts";
import { Fault } from "../base/fault.ts";
import type { Tx } from "../store/db.ts";

/** Emits a test event for this webhook. Returns the delivery's id. */
export async function testWebhook(
  tx: Tx,
  accountId: string,
  id: string,
  now: number,
): Promise<string> {
  const { status } = await lockWebhook(tx, accountId, id);
  if (status !== "active") throw webhookDisabled(id);
  if (await hasPendingDelivery(tx, id, TEST_EVENT_TYPE))
    throw new Fault("conflict", "a test event is pending", {
      message: "An earlier test event is still being delivered. Wait until its delivery has ended.",
      next: [
        { method: "GET", url: `/v1/webhooks/${id}/deliveries`, why: "Read the test's delivery." },
      ],
    });
  return emitTestEvent(tx, accountId, id, now);
}

export interface ReplayRequest {
  readonly accountId: string;
  readonly webhookId: string;
  readonly id: string;
  readonly now: number;
}

/** Sends a delivery again at once, with a new round of attempts, whatever its status. */
export async function replayDelivery(
  tx: Tx,
  { accountId, webhookId, id, now }: ReplayRequest,
): Promise<Delivery> {
  const webhook = await lockWebhook(tx, accountId, webhookId);
  await getDelivery(tx, accountId, webhookId, id);
  if (webhook.status !== "active") throw webhookDisabled(webhookId);
  await requeueDelivery(tx, id, now);
  return getDelivery(tx, accountId, webhookId, id);
}

function webhookDisabled(id: string): Fault {
  return new Fault("conflict", "webhook is not active", {
    message: "This webhook is disabled. Enable it first.",
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
