/** @jsxImportSource hono/jsx */
// A workspace's own keys at providers: which there are, which of them is used, and the way to bring and delete one.

import type { Child } from "hono/jsx";
import { utcDay } from "../../base/time.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { ProviderKey } from "../../provider-keys/provider-keys.ts";
import { API_KEY_MAX, NAME_MAX } from "../../provider-keys/api-record.ts";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { formatDateTime } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";

export const DELETED_KEYS_PER_PAGE = 100;

export interface ProviderKeysPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  /** Newest first: the first of each provider is the one that is used. */
  readonly live: readonly ProviderKey[];
  readonly deleted: DeletedKeys;
  /** For which a key may be brought. */
  readonly providers: readonly string[];
  /** The key that is asked about once more before it is deleted. */
  readonly deleteKeyId?: string | undefined;
  readonly errorMessage?: string;
  readonly formValues?: ProviderKeyFormValues | undefined;
}

interface DeletedKeys {
  readonly keys: readonly ProviderKey[];
  /** The first of the page; absent for the newest. */
  readonly from: string | undefined;
  /** The first of the next page. */
  readonly next: string | undefined;
}

/** What was typed into the form that was refused, without the key itself. */
export interface ProviderKeyFormValues {
  readonly provider: string;
  readonly name?: string | undefined;
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
          Calls to a provider's models go on your own account there while a key for it is here, and
          cost no credits. Of several keys for one provider the newest is used: to change a key
          without a gap, add the new one, then delete the old one.
        </p>
        {live.length === 0 ? <p class="note">No provider key is here.</p> : null}
        {live.map((key) => (
          <ProviderKeyCard key_={key} page={props} action={action} />
        ))}
        {providers.length === 0 ? (
          <p class="note">This gateway takes no provider keys: no provider is set up for them.</p>
        ) : (
          <AddKeyForm action={action} user={user} providers={providers} formValues={formValues} />
        )}
        {deleted.keys.length === 0 ? null : (
          <DeletedProviderKeys deleted={deleted} action={action} />
        )}
      </>
    ),
  });
}

interface ProviderKeyCardProps {
  readonly key_: ProviderKey;
  readonly page: ProviderKeysPageProps;
  readonly action: string;
}

function ProviderKeyCard({ key_: key, page, action }: ProviderKeyCardProps): Child {
  const newest = page.live.find(({ provider }) => provider === key.provider);
  return (
    <section class="card" aria-labelledby={key.id}>
      <h2 id={key.id}>
        <ProviderKeyTitle providerKey={key} />
      </h2>
      <p>
        {newest?.id === key.id
          ? `Calls to ${key.provider} go on it.`
          : `It is not used: a newer key for ${key.provider} is.`}{" "}
        {key.status === "active"
          ? "The provider took it when it was added."
          : "The provider could not be asked about it when it was added."}
      </p>
      <p class="note">
        Added {utcDay(key.createdAt)},{" "}
        {key.lastUsedAt === null ? "never used" : `last used ${formatDateTime(key.lastUsedAt)}`}.
      </p>
      {page.deleteKeyId === key.id ? (
        <Confirm
          user={page.user}
          action={action}
          fields={{ do: "remove", provider_key: key.id }}
          confirmLabel="Delete the key"
          cancelLabel="Keep it"
          cancelHref={action}
        >
          Delete …{key.last4} for good? {fallbackNote(key, page.live)} Calls that run now go on to
          their end.
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

/** What calls go on when the key is gone. */
function fallbackNote({ id, provider }: ProviderKey, live: readonly ProviderKey[]): string {
  const [used, next] = live.filter((one) => one.provider === provider);
  if (used !== undefined && used.id !== id)
    return `Calls to ${provider} stay on the key that ends in ${used.last4}.`;
  if (next !== undefined)
    return `Calls to ${provider} then go on the key that ends in ${next.last4}.`;
  return `Calls to ${provider} then go on the gateway's account, for credits, where it has one there.`;
}

interface AddKeyFormProps {
  readonly action: string;
  readonly user: SessionUser;
  readonly providers: readonly string[];
  readonly formValues: ProviderKeyFormValues | undefined;
}

function AddKeyForm({ action, user, providers, formValues }: AddKeyFormProps): Child {
  return (
    <section class="card" aria-labelledby="add">
      <h2 id="add">Add a provider key</h2>
      <form method="post" action={action}>
        <HiddenFields user={user} fields={{ do: "add", once: newFormToken() }} />
        <label for="add-provider">Provider</label>
        <select id="add-provider" name="provider" required>
          <option value="">Choose one</option>
          {providers.map((provider) => (
            <option value={provider} selected={provider === formValues?.provider}>
              {provider}
            </option>
          ))}
        </select>
        <label for="add-key">Key, as the provider gave it</label>
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
          The provider is asked about it first, for five seconds at most. It is kept sealed, and
          never shown again.
        </p>
        <label for="add-name">Name; empty for none</label>
        <input id="add-name" name="name" maxlength={NAME_MAX} value={formValues?.name} />
        <div class="actions">
          <button type="submit">Add the key</button>
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
      <h2 id="deleted">Deleted</h2>
      <ul>
        {keys.map((key) => (
          <li>
            <ProviderKeyTitle providerKey={key} />, added {utcDay(key.createdAt)}
          </li>
        ))}
      </ul>
      {next === undefined && from === undefined ? null : (
        <p>
          <a href={`${withQuery(action, { deleted: next })}#deleted`}>
            {next === undefined ? "The newest deleted keys" : "Older deleted keys"}
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
