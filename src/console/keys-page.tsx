/** @jsxImportSource hono/jsx */
// The keys of a workspace: what each may spend, and the means to stop it.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import { mayDo } from "../accounts/members.ts";
import { usdText } from "../base/money.ts";
import { LIMIT_WINDOWS } from "../base/window.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { newFormName } from "../idempotency/form.ts";
import type { Key } from "../keys/keys.ts";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import { minute, money } from "./words.ts";
import { type Place, REVOKED_KEYS_SHOWN, type ShownKeys } from "./workspace.ts";

export interface KeysState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly shown: ShownKeys;
  /** A key that was just made, to be shown this once. */
  readonly fresh?: string;
  readonly wrong?: string;
  /** What was typed into the form that was refused, so that it need not be typed again. */
  readonly typed?: TypedKey | undefined;
}

/** The fields of the form that makes a key, or of one that changes it. */
export interface TypedKey {
  /** Which form was refused. */
  readonly do: "mint" | "limit" | "expiry";
  /** The key that was to be changed. */
  readonly key?: string;
  readonly name?: string | undefined;
  readonly limit_usd?: string | undefined;
  readonly limit_window?: string | undefined;
  readonly last_day?: string | undefined;
}

/** The page, from a key on where there are too many for one. */
export function keysPath(accountId: string, from: string | undefined): string {
  const path = pathOf(accountId, "/keys");
  return from === undefined ? path : `${path}?from=${from}`;
}

