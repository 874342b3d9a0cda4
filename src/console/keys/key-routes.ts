// The routes of the keys page. All members see the keys; creating, changing and revoking need permissions.

import { z } from "zod";
import { assertMayChangeKey, createKeyForMember } from "../../accounts/member-keys.ts";
import type { Permission } from "../../accounts/members.ts";
import { DAY_MS, utcDay } from "../../base/time.ts";
import { invalid } from "../../base/fault.ts";
import { MODEL_CALL_SCOPES } from "../../http/scopes.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { submitOnce, FORM_TOKEN } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import type { KeySettings } from "../../keys/key-settings.ts";
import { changeKey, type Keys, lockKey, revokeKey } from "../../keys/keys.ts";
import type { KeyChange } from "../../keys/routes.ts";
import type { Db, Tx } from "../../store/db.ts";
import { pageResponse, redirect, userErrorMessage } from "../../http/pages/page-response.ts";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { keysPage, keysPath, type KeyFormValues } from "./keys-page.tsx";
import { parseLimit } from "./limit-form.ts";
import { type ConsoleReadDeps, requireAccess, requireAccessForUpdate } from "../authorize.ts";
import { readKeys } from "./read-keys.ts";

export interface KeyPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly idempotency: Idempotency;
  /** Called in the transaction of the change. */
  readonly onKeyChange?: (tx: Tx, change: KeyChange) => Promise<void>;
}

export function keyPageRoutes(deps: KeyPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: KeyPageDeps): Route {
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
      revoke: z.string().optional(),
    }),
    run: async ({ caller, params, query, now }) => {
      const { revoke: revokeKeyId, ...cursors } = query;
      const workspace = await requireAccess(deps, params.account, caller.personId, "keys.read");
      const keyLists = await readKeys(deps, params.account, now, cursors);
      return pageResponse(keysPage({ user: caller, workspace, keyLists, revokeKeyId }));
    },
  });
}

/** The first key of the page that contains the form. */
const KeyCursor = cursorSchema("key");

const KeyForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("mint"),
    name: z.string().optional(),
    limit_usd: z.string().optional(),
    limit_window: z.string().optional(),
    last_day: z.string().optional(),
    /** Absent if the form was not rendered by this page. */
    once: z.string().regex(FORM_TOKEN).optional(),
  }),
  z.object({
    do: z.literal("limit"),
    key: z.string(),
    limit_usd: z.string().optional(),
    limit_window: z.string().optional(),
    from: KeyCursor,
  }),
  z.object({
    do: z.literal("expiry"),
    key: z.string(),
    last_day: z.string().optional(),
    from: KeyCursor,
  }),
  z.object({
    do: z.literal("scopes"),
    key: z.string(),
    access: z.enum(["all", "models"]),
    from: KeyCursor,
  }),
  z.object({ do: z.literal("revoke"), key: z.string(), from: KeyCursor }),
]);
type KeyForm = z.infer<typeof KeyForm>;

const KEY_PERMISSIONS: Readonly<Record<KeyForm["do"], Permission>> = {
  mint: "keys.create",
  limit: "keys.change",
  expiry: "keys.change",
  scopes: "keys.change",
  revoke: "keys.revoke",
};

function changeRoute(deps: KeyPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/keys",
    id: "changeWorkspaceKeys",
    summary: "Create, change or revoke a key",
    params: AccountPath,
    body: KeyForm,
    requestExample: { do: "mint", name: "ci" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account } = params;
      const workspace = await requireAccess(
        deps,
        account,
        caller.personId,
        KEY_PERMISSIONS[body.do],
      );
      const from = body.do === "mint" ? undefined : body.from;
      const respond = async (extra: {
        readonly newKey?: string;
        readonly errorMessage?: string;
        readonly formValues?: KeyFormValues | undefined;
      }): Promise<Response> => {
        const keyLists = await readKeys(deps, account, now, { from });
        const page = keysPage({ user: caller, workspace, keyLists, ...extra });
        return pageResponse(page, { status: extra.errorMessage === undefined ? 200 : 400 });
      };
      try {
        const newKey = await deps.db.write(async (tx) => {
          await requireAccessForUpdate(tx, account, caller.personId, KEY_PERMISSIONS[body.do]);
          const actor = { type: "person", id: caller.personId } as const;
          return changeKeys(tx, deps, account, { form: body, actor, clientIp, now });
        });
        return newKey === undefined
          ? redirect(keysPath(account, { from }))
          : await respond({ newKey });
      } catch (error) {
        const formValues = body.do === "revoke" || body.do === "scopes" ? undefined : body;
        return await respond({ errorMessage: userErrorMessage(error), formValues });
      }
    },
  });
}

/** Applies the form. Returns the raw key if it created one. */
async function changeKeys(
  tx: Tx,
  { keys, idempotency, onKeyChange }: KeyPageDeps,
  accountId: string,
  { form, ...common }: Omit<KeyChange, "kind" | "key"> & { readonly form: KeyForm },
): Promise<string | undefined> {
  const { now } = common;
  const member = { accountId, personId: common.actor.id };
  switch (form.do) {
    case "mint": {
      const create = async (): Promise<string> => {
        const name = form.name?.trim();
        const settings = {
          ...parseLimit(form),
          ...parseExpiry(form),
          name: name === "" ? null : name,
        };
        const creation = { accountId, personId: common.actor.id, settings, now };
        const { key, raw, loweredCaller } = await createKeyForMember(tx, keys, creation);
        await onKeyChange?.(tx, { kind: "key.created", key, ...common });
        if (loweredCaller !== undefined)
          await onKeyChange?.(tx, { kind: "key.changed", key: loweredCaller, ...common });
        return raw;
      };
      if (form.once === undefined) return await create();
      const scope = `${accountId} ${common.actor.id} console.mint`;
      return await submitOnce(
        tx,
        idempotency,
        { scope, token: form.once, payload: form, now },
        create,
      );
    }
    case "limit":
    case "scopes":
    case "expiry": {
      const change = parseChange(form);
      await assertMayChangeKey(tx, member, await lockKey(tx, accountId, form.key, now), change);
      const key = await changeKey(tx, accountId, form.key, { ...change, now });
      await onKeyChange?.(tx, { kind: "key.changed", key, ...common });
      return undefined;
    }
    case "revoke": {
      const before = await lockKey(tx, accountId, form.key, now);
      await assertMayChangeKey(tx, member, before);
      const key = await revokeKey(tx, accountId, form.key, now);
      if (before.revokedAt === null)
        await onKeyChange?.(tx, { kind: "key.revoked", key, ...common });
      return undefined;
    }
  }
}

function parseChange(form: Extract<KeyForm, { do: "limit" | "scopes" | "expiry" }>): KeySettings {
  if (form.do === "limit") return parseLimit(form);
  if (form.do === "expiry") return parseExpiry(form);
  return { scopes: form.access === "all" ? null : MODEL_CALL_SCOPES };
}

/** A key works until the end of its last day (UTC). */
function parseExpiry({
  last_day: lastDay = "",
}: {
  readonly last_day?: string | undefined;
}): Pick<KeySettings, "expiresAt"> {
  if (lastDay === "") return { expiresAt: null };
  const startsAt = /^\d{4}-\d\d-\d\d$/.test(lastDay) ? Date.parse(lastDay) : NaN;
  // Date.parse reads February 30 as March 2.
  if (Number.isNaN(startsAt) || utcDay(startsAt) !== lastDay)
    throw invalid("last_day", "Enter the expiry date as YYYY-MM-DD, such as 2027-01-31.");
  return { expiresAt: startsAt + DAY_MS };
}
