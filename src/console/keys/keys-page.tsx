/** @jsxImportSource hono/jsx */
// The keys of a workspace: what each may spend, and the means to stop it.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { usdText } from "../../base/money.ts";
import { LIMIT_WINDOWS } from "../../base/spend-window.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
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
  readonly respond: KeyLists;
  /** The key that is asked about once more before it is revoked. */
  readonly revokeKeyId?: string | undefined;
  /** A key that was just made, to be shown this once. */
  readonly newKey?: string;
  readonly errorMessage?: string;
  /** What was typed into the form that was refused, so that it need not be typed again. */
  readonly formValues?: KeyFormValues | undefined;
}

/** The fields of the form that makes a key, or of one that changes it. */
export interface KeyFormValues {
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
  return withQuery(workspacePath(accountId, "/keys"), { from, revoked, revoke });
}

export function keysPage(props: KeysPageProps): PageLayout {
  const { user, workspace, respond: keyLists, newKey, errorMessage, formValues } = props;
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
          Whoever holds a key can spend the workspace's balance, up to the key's limit. Limits and
          expiries are widened here alone: a key can lower them, and hand on a part of its own.
        </p>
        {keyLists.live.map((key) => (
          <KeyCard
            key_={key}
            page={props}
            formValues={formValues?.key === key.id ? formValues : undefined}
          />
        ))}
        {next.from === undefined && from === undefined ? null : (
          <p>
            {next.from === undefined ? (
              <a href={action}>The newest keys</a>
            ) : (
              <a href={keysPath(workspace.accountId, { from: next.from })}>Older keys</a>
            )}
          </p>
        )}
        {hasPermission(workspace.role, "keys.create") ? (
          <MintForm
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
  readonly page: KeysPageProps;
  /** What was typed into a form of this key and could not be taken. */
  readonly formValues: KeyFormValues | undefined;
}

function KeyCard({ key_: key, page, formValues }: KeyCardProps): Child {
  const { user, workspace, respond: keyLists, revokeKeyId } = page;
  const { from } = keyLists.cursors;
  const action = workspacePath(workspace.accountId, "/keys");
  const fields = { key: key.id, ...(from === undefined ? {} : { from }) };
  const window = key.limitWindow === null ? "in all" : `a ${key.limitWindow}`;
  const limit = key.limit === null ? "no limit" : `a limit of ${formatUsd(key.limit)} ${window}`;
  return (
    <section class="card" aria-labelledby={key.id}>
      <h2 id={key.id}>
        <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>
      </h2>
      <p>
        Made {utcDay(key.createdAt)},{" "}
        {key.lastUsedAt === null ? "never used" : `last used ${formatDateTime(key.lastUsedAt)}`};
        spent {formatUsd(key.spent)}, {limit}
        {key.expiresAt === null ? "" : `, works until ${formatDateTime(key.expiresAt)}`}.
      </p>
      {hasPermission(workspace.role, "keys.change") ? (
        <>
          <ChangeForm fields={fields} action={action} user={user} setting="limit">
            <LimitFields id={key.id} {...limitFormValues(key, formValues)} />
          </ChangeForm>
          <ChangeForm fields={fields} action={action} user={user} setting="expiry">
            <ExpiryField id={key.id} lastDay={lastDayFormValue(key, formValues)} />
          </ChangeForm>
        </>
      ) : null}
      {!hasPermission(workspace.role, "keys.revoke") ? null : revokeKeyId === key.id ? (
        <Confirm
          user={user}
          action={action}
          fields={{ do: "revoke", ...fields }}
          confirmLabel="Revoke the key"
          cancelLabel="Keep it"
          cancelHref={keysPath(workspace.accountId, { from })}
        >
          Revoke …{key.last4} for good? Whoever holds it is refused from the next request on.
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

// What was refused stays in its form, to be mended; the other form shows the key as it is.

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

/** A form that changes one thing of a key. */
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
  readonly setting: "limit" | "expiry";
  readonly children: Child;
}): Child {
  return (
    <form method="post" action={action}>
      <HiddenFields user={user} fields={{ do: setting, ...fields }} />
      {children}
      <div class="actions">
        <button type="submit" class="secondary">
          Set the {setting}
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
  user,
  formValues,
}: {
  readonly action: string;
  readonly user: SessionUser;
  readonly formValues: KeyFormValues | undefined;
}): Child {
  return (
    <section class="card" aria-labelledby="mint">
      <h2 id="mint">Make a key</h2>
      <form method="post" action={action}>
        <HiddenFields user={user} fields={{ do: "mint", once: newFormToken() }} />
        <label for="mint-name">Name</label>
        <input id="mint-name" name="name" maxlength={100} value={formValues?.name} />
        <LimitFields id="mint" limit={formValues?.limit_usd} window={formValues?.limit_window} />
        <ExpiryField id="mint" lastDay={formValues?.last_day} />
        <div class="actions">
          <button type="submit">Make the key</button>
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
      <h2 id="revoked">Revoked</h2>
      <ul>
        {revoked.map((key) => (
          <li>
            <bdi>{key.name ?? "Unnamed key"}</bdi> <code>{`${key.prefix}…${key.last4}`}</code>,
            revoked {utcDay(key.revokedAt ?? 0)}
          </li>
        ))}
      </ul>
      {next.revoked === undefined && cursors.revoked === undefined ? null : (
        <p>
          <a href={`${keysPath(workspace.accountId, { from, revoked: next.revoked })}#revoked`}>
            {next.revoked === undefined ? "The newest revoked keys" : "Older revoked keys"}
          </a>
        </p>
      )}
    </section>
  );
}
