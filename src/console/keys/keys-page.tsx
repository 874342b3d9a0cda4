/** @jsxImportSource hono/jsx */
// The keys of a workspace: their limits, and the forms to create, change and revoke them.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { usdText } from "../../base/money.ts";
import { LIMIT_WINDOWS } from "../../base/spend-window.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { describeScopes, grantedScopes } from "../../http/scopes.ts";
import type { SessionUser } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { Key } from "../../keys/keys.ts";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { formatDateTime, formatUsd } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";
import type { KeyCursors, KeyLists } from "./read-keys.ts";

export interface KeysPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly keyLists: KeyLists;
  /** The key whose revocation needs confirmation. */
  readonly revokeKeyId?: string | undefined;
  /** A new key, which is shown once. */
  readonly newKey?: string;
  readonly errorMessage?: string;
  /** The values of the rejected form. */
  readonly formValues?: KeyFormValues | undefined;
}

/** The fields of the form that creates a key, or of one that changes a key. */
export interface KeyFormValues {
  /** The rejected form. */
  readonly do: "mint" | "limit" | "expiry";
  /** The key of the form. */
  readonly key?: string;
  readonly name?: string | undefined;
  readonly limit_usd?: string | undefined;
  readonly limit_window?: string | undefined;
  readonly last_day?: string | undefined;
}

/** The path of the page that begins with the given keys and asks for the given confirmation. */
export function keysPath(
  accountId: string,
  query: KeyCursors & { readonly revoke?: string },
): string {
  const { from, revoked, revoke } = query;
  return withQuery(workspacePath(accountId, "/keys"), { from, revoked, revoke });
}

export function keysPage(props: KeysPageProps): PageLayout {
  const { user, workspace, keyLists, newKey, errorMessage, formValues } = props;
  const { from } = keyLists.cursors;
  const { next } = keyLists;
  const action = workspacePath(workspace.accountId, "/keys");
  return consolePage({
    title: "Keys",
    workspace,
    user,
    page: "/keys",
    main: (
      <>
        {newKey === undefined ? null : <NewKeyNotice raw={newKey} />}
        {errorMessage === undefined ? null : (
          <p class="error" role="alert">
            {errorMessage}
          </p>
        )}
        <p>
          Anyone who has a key can spend the workspace's balance, up to the key's limit. Only people
          can raise limits, on this page.
        </p>
        {keyLists.live.map((key) => (
          <KeyCard
            apiKey={key}
            page={props}
            formValues={formValues?.key === key.id ? formValues : undefined}
          />
        ))}
        {next.from === undefined && from === undefined ? null : (
          <p>
            {next.from === undefined ? (
              <a href={action}>Newest keys</a>
            ) : (
              <a href={keysPath(workspace.accountId, { from: next.from })}>Older keys</a>
            )}
          </p>
        )}
        {hasPermission(workspace.role, "keys.create") ? (
          <CreateKeyForm
            action={action}
            user={user}
            formValues={formValues?.do === "mint" ? formValues : undefined}
          />
        ) : null}
        {keyLists.revoked.length === 0 ? null : (
          <RevokedKeys workspace={workspace} keyLists={keyLists} />
        )}
      </>
    ),
  });
}

function NewKeyNotice({ raw }: { readonly raw: string }): Child {
  return (
    <section class="card notice" role="status">
      <h2>Your new key</h2>
      <pre>
        <code>{raw}</code>
      </pre>
      <p>Copy it now. It is not shown again: Postern stores only a hash of it.</p>
    </section>
  );
}

interface KeyCardProps {
  readonly apiKey: Key;
  readonly page: KeysPageProps;
  /** The values of the rejected form, if it is one of this key. */
  readonly formValues: KeyFormValues | undefined;
}

function KeyCard({ apiKey: key, page, formValues }: KeyCardProps): Child {
  const { user, workspace, keyLists, revokeKeyId } = page;
  const { from } = keyLists.cursors;
  const action = workspacePath(workspace.accountId, "/keys");
  const fields = { key: key.id, ...(from === undefined ? {} : { from }) };
  const canChange =
    hasPermission(workspace.role, "keys.raise") ||
    (hasPermission(workspace.role, "keys.change") && key.createdBy === user.personId);
  return (
    <section class="card" aria-labelledby={key.id}>
      <h2 id={key.id}>
        <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
      </h2>
      <p>
        Created {utcDay(key.createdAt)} · Last used{" "}
        {key.lastUsedAt === null ? "never" : formatDateTime(key.lastUsedAt)} · Spent{" "}
        {formatUsd(key.spent)} · {limitText(key)} · {scopesText(key)}
        {key.expiresAt === null ? "" : ` · Expires ${formatDateTime(key.expiresAt)}`}
      </p>
      {canChange ? (
        <>
          <ChangeForm fields={fields} action={action} user={user} setting="limit">
            <LimitFields id={key.id} {...limitFormValues(key, formValues)} />
          </ChangeForm>
          <ChangeForm fields={fields} action={action} user={user} setting="expiry">
            <ExpiryField id={key.id} lastDay={lastDayFormValue(key, formValues)} />
          </ChangeForm>
          <ChangeForm fields={fields} action={action} user={user} setting="scopes">
            <AccessField id={key.id} isNarrowed={key.scopes !== null} />
          </ChangeForm>
        </>
      ) : null}
      {!canChange ? null : revokeKeyId === key.id ? (
        <Confirm
          user={user}
          action={action}
          fields={{ do: "revoke", ...fields }}
          confirmLabel="Revoke key"
          cancelHref={keysPath(workspace.accountId, { from })}
        >
          Revoke the key that ends in {key.last4}? Requests with it are rejected immediately. This
          cannot be undone.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink
            href={keysPath(workspace.accountId, { from, revoke: key.id })}
            label="Revoke"
            subject={`the key that ends in ${key.last4}`}
          />
        </div>
      )}
    </section>
  );
}

