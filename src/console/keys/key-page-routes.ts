// The routes of the keys pages. All members see the keys; creating, changing and revoking need permissions.

import { z } from "zod";
import { personAct } from "../../activity/audit.ts";
import { pageResponse, redirect } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import { readActorNames } from "../../keys/actor-names.ts";
import { getKey, type Keys } from "../../keys/keys.ts";
import {
  changeKeyForMember,
  createKeyForMember,
  revokeKeyForMember,
} from "../../keys/member-keys.ts";
import type { Db } from "../../store/db.ts";
import { donePath, DoneQuery } from "../done-notice.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import { KEY_FIELDS, keyFormError, keyFormValues, parseKeyForm } from "./key-form.ts";
import { keyPage } from "./key-page.tsx";
import { keyPath, keysPage, keysPath } from "./keys-page.tsx";
import { type KeyCursors, readKeys } from "./read-keys.ts";

export interface KeyPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly idempotency: Idempotency;
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
          const act = personAct(account, personId, { clientIp, now });
          const settings = parseKeyForm(body);
          const create = async () => (await createKeyForMember(tx, act, deps.keys, settings)).raw;
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
      const act = personAct(account, personId, { clientIp, now });
      try {
        await deps.db.write((tx) =>
          body.do === "revoke"
            ? revokeKeyForMember(tx, act, key)
            : changeKeyForMember(tx, act, key, (before) =>
                parseKeyForm(body, keyFormValues(before)),
              ),
        );
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
