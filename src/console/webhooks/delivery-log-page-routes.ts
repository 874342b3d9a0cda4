// The routes of the delivery log of a webhook.

import { z } from "zod";
import { listDeliveries } from "../../activity/deliveries.ts";
import { getWebhook } from "../../activity/webhook-rows.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { replayDelivery } from "../../webhooks/manual-deliveries.ts";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspacePage, workspaceForm } from "../workspace-routes.ts";
import { deliveryLogPage, deliveryLogPath } from "./delivery-log-page.tsx";

const DELIVERIES_PER_PAGE = 25;
const WebhookPath = AccountPath.extend({ webhook: z.string() });

export function deliveryLogRoutes(deps: ConsoleReadDeps): readonly Route[] {
  return [showRoute(deps), replayRoute(deps)];
}

async function readLog(
  { db }: ConsoleReadDeps,
  { account, webhook: id }: z.infer<typeof WebhookPath>,
  cursor?: string,
) {
  const page = { limit: DELIVERIES_PER_PAGE, ...(cursor === undefined ? {} : { cursor }) };
  const [webhook, deliveries] = await Promise.all([
    getWebhook(db, account, id),
    listDeliveries(db, account, id, page),
  ]);
  return { webhook, deliveries };
}

function showRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/webhooks/{webhook}",
    id: "showWebhookDeliveries",
    summary: "List the deliveries of a webhook",
    params: WebhookPath,
    query: z.object({ cursor: cursorSchema("dlv"), replayed: z.string().optional() }),
    permission: "webhooks.read",
    run: async ({ view, params, query: { cursor, replayed } }) =>
      deliveryLogPage({ ...view, ...(await readLog(deps, params, cursor)), replayed }),
  });
}

function replayRoute(deps: ConsoleReadDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/webhooks/{webhook}",
    id: "replayWebhookDeliveryFromConsole",
    summary: "Replay a delivery",
    params: WebhookPath,
    body: z.object({ delivery: z.string() }),
    requestExample: { delivery: "dlv_01kah5t3mq7d2c9w4e6r8t0yax" },
    permission: "webhooks.change",
    write: (tx, { act, params, body }) =>
      replayDelivery(tx, act, { webhookId: params.webhook, id: body.delivery }),
    done: ({ account, params, body }) =>
      `${deliveryLogPath(account, params.webhook)}?replayed=${encodeURIComponent(body.delivery)}`,
    rejected: async ({ view, params }, { message: errorMessage }) =>
      deliveryLogPage({ ...view, ...(await readLog(deps, params)), errorMessage }),
  });
}
