/** @jsxImportSource hono/jsx */
// One key: its state, and the form that changes it.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { capitalize, formatCosts, formatSpend, formatUsd } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import {
  Card,
  CodeBlock,
  CopyText,
  Details,
  Tag,
  UsageBar,
} from "../../http/pages/components/content.tsx";
import { ErrorMessage, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { describeScopes, grantedScopes } from "../../http/scopes.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { isBoundedKey } from "../../keys/delegation.ts";
import { secretHint, thumbprintOf } from "../../keys/key-credential.ts";
import type { Key } from "../../keys/key.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import { OverlapField } from "../overlap-field.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import { keyName } from "../usage/read-usage.ts";
import { KeyFields } from "./key-fields.tsx";
import { type KeyFormError, keyFormValues, type KeyFormValues } from "./key-form.ts";
import { keyPath, KeyState, LastUse, LimitCell } from "./keys-page.tsx";

export interface KeyPageProps extends WorkspaceView {
  readonly apiKey: Key;
  /** The name of the person or key that created it. */
  readonly creator: string | undefined;
  /** The keys that were derived from it, at any depth, the newest first. */
  readonly below: readonly Key[];
  /** What the keys are called that it was derived from. */
  readonly above: ReadonlyMap<string, Pick<Key, "name" | "prefix" | "last4">>;
  readonly now: number;
  readonly done?: string | undefined;
  readonly isRevoking?: boolean;
  /** The raw key after a rotation, which is shown once. */
  readonly newSecret?: string;
  /** A rejected form. */
  readonly form?: { readonly values: KeyFormValues; readonly error: KeyFormError };
}

const KEY_DONE_TEXTS = {
  change: "The key is saved. New calls use its new settings.",
  end_overlap: "The former secret is no longer accepted.",
} as const;

export function keyPage(props: KeyPageProps): PageLayout {
  const { user, workspace, apiKey: key, done, newSecret } = props;
  const { accountId } = workspace;
  const list = workspacePath(accountId, "/keys");
  const isChangeable = key.revokedAt === null && mayChange(workspace, user, key);
  return consolePage({
    title: keyName(key),
    heading: <bdi>{keyName(key)}</bdi>,
    workspace,
    user,
    page: "/keys",
    crumbs: [{ href: list, label: "Keys" }],
    actions: hasPermission(workspace.role, "keys.create") ? (
      <a class="button secondary" href={`${withQuery(list, { copy: key.id })}#create`}>
        Duplicate
      </a>
    ) : undefined,
    main: (
      <>
        <DoneNotice texts={KEY_DONE_TEXTS} done={done} />
        {newSecret === undefined ? null : <RotatedNotice raw={newSecret} apiKey={key} />}
        <Card id="state" title="Key">
          <KeyFacts {...props} />
        </Card>
        {props.below.length === 0 ? null : <DerivedKeys {...props} />}
        {isChangeable && key.formerSecret !== null ? <FormerSecretCard {...props} /> : null}
        {isChangeable ? <ChangeForm {...props} /> : null}
        {isChangeable ? (
          <div class="side-by-side">
            {key.credential === null && key.derivedFrom === null ? <RotateCard {...props} /> : null}
            <RevokeCard {...props} />
          </div>
        ) : null}
      </>
    ),
  });
}

/** Developers change only their own keys. */
function mayChange({ role }: WorkspaceContext, user: SessionUser, key: Key): boolean {
  return (
    hasPermission(role, "keys.raise") ||
    (hasPermission(role, "keys.change") && key.createdBy === user.personId)
  );
}

function KeyFacts(props: KeyPageProps): Child {
  const { apiKey: key, creator, now } = props;
  const { limit, limitWindow } = key;
  return (
    <Details
      items={[
        ["Status", <KeyState apiKey={key} now={now} />],
        ["Key", <code>{secretHint(key)}</code>],
        ["Id", <CopyText text={key.id} />],
        ...ancestorItems(props),
        ...credentialItems(key),
        ["Created", `${utcDay(key.createdAt)}${creator === undefined ? "" : ` by ${creator}`}`],
        ["Last used", key.lastUsedAt === null ? "never" : <DateTime at={key.lastUsedAt} />],
        ["Expires", key.expiresAt === null ? "never" : <DateTime at={key.expiresAt} />],
        [
          "Spent",
          limit === null ? (
            formatUsd(key.spent)
          ) : (
            <>
              {formatSpend(key.spent)} of {formatUsd(limit)}
              {limitWindow === null ? "" : ` per ${limitWindow}`}
              <UsageBar label="Limit" used={key.spent} limit={limit} />
            </>
          ),
        ],
        ["Scopes", capitalize(describeScopes(grantedScopes(key.scopes, isBoundedKey(key))))],
      ]}
    />
  );
}

function ancestorItems({ workspace, apiKey: { derivedFrom }, above }: KeyPageProps) {
  if (derivedFrom === null) return [];
  const links = derivedFrom.map((id, index) => (
    <>
      {index === 0 ? "" : " › "}
      <KeyLink accountId={workspace.accountId} id={id} label={above.get(id)} />
    </>
  ));
  return [["Derived from", <>{links}</>] as const];
}

interface KeyLinkProps {
  readonly accountId: string;
  readonly id: string;
  readonly label: Pick<Key, "name" | "prefix" | "last4"> | undefined;
}

function KeyLink({ accountId, id, label }: KeyLinkProps): Child {
  return (
    <a href={keyPath(accountId, id)} title={id}>
      <bdi>{label === undefined ? id : keyName(label)}</bdi>
    </a>
  );
}

/** Each key after the one that it was derived from: the path of a key begins with that of its parent. */
function DerivedKeys({ workspace, apiKey, below, now }: KeyPageProps): Child {
  const pathOf = ({ id, derivedFrom }: Key): string => [...(derivedFrom ?? []), id].join(" ");
  const keys = below.toSorted((left, right) => (pathOf(left) < pathOf(right) ? -1 : 1));
  const byId = new Map([apiKey, ...keys].map((key) => [key.id, key]));
  const spends = formatCosts(keys.map(({ spent }) => spent));
  const { accountId } = workspace;
  return (
    <Card id="derived" title="Derived keys">
      <p>
        Keys that programs <a href="/docs/derived-keys">derived</a> from this one, once they were
        used. If you revoke a key, all that were derived from it end, too.
      </p>
      <Table
        label="Derived keys"
        isStacked
        columns={[
          { name: "Name" },
          { name: "Derived from" },
          { name: "Status" },
          { name: "Spend and limit" },
          { name: "Last used" },
        ]}
        rows={keys.map((key, index) => {
          const parent = key.derivedFrom?.at(-1) ?? apiKey.id;
          return [
            <KeyLink accountId={accountId} id={key.id} label={key} />,
            <KeyLink accountId={accountId} id={parent} label={byId.get(parent)} />,
            <KeyState apiKey={key} now={now} />,
            <LimitCell apiKey={key} spend={spends[index]} />,
            <LastUse apiKey={key} />,
          ];
        })}
      />
    </Card>
  );
}

function credentialItems({ credential }: Key): readonly (readonly [string, Child])[] {
  if (credential === null || credential.type === "wallet") return [];
  if (credential.type === "public_key")
    return [["Signs with", <CopyText text={thumbprintOf(credential.x)} />]];
  const claims = Object.entries(credential.claims).map(([name, value]) => `${name}: ${value}`);
  return [
    ["Tokens of", credential.issuer],
    ["For the subject", <bdi>{credential.subject}</bdi>],
    ...(claims.length === 0 ? [] : [["With", claims.join(", ")] as const]),
    ["Audience", <CopyText text={credential.audience} />],
  ];
}

function ChangeForm({ user, workspace, apiKey: key, form }: KeyPageProps): Child {
  const values = form?.values ?? keyFormValues(key);
  return (
    <Card id="settings" title="Settings">
      <ErrorMessage message={form?.error.field === undefined ? form?.error.message : undefined} />
      <PostForm
        user={user}
        action={keyPath(workspace.accountId, key.id)}
        fields={{ do: "change" }}
        submit="Save key"
      >
        <KeyFields
          id="key"
          values={values}
          error={form?.error}
          sendsEmails={workspace.sendsEmails}
        />
        <label for="key-access">Scopes</label>
        <select id="key-access" name="access">
          {values.access === "custom" ? (
            <option value="custom" selected>
              As set by the API
            </option>
          ) : null}
          <option value="models" selected={values.access === "models"}>
            Model calls and usage only
          </option>
          <option value="all" selected={values.access === "all"}>
            All that its limit allows
          </option>
        </select>
      </PostForm>
    </Card>
  );
}

function RotatedNotice({ raw, apiKey }: { readonly raw: string; readonly apiKey: Key }): Child {
  const { formerSecret } = apiKey;
  return (
    <section class="card notice" role="status">
      <h2>The new secret</h2>
      <p>
        Copy it now. It is not shown again: Postern stores only a hash of it. Limits, spend and
        scopes of the key stay.
      </p>
      <CodeBlock code={raw} />
      {formerSecret === null ? (
        <p>The former secret is no longer accepted.</p>
      ) : (
        <p>
          The former secret, which ends in <code>{formerSecret.last4}</code>, is accepted too until{" "}
          <DateTime at={formerSecret.until} />.
        </p>
      )}
    </section>
  );
}

function FormerSecretCard({ user, workspace, apiKey: key }: KeyPageProps): Child {
  const { formerSecret, prefix, last4 } = key;
  if (formerSecret === null) return null;
  const { lastUsedAt, until } = formerSecret;
  return (
    <Card id="secrets" title="Two secrets">
      <Table
        label="Secrets of this key"
        isStacked
        columns={[
          { name: "Secret" },
          { name: "Accepted until", isDate: true },
          { name: "Last used", isDate: true },
        ]}
        rows={[
          [
            <code>{`${prefix}…${last4}`}</code>,
            key.expiresAt === null ? "no end" : <DateTime at={key.expiresAt} />,
            key.lastUsedAt === null ? "never" : <DateTime at={key.lastUsedAt} />,
          ],
          [
            <>
              <code>{`…${formerSecret.last4}`}</code> <Tag tone="warn">Former</Tag>
            </>,
            <DateTime at={until} />,
            lastUsedAt === null ? "not since the rotation" : <DateTime at={lastUsedAt} />,
          ],
        ]}
      />
      <PostForm
        user={user}
        action={keyPath(workspace.accountId, key.id)}
        fields={{ do: "end_overlap" }}
        submit="Reject the former secret now"
        isSecondary
      />
    </Card>
  );
}

function RotateCard({ user, workspace, apiKey: key }: KeyPageProps): Child {
  return (
    <Card id="rotate" title="Rotate">
      <p>
        Rotating creates a new secret for this key. Its limits, spend, scopes and logs stay. Both
        secrets work during the overlap.
        {key.formerSecret === null
          ? ""
          : ` If you rotate again, the secret that ends in ${key.formerSecret.last4} is rejected at once.`}
      </p>
      <PostForm
        user={user}
        action={keyPath(workspace.accountId, key.id)}
        fields={{ do: "rotate", once: newFormToken() }}
        submit="Rotate key"
        isSecondary
      >
        <OverlapField id="overlap" secretName="current secret" />
      </PostForm>
    </Card>
  );
}

function RevokeCard({ user, workspace, apiKey: key, isRevoking = false }: KeyPageProps): Child {
  const path = keyPath(workspace.accountId, key.id);
  return (
    <Card id="revoke" title="Revoke">
      {isRevoking ? (
        <Confirm
          user={user}
          action={path}
          fields={{ do: "revoke" }}
          confirmLabel="Revoke key"
          cancelHref={path}
        >
          Revoke the key that ends in {key.last4}? Requests with it are rejected immediately. This
          cannot be undone.
        </Confirm>
      ) : (
        <>
          <p>Requests with a revoked key are rejected immediately. Its calls stay in the logs.</p>
          <div class="actions">
            <ConfirmLink
              href={withQuery(path, { revoke: "true" })}
              label="Revoke"
              subject={`the key that ends in ${key.last4}`}
            />
          </div>
        </>
      )}
    </Card>
  );
}
