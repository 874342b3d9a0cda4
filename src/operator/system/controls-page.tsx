/** @jsxImportSource hono/jsx */
// Blocked networks and email domains, lists of accounts to freeze, and the limits that change without a restart.

import type { Child } from "hono/jsx";
import { usdText } from "../../base/money/money.ts";
import type { Block } from "../../controls/blocks.ts";
import {
  type OperatorLimits,
  LIMIT_NAMES,
  LIMITS,
  type LimitName,
  type LiveLimits,
} from "../../controls/limits.ts";
import { Card, EmptyState, Notice } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Operator } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

export const CONTROLS_PATH = `${OPERATOR_PATH}/controls`;
export const FROZEN_AT_ONCE_MAX = 200;

export const CONTROL_RESULTS = {
  blocked: "Blocked. All processes know it within five seconds.",
  unblocked: "The block is removed.",
  changed: "The limit is changed. All processes know it within five seconds.",
  frozen: "The accounts are frozen.",
} as const;

interface ControlsPageProps {
  readonly blocks: readonly Block[];
  readonly limits: LiveLimits;
  readonly done?: keyof typeof CONTROL_RESULTS | undefined;
  readonly errorMessage?: string;
  readonly formValues?: Readonly<Record<string, string>>;
}

export function controlsPage(operator: Operator, props: ControlsPageProps): PageLayout {
  const { blocks, limits, done, errorMessage, formValues = {} } = props;
  return operatorPage({
    title: "Blocks and limits",
    operator,
    path: CONTROLS_PATH,
    main: (
      <>
        <ErrorMessage message={errorMessage} />
        {done === undefined ? null : <Notice>{CONTROL_RESULTS[done]}</Notice>}
        <div class="side-by-side">
          <BlockCard operator={operator} values={formValues} />
          <FreezeCard operator={operator} values={formValues} />
        </div>
        <Card id="blocks" title="Blocked">
          {blocks.length === 0 ? (
            <EmptyState title="Nothing is blocked">
              <p class="muted">
                A blocked network gets a 403 for every request except to the operator pages. An
                address of a blocked domain cannot sign in, be named in a claim, or be the contact
                of a new account.
              </p>
            </EmptyState>
          ) : (
            <BlockTable operator={operator} blocks={blocks} />
          )}
        </Card>
        <Card
          id="limits"
          title="Limits"
          aside={<span class="note">An empty field restores the setting; 0 is no limit.</span>}
        >
          <Table
            label="Limits"
            isStacked
            columns={[
              { name: "Limit" },
              { name: "Setting", isWide: true },
              { name: "Value", isWide: true },
            ]}
            rows={LIMIT_NAMES.map((name) => [
              LIMITS[name].label,
              <>
                <code>{LIMITS[name].setting}</code> is {limitText(limits.defaults, name)}
              </>,
              <LimitForm operator={operator} name={name} limits={limits} />,
            ])}
          />
        </Card>
      </>
    ),
  });
}

function ControlForm({
  operator,
  fields,
  class: className,
  children,
}: {
  readonly operator: Operator;
  readonly fields: Readonly<Record<string, string>>;
  readonly class?: string | undefined;
  readonly children: Child;
}): Child {
  return (
    <PostForm
      class={className}
      user={operator}
      action={CONTROLS_PATH}
      fields={{ form: newFormToken(), ...fields }}
    >
      {children}
    </PostForm>
  );
}

interface FormCardProps {
  readonly operator: Operator;
  readonly values: Readonly<Record<string, string>>;
}

function BlockCard({ operator, values }: FormCardProps): Child {
  const own = values["do"] === "block" ? values : {};
  return (
    <Card id="block" title="Block a network or an email domain">
      <ControlForm operator={operator} fields={{ do: "block" }}>
        <div class="field">
          <label for="kind">Type</label>
          <select id="kind" name="kind">
            <option value="network">Network</option>
            <option value="email_domain" selected={own["kind"] === "email_domain"}>
              Email domain
            </option>
          </select>
        </div>
        <Field
          id="value"
          name="value"
          label="Network or domain"
          placeholder="203.0.113.0/24"
          value={own["value"]}
          isRequired
        />
        <Field id="block-reason" name="reason" label="Reason" value={own["reason"]} isRequired />
        <button type="submit" class="danger">
          Block
        </button>
      </ControlForm>
    </Card>
  );
}

function FreezeCard({ operator, values }: FormCardProps): Child {
  const own = values["do"] === "freeze" ? values : {};
  return (
    <Card id="freeze" title="Freeze a list of accounts">
      <ControlForm operator={operator} fields={{ do: "freeze" }}>
        <TextField
          id="accounts"
          name="accounts"
          label="Account ids"
          hint={`One a line, at most ${FROZEN_AT_ONCE_MAX}. If one does not exist, none is frozen.`}
          value={own["accounts"]}
          isRequired
        />
        <Field id="freeze-reason" name="reason" label="Reason" value={own["reason"]} isRequired />
        <button type="submit" class="danger">
          Freeze accounts
        </button>
      </ControlForm>
    </Card>
  );
}

function BlockTable({
  operator,
  blocks,
}: {
  readonly operator: Operator;
  readonly blocks: readonly Block[];
}): Child {
  return (
    <Table
      label="Blocked networks and email domains"
      isStacked
      columns={[
        { name: "Blocked" },
        { name: "Reason", isWide: true },
        { name: "Since", isDate: true },
        { name: "By" },
        { name: "Actions", isNumber: true },
      ]}
      rows={blocks.map(({ kind, value, reason, createdAt, createdBy }) => [
        <bdi class="name">{value}</bdi>,
        <bdi class="name">{reason}</bdi>,
        <RelativeTime at={createdAt} />,
        createdBy,
        <ControlForm
          class="row-actions"
          operator={operator}
          fields={{ do: "unblock", kind, value }}
        >
          <button type="submit" class="small secondary" aria-label={`Remove the block of ${value}`}>
            Remove
          </button>
        </ControlForm>,
      ])}
    />
  );
}

function LimitForm({
  operator,
  name,
  limits,
}: {
  readonly operator: Operator;
  readonly name: LimitName;
  readonly limits: LiveLimits;
}): Child {
  const { label } = LIMITS[name];
  return (
    <ControlForm class="inline-form" operator={operator} fields={{ do: "limit", name }}>
      <label for={name} class="visually-hidden">
        {label}
      </label>
      <input
        id={name}
        name="value"
        inputmode="decimal"
        autocomplete="off"
        value={limitText(limits.current(), name)}
      />
      <button type="submit" class="secondary">
        Save <span class="visually-hidden">{label}</span>
      </button>
    </ControlForm>
  );
}

function limitText(limits: OperatorLimits, name: LimitName): string {
  const value = limits[name];
  return typeof value === "bigint" ? usdText(value) : String(value);
}