/** What the key may do, in plain words. */
function scopesText({ scopes, limit }: Key): string {
  return `May ${describeScopes(grantedScopes(scopes, limit !== null))}`;
}

function limitText({ limit, limitWindow }: Key): string {
  if (limit === null) return "No limit";
  return `Limit ${formatUsd(limit)}${limitWindow === null ? "" : ` per ${limitWindow}`}`;
}

// A rejected form keeps its values; the other form shows the key's current ones.

function limitFormValues(
  { limit, limitWindow }: Key,
  formValues: KeyFormValues | undefined,
): { readonly limit: string | undefined; readonly window: string | undefined } {
  return formValues?.do === "limit"
    ? { limit: formValues.limit_usd, window: formValues.limit_window }
    : { limit: limit === null ? undefined : usdText(limit), window: limitWindow ?? undefined };
}

function lastDayFormValue(
  { expiresAt }: Key,
  formValues: KeyFormValues | undefined,
): string | undefined {
  if (formValues?.do === "expiry") return formValues.last_day;
  return expiresAt === null ? undefined : utcDay(expiresAt - 1);
}

/** A form that changes one setting of a key. */
function ChangeForm({
  fields,
  action,
  user,
  setting,
  children,
}: {
  readonly fields: Readonly<Record<string, string>>;
  readonly action: string;
  readonly user: SessionUser;
  readonly setting: "limit" | "expiry" | "scopes";
  readonly children: Child;
}): Child {
  return (
    <form method="post" action={action}>
      <HiddenFields user={user} fields={{ do: setting, ...fields }} />
      {children}
      <div class="actions">
        <button type="submit" class="secondary">
          Set {setting}
        </button>
      </div>
    </form>
  );
}

function AccessField({
  id,
  isNarrowed,
}: {
  readonly id: string;
  readonly isNarrowed: boolean;
}): Child {
  return (
    <>
      <label for={`${id}-access`}>Scopes</label>
      <select id={`${id}-access`} name="access">
        <option value="models">Model calls and usage only</option>
        <option value="all" selected={!isNarrowed}>
          All that its limit allows
        </option>
      </select>
    </>
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
      <label for={`${id}-expiry`}>Expires after (UTC, optional)</label>
      <input id={`${id}-expiry`} name="last_day" type="date" value={lastDay} />
    </>
  );
}

const WINDOW_LABELS = { day: "daily", week: "weekly", month: "monthly" } as const;

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
      <label for={`${id}-limit`}>Limit (USD, optional)</label>
      <input
        id={`${id}-limit`}
        name="limit_usd"
        inputmode="decimal"
        pattern="[0-9]{1,7}([.][0-9]{1,9})?"
        value={limit}
      />
      <label for={`${id}-window`}>Resets</label>
      <select id={`${id}-window`} name="limit_window">
        <option value="">never</option>
        {LIMIT_WINDOWS.map((option) => (
          <option value={option} selected={option === window}>
            {WINDOW_LABELS[option]}
          </option>
        ))}
      </select>
    </>
  );
}

function CreateKeyForm({
  action,
  user,
  formValues,
}: {
  readonly action: string;
  readonly user: SessionUser;
  readonly formValues: KeyFormValues | undefined;
}): Child {
  return (
    <section class="card" aria-labelledby="mint">
      <h2 id="mint">Create a key</h2>
      <form method="post" action={action}>
        <HiddenFields user={user} fields={{ do: "mint", once: newFormToken() }} />
        <label for="mint-name">Name (optional)</label>
        <input id="mint-name" name="name" maxlength={100} value={formValues?.name} />
        <LimitFields id="mint" limit={formValues?.limit_usd} window={formValues?.limit_window} />
        <ExpiryField id="mint" lastDay={formValues?.last_day} />
        <div class="actions">
          <button type="submit">Create key</button>
        </div>
      </form>
    </section>
  );
}

function RevokedKeys({
  workspace,
  keyLists,
}: {
  readonly workspace: WorkspaceContext;
  readonly keyLists: KeyLists;
}): Child {
  const { revoked, cursors, next } = keyLists;
  const { from } = cursors;
  return (
    <section aria-labelledby="revoked">
      <h2 id="revoked">Revoked keys</h2>
      <ul>
        {revoked.map((key) => (
          <li>
            <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>,
            revoked on {utcDay(key.revokedAt ?? 0)}
          </li>
        ))}
      </ul>
      {next.revoked === undefined && cursors.revoked === undefined ? null : (
        <p>
          <a href={`${keysPath(workspace.accountId, { from, revoked: next.revoked })}#revoked`}>
            {next.revoked === undefined ? "Newest revoked keys" : "Older revoked keys"}
          </a>
        </p>
      )}
    </section>
  );
}
