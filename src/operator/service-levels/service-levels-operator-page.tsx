/** @jsxImportSource hono/jsx */
// The service levels, what each has cost, and the form that adds one after a preview of its cost.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { nanoFromUsd, usdText } from "../../base/money/money.ts";
import { formatInteger, formatUsd, pluralize } from "../../base/text/format.ts";
import { Card, EmptyState, Notice, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm, SelectField } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Operator, Route } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import {
  type LevelCost,
  PREVIEW_DAYS,
  previewLevel,
} from "../../service-levels/evaluate-levels.ts";
import { type GivenCredits, readGivenCredits } from "../../service-levels/service-credits.ts";
import {
  addServiceLevel,
  checkTerms,
  creditText,
  endServiceLevel,
  getServiceLevel,
  type LevelTerms,
  levelText,
  listServiceLevels,
  type Metric,
  METRICS,
  PERIODS,
  type ServiceLevel,
} from "../../service-levels/service-levels.ts";
import type { Tx } from "../../store/db.ts";
import { operatorPage } from "../operator-layout.tsx";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

const SERVICE_LEVELS_PATH = `${OPERATOR_PATH}/service-levels`;

const LEVEL_RESULTS = {
  added: "The service level is on. It applies from its next window.",
  ended: "The service level is off. The window that has begun is still covered.",
} as const;

interface LevelPreview {
  readonly terms: LevelTerms;
  readonly cost: LevelCost;
}

interface ServiceLevelsPageProps {
  readonly levels: readonly ServiceLevel[];
  /** The credits of all time, by the id of the level. */
  readonly given: ReadonlyMap<string, GivenCredits>;
  readonly done?: keyof typeof LEVEL_RESULTS | undefined;
  readonly preview?: LevelPreview;
  readonly errorMessage?: string;
  readonly formValues?: Readonly<Record<string, string>>;
}

function serviceLevelsOperatorPage(
  operator: Operator,
  { levels, given, done, preview, errorMessage, formValues = {} }: ServiceLevelsPageProps,
): PageLayout {
  return operatorPage({
    title: "Service levels",
    operator,
    path: SERVICE_LEVELS_PATH,
    actions: <a href="/docs/sla">Show the public page</a>,
    main: (
      <>
        {done === undefined ? null : <Notice>{LEVEL_RESULTS[done]}</Notice>}
        <ErrorMessage message={errorMessage} />
        {preview === undefined ? null : <PreviewNotice preview={preview} />}
        <Card id="levels" title="Service levels and their credits">
          {levels.length === 0 ? (
            <EmptyState title="No service levels">
              A breach of a level credits the accounts whose calls were affected.
            </EmptyState>
          ) : (
            <LevelTable operator={operator} levels={levels} given={given} />
          )}
        </Card>
        <Card
          id="add"
          title="Add a service level"
          aside={<a href="/docs/operator#service-levels">How breaches are measured</a>}
        >
          <AddForm operator={operator} values={formValues} />
        </Card>
      </>
    ),
  });
}

function PreviewNotice({ preview: { terms, cost } }: { readonly preview: LevelPreview }): Child {
  return (
    <Notice tone={cost.amount > 0n ? "warn" : undefined}>
      {levelText(terms)} In the windows that ended in the last {PREVIEW_DAYS} days it would have
      cost {formatUsd(cost.amount)}: {formatInteger(cost.breaches)}{" "}
      {cost.breaches === 1 ? "breach" : "breaches"} in {pluralize(cost.accounts, "account")}.
      Nothing was saved.
    </Notice>
  );
}

const NO_CREDITS: GivenCredits = { credits: 0, accounts: 0, amount: 0n };

