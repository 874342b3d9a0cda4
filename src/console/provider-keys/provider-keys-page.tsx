/** @jsxImportSource hono/jsx */
// The provider keys of a workspace: which one is used, and the forms to add and delete one.

import type { Child } from "hono/jsx";
import { utcDay } from "../../base/time.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { ProviderKey, ProviderKeyUse } from "../../provider-keys/provider-keys.ts";
import { API_KEY_MAX, NAME_MAX } from "../../provider-keys/api-record.ts";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { formatDateTime } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";
import { ChangeUseForm, type ChoosableKey, describeUse, UseFields } from "./provider-key-use.tsx";

export const DELETED_KEYS_PER_PAGE = 100;

export interface ProviderKeysPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  /** Newest first. */
  readonly live: readonly ProviderKey[];
  readonly deleted: DeletedKeys;
  /** The providers that accept keys. */
  readonly providers: readonly string[];
  /** The API keys that can be chosen, newest first. */
  readonly apiKeys: readonly ChoosableKey[];
  /** The key whose deletion needs confirmation. */
  readonly deleteKeyId?: string | undefined;
  readonly errorMessage?: string;
  readonly formValues?: ProviderKeyFormValues | undefined;
}

interface DeletedKeys {
  readonly keys: readonly ProviderKey[];
  /** The first key of this page; absent for the newest. */
  readonly from: string | undefined;
  /** The first key of the next page. */
  readonly next: string | undefined;
}

/** The values of the rejected form, without the key itself. */
export interface ProviderKeyFormValues {
  readonly provider: string;
  readonly name?: string | undefined;
  readonly use?: ProviderKeyUse | undefined;
}

export function providerKeysPage(props: ProviderKeysPageProps): PageLayout {
  const { user, workspace, live, deleted, providers, errorMessage, formValues } = props;
  const action = workspacePath(workspace.accountId, "/provider-keys");
  return consolePage({
    title: "Provider keys",
    workspace,
    user,
    page: "/provider-keys",
    main: (
      <>
        {errorMessage === undefined ? null : (
          <p class="error" role="alert">
            {errorMessage}
          </p>
        )}
        <p>
          Calls with your own provider key are billed by the provider and cost no credits. If you
          add several keys for one provider, an API key uses the newest that names it, otherwise the
          newest for all keys. To rotate a key, add the new key, then delete the old one.
        </p>
        {live.length === 0 ? <p class="note">No provider keys yet.</p> : null}
        {live.map((key) => (
          <ProviderKeyCard providerKey={key} page={props} action={action} />
        ))}
        {providers.length === 0 ? (
          <p class="note">None of this gateway's providers accepts provider keys.</p>
        ) : (
          <AddKeyForm page={props} action={action} formValues={formValues} />
        )}
        {deleted.keys.length === 0 ? null : (
          <DeletedProviderKeys deleted={deleted} action={action} />
        )}
      </>
    ),
  });
}

interface ProviderKeyCardProps {
  readonly providerKey: ProviderKey;
  readonly page: ProviderKeysPageProps;
  readonly action: string;
}

function ProviderKeyCard({ providerKey: key, page, action }: ProviderKeyCardProps): Child {
  const replacement = newerReplacement(key, page.live);
  return (
    <section class="card" aria-labelledby={key.id}>
      <h2 id={key.id}>
        <ProviderKeyTitle providerKey={key} />
      </h2>
      <p>
        {replacement === undefined
          ? `Used for ${key.provider} calls.`
          : `Not used: there is a newer ${key.provider} key.`}{" "}
        {key.status === "active"
          ? "The provider accepted it when it was added."
          : "The provider could not be reached to verify it when it was added."}
      </p>
      <p class="note">
        Added {utcDay(key.createdAt)} · Last used{" "}
        {key.lastUsedAt === null ? "never" : formatDateTime(key.lastUsedAt)}
      </p>
      <p class="note">Used by: {describeUse(key, page.apiKeys)}</p>
      <ChangeUseForm providerKey={key} apiKeys={page.apiKeys} user={page.user} action={action} />
      {page.deleteKeyId === key.id ? (
        <Confirm
          user={page.user}
          action={action}
          fields={{ do: "remove", provider_key: key.id }}
          confirmLabel="Delete key"
          cancelHref={action}
        >
          Delete the key that ends in {key.last4}? {fallbackNote(key, page.live)} Running calls are
          not affected. This cannot be undone.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink
            href={withQuery(action, { delete: key.id })}
            label="Delete"
            subject={`the key that ends in ${key.last4}`}
          />
        </div>
      )}
    </section>
  );
}

