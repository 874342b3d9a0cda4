// The page of a workspace's own keys at providers: the owner's alone, because calls on them are on the owner's bills there.

import { z } from "zod";
import type { Action } from "../accounts/members.ts";
import { secret } from "../base/secret.ts";
import { parse } from "../http/decode.ts";
import { cursorOf } from "../http/record.ts";
import { personRoute, type Route } from "../http/route.ts";
import { doOnce, FORM_NAME } from "../idempotency/form.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import {
  listDeletedProviderKeys,
  listLiveProviderKeys,
  lockProviderKey,
  type NewProviderKey,
  type ProviderKeys,
} from "../provider-keys/provider-keys.ts";
import { NewProviderKeyRequest } from "../provider-keys/record.ts";
import type { ProviderKeyChange } from "../provider-keys/routes.ts";
import type { Db, Tx } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { pathOf } from "./frame.tsx";
import {
  DELETED_SHOWN,
  type ProviderKeysState,
  type TypedProviderKey,
  providerKeysPage,
} from "./provider-keys-page.tsx";
import { type ConsoleStore, enter, enterToChange } from "./workspace.ts";

export interface ProviderKeyPageParts extends ConsoleStore {
  readonly db: Db;
  readonly providerKeys: ProviderKeys;
  readonly idempotency: Idempotency;
  /** Told in the transaction of the change. */
  readonly onProviderKeyChange?: (tx: Tx, change: ProviderKeyChange) => Promise<void>;
}

const PATH = "/console/{account}/provider-keys";
const CHANGE: Action = "provider_keys.change";

export function providerKeyPageRoutes(parts: ProviderKeyPageParts): readonly Route[] {
  return [showRoute(parts), changeRoute(parts)];
}

function showRoute(parts: ProviderKeyPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: PATH,
    id: "showWorkspaceProviderKeys",
    summary: "The provider keys of a workspace",
    params: AccountPath,
    query: z.object({ delete: z.string().optional(), deleted: cursorOf("pk") }),
    run: async ({ caller, params, query }) => {
      const place = await enter(parts, params.account, caller.personId, "provider_keys.read");
      const keys = await readProviderKeys(parts, params.account, query.deleted);
      return show(providerKeysPage({ visitor: caller, place, ...keys, toDelete: query.delete }));
    },
  });
}

async function readProviderKeys(
  { db, providerKeys }: ProviderKeyPageParts,
  accountId: string,
  from?: string,
): Promise<Pick<ProviderKeysState, "live" | "deleted" | "providers">> {
  const [live, deleted] = await Promise.all([
    listLiveProviderKeys(db, accountId),
    listDeletedProviderKeys(db, accountId, { from, limit: DELETED_SHOWN + 1 }),
  ]);
  const keys = deleted.slice(0, DELETED_SHOWN);
  return {
    live,
    deleted: { keys, from, next: deleted[DELETED_SHOWN]?.id },
    providers: providerKeys.providers(),
  };
}

const ProviderKeyForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("add"),
    provider: z.string(),
    api_key: z.string(),
    name: z.string().optional(),
    /** Absent where the form is not the page's. */
    once: z.string().regex(FORM_NAME).optional(),
  }),
  z.object({ do: z.literal("remove"), provider_key: z.string() }),
]);
type ProviderKeyForm = z.infer<typeof ProviderKeyForm>;
type AddForm = Extract<ProviderKeyForm, { do: "add" }>;

function changeRoute(parts: ProviderKeyPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: PATH,
    id: "changeWorkspaceProviderKeys",
    summary: "Bring or delete a key at a provider",
    params: AccountPath,
    body: ProviderKeyForm,
    example: { do: "remove", provider_key: "pk_01kah5t3mq7d2c9w4e6r8t0yax" },
    run: async ({ caller, params, body, address, now }) => {
      const { account } = params;
      const place = await enter(parts, account, caller.personId, CHANGE);
      const by = { type: "person", id: caller.personId } as const;
      try {
        // The provider is asked before the transaction, which must not wait for it.
        const work =
          body.do === "add"
            ? adding(parts, account, { form: body, fresh: await checked(parts, body) })
            : removing(parts, account, body.provider_key);
        await parts.db.write(async (tx) => {
          await enterToChange(tx, account, caller.personId, CHANGE);
          await work(tx, { by, address, now });
        });
      } catch (error) {
        const wrong = correctable(error);
        const keys = await readProviderKeys(parts, account);
        const typed = typedOf(body);
        return show(providerKeysPage({ visitor: caller, place, ...keys, wrong, typed }), 400);
      }
      return redirect(pathOf(account, "/provider-keys"));
    },
  });
}

/** What was typed and is no secret. */
function typedOf(form: ProviderKeyForm): TypedProviderKey | undefined {
  return form.do === "add" ? { provider: form.provider, name: form.name } : undefined;
}

async function checked(
  { providerKeys }: ProviderKeyPageParts,
  form: AddForm,
): Promise<NewProviderKey> {
  const { provider, name = "" } = form;
  const asked = {
    provider,
    api_key: form.api_key.trim(),
    name: name.trim() === "" ? null : name,
  };
  // Safe because `parse` answers what this schema makes of it.
  const fit = parse(NewProviderKeyRequest, asked, "") as z.infer<typeof NewProviderKeyRequest>;
  const apiKey = secret(fit.api_key);
  const verdict = await providerKeys.check(provider, apiKey);
  return { provider, apiKey, name: fit.name ?? null, verdict };
}

type Work = (tx: Tx, common: Pick<ProviderKeyChange, "by" | "address" | "now">) => Promise<void>;

function adding(
  { providerKeys, idempotency, onProviderKeyChange: tell }: ProviderKeyPageParts,
  accountId: string,
  { form, fresh }: { readonly form: AddForm; readonly fresh: NewProviderKey },
): Work {
  return async (tx, common) => {
    const { now } = common;
    const add = async (): Promise<string> => {
      const key = await providerKeys.add(tx, accountId, fresh, now);
      await tell?.(tx, { kind: "provider_key.added", key, ...common });
      return key.id;
    };
    const scope = `${accountId} ${common.by.id} console.provider_key`;
    if (form.once === undefined) await add();
    else await doOnce(tx, idempotency, { scope, form: form.once, asks: form, now }, add);
  };
}

function removing(
  { providerKeys, onProviderKeyChange: tell }: ProviderKeyPageParts,
  accountId: string,
  id: string,
): Work {
  return async (tx, common) => {
    const before = await lockProviderKey(tx, accountId, id);
    const key = await providerKeys.remove(tx, accountId, id, common.now);
    if (before.status !== "deleted")
      await tell?.(tx, { kind: "provider_key.deleted", key, ...common });
  };
}
