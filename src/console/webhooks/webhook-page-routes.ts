// The routes of the webhooks page.

import { z } from "zod";
import type { Permission } from "../../accounts/members.ts";
import { type Act, personAct } from "../../activity/audit.ts";
import { listDeliveries } from "../../activity/deliveries.ts";
import { listLiveWebhooks } from "../../activity/webhook-rows.ts";
import { pageResponse, redirect, userErrorMessage } from "../../http/pages/page-response.ts";
import { type RouteInput, sessionRoute, type Route, type SessionUser } from "../../http/route.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import type { Db, Tx } from "../../store/db.ts";
import { testWebhook } from "../../webhooks/manual-deliveries.ts";
import { removeWebhook, type Webhooks } from "../../webhooks/webhooks.ts";
import { workspacePath } from "../console-layout.tsx";
import { DoneQuery, donePath } from "../done-notice.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import { deliveryLogRoutes } from "./delivery-log-page-routes.ts";
import {
  type WebhookWithDelivery,
  webhooksPage,
  type WebhooksPageProps,
} from "./webhooks-page.tsx";

export interface WebhookPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly webhooks: Webhooks;
  readonly idempotency: Idempotency;
}

export function webhookPageRoutes(deps: WebhookPageDeps): readonly Route[] {
  return [webhooksRoute(deps), changeWebhooksRoute(deps), ...deliveryLogRoutes(deps)];
}

function webhooksRoute(deps: WebhookPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/webhooks",
    id: "showWorkspaceWebhooks",
    summary: "List the webhooks of a workspace",
    params: AccountPath,
    query: z.object({ delete: z.string().optional(), ...DoneQuery }),
    run: async ({ caller, params, query }) => {
      const workspace = await requireAccess(deps, params.account, caller.personId, "webhooks.read");
      const webhooks = await readWebhooks(deps.db, params.account);
      return pageResponse(
        webhooksPage({
          user: caller,
          workspace,
          webhooks,
          deleteWebhookId: query.delete,
          done: query.done,
        }),
      );
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
    /** Absent if the form was not rendered by this page. */
    once: z.string().regex(FORM_TOKEN).optional(),
  }),
  z.object({ do: z.literal("remove"), webhook: z.string() }),
  z.object({ do: z.literal("test"), webhook: z.string() }),
  z.object({ do: z.literal("enable"), webhook: z.string() }),
]);
type WebhookForm = z.infer<typeof WebhookForm>;

const CHANGE_PERMISSION: Permission = "webhooks.change";

function changeWebhooksRoute(deps: WebhookPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/webhooks",
    id: "changeWorkspaceWebhooks",
    summary: "Add, test, enable or delete a webhook",
    params: AccountPath,
    body: WebhookForm,
    requestExample: { do: "add", url: "https://example.com/postern" },
    run: async (input) => {
      const { caller, params, body } = input;
      const workspace = await requireAccess(
        deps,
        params.account,
        caller.personId,
        CHANGE_PERMISSION,
      );
      const respond = async (
        extra: Pick<WebhooksPageProps, "secret" | "errorMessage" | "rejected">,
      ) =>
        pageResponse(
          webhooksPage({
            user: caller,
            workspace,
            webhooks: await readWebhooks(deps.db, params.account),
            ...extra,
          }),
          { status: extra.secret === undefined ? 400 : 200 },
        );
      try {
        const secret = await deps.db.write(async (tx) => {
          const act = personAct(params.account, caller.personId, input);
          return await changeWebhooks(tx, deps, act, input);
        });
        if (secret !== undefined) return await respond({ secret });
      } catch (error) {
        const message = userErrorMessage(error);
        return await respond(
          body.do === "add"
            ? { rejected: { url: body.url, error: message } }
            : { errorMessage: message },
        );
      }
      return redirect(donePath(workspacePath(params.account, "/webhooks"), body.do));
    },
  });
}

type WebhookFormInput = RouteInput<{ account: string }, undefined, WebhookForm, SessionUser>;

/** Applies the form. Returns the signing secret if it created a webhook. */
async function changeWebhooks(
  tx: Tx,
  { webhooks, idempotency }: WebhookPageDeps,
  act: Act,
  { body, caller, now }: WebhookFormInput,
): Promise<string | undefined> {
  const { accountId } = act;
  switch (body.do) {
    case "add": {
      const add = async (): Promise<string> => {
        return (await webhooks.add(tx, act, { url: body.url })).secret.reveal();
      };
      if (body.once === undefined) return await add();
      const scope = `${accountId} ${caller.personId} console.webhook`;
      return await submitOnce(
        tx,
        idempotency,
        { scope, token: body.once, payload: body, now },
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
