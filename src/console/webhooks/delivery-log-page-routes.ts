// The routes of the delivery log of a webhook.

import { z } from "zod";
import { personAct } from "../../activity/audit.ts";
import { listDeliveries } from "../../activity/deliveries.ts";
import { getWebhook } from "../../activity/webhook-rows.ts";
import { pageResponse, redirect, userErrorMessage } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { replayDelivery } from "../../webhooks/manual-deliveries.ts";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
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
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/webhooks/{webhook}",
    id: "showWebhookDeliveries",
    summary: "List the deliveries of a webhook",
    params: WebhookPath,
    query: z.object({ cursor: cursorSchema("dlv"), replayed: z.string().optional() }),
    run: async ({ caller, params, query }) => {
      const workspace = await requireAccess(deps, params.account, caller.personId, "webhooks.read");
      const log = await readLog(deps, params, query.cursor);
      const { replayed } = query;
      return pageResponse(deliveryLogPage({ user: caller, workspace, ...log, replayed }));
    },
  });
}

function replayRoute(deps: ConsoleReadDeps): Route {
  const permission = "webhooks.change";
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/webhooks/{webhook}",
    id: "replayWebhookDeliveryFromConsole",
    summary: "Replay a delivery",
    params: WebhookPath,
    body: z.object({ delivery: z.string() }),
    requestExample: { delivery: "dlv_01kah5t3mq7d2c9w4e6r8t0yax" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account: accountId, webhook: webhookId } = params;
      const { personId } = caller;
      const workspace = await requireAccess(deps, accountId, personId, permission);
      try {
        const act = personAct(accountId, personId, { clientIp, now });
        await deps.db.write((tx) => replayDelivery(tx, act, { webhookId, id: body.delivery }));
      } catch (error) {
        const errorMessage = userErrorMessage(error);
        const log = await readLog(deps, params);
        const page = deliveryLogPage({ user: caller, workspace, ...log, errorMessage });
        return pageResponse(page, { status: 400 });
      }
      const { delivery } = body;
      return redirect(
        `${deliveryLogPath(accountId, webhookId)}?replayed=${encodeURIComponent(delivery)}`,
      );
    },
  });
}
