/** @jsxImportSource hono/jsx */
// The provider keys of a workspace as a table: which one is used, and by which API keys.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import { Card, EmptyState, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { ProviderKey } from "../../provider-keys/provider-keys.ts";
import { withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { newerReplacement } from "./provider-key-order.ts";
import { type ChoosableKey, describeUsers } from "./provider-key-use.tsx";

export const DELETED_KEYS_PER_PAGE = 100;

export interface ProviderKeysPageProps extends WorkspaceView {
  /** Newest first. */
  readonly live: readonly ProviderKey[];
  readonly deleted: DeletedKeys;
  /** The providers that accept keys. */
  readonly providers: readonly string[];
  /** The API keys that can be chosen, newest first. */
  readonly apiKeys: readonly ChoosableKey[];
  readonly done?: string | undefined;
  readonly errorMessage?: string;
}

interface DeletedKeys {
  readonly keys: readonly ProviderKey[];
  /** The first key of this page; absent for the newest. */
  readonly from: string | undefined;
  /** The first key of the next page. */
  readonly next: string | undefined;
}

const PROVIDER_KEY_DONE_TEXTS = {
  add: "The provider key is added.",
  change: "The provider key is saved. New calls use it as set.",
  remove: "The provider key is deleted.",
} as const;

/** The page of one key, or the page that adds one. */
export function providerKeyPath(accountId: string, id: string): string {
  return `${workspacePath(accountId, "/provider-keys")}/${id}`;
}

export function providerKeysPage(props: ProviderKeysPageProps): PageLayout {
  const { user, workspace, live, deleted, providers } = props;
  const { accountId, role } = workspace;
  const canAdd = providers.length > 0 && hasPermission(role, "provider_keys.change");
  return consolePage({
    title: "Provider keys",
    workspace,
    user,
    page: "/provider-keys",
    actions: canAdd ? (
      <a class="button" href={providerKeyPath(accountId, "new")}>
        Add provider key
      </a>
    ) : undefined,
    main: (
      <>
        <ErrorMessage message={props.errorMessage} />
        <DoneNotice texts={PROVIDER_KEY_DONE_TEXTS} done={props.done} />
        <p>
          Calls with your own provider key are billed by the provider and cost no credits. If you
          add several keys for one provider, an API key uses the newest that names it, otherwise the
          newest for all keys. To rotate a key, add the new key, then delete the old one.
        </p>
        {providers.length === 0 ? (
          <p class="note">None of this gateway's providers accepts provider keys.</p>
        ) : null}
        <Card id="active" title="Active keys">
          {live.length === 0 ? (
            <EmptyState title="No provider keys yet">
              <p class="note">Calls use the gateway's accounts and cost credits.</p>
            </EmptyState>
          ) : (
            <LiveKeyTable {...props} />
          )}
        </Card>
        {deleted.keys.length === 0 ? null : <DeletedProviderKeys {...props} />}
      </>
    ),
  });
}

function LiveKeyTable({ workspace, live, apiKeys }: ProviderKeysPageProps): Child {
  return (
    <Table
      label="Active provider keys"
      columns={[
        { name: "Name" },
        { name: "Provider" },
        { name: "Status" },
        { name: "Used by", isExtra: true },
        { name: "Last used", isExtra: true },
        { name: "Added", isExtra: true },
      ]}
      rows={live.map((key) => [
        <>
          <a class="line" id={key.id} href={providerKeyPath(workspace.accountId, key.id)}>
            <bdi>{providerKeyName(key)}</bdi>
          </a>
          <span class="type">
            <code>…{key.last4}</code>
          </span>
        </>,
        key.provider,
        <ProviderKeyState providerKey={key} live={live} />,
        <span class="line" title={describeUsers(key, apiKeys)}>
          {describeUsers(key, apiKeys)}
        </span>,
        key.lastUsedAt === null ? "never" : <RelativeTime at={key.lastUsedAt} />,
        <span class="date">{utcDay(key.createdAt)}</span>,
      ])}
    />
  );
}

export function providerKeyName({ name, provider }: ProviderKey): string {
  return name ?? `${provider} key`;
}

export function ProviderKeyState({
  providerKey,
  live,
}: {
  readonly providerKey: ProviderKey;
  readonly live: readonly ProviderKey[];
}): Child {
  if (newerReplacement(providerKey, live) !== undefined) return <Tag>Not used</Tag>;
  return providerKey.status === "active" ? (
    <Tag tone="good">In use</Tag>
  ) : (
    <Tag tone="warn">Not verified</Tag>
  );
}

function DeletedProviderKeys({
  workspace,
  deleted: { keys, from, next },
}: ProviderKeysPageProps): Child {
  const action = workspacePath(workspace.accountId, "/provider-keys");
  return (
    <Card id="deleted" title="Deleted keys">
      <ul>
        {keys.map((key) => (
          <li>
            <bdi>{providerKeyName(key)}</bdi>, {key.provider} <code>…{key.last4}</code>, added on{" "}
            {utcDay(key.createdAt)}
          </li>
        ))}
      </ul>
      {next === undefined && from === undefined ? null : (
        <p>
          <a href={`${withQuery(action, { deleted: next })}#deleted`}>
            {next === undefined ? "Newest deleted keys" : "Older deleted keys"}
          </a>
        </p>
      )}
    </Card>
  );
}
