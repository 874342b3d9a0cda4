/** @jsxImportSource hono/jsx */
// The keys of a workspace as a table, and the form that creates one.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { formatCosts, formatUsd } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { Card, CodeBlock, Tag, UsageBar } from "../../http/pages/components/content.tsx";
import { ErrorMessage, PostForm } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { ActorNames } from "../../keys/actor-names.ts";
import { audienceIn, secretHint } from "../../keys/key-credential.ts";
import type { Key } from "../../keys/key.ts";
import { withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import { keyName } from "../usage/read-usage.ts";
import { AllowanceNotice, type KeyBlock } from "./allowance-notice.tsx";
import { IdentityFields, KeyFields } from "./key-fields.tsx";
import type { KeyFormError, KeyFormValues } from "./key-form.ts";
import type { KeyCursors, KeyLists } from "./read-keys.ts";

export interface KeysPageProps extends WorkspaceView {
  readonly keyLists: KeyLists;
  readonly creators: ActorNames;
  readonly now: number;
  /** Undefined if the person can create keys. */
  readonly block: KeyBlock | undefined;
  /** A new key, which is shown once. */
  readonly newKey?: string;
  readonly error?: KeyFormError;
  /** The values of the form that creates a key: those of a rejected form, or of the key to duplicate. */
  readonly formValues?: KeyFormValues | undefined;
  readonly done?: string | undefined;
}

const KEY_DONE_TEXTS = {
  request_allowance: "The owner is notified that you need an allowance.",
  revoke: "The key is revoked. Requests with it are rejected.",
} as const;

/** The path of the page that begins with the given keys. */
export function keysPath(accountId: string, { from, revoked }: KeyCursors): string {
  return withQuery(workspacePath(accountId, "/keys"), { from, revoked });
}

const SHORT_LIST_MAX = 8;

export function keysPage(props: KeysPageProps): PageLayout {
  const { user, workspace, keyLists, newKey } = props;
  const { from } = keyLists.cursors;
  const { next } = keyLists;
  const { block } = props;
  const canCreate = hasPermission(workspace.role, "keys.create") && block === undefined;
  return consolePage({
    title: "Keys",
    workspace,
    user,
    page: "/keys",
    // The form is in sight below a short list.
    actions:
      canCreate && keyLists.live.length > SHORT_LIST_MAX ? (
        <a class="button secondary" href="#create">
          Create key
        </a>
      ) : undefined,
    main: (
      <>
        <DoneNotice texts={KEY_DONE_TEXTS} done={props.done} />
        {newKey === undefined ? null : <NewKeyNotice raw={newKey} />}
        {block === undefined ? null : (
          <AllowanceNotice block={block} user={user} accountId={workspace.accountId} />
        )}
        <p>
          Anyone who has a key can spend the workspace's balance, up to the key's limit. Only people
          can raise limits, in this console.
        </p>
        <Card id="active" title="Active keys">
          <KeyTable {...props} />
          {next.from === undefined && from === undefined ? null : (
            <p>
              {next.from === undefined ? (
                <a href={keysPath(workspace.accountId, {})}>Newest keys</a>
              ) : (
                <a href={keysPath(workspace.accountId, { from: next.from })}>Older keys</a>
              )}
            </p>
          )}
        </Card>
        {canCreate ? <CreateKeyForm {...props} /> : null}
        {keyLists.revoked.length === 0 ? null : (
          <RevokedKeys workspace={workspace} keyLists={keyLists} />
        )}
      </>
    ),
  });
}

function NewKeyNotice({ raw }: { readonly raw: string }): Child {
  const audience = audienceIn(raw);
  if (audience !== undefined)
    return (
      <section class="card notice" role="status">
        <h2>Your new key</h2>
        <p>
          It has no secret. Let the job request tokens with this audience, and send them in place of
          an API key.
        </p>
        <CodeBlock code={audience} />
      </section>
    );
  return (
    <section class="card notice" role="status">
      <h2>Your new key</h2>
      <p>Copy it now. It is not shown again: Postern stores only a hash of it.</p>
      <CodeBlock code={raw} />
    </section>
  );
}

function KeyTable({ workspace, keyLists, creators, now }: KeysPageProps): Child {
  const { accountId } = workspace;
  if (keyLists.live.length === 0)
    return <p class="muted">No active keys. Calls need one: create it below.</p>;
  const spends = formatCosts(keyLists.live.map(({ spent }) => spent));
  return (
    <Table
      label="Active keys"
      isStacked
      columns={[
        { name: "Name" },
        { name: "Status" },
        { name: "Spend and limit", isWide: true },
        { name: "Models" },
        { name: "Created by" },
        { name: "Last used" },
        { name: "Expires", isDate: true },
      ]}
      rows={keyLists.live.map((key, index) => [
        <>
          <a class="line" href={keyPath(accountId, key.id)} title={key.id}>
            <bdi>{keyName(key)}</bdi>
          </a>
          <span class="type">
            <code>{secretHint(key)}</code>
          </span>
        </>,
        <KeyState apiKey={key} now={now} />,
        <LimitCell apiKey={key} spend={spends[index]} />,
        <span class="line short" title={key.policy.models?.join(", ")}>
          {key.policy.models?.join(", ") ?? "all"}
        </span>,
        <span class="line short">{creatorText(key, creators)}</span>,
        <LastUse apiKey={key} />,
        key.expiresAt === null ? "never" : utcDay(key.expiresAt - 1),
      ])}
    />
  );
}

export function LastUse({ apiKey: { lastUsedAt, spent } }: { readonly apiKey: Key }): Child {
  if (lastUsedAt !== null) return <RelativeTime at={lastUsedAt} />;
  // The time is written some seconds after a call.
  return spent > 0n ? "just now" : "never";
}

function creatorText({ createdBy }: Key, creators: ActorNames): string {
  return createdBy === null ? "–" : (creators.get(createdBy) ?? createdBy);
}

export function KeyState({ apiKey, now }: { readonly apiKey: Key; readonly now: number }): Child {
  const { revokedAt, expiresAt, limit, spent } = apiKey;
  if (revokedAt !== null) return <Tag tone="danger">Revoked</Tag>;
  if (expiresAt !== null && expiresAt <= now) return <Tag tone="danger">Expired</Tag>;
  if (limit !== null && spent >= limit) return <Tag tone="warn">Limit reached</Tag>;
  return <Tag tone="good">Active</Tag>;
}

export function LimitCell({
  apiKey: { spent, limit, limitWindow },
  spend,
}: {
  readonly apiKey: Key;
  readonly spend: string | undefined;
}): Child {
  if (limit === null)
    return (
      <>
        {spend} <span class="muted">no limit</span>
      </>
    );
  return (
    <>
      {spend}{" "}
      <span class="muted">
        of {formatUsd(limit)} {limitWindow === null ? "in total" : `a ${limitWindow}`}
      </span>
      <UsageBar label="Limit" used={spent} limit={limit} />
    </>
  );
}

function CreateKeyForm({ user, workspace, error, formValues = {} }: KeysPageProps): Child {
  return (
    <Card id="create" title="Create a key">
      <ErrorMessage message={error?.field === undefined ? error?.message : undefined} />
      <PostForm
        user={user}
        action={workspacePath(workspace.accountId, "/keys")}
        fields={{ do: "mint", once: newFormToken() }}
        submit="Create key"
      >
        <KeyFields
          id="mint"
          values={formValues}
          error={error}
          sendsEmails={workspace.sendsEmails}
        />
        <IdentityFields values={formValues} error={error} />
      </PostForm>
    </Card>
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
    <Card id="revoked" title="Revoked keys">
      <ul>
        {revoked.map((key) => (
          <li>
            <a href={keyPath(workspace.accountId, key.id)}>
              <bdi>{keyName(key)}</bdi>
            </a>{" "}
            <code>{secretHint(key)}</code>, revoked on {utcDay(key.revokedAt ?? 0)}
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
    </Card>
  );
}

export function keyPath(accountId: string, keyId: string): string {
  return `${workspacePath(accountId, "/keys")}/${keyId}`;
}