/** The newer key that all API keys of this one use instead. */
function newerReplacement(key: ProviderKey, live: readonly ProviderKey[]): ProviderKey | undefined {
  const newer = live.slice(
    0,
    live.findIndex(({ id }) => id === key.id),
  );
  return newer.find(({ provider, apiKeyIds }) => {
    if (provider !== key.provider) return false;
    if (key.apiKeyIds === null) return apiKeyIds === null;
    return key.apiKeyIds.every((id) => apiKeyIds?.includes(id) === true);
  });
}

/** What calls use after the key is deleted. */
function fallbackNote(key: ProviderKey, live: readonly ProviderKey[]): string {
  const replacement = newerReplacement(key, live);
  if (replacement !== undefined)
    return `Calls to ${key.provider} keep using the key that ends in ${replacement.last4}.`;
  const next = live.find(
    ({ id, provider, apiKeyIds }) =>
      id !== key.id &&
      provider === key.provider &&
      (apiKeyIds === null || key.apiKeyIds?.every((user) => apiKeyIds.includes(user))),
  );
  if (next !== undefined)
    return `Calls to ${key.provider} will use the key that ends in ${next.last4}.`;
  return `Calls to ${key.provider} will use the gateway's account, if it has one, and cost credits.`;
}

interface AddKeyFormProps {
  readonly page: ProviderKeysPageProps;
  readonly action: string;
  readonly formValues: ProviderKeyFormValues | undefined;
}

function AddKeyForm({ page, action, formValues }: AddKeyFormProps): Child {
  const { user, providers, apiKeys } = page;
  return (
    <section class="card" aria-labelledby="add">
      <h2 id="add">Add a provider key</h2>
      <form method="post" action={action}>
        <HiddenFields user={user} fields={{ do: "add", once: newFormToken() }} />
        <label for="add-provider">Provider</label>
        <select id="add-provider" name="provider" required>
          <option value="">Choose a provider</option>
          {providers.map((provider) => (
            <option value={provider} selected={provider === formValues?.provider}>
              {provider}
            </option>
          ))}
        </select>
        <label for="add-key">API key</label>
        <input
          id="add-key"
          name="api_key"
          type="password"
          required
          maxlength={API_KEY_MAX}
          autocomplete="off"
          aria-describedby="add-key-hint"
        />
        <p id="add-key-hint" class="hint">
          Postern verifies the key with the provider, which takes up to five seconds. The key is
          stored encrypted and never shown again.
        </p>
        <label for="add-name">Name (optional)</label>
        <input id="add-name" name="name" maxlength={NAME_MAX} value={formValues?.name} />
        <UseFields
          idPrefix="add"
          use={formValues?.use ?? { apiKeyIds: null, allowStore: false }}
          apiKeys={apiKeys}
        />
        <div class="actions">
          <button type="submit">Add key</button>
        </div>
      </form>
    </section>
  );
}

function DeletedProviderKeys({
  deleted: { keys, from, next },
  action,
}: {
  readonly deleted: DeletedKeys;
  readonly action: string;
}): Child {
  return (
    <section aria-labelledby="deleted">
      <h2 id="deleted">Deleted keys</h2>
      <ul>
        {keys.map((key) => (
          <li>
            <ProviderKeyTitle providerKey={key} />, added on {utcDay(key.createdAt)}
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
    </section>
  );
}

function ProviderKeyTitle({
  providerKey: { provider, name, last4 },
}: {
  readonly providerKey: ProviderKey;
}): Child {
  return (
    <>
      {name === null ? null : (
        <>
          <bdi>{name}</bdi>,{" "}
        </>
      )}
      {provider} <code>…{last4}</code>
    </>
  );
}
