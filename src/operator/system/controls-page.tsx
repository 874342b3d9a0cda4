/** @jsxImportSource hono/jsx */
// Blocked networks and email domains, lists of accounts to freeze, and the limits that change without a restart.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { usdText } from "../../base/money/money.ts";
import {
  addBlock,
  type Block,
  BLOCK_KINDS,
  listBlocks,
  removeBlock,
} from "../../controls/blocks.ts";
import {
  changeLimit,
  LIMIT_NAMES,
  type LimitName,
  LIMITS,
  type LiveLimits,
  type OperatorLimits,
} from "../../controls/limits.ts";
import { Card, EmptyState, Notice } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Operator, Route } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import type { Tx } from "../../store/db.ts";
import { freezeAccount, parseReason, requireAccountId } from "../accounts/account-actions.ts";
import { operatorPage } from "../operator-layout.tsx";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

const CONTROLS_PATH = `${OPERATOR_PATH}/controls`;
const FROZEN_AT_ONCE_MAX = 200;

const CONTROL_RESULTS = {
  blocked: "Blocked. All processes know it within five seconds.",
  unblocked: "The block is removed.",
  changed: "The limit is changed. All processes know it within five seconds.",
  frozen: "The accounts are frozen.",
} as const;

interface ControlsPageProps {
  readonly blocks: readonly Block[];
  readonly limits: LiveLimits;
  readonly canFreeze: boolean;
  readonly done?: keyof typeof CONTROL_RESULTS | undefined;
  readonly errorMessage?: string;
  readonly formValues?: Readonly<Record<string, string>>;
}

function controlsPage(operator: Operator, props: ControlsPageProps): PageLayout {
  const { blocks, limits, canFreeze, done, errorMessage, formValues = {} } = props;
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
          {/* With two-person approval, each freeze is requested on the page of its account. */}
          {canFreeze ? <FreezeCard operator={operator} values={formValues} /> : null}
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

const ControlBody = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("block"),
    form: FormToken,
    kind: z.enum(BLOCK_KINDS),
    value: z.string().max(300),
    reason: z.string(),
  }),
  z.object({
    do: z.literal("unblock"),
    form: FormToken,
    kind: z.enum(BLOCK_KINDS),
    value: z.string(),
  }),
  z.object({
    do: z.literal("freeze"),
    form: FormToken,
    accounts: z.string().max(20_000),
    reason: z.string(),
  }),
  z.object({
    do: z.literal("limit"),
    form: FormToken,
    name: z.enum(LIMIT_NAMES),
    value: z.string().max(20),
  }),
]);
type ControlBody = z.infer<typeof ControlBody>;

type ControlResult = keyof typeof CONTROL_RESULTS;
const ControlResult = z.custom<ControlResult>(
  (name) => typeof name === "string" && Object.hasOwn(CONTROL_RESULTS, name),
);

export function controlsRoutes(context: OperatorContext): readonly Route[] {
  const { db, controls, approval } = context;
  const showPage = async (
    operator: Operator,
    more: Omit<Parameters<typeof controlsPage>[1], "blocks" | "limits" | "canFreeze">,
  ): Promise<PageLayout> => {
    await controls.limits.refresh();
    return controlsPage(operator, {
      blocks: await listBlocks(db),
      limits: controls.limits,
      canFreeze: approval === "off",
      ...more,
    });
  };
  return [
    operatorPageRoute({
      path: CONTROLS_PATH,
      id: "showControls",
      summary: "Show blocks and limits",
      query: z.object({ done: ControlResult.optional() }),
      run: ({ caller, query: { done } }) => showPage(caller, { done }),
    }),
    operatorFormRoute({
      path: CONTROLS_PATH,
      id: "changeControls",
      summary: "Block a network or domain, freeze accounts, or change a limit",
      body: FormFields,
      requestExample: {
        do: "block",
        form: "f".repeat(43),
        kind: "network",
        value: "203.0.113.0/24",
        reason: "abuse",
      },
      run: async ({ body, caller, clientIp, now }) => {
        const form = parseWithSchema(ControlBody, body, "body");
        const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
        const submission = { token: form.form, payload: form, now };
        const done = await submitFormOnce(context, caller, submission, (tx) =>
          applyControl(tx, context, form, act),
        );
        await Promise.all([controls.networks.refresh(), controls.limits.refresh()]);
        return `${CONTROLS_PATH}?done=${done}`;
      },
      rejected: ({ caller, body: formValues }, { message: errorMessage }) =>
        showPage(caller, { errorMessage, formValues }),
    }),
  ];
}

async function applyControl(
  tx: Tx,
  { approval }: OperatorContext,
  form: ControlBody,
  act: { readonly operator: string; readonly network: string | null; readonly now: number },
): Promise<ControlResult> {
  switch (form.do) {
    case "block": {
      const { kind, value } = form;
      await addBlock(tx, act, { kind, value, reason: parseReason(form.reason) });
      return "blocked";
    }
    case "unblock":
      await removeBlock(tx, act, form);
      return "unblocked";
    case "limit":
      await changeLimit(tx, act, form);
      return "changed";
    case "freeze": {
      if (approval === "two_person")
        throw invalid(
          "accounts",
          "A second operator must approve each freeze: request it on the page of the account.",
        );
      const reason = parseReason(form.reason);
      const by = { type: "operator", id: act.operator } as const;
      for (const accountId of accountIds(form.accounts))
        await freezeAccount(tx, { accountId, by, reason, network: act.network, now: act.now });
      return "frozen";
    }
  }
}

/** Sorted, so that two forms lock the accounts in the same order. */
function accountIds(typed: string): readonly string[] {
  const ids = [...new Set(typed.split(/[\s,;]+/).filter((id) => id !== ""))].toSorted();
  if (ids.length === 0 || ids.length > FROZEN_AT_ONCE_MAX)
    throw invalid("accounts", `Enter from 1 to ${FROZEN_AT_ONCE_MAX} account ids, one a line.`);
  return ids.map(requireAccountId);
}
