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
import { AskingLink, Question, withQuery } from "./ask-first.tsx";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import { minute, money } from "./words.ts";
import type { KeyCursors, Place, ShownKeys } from "./workspace.ts";

export interface KeysState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly shown: ShownKeys;
  /** The key that is asked about once more before it is revoked. */
  readonly toRevoke?: string | undefined;
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

/** The page, from a key on where there are too many for one, and with a question where it asks one. */
export function keysPath(
  accountId: string,
  query: KeyCursors & { readonly revoke?: string },
): string {
  const { from, revoked, revoke } = query;
  return withQuery(pathOf(accountId, "/keys"), { from, revoked, revoke });
}

export function keysPage(state: KeysState): PageFrame {
  const { visitor, place, shown, fresh, wrong, typed } = state;
  const { from } = shown.begins;
  const { next } = shown;
  const action = pathOf(place.accountId, "/keys");
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
        {shown.standing.map((key) => (
          <KeyCard key_={key} state={state} typed={typed?.key === key.id ? typed : undefined} />
        ))}
        {next.from === undefined && from === undefined ? null : (
          <p>
            {next.from === undefined ? (
              <a href={action}>The newest keys</a>
            ) : (
              <a href={keysPath(place.accountId, { from: next.from })}>Older keys</a>
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
        {shown.revoked.length === 0 ? null : <Revoked place={place} shown={shown} />}
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
  readonly state: KeysState;
  /** What was typed into a form of this key and could not be taken. */
  readonly typed: TypedKey | undefined;
}

function KeyCard({ key_: key, state, typed }: KeyCardProps): Child {
  const { visitor, place, shown, toRevoke } = state;
  const { from } = shown.begins;
  const action = pathOf(place.accountId, "/keys");
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
      {!mayDo(place.role, "keys.revoke") ? null : toRevoke === key.id ? (
        <Question
          visitor={visitor}
          action={action}
          fields={{ do: "revoke", ...fields }}
          yes="Revoke the key"
          no="Keep it"
          back={keysPath(place.accountId, { from })}
        >
          Revoke …{key.last4} for good? Whoever holds it is refused from the next request on.
        </Question>
      ) : (
        <div class="choices">
          <AskingLink
            href={keysPath(place.accountId, { from, revoke: key.id })}
            label="Revoke"
            of={`the key that ends in ${key.last4}`}
          />
        </div>
      )}
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

function Revoked({ place, shown }: { readonly place: Place; readonly shown: ShownKeys }): Child {
  const { revoked, begins, next } = shown;
  const { from } = begins;
  return (
    <section aria-labelledby="revoked">
      <h2 id="revoked">Revoked</h2>
      <ul>
        {revoked.map((key) => (
          <li>
            <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>,
            revoked {dayOf(key.revokedAt ?? 0)}
          </li>
        ))}
      </ul>
      {next.revoked === undefined && begins.revoked === undefined ? null : (
        <p>
          <a href={`${keysPath(place.accountId, { from, revoked: next.revoked })}#revoked`}>
            {next.revoked === undefined ? "The newest revoked keys" : "Older revoked keys"}
          </a>
        </p>
      )}
    </section>
  );
}
