// The routes of the keys pages. All members see the keys; creating, changing and revoking need permissions.

import { z } from "zod";
import { pageResponse, redirect } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import { readActorNames } from "../../keys/actor-names.ts";
import type { KeyChange } from "../../keys/keys-routes.ts";
import { changeKey, getKey, type Keys, lockKey, revokeKey } from "../../keys/keys.ts";
import { assertMayChangeKey, createKeyForMember } from "../../keys/member-keys.ts";
import type { Db, Tx } from "../../store/db.ts";
import { donePath, DoneQuery } from "../done-notice.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess, requireAccessForUpdate } from "../require-access.ts";
import {
  KEY_FIELDS,
  keyFormError,
  keyFormValues,
  type KeyFormValues,
  parseKeyForm,
} from "./key-form.ts";
import { keyPage } from "./key-page.tsx";
import { keyPath, keysPage, keysPath } from "./keys-page.tsx";
import { type KeyCursors, readKeys } from "./read-keys.ts";

export interface KeyPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly idempotency: Idempotency;
  /** Called in the transaction of the change. */
  readonly onKeyChange?: (tx: Tx, change: KeyChange) => Promise<void>;
}

export function keyPageRoutes(deps: KeyPageDeps): readonly Route[] {
  return [listRoute(deps), createRoute(deps), showRoute(deps), changeRoute(deps)];
}

async function readKeysPage(
  deps: KeyPageDeps,
  accountId: string,
  now: number,
  cursors: KeyCursors,
) {
  const keyLists = await readKeys(deps, accountId, now, cursors);
  const creatorIds = keyLists.live.map(({ createdBy }) => createdBy);
  const creators = await readActorNames(deps.db, accountId, creatorIds);
  return { keyLists, creators, now };
}

function listRoute(deps: KeyPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/keys",
    id: "showWorkspaceKeys",
    summary: "List the keys of a workspace",
    params: AccountPath,
    query: z.object({
      from: cursorSchema("key"),
      revoked: cursorSchema("key"),
      copy: z.string().optional(),
      ...DoneQuery,
    }),
    run: async ({ caller, params: { account }, query, now }) => {
      const { copy, done, ...cursors } = query;
      const workspace = await requireAccess(deps, account, caller.personId, "keys.read");
      const lists = await readKeysPage(deps, account, now, cursors);
      const copied = copy === undefined ? undefined : await getKey(deps.db, account, copy, now);
      const formValues = copied === undefined ? undefined : keyFormValues(copied);
      return pageResponse(keysPage({ user: caller, workspace, ...lists, formValues, done }));
    },
  });
}

function createRoute(deps: KeyPageDeps): Route {
  const permission = "keys.create";
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/keys",
    id: "createWorkspaceKey",
    summary: "Create a key",
    params: AccountPath,
    body: z.object({
      do: z.literal("mint"),
      ...KEY_FIELDS,
      /** Absent if the form was not rendered by this page. */
      once: z.string().regex(FORM_TOKEN).optional(),
    }),
    requestExample: { do: "mint", name: "ci" },
    run: async ({ caller, params: { account }, body, clientIp, now }) => {
      const { personId } = caller;
      const workspace = await requireAccess(deps, account, personId, permission);
      try {
        const newKey = await deps.db.write(async (tx) => {
          await requireAccessForUpdate(tx, account, personId, permission);
          const create = () =>
            createKey(tx, deps, { accountId: account, personId, clientIp, now }, body);
          const { once: token } = body;
          if (token === undefined) return await create();
          const scope = `${account} ${personId} console.mint`;
          const submission = { scope, token, payload: body, now };
          return await submitOnce(tx, deps.idempotency, submission, create);
        });
        const lists = await readKeysPage(deps, account, now, {});
        return pageResponse(keysPage({ user: caller, workspace, ...lists, newKey }));
      } catch (error) {
        const rejected = { error: keyFormError(error), formValues: body };
        const lists = await readKeysPage(deps, account, now, {});
        const page = keysPage({ user: caller, workspace, ...lists, ...rejected });
        return pageResponse(page, { status: 400 });
      }
    },
  });
}

interface KeyAction {
  readonly accountId: string;
  readonly personId: string;
  readonly clientIp: string;
  readonly now: number;
}