export function keysPage({ visitor, place, shown, fresh, wrong, typed }: KeysState): PageFrame {
  const { keys, from, next } = shown;
  const action = pathOf(place.accountId, "/keys");
  const live = keys.filter((key) => key.revokedAt === null);
  const dead = keys.filter((key) => key.revokedAt !== null);
  return consolePage({
    title: "Keys",
    place,
    visitor,
    page: "/keys",
    main: (
      <>
        {fresh === undefined ? null : <Fresh raw={fresh} />}
        {wrong === undefined ? null : (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
        <p>
          Whoever holds a key can spend the workspace's balance, up to the key's limit. Limits and
          expiries are widened here alone: a key can lower them, and hand on a part of its own.
        </p>
        {live.map((key) => (
          <KeyCard
            key_={key}
            action={action}
            visitor={visitor}
            place={place}
            from={from}
            typed={typed?.key === key.id ? typed : undefined}
          />
        ))}
        {next === undefined && from === undefined ? null : (
          <p>
            {next === undefined ? (
              <a href={action}>The newest keys</a>
            ) : (
              <a href={keysPath(place.accountId, next)}>Older keys</a>
            )}
          </p>
        )}
        {mayDo(place.role, "keys.mint") ? (
          <MintForm
            action={action}
            visitor={visitor}
            typed={typed?.do === "mint" ? typed : undefined}
          />
        ) : null}
        {dead.length === 0 ? null : <Dead keys={dead} />}
      </>
    ),
  });
}

function Fresh({ raw }: { readonly raw: string }): Child {
  return (
    <section class="card notice" role="status">
      <h2>The new key, shown this once</h2>
      <pre>
        <code>{raw}</code>
      </pre>
      <p>Store it now. Postern keeps only a fingerprint of it.</p>
    </section>
  );
}

interface KeyCardProps {
  readonly key_: Key;
  readonly action: string;
  readonly visitor: Visitor;
  readonly place: Place;
  /** The first key of this page, where it is not the newest. */
  readonly from: string | undefined;
  /** What was typed into a form of this key and could not be taken. */
  readonly typed: TypedKey | undefined;
}

function KeyCard({ key_: key, action, visitor, place, from, typed }: KeyCardProps): Child {
  const fields = { key: key.id, ...(from === undefined ? {} : { from }) };
  const window = key.limitWindow === null ? "in all" : `a ${key.limitWindow}`;
  const limit = key.limit === null ? "no limit" : `a limit of ${money(key.limit)} ${window}`;
  return (
    <section class="card" aria-labelledby={key.id}>
      <h2 id={key.id}>
        <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
      </h2>
      <p>
        Made {dayOf(key.createdAt)},{" "}
        {key.lastUsedAt === null ? "never used" : `last used ${minute(key.lastUsedAt)}`}; spent{" "}
        {money(key.spent)}, {limit}
        {key.expiresAt === null ? "" : `, works until ${minute(key.expiresAt)}`}.
      </p>
      {mayDo(place.role, "keys.change") ? (
        <>
          <ChangeForm fields={fields} action={action} visitor={visitor} changes="limit">
            <LimitFields id={key.id} {...limitShown(key, typed)} />
          </ChangeForm>
          <ChangeForm fields={fields} action={action} visitor={visitor} changes="expiry">
            <ExpiryField id={key.id} lastDay={lastDayShown(key, typed)} />
          </ChangeForm>
        </>
      ) : null}
      {mayDo(place.role, "keys.revoke") ? (
        <form method="post" action={action}>
          <Hidden visitor={visitor} fields={{ do: "revoke", ...fields }} />
          <div class="choices">
            <button type="submit" class="danger">
              Revoke
            </button>
          </div>
        </form>
      ) : null}
    </section>
  );
}

// What was refused stays in its form, to be mended; the other form shows the key as it is.

function limitShown(
  { limit, limitWindow }: Key,
  typed: TypedKey | undefined,
): { readonly limit: string | undefined; readonly window: string | undefined } {
  return typed?.do === "limit"
    ? { limit: typed.limit_usd, window: typed.limit_window }
    : { limit: limit === null ? undefined : usdText(limit), window: limitWindow ?? undefined };
}

function lastDayShown({ expiresAt }: Key, typed: TypedKey | undefined): string | undefined {
  if (typed?.do === "expiry") return typed.last_day;
  return expiresAt === null ? undefined : dayOf(expiresAt - 1);
}

/** A form that changes one thing of a key. */
function ChangeForm({
  fields,
  action,
  visitor,
  changes,
  children,
}: {
  readonly fields: Readonly<Record<string, string>>;
  readonly action: string;
  readonly visitor: Visitor;
  readonly changes: "limit" | "expiry";
  readonly children: Child;
}): Child {
  return (
    <form method="post" action={action}>
      <Hidden visitor={visitor} fields={{ do: changes, ...fields }} />
      {children}
      <div class="choices">
        <button type="submit" class="quiet">
          Set the {changes}
        </button>
      </div>
    </form>
  );
}

function ExpiryField({
  id,
  lastDay,
}: {
  readonly id: string;
  readonly lastDay: string | undefined;
}): Child {
  return (
    <>
      <label for={`${id}-expiry`}>Its last day, in UTC; empty for none</label>
      <input id={`${id}-expiry`} name="last_day" type="date" value={lastDay} />
    </>
  );
}

function LimitFields({
  id,
  limit,
  window,
}: {
  readonly id: string;
  readonly limit: string | undefined;
  readonly window: string | undefined;
}): Child {
  return (
    <>
      <label for={`${id}-limit`}>Limit in US dollars; empty for none</label>
      <input
        id={`${id}-limit`}
        name="limit_usd"
        inputmode="decimal"
        pattern="[0-9]{1,7}([.][0-9]{1,9})?"
        value={limit}
      />
      <label for={`${id}-window`}>It opens again</label>
      <select id={`${id}-window`} name="limit_window">
        <option value="">never</option>
        {LIMIT_WINDOWS.map((one) => (
          <option value={one} selected={one === window}>
            every {one}
          </option>
        ))}
      </select>
    </>
  );
}

function MintForm({
  action,
  visitor,
  typed,
}: {
  readonly action: string;
  readonly visitor: Visitor;
  readonly typed: TypedKey | undefined;
}): Child {
  return (
    <section class="card" aria-labelledby="mint">
      <h2 id="mint">Make a key</h2>
      <form method="post" action={action}>
        <Hidden visitor={visitor} fields={{ do: "mint", once: newFormName() }} />
        <label for="mint-name">Name</label>
        <input id="mint-name" name="name" maxlength={100} value={typed?.name} />
        <LimitFields id="mint" limit={typed?.limit_usd} window={typed?.limit_window} />
        <ExpiryField id="mint" lastDay={typed?.last_day} />
        <div class="choices">
          <button type="submit">Make the key</button>
        </div>
      </form>
    </section>
  );
}

function Dead({ keys }: { readonly keys: readonly Key[] }): Child {
  return (
    <>
      <h2>Revoked</h2>
      <ul>
        {keys.map((key) => (
          <li>
            <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>,
            revoked {dayOf(key.revokedAt ?? 0)}
          </li>
        ))}
      </ul>
      {keys.length < REVOKED_KEYS_SHOWN ? null : (
        <p class="note">
          The newest {REVOKED_KEYS_SHOWN}. <code>GET /v1/keys</code> lists all of them.
        </p>
      )}
    </>
  );
}
