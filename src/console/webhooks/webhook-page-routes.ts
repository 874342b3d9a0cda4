// The routes of the webhooks page.

import { z } from "zod";
import type { Act } from "../../activity/audit.ts";
import { listDeliveries } from "../../activity/deliveries.ts";
import { listLiveWebhooks } from "../../activity/webhook-rows.ts";
import type { Route } from "../../http/route.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import type { Db, Tx } from "../../store/db.ts";
import { testWebhook } from "../../webhooks/manual-deliveries.ts";
import { removeWebhook, type Webhooks } from "../../webhooks/webhooks.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspacePage, workspaceForm } from "../workspace-routes.ts";
import { deliveryLogRoutes } from "./delivery-log-page-routes.ts";
import { chosenEvents, EVENT_FIELDS } from "./event-fields.tsx";
import { type WebhookWithDelivery, webhooksPage } from "./webhooks-page.tsx";

export interface WebhookPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly webhooks: Webhooks;
  readonly idempotency: Idempotency;
}

export function webhookPageRoutes(deps: WebhookPageDeps): readonly Route[] {
  return [webhooksRoute(deps), changeWebhooksRoute(deps), ...deliveryLogRoutes(deps)];
}

function webhooksRoute(deps: WebhookPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/webhooks",
    id: "showWorkspaceWebhooks",
    summary: "List the webhooks of a workspace",
    query: z.object({ delete: z.string().optional(), ...DoneQuery }),
    permission: "webhooks.read",
    run: async ({ view, account, query: { delete: deleteWebhookId, done } }) => {
      const webhooks = await readWebhooks(deps.db, account);
      return webhooksPage({ ...view, webhooks, deleteWebhookId, done });
    },
  });
}

async function readWebhooks(db: Db, accountId: string): Promise<readonly WebhookWithDelivery[]> {
  const live = await listLiveWebhooks(db, accountId);
  return Promise.all(
    live.map(async (webhook) => {
      const page = await listDeliveries(db, accountId, webhook.id, { limit: 1 });
      return { webhook, latest: page.data[0] };
    }),
  );
}

const WebhookForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("add"),
    url: z.string(),
    ...EVENT_FIELDS,
    /** Absent if the form was not rendered by this page. */
    once: z.string().regex(FORM_TOKEN).optional(),
  }),
  z.object({ do: z.literal("remove"), webhook: z.string() }),
  z.object({ do: z.literal("test"), webhook: z.string() }),
  z.object({ do: z.literal("enable"), webhook: z.string() }),
]);
type WebhookForm = z.infer<typeof WebhookForm>;

function changeWebhooksRoute(deps: WebhookPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/webhooks",
    id: "changeWorkspaceWebhooks",
    summary: "Add, test, enable or delete a webhook",
    body: WebhookForm,
    requestExample: { do: "add", url: "https://example.com/postern" },
    permission: "webhooks.change",
    write: (tx, { act, body }) => changeWebhooks(tx, deps, act, body),
    done: async ({ view, account, body }, secret) =>
      secret === undefined
        ? donePath(workspacePath(account, "/webhooks"), body.do)
        : webhooksPage({ ...view, webhooks: await readWebhooks(deps.db, account), secret }),
    rejected: async ({ view, account, body }, { message }) => {
      const webhooks = await readWebhooks(deps.db, account);
      const error =
        body.do === "add"
          ? { rejected: { url: body.url, events: chosenEvents(body), error: message } }
          : { errorMessage: message };
      return webhooksPage({ ...view, webhooks, ...error });
    },
  });
}

/** Applies the form. Returns the signing secret if it created a webhook. */
async function changeWebhooks(
  tx: Tx,
  { webhooks, idempotency }: WebhookPageDeps,
  act: Act,
  body: WebhookForm,
): Promise<string | undefined> {
  const { accountId, actor, now } = act;
  switch (body.do) {
    case "add": {
      const add = async (): Promise<string> => {
        return (
          await webhooks.add(tx, act, { url: body.url, events: chosenEvents(body) })
        ).secret.reveal();
      };
      if (body.once === undefined) return await add();
      const scope = `${actor.id} console.webhook`;
      return await submitOnce(
        tx,
        idempotency,
        { accountId, scope, token: body.once, payload: body, now },
        add,
      );
    }
    case "remove": {
      await removeWebhook(tx, act, body.webhook);
      return undefined;
    }
    case "enable": {
      await webhooks.change(tx, act, body.webhook, { status: "active" });
      return undefined;
    }
    case "test":
      await testWebhook(tx, act, body.webhook);
      return undefined;
  }
}