/** Returns the raw key. */
async function createKey(
  tx: Tx,
  { keys, onKeyChange }: KeyPageDeps,
  { accountId, personId, clientIp, now }: KeyAction,
  form: KeyFormValues,
): Promise<string> {
  const creation = { accountId, personId, settings: parseKeyForm(form), now };
  const { key, raw, loweredCaller } = await createKeyForMember(tx, keys, creation);
  const common = { actor: { type: "person", id: personId }, clientIp, now } as const;
  await onKeyChange?.(tx, { kind: "key.created", key, ...common });
  if (loweredCaller !== undefined)
    await onKeyChange?.(tx, { kind: "key.changed", key: loweredCaller, ...common });
  return raw;
}

const KeyPath = AccountPath.extend({ key: z.string() });

function showRoute(deps: KeyPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/keys/{key}",
    id: "showWorkspaceKey",
    summary: "Show a key",
    params: KeyPath,
    query: z.object({
      ...DoneQuery,
      revoke: z.literal("true").optional(),
    }),
    run: async ({ caller, params, query, now }) => {
      const { account } = params;
      const workspace = await requireAccess(deps, account, caller.personId, "keys.read");
      const view = await readKeyPage(deps, account, params.key, now);
      const { done } = query;
      const isRevoking = query.revoke !== undefined;
      return pageResponse(keyPage({ user: caller, workspace, ...view, done, isRevoking }));
    },
  });
}

async function readKeyPage({ db }: KeyPageDeps, accountId: string, keyId: string, now: number) {
  const apiKey = await getKey(db, accountId, keyId, now);
  const { createdBy } = apiKey;
  const names = await readActorNames(db, accountId, [createdBy]);
  return { apiKey, creator: createdBy === null ? undefined : names.get(createdBy), now };
}

const KeyForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("change"), ...KEY_FIELDS }),
  z.object({ do: z.literal("revoke") }),
]);

function changeRoute(deps: KeyPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/keys/{key}",
    id: "changeWorkspaceKey",
    summary: "Change or revoke a key",
    params: KeyPath,
    body: KeyForm,
    requestExample: { do: "change", name: "ci", limit_usd: "5" },
    run: async ({ caller, params: { account, key }, body, clientIp, now }) => {
      const { personId } = caller;
      const permission = body.do === "revoke" ? "keys.revoke" : "keys.change";
      const workspace = await requireAccess(deps, account, personId, permission);
      const action = { accountId: account, personId, clientIp, now };
      try {
        await deps.db.write(async (tx) => {
          await requireAccessForUpdate(tx, account, personId, permission);
          if (body.do === "revoke") await revoke(tx, deps, action, key);
          else await change(tx, deps, action, { keyId: key, form: body });
        });
      } catch (error) {
        const keyError = keyFormError(error);
        const view = await readKeyPage(deps, account, key, now);
        const form = {
          values: body.do === "change" ? body : keyFormValues(view.apiKey),
          error: keyError,
        };
        return pageResponse(keyPage({ user: caller, workspace, ...view, form }), { status: 400 });
      }
      return redirect(
        body.do === "revoke"
          ? donePath(keysPath(account, {}), "revoke")
          : donePath(keyPath(account, key), "change"),
      );
    },
  });
}

async function change(
  tx: Tx,
  { onKeyChange }: KeyPageDeps,
  { accountId, personId, clientIp, now }: KeyAction,
  { keyId, form }: { readonly keyId: string; readonly form: KeyFormValues },
): Promise<void> {
  const before = await lockKey(tx, accountId, keyId, now);
  const settings = parseKeyForm(form, keyFormValues(before));
  await assertMayChangeKey(tx, { accountId, personId }, before, settings);
  if (Object.keys(settings).length === 0) return;
  const key = await changeKey(tx, accountId, keyId, { ...settings, now });
  const actor = { type: "person", id: personId } as const;
  await onKeyChange?.(tx, { kind: "key.changed", key, actor, clientIp, now });
}

async function revoke(
  tx: Tx,
  { onKeyChange }: KeyPageDeps,
  { accountId, personId, clientIp, now }: KeyAction,
  keyId: string,
): Promise<void> {
  const before = await lockKey(tx, accountId, keyId, now);
  await assertMayChangeKey(tx, { accountId, personId }, before);
  const key = await revokeKey(tx, accountId, keyId, now);
  const actor = { type: "person", id: personId } as const;
  if (before.revokedAt === null)
    await onKeyChange?.(tx, { kind: "key.revoked", key, actor, clientIp, now });
}