function LevelTable({
  operator,
  levels,
  given,
}: Pick<ServiceLevelsPageProps, "levels" | "given"> & { readonly operator: Operator }): Child {
  return (
    <Table
      label="Service levels"
      isStacked
      columns={[
        { name: "Level" },
        { name: "Credit", isWide: true },
        { name: "Status", isWide: true },
        { name: "Credits given", isNumber: true },
        { name: "Amount", isNumber: true },
        { name: "Change" },
      ]}
      rows={levels.map((level) => {
        const { credits, accounts, amount } = given.get(level.id) ?? NO_CREDITS;
        return [
          <span title={level.id}>{levelText(level)}</span>,
          creditText(level),
          <LevelState level={level} />,
          credits === 0 ? "0" : `${formatInteger(credits)} to ${pluralize(accounts, "account")}`,
          formatUsd(amount),
          <SwitchForm operator={operator} level={level} />,
        ];
      })}
    />
  );
}

function LevelState({ level: { endedAt, startsAt } }: { readonly level: ServiceLevel }): Child {
  return endedAt === null ? (
    <>
      <Tag tone="good">on</Tag> from <DateTime at={startsAt} />
    </>
  ) : (
    <>
      <Tag>off</Tag> since <DateTime at={endedAt} />
    </>
  );
}

function SwitchForm({
  operator,
  level,
}: {
  readonly operator: Operator;
  readonly level: ServiceLevel;
}): Child {
  const isOn = level.endedAt === null;
  return (
    <PostForm
      user={operator}
      action={SERVICE_LEVELS_PATH}
      fields={{ form: newFormToken(), do: isOn ? "end" : "repeat", id: level.id }}
    >
      <button type="submit" class="secondary">
        {isOn ? "Turn off" : "Turn on again"}
        <span class="visually-hidden"> {levelText(level)}</span>
      </button>
    </PostForm>
  );
}

const METRIC_LABELS: Readonly<Record<Metric, string>> = {
  availability: "Availability (percent)",
  first_token_p95: "First token, p95 (ms)",
  first_token_p99: "First token, p99 (ms)",
  slow_first_token: "First token of each stream (ms)",
  broken_reply: "Replies that break off",
};

function AddForm({
  operator,
  values,
}: {
  readonly operator: Operator;
  readonly values: Readonly<Record<string, string>>;
}): Child {
  const usd = values["cap_usd"] ?? usdText(10_000_000_000n);
  return (
    <PostForm user={operator} action={SERVICE_LEVELS_PATH} fields={{ form: newFormToken() }}>
      <Field
        id="model"
        name="model"
        label="Model"
        hint="The id of a model, or * for each."
        placeholder="openai/gpt-5.4-mini"
        value={values["model"]}
        isRequired
      />
      <SelectField
        name="metric"
        label="Measure"
        options={METRICS.map((metric) => [metric, METRIC_LABELS[metric]])}
        value={values["metric"]}
      />
      <Field
        id="target"
        name="target"
        label="Target"
        hint="A percentage such as 99.9 for availability, milliseconds for a first token; empty for replies that break off."
        inputMode="decimal"
        value={values["target"]}
      />
      <SelectField
        name="period"
        label="Window (UTC)"
        options={PERIODS.map((period) => [period, period])}
        value={values["period"] ?? "day"}
      />
      <Field
        id="credit_percent"
        name="credit_percent"
        label="Credit (percent)"
        hint="Of what the account paid for the calls, from its paid credit."
        inputMode="numeric"
        value={values["credit_percent"] ?? "10"}
        isRequired
      />
      <Field
        id="cap_usd"
        name="cap_usd"
        label="Most per account and month (USD)"
        inputMode="decimal"
        value={usd}
        isRequired
      />
      <div class="actions">
        <button type="submit" name="do" value="preview" class="secondary">
          Preview cost
        </button>
        <button type="submit" name="do" value="add">
          Add service level
        </button>
      </div>
    </PostForm>
  );
}

