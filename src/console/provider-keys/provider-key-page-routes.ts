// The routes of the provider keys page. Only the owner has access, because the provider bills the owner for these calls.

import { z } from "zod";
import type { Act } from "../../activity/audit.ts";
import { secret } from "../../base/crypto/secret.ts";
import { Fault } from "../../base/fault.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import { listKeysFrom } from "../../keys/keys.ts";
import { NewProviderKeyRequest } from "../../provider-keys/provider-key-record.ts";
import {
  listDeletedProviderKeys,
  listLiveProviderKeys,
  type NewProviderKey,
  type ProviderKey,
  type ProviderKeys,
} from "../../provider-keys/provider-keys.ts";
import type { Db, Tx } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspacePage, workspaceForm } from "../workspace-routes.ts";
import { newProviderKeyPage, providerKeyPage } from "./provider-key-pages.tsx";
import { parseUse, useOf, USE_FIELDS } from "./provider-key-use.tsx";
import {
  DELETED_KEYS_PER_PAGE,
  type ProviderKeysPageProps,
  providerKeysPage,
} from "./provider-keys-page.tsx";

export interface ProviderKeyPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly providerKeys: ProviderKeys;
  readonly idempotency: Idempotency;
}

const PATH = "/console/{account}/provider-keys";

export function providerKeyPageRoutes(deps: ProviderKeyPageDeps): readonly Route[] {
  return [listRoute(deps), newRoute(deps), showRoute(deps), changeRoute(deps)];
}

function listRoute(deps: ProviderKeyPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceProviderKeys",
    summary: "List the provider keys of a workspace",
    query: z.object({ deleted: cursorSchema("pk"), ...DoneQuery }),
    permission: "provider_keys.read",
    run: async ({ view, account, query: { deleted: from, done }, now }) => {
      const keys = await readProviderKeys(deps, account, { now, from });
      return providerKeysPage({ ...view, ...keys, done });
    },
  });
}

function newRoute(deps: ProviderKeyPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/new`,
    id: "showNewProviderKey",
    summary: "Show the form that adds a provider key",
    permission: "provider_keys.change",
    run: async ({ view, account, now }) =>
      newProviderKeyPage({ ...view, ...(await readProviderKeys(deps, account, { now })) }),
  });
}

function showRoute(deps: ProviderKeyPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/{provider_key}`,
    id: "showWorkspaceProviderKey",
    summary: "Show a provider key",
    params: AccountPath.extend({ provider_key: z.string() }),
    query: z.object({ delete: z.literal("true").optional() }),
    permission: "provider_keys.read",
    run: async ({ view, account, params, query, now }) => {
      const keys = await readProviderKeys(deps, account, { now });
      const providerKey = requireLiveKey(keys.live, params.provider_key);
      const isDeleting = query.delete !== undefined;
      return providerKeyPage({ ...view, ...keys, providerKey, isDeleting });
    },
  });
}

function requireLiveKey(live: readonly ProviderKey[], id: string): ProviderKey {
  const key = live.find((each) => each.id === id);
  if (key === undefined)
    throw new Fault("not_found", "no active provider key has this id", {
      message: "The workspace has no active provider key with this id.",
    });
  return key;
}

async function readProviderKeys(
  { db, providerKeys }: ProviderKeyPageDeps,
  accountId: string,
  { now, from }: { readonly now: number; readonly from?: string | undefined },
): Promise<Pick<ProviderKeysPageProps, "live" | "deleted" | "providers" | "apiKeys">> {
  const [live, apiKeys, deleted] = await Promise.all([
    listLiveProviderKeys(db, accountId),
    listKeysFrom(db, accountId, { revoked: false, now }),
    listDeletedProviderKeys(db, accountId, { from, limit: DELETED_KEYS_PER_PAGE + 1 }),
  ]);
  const keys = deleted.slice(0, DELETED_KEYS_PER_PAGE);
  return {
    live,
    apiKeys,
    deleted: { keys, from, next: deleted[DELETED_KEYS_PER_PAGE]?.id },
    providers: providerKeys.providers(),
  };
}

