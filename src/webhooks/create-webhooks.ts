// Whom the house tells of its changes: what each room calls in its transactions, the webhooks, and who carries them out.

import type { Log } from "../base/log.ts";
import type { Secret } from "../base/secret.ts";
import { HOUR_MS } from "../base/time.ts";
import { handleMemberChange } from "../billing/create-billing.ts";
import type { Job } from "../server/scheduler.ts";
import type { Config } from "../config/config.ts";
import {
  onAccountCreated,
  onKeyChange,
  onProviderKeyChange,
  onSessionsEnded,
} from "../events/producers.ts";
import { createDeliveryWorker, type DeliveryWorker } from "./delivery-worker.ts";
import { createWebhooks, type Webhooks } from "./webhooks.ts";
import type { Db } from "../store/db.ts";

const DELIVERY_POLL_MS = 1_000;
const SWEEP_MS = HOUR_MS;

export interface WebhookServices {
  readonly webhooks: Webhooks;
  readonly onAccountCreated: typeof onAccountCreated;
  readonly onKeyChange: typeof onKeyChange;
  readonly onMemberChange: typeof handleMemberChange;
  readonly onProviderKeyChange: typeof onProviderKeyChange;
  readonly onSessionsEnded: typeof onSessionsEnded;
  readonly deliveryWorker: DeliveryWorker;
  readonly webhookJobs: readonly Job[];
}

export interface WebhookServicesDeps {
  readonly db: Db;
  readonly master: Secret;
  readonly log: Log;
  readonly now: () => number;
}

export function createWebhookServices(
  config: Config,
  { master, ...deps }: WebhookServicesDeps,
): WebhookServices {
  const allowLoopback = config.development;
  const webhooks = createWebhooks({ master, allowLoopback });
  const deliveryWorker = createDeliveryWorker({ ...deps, webhooks, allowLoopback });
  return {
    webhooks,
    onAccountCreated,
    onKeyChange,
    onMemberChange: handleMemberChange,
    onProviderKeyChange,
    onSessionsEnded,
    deliveryWorker,
    webhookJobs: [
      [DELIVERY_POLL_MS, deliveryWorker.tick],
      [SWEEP_MS, deliveryWorker.sweep],
    ],
  };
}
