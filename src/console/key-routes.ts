// The page of a workspace's keys: everybody sees them, the owner limits and revokes them.

import { z } from "zod";
import type { Action } from "../accounts/members.ts";
import { dayOf } from "../base/day.ts";
import { invalid } from "../base/fault.ts";
import { type Nano, nanoFromUsd } from "../base/money.ts";
import { LIMIT_WINDOWS } from "../base/window.ts";
import { cursorOf } from "../http/record.ts";
import { personRoute, type Route } from "../http/route.ts";
import { doOnce, FORM_NAME } from "../idempotency/form.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import { changeKey, type Keys, type KeySettings, lockKey, revokeKey } from "../keys/keys.ts";
import type { KeyChange } from "../keys/routes.ts";
import type { Db, Tx } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { keysPage, keysPath, type TypedKey } from "./keys-page.tsx";
import { type ConsoleStore, enter, enterToChange, readKeys } from "./workspace.ts";

const DAY_MS = 86_400_000;

export interface KeyPageParts extends ConsoleStore {
  readonly db: Db;
  readonly keys: Keys;
  readonly idempotency: Idempotency;
  /** Told in the transaction of the change. */
  readonly onKeyChange?: (tx: Tx, change: KeyChange) => Promise<void>;
}

export function keyPageRoutes(parts: KeyPageParts): readonly Route[] {
  return [keysRoute(parts), changeKeysRoute(parts)];
}

function keysRoute(parts: KeyPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}/keys",
    id: "showWorkspaceKeys",
    summary: "The keys of a workspace",
    params: AccountPath,
    query: z.object({
      from: cursorOf("key"),
      revoked: cursorOf("key"),
      revoke: z.string().optional(),
    }),
    run: async ({ caller, params, query, now }) => {
      const { revoke: toRevoke, ...begins } = query;
      const place = await enter(parts, params.account, caller.personId, "keys.read");
      const shown = await readKeys(parts, params.account, now, begins);
      return show(keysPage({ visitor: caller, place, shown, toRevoke }));
    },
  });
}

/** With which key the page begins that the form is on. */
const FromKey = cursorOf("key");

const KeyForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("mint"),
    name: z.string().optional(),
    limit_usd: z.string().optional(),
    limit_window: z.string().optional(),
    last_day: z.string().optional(),
    /** Absent where the form is not the page's. */
    once: z.string().regex(FORM_NAME).optional(),
  }),
  z.object({
    do: z.literal("limit"),
    key: z.string(),
    limit_usd: z.string().optional(),
    limit_window: z.string().optional(),
    from: FromKey,
  }),
  z.object({
    do: z.literal("expiry"),
    key: z.string(),
    last_day: z.string().optional(),
    from: FromKey,
  }),
  z.object({ do: z.literal("revoke"), key: z.string(), from: FromKey }),
]);
type KeyForm = z.infer<typeof KeyForm>;

const KEY_ACTIONS: Readonly<Record<KeyForm["do"], Action>> = {
  mint: "keys.mint",
  limit: "keys.change",
  expiry: "keys.change",
  revoke: "keys.revoke",
};

function changeKeysRoute(parts: KeyPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: "/console/{account}/keys",
    id: "changeWorkspaceKeys",
    summary: "Make, limit, end or revoke a key",
    params: AccountPath,
    body: KeyForm,
    example: { do: "mint", name: "ci" },
    run: async ({ caller, params, body, address, now }) => {
      const { account } = params;
      const place = await enter(parts, account, caller.personId, KEY_ACTIONS[body.do]);
      const from = body.do === "mint" ? undefined : body.from;
      const shown = async (told: {
        readonly fresh?: string;
        readonly wrong?: string;
        readonly typed?: TypedKey | undefined;
      }): Promise<Response> => {
        const keys = await readKeys(parts, account, now, { from });
        const page = keysPage({ visitor: caller, place, shown: keys, ...told });
        return show(page, told.wrong === undefined ? 200 : 400);
      };
      try {
        const fresh = await parts.db.write(async (tx) => {
          await enterToChange(tx, account, caller.personId, KEY_ACTIONS[body.do]);
          const by = { type: "person", id: caller.personId } as const;
          return changeKeys(tx, parts, account, { form: body, by, address, now });
        });
        return fresh === undefined ? redirect(keysPath(account, { from })) : await shown({ fresh });
      } catch (error) {
        const typed = body.do === "revoke" ? undefined : body;
        return await shown({ wrong: correctable(error), typed });
      }
    },
  });
}

/** Does what the form asks; answers the raw key where it made one. */
async function changeKeys(
  tx: Tx,
  { keys, idempotency, onKeyChange: tell }: KeyPageParts,
  accountId: string,
  { form, ...common }: Omit<KeyChange, "kind" | "key"> & { readonly form: KeyForm },
): Promise<string | undefined> {
  const { now } = common;
  switch (form.do) {
    case "mint": {
      const mint = async (): Promise<string> => {
        const name = form.name?.trim();
        const settings = { ...limitOf(form), ...expiryOf(form), name: name === "" ? null : name };
        const { key, raw } = await keys.mint(tx, accountId, settings, now);
        await tell?.(tx, { kind: "key.created", key, ...common });
        return raw;
      };
      if (form.once === undefined) return await mint();
      const scope = `${accountId} ${common.by.id} console.mint`;
      return await doOnce(tx, idempotency, { scope, form: form.once, asks: form, now }, mint);
    }
    case "limit":
    case "expiry": {
      const change = form.do === "limit" ? limitOf(form) : expiryOf(form);
      const key = await changeKey(tx, accountId, form.key, { ...change, now });
      await tell?.(tx, { kind: "key.changed", key, ...common });
      return undefined;
    }
    case "revoke": {
      const before = await lockKey(tx, accountId, form.key, now);
      const key = await revokeKey(tx, accountId, form.key, now);
      if (before.revokedAt === null) await tell?.(tx, { kind: "key.revoked", key, ...common });
      return undefined;
    }
  }
}

function limitOf(form: {
  readonly limit_usd?: string | undefined;
  readonly limit_window?: string | undefined;
}): Pick<KeySettings, "limit" | "limitWindow"> {
  const typed = form.limit_usd?.trim() ?? "";
  if (typed === "") return { limit: null, limitWindow: null };
  const limit: Nano | undefined = nanoFromUsd(typed);
  if (limit === undefined)
    throw invalid("limit_usd", "The limit must be an amount of US dollars, such as 5 or 2.50.");
  return {
    limit,
    limitWindow: LIMIT_WINDOWS.find((window) => window === form.limit_window) ?? null,
  };
}

/** A key works to the end of its last day. */
function expiryOf({
  last_day: lastDay = "",
}: {
  readonly last_day?: string | undefined;
}): Pick<KeySettings, "expiresAt"> {
  if (lastDay === "") return { expiresAt: null };
  const begins = /^\d{4}-\d\d-\d\d$/.test(lastDay) ? Date.parse(lastDay) : NaN;
  // The thirtieth of February would be the second of March.
  if (Number.isNaN(begins) || dayOf(begins) !== lastDay)
    throw invalid("last_day", "The last day must be a date, such as 2027-01-31.");
  return { expiresAt: begins + DAY_MS };
}
