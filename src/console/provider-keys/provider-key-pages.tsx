/** @jsxImportSource hono/jsx */
// The page that adds a provider key, and the page of one key.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import { Card, CopyText, Details } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { API_KEY_MAX, NAME_MAX } from "../../provider-keys/provider-key-record.ts";
import type { ProviderKey, ProviderKeyUse } from "../../provider-keys/provider-keys.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { fallbackNote } from "./provider-key-order.ts";
import { type ChoosableKey, describeUse, UseFields } from "./provider-key-use.tsx";
import { providerKeyName, providerKeyPath, ProviderKeyState } from "./provider-keys-page.tsx";

/** The values of a rejected form, without the key itself. */
interface ProviderKeyFormValues {
  readonly provider: string;
  readonly name?: string | undefined;
  readonly use: ProviderKeyUse;
}

export interface NewProviderKeyPageProps extends WorkspaceView {
  readonly providers: readonly string[];
  readonly apiKeys: readonly ChoosableKey[];
  readonly formValues?: ProviderKeyFormValues | undefined;
  readonly error?: FormError;
}

export function newProviderKeyPage(props: NewProviderKeyPageProps): PageLayout {
  const { user, workspace } = props;
  const list = workspacePath(workspace.accountId, "/provider-keys");
  return consolePage({
    title: "Add a provider key",
    workspace,
    user,
    page: "/provider-keys",
    crumbs: [{ href: list, label: "Provider keys" }],
    main: (
      <div class="narrow">
        <AddKeyForm {...props} action={list} />
      </div>
    ),
  });
}

const ADD_FIELDS: ReadonlySet<string> = new Set(["provider", "api_key", "name"]);

function AddKeyForm({
  user,
  providers,
  apiKeys,
  formValues,
  error,
  action,
}: NewProviderKeyPageProps & { readonly action: string }): Child {
  const errorOf = (field: string): string | undefined =>
    error?.field === field ? error.message : undefined;
  const isFieldError = ADD_FIELDS.has(error?.field ?? "");
  return (
    <Card id="add" title="Provider key">
      <ErrorMessage message={isFieldError ? undefined : error?.message} />
      <PostForm user={user} action={action} fields={{ do: "add", once: newFormToken() }}>
        <ProviderSelect
          providers={providers}
          selected={formValues?.provider}
          error={errorOf("provider")}
        />
        <Field
          id="add-key"
          name="api_key"
          type="password"
          label="API key"
          maxLength={API_KEY_MAX}
          autoComplete="off"
          error={errorOf("api_key")}
          hint="Postern verifies the key with the provider, which takes up to five seconds. The key is stored encrypted and never shown again."
          isRequired
        />
        <Field
          id="add-name"
          name="name"
          label="Name (optional)"
          maxLength={NAME_MAX}
          value={formValues?.name}
          error={errorOf("name")}
        />
        <UseFields
          idPrefix="add"
          use={formValues?.use ?? { apiKeyIds: null, allowStore: false }}
          apiKeys={apiKeys}
        />
        <div class="actions">
          <button type="submit">Add key</button>
          <a class="button secondary" href={action}>
            Cancel
          </a>
        </div>
      </PostForm>
    </Card>
  );
}

function ProviderSelect({
  providers,
  selected,
  error,
}: {
  readonly providers: readonly string[];
  readonly selected: string | undefined;
  readonly error: string | undefined;
}): Child {
  return (
    <div class="field">
      <label for="add-provider">Provider</label>
      <select
        id="add-provider"
        name="provider"
        required
        aria-invalid={error === undefined ? undefined : "true"}
        aria-describedby={error === undefined ? undefined : "add-provider-error"}
      >
        <option value="">Choose a provider</option>
        {providers.map((provider) => (
          <option value={provider} selected={provider === selected}>
            {provider}
          </option>
        ))}
      </select>
      {error === undefined ? null : (
        <p id="add-provider-error" class="field-error" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

export interface ProviderKeyPageProps extends WorkspaceView {
  readonly providerKey: ProviderKey;
  /** All active provider keys, newest first. */
  readonly live: readonly ProviderKey[];
  readonly apiKeys: readonly ChoosableKey[];
  readonly isDeleting?: boolean;
  /** A rejected form. */
  readonly use?: ProviderKeyUse | undefined;
  readonly error?: FormError;
}

export function providerKeyPage(props: ProviderKeyPageProps): PageLayout {
  const { user, workspace, providerKey: key, live, apiKeys, error } = props;
  const list = workspacePath(workspace.accountId, "/provider-keys");
  const mayChange = hasPermission(workspace.role, "provider_keys.change");
  return consolePage({
    title: providerKeyName(key),
    heading: <bdi>{providerKeyName(key)}</bdi>,
    workspace,
    user,
    page: "/provider-keys",
    crumbs: [{ href: list, label: "Provider keys" }],
    main: (
      <>
        <Card id="state" title="Key">
          <Details
            items={[
              ["Status", <ProviderKeyState providerKey={key} live={live} />],
              ["Provider", key.provider],
              ["Key", <code>…{key.last4}</code>],
              ["Id", <CopyText text={key.id} />],
              ["Used by", describeUse(key, apiKeys)],
              ["Added", utcDay(key.createdAt)],
              ["Last used", key.lastUsedAt === null ? "never" : <DateTime at={key.lastUsedAt} />],
              [
                "Verified",
                key.status === "active"
                  ? "The provider accepted it when it was added."
                  : "The provider could not be reached to verify it when it was added.",
              ],
            ]}
          />
        </Card>
        {mayChange ? (
          <Card id="use" title="Settings">
            <ErrorMessage message={error?.message} />
            <PostForm
              user={user}
              action={list}
              fields={{ do: "change", provider_key: key.id }}
              submit="Save"
            >
              <UseFields idPrefix="use" use={props.use ?? key} apiKeys={apiKeys} />
            </PostForm>
          </Card>
        ) : null}
        {mayChange ? <DeleteCard {...props} /> : null}
      </>
    ),
  });
}

function DeleteCard({
  user,
  workspace,
  providerKey: key,
  live,
  isDeleting = false,
}: ProviderKeyPageProps): Child {
  const path = providerKeyPath(workspace.accountId, key.id);
  return (
    <Card id="delete" title="Delete">
      {isDeleting ? (
        <Confirm
          user={user}
          action={workspacePath(workspace.accountId, "/provider-keys")}
          fields={{ do: "remove", provider_key: key.id }}
          confirmLabel="Delete key"
          cancelHref={path}
        >
          Delete the key that ends in {key.last4}? {fallbackNote(key, live)} Running calls are not
          affected. This cannot be undone.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink
            href={withQuery(path, { delete: "true" })}
            label="Delete"
            subject={`the key that ends in ${key.last4}`}
          />
        </div>
      )}
    </Card>
  );
}
