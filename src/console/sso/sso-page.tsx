/** @jsxImportSource hono/jsx */
// Single sign-on of a workspace: its domains, its identity provider, and whether members must use it.

import type { Child } from "hono/jsx";
import { hasPermission, MEMBER_ROLES } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import { Card, CopyText, Details, Notice, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { SessionUser } from "../../http/route.ts";
import { identityProviderOf } from "../../people/identity-providers.ts";
import type { SsoConnection } from "../../sso/connections.ts";
import {
  MISSING_GRACE_MS,
  recordName,
  recordValue,
  type WorkspaceDomain,
} from "../../sso/domains.ts";
import { ssoPath } from "../../sso/sso.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import { ROLE_LABELS, ROLE_TEXTS } from "../members/member-texts.ts";
import type { WorkspaceView } from "../require-access.ts";
import type { SsoForm } from "./sso-form.ts";

export interface SsoListing {
  readonly domains: readonly WorkspaceDomain[];
  readonly connection: SsoConnection | undefined;
  readonly requiredSince: number | undefined;
  readonly redirectUri: string;
  readonly baseUrl: string;
}

export interface SsoPageProps extends WorkspaceView {
  readonly listing: SsoListing;
  readonly ask?: "remove" | "require" | undefined;
  readonly done?: string | undefined;
  readonly rejected?: { readonly values: SsoForm; readonly error: FormError };
}

const DONE_TEXTS = {
  add_domain: "The domain is added. Create its TXT record, then check it.",
  record_found: "The record is found, and the domain is verified.",
  record_missing:
    "The record is not there yet. A new record can take an hour until every name server has it.",
  record_unavailable: "The name servers of the domain gave no answer. Try again in a minute.",
  remove_domain: "The domain is removed.",
  save: "The identity provider is saved.",
  remove: "The identity provider is removed, and its sessions are ended.",
  require: "Single sign-on is required from now on.",
  allow: "Single sign-on is no longer required.",
} as const;

export function ssoPage(props: SsoPageProps): PageLayout {
  const { user, workspace, rejected } = props;
  const canChange = hasPermission(workspace.role, "sso.change");
  const isOwnError = rejected?.values.do === "save" || rejected?.values.do === "add_domain";
  return consolePage({
    title: "Single sign-on",
    workspace,
    user,
    page: "/sso",
    main: (
      <>
        <ErrorMessage message={isOwnError ? undefined : rejected?.error.message} />
        <DoneNotice texts={DONE_TEXTS} done={props.done} />
        <p>
          Members sign in with your organization's identity provider.{" "}
          <a href="/docs/guides/single-sign-on">Steps for Okta and Microsoft Entra</a>.
        </p>
        {canChange ? null : <Notice>Only the owner can change single sign-on.</Notice>}
        <DomainsCard {...props} canChange={canChange} />
        <ConnectionCard {...props} canChange={canChange} />
        <RequirementCard {...props} canChange={canChange} />
      </>
    ),
  });
}

type CardProps = SsoPageProps & { readonly canChange: boolean };

function DomainsCard({ user, workspace, listing, rejected, canChange }: CardProps): Child {
  const action = workspacePath(workspace.accountId, "/sso");
  const typed = rejected?.values.do === "add_domain" ? rejected : undefined;
  return (
    <Card id="domains" title="Domains">
      <p>
        People with an email address in a verified domain are sent to your identity provider when
        they sign in. A TXT record in the DNS shows that the domain is yours. Keep it: it is checked
        every day.
      </p>
      {listing.domains.map((domain) => (
        <DomainEntry user={user} action={action} domain={domain} canChange={canChange} />
      ))}
      {canChange ? (
        <PostForm
          user={user}
          action={action}
          fields={{ do: "add_domain" }}
          submit="Add domain"
          isSecondary
        >
          <Field
            id="domain"
            name="domain"
            label="Domain"
            placeholder="example.com"
            value={typed?.values.do === "add_domain" ? typed.values.domain : undefined}
            error={typed?.error.message}
            autoComplete="off"
            maxLength={253}
            isRequired
          />
        </PostForm>
      ) : null}
    </Card>
  );
}

interface DomainEntryProps {
  readonly user: SessionUser;
  readonly action: string;
  readonly domain: WorkspaceDomain;
  readonly canChange: boolean;
}

function DomainEntry({ user, action, domain, canChange }: DomainEntryProps): Child {
  const { domain: name } = domain;
  return (
    <>
      <h3>
        <bdi>{name}</bdi> <DomainStatus domain={domain} />
      </h3>
      <Details
        items={[
          ["TXT record", <CopyText text={recordName(name)} />],
          ["Value", <CopyText text={recordValue(domain)} />],
        ]}
      />
      {canChange ? (
        <PostForm class="row-actions" user={user} action={action} fields={{ domain: name }}>
          <button type="submit" name="do" value="check_domain" class="plain">
            Check now <span class="visually-hidden">{name}</span>
          </button>
          <button type="submit" name="do" value="remove_domain" class="plain">
            Remove <span class="visually-hidden">{name}</span>
          </button>
        </PostForm>
      ) : null}
    </>
  );
}

function DomainStatus({ domain }: { readonly domain: WorkspaceDomain }): Child {
  const { verifiedAt, missingSince } = domain;
  if (verifiedAt === null) return <Tag>Not verified</Tag>;
  if (missingSince === null) return <Tag tone="good">Verified</Tag>;
  return (
    <>
      <Tag tone="danger">Record missing</Tag>
      <span class="type">verified until {utcDay(missingSince + MISSING_GRACE_MS)}</span>
    </>
  );
}

function ConnectionCard(props: CardProps): Child {
  const { user, workspace, listing, ask, canChange } = props;
  const { connection, redirectUri, baseUrl } = listing;
  const path = workspacePath(workspace.accountId, "/sso");
  return (
    <Card id="identity-provider" title="Identity provider">
      <Details
        items={[
          ["Redirect URI", <CopyText text={redirectUri} />],
          ["Sign-in link", <CopyText text={`${baseUrl}${ssoPath(workspace.accountId)}`} />],
          ...(connection === undefined
            ? []
            : ([
                ["Provider", identityProviderOf(connection.issuer).name],
                [
                  "Last sign-in",
                  connection.signedInAt === null ? (
                    "none yet"
                  ) : (
                    <DateTime at={connection.signedInAt} />
                  ),
                ],
              ] as const)),
        ]}
      />
      {canChange ? <ConnectionForm {...props} /> : null}
      {!canChange || connection === undefined ? null : ask === "remove" ? (
        <Confirm
          user={user}
          action={path}
          fields={{ do: "remove" }}
          confirmLabel="Remove identity provider"
          cancelHref={path}
        >
          People who joined with single sign-on cannot sign in any more, until you invite their own
          accounts. Their API keys keep working.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink href={withQuery(path, { ask: "remove" })} label="Remove identity provider" />
        </div>
      )}
    </Card>
  );
}

/** What the form shows: what was sent, or what is saved. */
function connectionValues({ listing: { connection }, rejected }: CardProps) {
  if (rejected?.values.do !== "save")
    return {
      issuer: connection?.issuer,
      clientId: connection?.clientId,
      role: connection?.defaultRole ?? "",
      error: undefined,
    };
  const { issuer, client_id: clientId, default_role: role } = rejected.values;
  return { issuer, clientId, role, error: rejected.error };
}

const CONNECTION_FIELDS: ReadonlySet<string> = new Set(["issuer", "client_id", "client_secret"]);

function ConnectionForm(props: CardProps): Child {
  const { user, workspace, listing } = props;
  const { issuer, clientId, role, error } = connectionValues(props);
  const errorOf = (field: string): string | undefined =>
    error?.field === field ? error.message : undefined;
  const isOther = error !== undefined && !CONNECTION_FIELDS.has(error.field ?? "");
  return (
    <PostForm
      user={user}
      action={workspacePath(workspace.accountId, "/sso")}
      fields={{ do: "save" }}
      submit="Save identity provider"
    >
      <ErrorMessage message={isOther ? error.message : undefined} />
      <Field
        id="issuer"
        name="issuer"
        label="Issuer"
        placeholder="https://example.okta.com"
        value={issuer}
        error={errorOf("issuer")}
        autoComplete="off"
        isRequired
      />
      <Field
        id="client-id"
        name="client_id"
        label="Client id"
        value={clientId}
        error={errorOf("client_id")}
        autoComplete="off"
        isRequired
      />
      <Field
        id="client-secret"
        name="client_secret"
        type="password"
        label="Client secret"
        error={errorOf("client_secret")}
        autoComplete="new-password"
        hint={
          listing.connection?.hasSecret === true
            ? "Stored encrypted. Leave it empty to keep it; another issuer or client needs its own."
            : "Stored encrypted, and not shown again. Leave it empty for a public client."
        }
      />
      <DefaultRoleField selected={role} />
    </PostForm>
  );
}

function DefaultRoleField({ selected }: { readonly selected: string }): Child {
  return (
    <div class="field">
      <label for="default-role">People who are not members yet</label>
      <select id="default-role" name="default_role">
        <option value="" selected={selected === ""}>
          Are refused until they are invited
        </option>
        {MEMBER_ROLES.map((option) => (
          <option value={option} selected={option === selected}>
            Join as {ROLE_LABELS[option]}: {ROLE_TEXTS[option]}
          </option>
        ))}
      </select>
    </div>
  );
}

function RequirementCard({ user, workspace, listing, ask, canChange }: CardProps): Child {
  const { connection, domains, requiredSince } = listing;
  const path = workspacePath(workspace.accountId, "/sso");
  const isReady = connection !== undefined && domains.some(({ verifiedAt }) => verifiedAt !== null);
  return (
    <Card id="requirement" title="Required single sign-on">
      <p>
        {requiredSince === undefined
          ? "Members may also sign in with their own accounts."
          : `Since ${utcDay(requiredSince)}, only sessions of your identity provider open this workspace.`}{" "}
        The owner can always sign in with their own account, so that a failure of the provider locks
        no one out; each such sign-in is in the audit log. API keys work either way.
      </p>
      {!canChange ? null : requiredSince !== undefined ? (
        <PostForm
          user={user}
          action={path}
          fields={{ do: "allow" }}
          submit="Stop requiring it"
          isSecondary
        />
      ) : ask === "require" ? (
        <Confirm
          user={user}
          action={path}
          fields={{ do: "require" }}
          confirmLabel="Require single sign-on"
          cancelHref={path}
        >
          Open sessions of members' own accounts lose this workspace at once. Try the sign-in link
          in a private window first.
        </Confirm>
      ) : isReady ? (
        <div class="actions">
          <ConfirmLink href={withQuery(path, { ask: "require" })} label="Require single sign-on" />
        </div>
      ) : (
        <p class="note">Verify a domain and set the identity provider first.</p>
      )}
    </Card>
  );
}
