// The owner's pages about running a workspace: its webhooks, and the log of who did what.

import { z } from "zod";
import type { Action } from "../accounts/members.ts";
import { type AuditAction, listEntries, record } from "../audit/audit.ts";
import { listDeliveries } from "../events/deliveries.ts";
import {
  listLiveWebhooks,
  removeWebhook,
  testWebhook,
  type Webhook,
  type Webhooks,
} from "../events/webhooks.ts";
import { networksOf } from "../http/address.ts";
import { cursorOf } from "../http/record.ts";
import { type Input, personRoute, type Route, type Visitor } from "../http/route.ts";
import { doOnce, FORM_NAME } from "../idempotency/form.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { Db, Tx } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { auditPage, ENTRIES_SHOWN } from "./audit-page.tsx";
import { pathOf } from "./frame.tsx";
import { type ShownWebhook, webhooksPage, type WebhooksState } from "./webhooks-page.tsx";
import { type ConsoleStore, enter, enterToChange } from "./workspace.ts";

export interface OperatingParts extends ConsoleStore {
  readonly db: Db;
  readonly webhooks: Webhooks;
  readonly idempotency: Idempotency;
}

const DELIVERIES_SHOWN = 5;

export function operatingRoutes(parts: OperatingParts): readonly Route[] {
  return [webhooksRoute(parts), changeWebhooksRoute(parts), auditRoute(parts)];
}

function webhooksRoute(parts: OperatingParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}/webhooks",
    id: "showWorkspaceWebhooks",
    summary: "The webhooks of a workspace",
    params: AccountPath,
    query: z.object({ delete: z.string().optional() }),
    run: async ({ caller, params, query }) => {
      const place = await enter(parts, params.account, caller.personId, "webhooks.read");
      const webhooks = await readWebhooks(parts.db, params.account);
      return show(webhooksPage({ visitor: caller, place, webhooks, toDelete: query.delete }));
    },
  });
}

async function readWebhooks(db: Db, accountId: string): Promise<readonly ShownWebhook[]> {
  const live = await listLiveWebhooks(db, accountId);
  return Promise.all(
    live.map(async (webhook) => {
      const page = await listDeliveries(db, accountId, webhook.id, { limit: DELIVERIES_SHOWN });
      return { webhook, deliveries: page.data };
    }),
  );
}

const WebhookForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("add"),
    url: z.string(),
    /** Absent where the form is not the page's. */
    once: z.string().regex(FORM_NAME).optional(),
  }),
  z.object({ do: z.literal("remove"), webhook: z.string() }),
  z.object({ do: z.literal("test"), webhook: z.string() }),
  z.object({ do: z.literal("enable"), webhook: z.string() }),
]);
type WebhookForm = z.infer<typeof WebhookForm>;

const CHANGE: Action = "webhooks.change";

function changeWebhooksRoute(parts: OperatingParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: "/console/{account}/webhooks",
    id: "changeWorkspaceWebhooks",
    summary: "Set up, test, enable or delete a webhook",
    params: AccountPath,
    body: WebhookForm,
    example: { do: "add", url: "https://example.com/postern" },
    run: async (input) => {
      const { caller, params, body } = input;
      const place = await enter(parts, params.account, caller.personId, CHANGE);
      const shown = async (told: Pick<WebhooksState, "secret" | "wrong" | "typed">) =>
        show(
          webhooksPage({
            visitor: caller,
            place,
            webhooks: await readWebhooks(parts.db, params.account),
            ...told,
          }),
          told.wrong === undefined ? 200 : 400,
        );
      try {
        const secret = await parts.db.write(async (tx) => {
          await enterToChange(tx, params.account, caller.personId, CHANGE);
          return changeWebhooks(tx, parts, params.account, input);
        });
        if (secret !== undefined) return await shown({ secret });
      } catch (error) {
        const typed = body.do === "add" ? body.url : undefined;
        return await shown({ wrong: correctable(error), typed });
      }
      return redirect(pathOf(params.account, "/webhooks"));
    },
  });
}

type FormInput = Input<{ account: string }, undefined, WebhookForm, Visitor>;

/** Does what the form asks; answers the signing secret where it made one. */
async function changeWebhooks(
  tx: Tx,
  { webhooks, idempotency }: OperatingParts,
  accountId: string,
  input: FormInput,
): Promise<string | undefined> {
  const { body, caller, now } = input;
  switch (body.do) {
    case "add": {
      const add = async (): Promise<string> => {
        const { webhook, secret } = await webhooks.add(tx, accountId, { url: body.url }, now);
        await note(tx, "webhook.created", webhook, input);
        return secret.reveal();
      };
      if (body.once === undefined) return await add();
      const scope = `${accountId} ${caller.personId} console.webhook`;
      return await doOnce(tx, idempotency, { scope, form: body.once, asks: body, now }, add);
    }
    case "remove": {
      const { webhook, removed } = await removeWebhook(tx, accountId, body.webhook, now);
      if (removed) await note(tx, "webhook.deleted", webhook, input);
      return undefined;
    }
    case "enable": {
      const webhook = await webhooks.change(tx, accountId, body.webhook, { status: "active", now });
      await note(tx, "webhook.changed", webhook, input);
      return undefined;
    }
    case "test":
      await testWebhook(tx, accountId, body.webhook, now);
      return undefined;
  }
}

async function note(
  tx: Tx,
  action: AuditAction,
  { id, accountId, url }: Webhook,
  { caller, address, now }: FormInput,
): Promise<void> {
  await record(tx, {
    accountId,
    actor: { type: "person", id: caller.personId },
    action,
    target: id,
    detail: { host: new URL(url).host },
    network: networksOf(address)[1],
    now,
  });
}

function auditRoute(parts: OperatingParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}/audit",
    id: "showWorkspaceAudit",
    summary: "Who did what in a workspace",
    params: AccountPath,
    query: z.object({ cursor: cursorOf("aud") }),
    run: async ({ caller, params, query: { cursor } }) => {
      const place = await enter(parts, params.account, caller.personId, "audit.read");
      const page = { limit: ENTRIES_SHOWN, ...(cursor === undefined ? {} : { cursor }) };
      return show(auditPage(caller, place, await listEntries(parts.db, params.account, page)));
    },
  });
}
