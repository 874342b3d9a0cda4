// The routes of the keys pages. All members see the keys; creating, changing and revoking need permissions.

import { z } from "zod";
import { hasPermission } from "../../accounts/members.ts";
import type { Act } from "../../activity/audit.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import { readActorNames } from "../../keys/actor-names.ts";
import { getKey, getKeyLabels, type Keys, listKeys } from "../../keys/keys.ts";
import {
  createKeyForMember,
  revokeKeyForMember,
  changeKeyForMember,
  rotateKeyForMember,
} from "../../keys/member-keys.ts";
import type { Db, Tx } from "../../store/db.ts";
import { donePath, DoneQuery } from "../done-notice.tsx";
import { Overlap, overlapMs } from "../overlap-field.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { AccountPath, workspacePage, workspaceForm } from "../workspace-routes.ts";
import { readKeyBlock } from "./allowance-notice.tsx";
import {
  IDENTITY_FIELDS,
  KEY_FIELDS,
  keyFormError,
  keyFormValues,
  parseIdentity,
  parseKeyForm,
} from "./key-form.ts";
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
  { workspace, user }: WorkspaceView,
  now: number,
  cursors: KeyCursors,
) {
  const { accountId, role } = workspace;
  const keyLists = await readKeys(deps, accountId, now, cursors);
  const creatorIds = keyLists.live.map(({ createdBy }) => createdBy);
  const creators = await readActorNames(deps.db, accountId, creatorIds);
  const member = { accountId, personId: user.personId, now };
  const block = hasPermission(role, "keys.create")
    ? await readKeyBlock(deps.db, member)
    : undefined;
  return { keyLists, creators, block, now };
}

function listRoute(deps: KeyPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/keys",
    id: "showWorkspaceKeys",
    summary: "List the keys of a workspace",
    query: z.object({
      from: cursorSchema("key"),
      revoked: cursorSchema("key"),
      copy: z.string().optional(),
      ...DoneQuery,
    }),
    permission: "keys.read",
    run: async ({ view, account, query, now }) => {
      const { copy, done, ...cursors } = query;
      const lists = await readKeysPage(deps, view, now, cursors);
      const copied = copy === undefined ? undefined : await getKey(deps.db, account, copy, now);
      const formValues = copied === undefined ? undefined : keyFormValues(copied);
      return keysPage({ ...view, ...lists, formValues, done });
    },
  });
}

function createRoute(deps: KeyPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/keys",
    id: "createWorkspaceKey",
    summary: "Create a key",
    body: z.object({
      do: z.literal("mint"),
      ...KEY_FIELDS,
      ...IDENTITY_FIELDS,
      /** Absent if the form was not rendered by this page. */
      once: z.string().regex(FORM_TOKEN).optional(),
    }),
    requestExample: { do: "mint", name: "ci" },
    permission: "keys.create",
    write: async (tx, { act, body }) => {
      const settings = { ...parseKeyForm(body), credential: parseIdentity(body) };
      const create = async () => (await createKeyForMember(tx, act, deps.keys, settings)).raw;
      const { once: token } = body;
      if (token === undefined) return await create();
      const { accountId, actor, now } = act;
      const scope = `${actor.id} console.mint`;
      return await submitOnce(
        tx,
        deps.idempotency,
        { accountId, scope, token, payload: body, now },
        create,
      );
    },
    done: async ({ view, now }, newKey) =>
      keysPage({ ...view, ...(await readKeysPage(deps, view, now, {})), newKey }),
    rejected: async ({ view, body: formValues, now }, sent) => {
      const lists = await readKeysPage(deps, view, now, {});
      // The form stays with what was typed, whatever the reason.
      return keysPage({
        ...view,
        ...lists,
        block: undefined,
        formValues,
        error: keyFormError(sent),
      });
    },
  });
}

const DERIVED_KEYS_SHOWN = 200;
const KeyPath = AccountPath.extend({ key: z.string() });