const ProviderKeyForm = z.discriminatedUnion("do", [
  z.looseObject({
    do: z.literal("add"),
    provider: z.string(),
    api_key: z.string(),
    name: z.string().optional(),
    /** Absent if the form was not rendered by this page. */
    once: z.string().regex(FORM_TOKEN).optional(),
    ...USE_FIELDS,
  }),
  z.looseObject({ do: z.literal("change"), provider_key: z.string(), ...USE_FIELDS }),
  z.object({ do: z.literal("remove"), provider_key: z.string() }),
]);
type ProviderKeyForm = z.infer<typeof ProviderKeyForm>;
type AddProviderKeyForm = Extract<ProviderKeyForm, { do: "add" }>;

function changeRoute(deps: ProviderKeyPageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeWorkspaceProviderKeys",
    summary: "Add, change or delete a provider key",
    body: ProviderKeyForm,
    requestExample: { do: "remove", provider_key: "pk_01kah5t3mq7d2c9w4e6r8t0yax" },
    permission: "provider_keys.change",
    // The provider verifies the key before the transaction, which must not wait for it.
    prepare: async ({ body }) =>
      body.do === "add"
        ? addOperation(deps, { form: body, newKey: await validateNewKey(deps, body) })
        : (tx: Tx, act: Act) =>
            body.do === "change"
              ? deps.providerKeys.change(tx, act, body.provider_key, parseUse(body))
              : deps.providerKeys.remove(tx, act, body.provider_key),
    write: (tx, { act }, operation) => operation(tx, act),
    done: ({ account, body }) => donePath(workspacePath(account, "/provider-keys"), body.do),
    rejected: async ({ view, account, body, now }, error) => {
      const page = { ...view, ...(await readProviderKeys(deps, account, { now })) };
      return rejectedPage(page, body, error);
    },
  });
}

/** The page of the form, with its values except the key. */
function rejectedPage(
  page: ProviderKeysPageProps,
  form: ProviderKeyForm,
  error: FormError,
): PageLayout {
  if (form.do === "remove") return providerKeysPage({ ...page, errorMessage: error.message });
  const use = useOf(form);
  if (form.do === "change") {
    const providerKey = requireLiveKey(page.live, form.provider_key);
    return providerKeyPage({ ...page, providerKey, use, error });
  }
  const { provider, name } = form;
  return newProviderKeyPage({ ...page, formValues: { provider, name, use }, error });
}

async function validateNewKey(
  { providerKeys }: ProviderKeyPageDeps,
  form: AddProviderKeyForm,
): Promise<NewProviderKey> {
  const { provider, name = "" } = form;
  const use = parseUse(form);
  const request = {
    provider,
    api_key: form.api_key.trim(),
    name: name.trim() === "" ? null : name,
  };
  const parsed = parseWithSchema(NewProviderKeyRequest, request, "body");
  const apiKey = secret(parsed.api_key);
  const checkResult = await providerKeys.check(provider, apiKey);
  return { provider, apiKey, name: parsed.name ?? null, addedBy: null, ...use, checkResult };
}

function addOperation(
  { providerKeys, idempotency }: ProviderKeyPageDeps,
  { form, newKey }: { readonly form: AddProviderKeyForm; readonly newKey: NewProviderKey },
): (tx: Tx, act: Act) => Promise<unknown> {
  return async (tx, act) => {
    const add = async (): Promise<string> => (await providerKeys.add(tx, act, newKey)).id;
    const { accountId, actor, now } = act;
    const scope = `${actor.id} console.provider_key`;
    if (form.once === undefined) await add();
    else {
      const submission = { accountId, scope, token: form.once, payload: form, now };
      await submitOnce(tx, idempotency, submission, add);
    }
  };
}