const Terms = z.object({
  form: FormToken,
  model: z.string().trim().max(200),
  metric: z.enum(METRICS),
  target: z.string().trim().max(20),
  period: z.enum(PERIODS),
  credit_percent: z.string().trim().max(3),
  cap_usd: z.string().trim().max(20),
});
const Id = z.object({ form: FormToken, id: z.string().max(40) });
const LevelForm = z.discriminatedUnion("do", [
  Terms.extend({ do: z.literal("preview") }),
  Terms.extend({ do: z.literal("add") }),
  Id.extend({ do: z.literal("end") }),
  Id.extend({ do: z.literal("repeat") }),
]);
type LevelForm = z.infer<typeof LevelForm>;

type LevelResult = keyof typeof LEVEL_RESULTS;
const LevelResult = z.custom<LevelResult>(
  (name) => typeof name === "string" && Object.hasOwn(LEVEL_RESULTS, name),
);

export function serviceLevelPageRoutes(context: OperatorContext): readonly Route[] {
  const { db } = context;
  const showPage = async (
    operator: Operator,
    more: Omit<Parameters<typeof serviceLevelsOperatorPage>[1], "levels" | "given">,
  ): Promise<PageLayout> => {
    const [levels, given] = [await listServiceLevels(db), await readGivenCredits(db)];
    return serviceLevelsOperatorPage(operator, { levels, given, ...more });
  };
  return [
    operatorPageRoute({
      path: SERVICE_LEVELS_PATH,
      id: "showServiceLevels",
      summary: "Show service levels and the credits that they gave",
      query: z.object({ done: LevelResult.optional() }),
      run: ({ caller, query: { done } }) => showPage(caller, { done }),
    }),
    operatorFormRoute({
      path: SERVICE_LEVELS_PATH,
      id: "changeServiceLevels",
      summary: "Preview, add or turn off a service level",
      body: FormFields,
      requestExample: {
        do: "add",
        form: "f".repeat(43),
        model: "openai/gpt-5.4-mini",
        metric: "availability",
        target: "99.9",
        period: "day",
        credit_percent: "10",
        cap_usd: "10",
      },
      run: async ({ body, caller, clientIp, now }) => {
        const form = parseWithSchema(LevelForm, body, "body");
        if (form.do === "preview") {
          const terms = termsOf(form);
          const cost = await previewLevel(db, terms, now);
          return await showPage(caller, { preview: { terms, cost }, formValues: body });
        }
        const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
        const submission = { token: form.form, payload: form, now };
        const done = await submitFormOnce(context, caller, submission, (tx) =>
          applyForm(tx, act, form),
        );
        return `${SERVICE_LEVELS_PATH}?done=${done}`;
      },
      rejected: ({ caller, body: formValues }, { message: errorMessage }) =>
        showPage(caller, { errorMessage, formValues }),
    }),
  ];
}

async function applyForm(
  tx: Tx,
  act: Parameters<typeof addServiceLevel>[1],
  form: Exclude<LevelForm, { readonly do: "preview" }>,
): Promise<LevelResult> {
  switch (form.do) {
    case "add":
      await addServiceLevel(tx, act, termsOf(form));
      return "added";
    case "repeat":
      await addServiceLevel(tx, act, await getServiceLevel(tx, form.id));
      return "added";
    case "end":
      await endServiceLevel(tx, act, form.id);
      return "ended";
  }
}

function termsOf(form: z.infer<typeof Terms>): LevelTerms {
  const { model, metric, target, period } = form;
  const terms = {
    model,
    metric,
    // A value that is not a number is rejected with the range that is allowed.
    target: metric === "availability" ? millionthsOf(target) : numberOf(target),
    period,
    creditPercent: numberOf(form.credit_percent),
    cap: nanoFromUsd(form.cap_usd) ?? 0n,
  };
  checkTerms(terms);
  return terms;
}

/** The millionths of a percentage with at most four decimals. */
function millionthsOf(percent: string): number {
  const [, whole = "", fraction = ""] = /^(\d{1,3})(?:\.(\d{1,4}))?$/.exec(percent) ?? [];
  return whole === "" ? Number.NaN : Number(whole + fraction.padEnd(4, "0"));
}

function numberOf(typed: string): number {
  return /^\d*$/.test(typed) ? Number(typed) : Number.NaN;
}