function showRoute(deps: KeyPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/keys/{key}",
    id: "showWorkspaceKey",
    summary: "Show a key",
    params: KeyPath,
    query: z.object({
      ...DoneQuery,
      revoke: z.literal("true").optional(),
    }),
    permission: "keys.read",
    run: async ({ view, account, params, query: { done, revoke }, now }) => {
      const key = await readKeyPage(deps, account, params.key, now);
      return keyPage({ ...view, ...key, done, isRevoking: revoke !== undefined });
    },
  });
}

async function readKeyPage({ db }: KeyPageDeps, accountId: string, keyId: string, now: number) {
  const apiKey = await getKey(db, accountId, keyId, now);
  const { createdBy, derivedFrom } = apiKey;
  const page = { derivedFrom: keyId, limit: DERIVED_KEYS_SHOWN };
  const [names, below, above] = await Promise.all([
    readActorNames(db, accountId, [createdBy]),
    listKeys(db, accountId, page, now),
    getKeyLabels(db, accountId, derivedFrom ?? []),
  ]);
  const creator = createdBy === null ? undefined : names.get(createdBy);
  return { apiKey, creator, below: below.data, above, now };
}

const KeyForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("change"), ...KEY_FIELDS }),
  z.object({ do: z.literal("revoke") }),
  z.object({ do: z.literal("end_overlap") }),
  z.object({
    do: z.literal("rotate"),
    overlap: Overlap,
    /** Absent if the form was not rendered by this page. */
    once: z.string().regex(FORM_TOKEN).optional(),
  }),
]);

function changeRoute(deps: KeyPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/keys/{key}",
    id: "changeWorkspaceKey",
    summary: "Change, rotate or revoke a key",
    params: KeyPath,
    body: KeyForm,
    requestExample: { do: "change", name: "ci", limit_usd: "5" },
    permission: (body) => (body.do === "revoke" ? "keys.revoke" : "keys.change"),
    write: (tx, { act, params: { key }, body }) => applyKeyForm(tx, deps, act, { id: key, body }),
    done: async ({ view, account, params, body, now }, newSecret) => {
      if (newSecret !== undefined)
        return keyPage({
          ...view,
          ...(await readKeyPage(deps, account, params.key, now)),
          newSecret,
        });
      return body.do === "revoke"
        ? donePath(keysPath(account, {}), "revoke")
        : donePath(keyPath(account, params.key), body.do);
    },
    rejected: async ({ view, account, params, body, now }, sent) => {
      const key = await readKeyPage(deps, account, params.key, now);
      const values = body.do === "change" ? body : keyFormValues(key.apiKey);
      return keyPage({ ...view, ...key, form: { values, error: keyFormError(sent) } });
    },
  });
}

/** Applies the form. Returns the new raw key if it rotated the key. */
async function applyKeyForm(
  tx: Tx,
  { keys, idempotency }: KeyPageDeps,
  act: Act,
  { id, body }: { readonly id: string; readonly body: z.infer<typeof KeyForm> },
): Promise<string | undefined> {
  switch (body.do) {
    case "revoke":
      await revokeKeyForMember(tx, act, id);
      return undefined;
    case "change":
      await changeKeyForMember(tx, act, id, (before) => parseKeyForm(body, keyFormValues(before)));
      return undefined;
    case "end_overlap":
      await changeKeyForMember(tx, act, id, () => ({ formerSecret: null }));
      return undefined;
    case "rotate": {
      const rotation = { id, overlapMs: overlapMs(body.overlap) };
      const rotate = async () => (await rotateKeyForMember(tx, act, keys, rotation)).raw;
      const { once: token } = body;
      if (token === undefined) return await rotate();
      const scope = `${act.actor.id} console.rotate ${id}`;
      const { accountId, now } = act;
      const submission = { accountId, scope, token, payload: body, now };
      return await submitOnce(tx, idempotency, submission, rotate);
    }
  }
}
