/** @jsxImportSource hono/jsx */
// One call: what it cost line by line, its attempts, its headers and what a translation dropped.

import type { Child } from "hono/jsx";
import { usdText, usdTextOfPico } from "../../base/money/money.ts";
import {
  capitalize,
  formatInteger,
  formatMilliseconds,
  formatUsdExact,
  pluralize,
} from "../../base/text/format.ts";
import {
  Card,
  CopyText,
  Details,
  Figures,
  Notice,
  Tag,
} from "../../http/pages/components/content.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { listPriceOf, picoOf, unitsOf } from "../../usage/list-price.ts";
import type { UsageRecord } from "../../usage/usage.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import { pageWith } from "../usage/filter-form.tsx";
import { ModelName, outcomeName, OutcomeTag } from "./logs-page.tsx";

export interface CallPageProps extends WorkspaceView {
  readonly call: UsageRecord;
  readonly keyName: string;
  /** Its request and reply are kept, and the person may read them. */
  readonly hasTexts: boolean;
}

export function callPage({ user, workspace, call, keyName, hasTexts }: CallPageProps): PageLayout {
  const logs = workspacePath(workspace.accountId, "/logs");
  const isFailed = call.outcome !== "completed" && call.outcome !== "client_aborted";
  return consolePage({
    title: `Call ${call.id}`,
    heading: <>Call to {call.model}</>,
    workspace,
    user,
    page: "/logs",
    crumbs: [{ href: logs, label: "Logs" }],
    actions: (
      <a class="button secondary" href={pageWith(logs, { model: call.model }, {})}>
        Calls of this model
      </a>
    ),
    main: (
      <>
        {call.exact || call.price.length === 0 ? null : (
          <Notice tone="warn">
            The provider reported no usage for this call, so the tokens are estimated.
          </Notice>
        )}
        <FailureNotice call={call} workspace={workspace} />
        <Figures figures={callFigures(call)} />
        {isFailed ? <AttemptCard call={call} /> : null}
        <PriceCard call={call} />
        {isFailed ? null : <AttemptCard call={call} />}
        <div class="side-by-side">
          <RequestCard call={call} keyName={keyName} logs={logs} />
          <HeaderCard call={call} />
        </div>
        <GuardrailCard call={call} />
        <McpCard call={call} />
        <LossCard call={call} />
        {hasTexts ? (
          <p>
            <a class="button secondary" href={`${logs}/${call.id}/texts`}>
              Show request and reply
            </a>{" "}
            <span class="note">The audit log records who does.</span>
          </p>
        ) : (
          <p class="note">
            Prompts and replies are kept only for keys with{" "}
            <a href="/docs/prompt-logging">prompt logging</a>. A response that the Responses API
            stores for its caller is encrypted, expires, and can be read with a key only.
          </p>
        )}
      </>
    ),
  });
}

function callFigures(call: UsageRecord) {
  const input = call.inputTokens === 0 ? unitsOf(call.price, "input") : undefined;
  const output = call.outputTokens === 0 ? unitsOf(call.price, "output") : undefined;
  return [
    {
      label: "Cost",
      value: formatUsdExact(call.cost),
      remark: costRemark(call),
    },
    input === undefined
      ? {
          label: "Input tokens",
          value: formatInteger(call.inputTokens),
          remark: `${formatInteger(call.cacheReadTokens)} read from the cache`,
        }
      : { label: "Input", value: input, remark: "as the price counts it" },
    output === undefined
      ? {
          label: "Output tokens",
          value: formatInteger(call.outputTokens),
          remark: `${formatInteger(call.reasoningTokens)} for reasoning`,
        }
      : { label: "Output", value: output, remark: "as the price counts it" },
    { label: "Latency", value: formatMilliseconds(call.latencyMs), remark: "to the last byte" },
    {
      label: "First token",
      value: call.firstTokenMs === null ? "–" : formatMilliseconds(call.firstTokenMs),
      remark: call.stream ? "streamed" : "not streamed",
    },
  ];
}

function costRemark({ byok, cost, owed = 0n }: UsageRecord): string {
  if (byok) return "on your own provider key";
  return owed === 0n
    ? "charged to the balance"
    : `${formatUsdExact(cost - owed)} charged, ${formatUsdExact(owed)} owed`;
}

function PriceCard({ call }: { readonly call: UsageRecord }): Child {
  if (call.price.length === 0)
    return (
      <Card id="price" title="Price">
        <p>No tokens were charged, so the call cost nothing.</p>
      </Card>
    );
  const unitPrices = alignDecimals(call.price.map(({ usd }) => usd));
  const millionPrices = alignDecimals(call.price.map(({ usd }) => perMillion(usd)));
  const total = usdText(listPriceOf(call.price));
  const amounts = alignDecimals([
    ...call.price.map((line) => usdTextOfPico(picoOf([line]))),
    total,
  ]);
  return (
    <Card
      id="price"
      title="Price"
      aside={<span class="note">US dollars; each token is in one line</span>}
    >
      <Table
        label="Price, line by line"
        columns={[
          { name: "Meter" },
          { name: "Count", isNumber: true },
          { name: "Unit price", isNumber: true, isExtra: true },
          { name: "Per million", isNumber: true },
          { name: "Amount", isNumber: true },
        ]}
        rows={call.price.map((line, index) => [
          <>
            {capitalize(line.meter.replaceAll("_", " "))}
            {line.model === undefined ? null : (
              <span class="type">at the price of {line.model}</span>
            )}
          </>,
          formatInteger(line.count),
          unitPrices[index] ?? "",
          millionPrices[index] ?? "",
          amounts[index] ?? "",
        ])}
        footer={["Total at list prices", "", "", "", amounts.at(-1) ?? ""]}
      />
      {call.byok ? (
        <p class="note">The call used your own provider key, so Postern charged nothing.</p>
      ) : listPriceOf(call.price) === call.cost ? null : (
        <p class="note">Charged: {usdText(call.cost)} USD.</p>
      )}
    </Card>
  );
}

/** Equally many decimals, so that the decimal points of a column are below each other. */
function alignDecimals(amounts: readonly string[]): readonly string[] {
  const parts = amounts.map((amount) => amount.split("."));
  const decimals = Math.max(2, ...parts.map(([, fraction = ""]) => fraction.length));
  return parts.map(([whole = "0", fraction = ""]) => `${whole}.${fraction.padEnd(decimals, "0")}`);
}

/** Moves the decimal point by six places, without floats. */
function perMillion(usd: string): string {
  const [whole = "0", fraction = ""] = usd.split(".");
  const digits = fraction.padEnd(6, "0");
  const text = `${whole}${digits.slice(0, 6)}.${digits.slice(6)}`.replace(/\.?(?<!0)0*$/, "");
  return text.replace(/^0+(?=\d)/, "") || "0";
}

function AttemptCard({ call }: { readonly call: UsageRecord }): Child {
  const { attempts } = call;
  return (
    <Card
      id="attempts"
      title="Attempts"
      aside={
        attempts.length > 1 ? (
          <span class="note">
            {pluralize(attempts.filter(({ status }) => !isSuccess(status)).length, "attempt")}{" "}
            failed
          </span>
        ) : null
      }
    >
      {attempts.length === 0 ? (
        <p>No provider was called.</p>
      ) : (
        <Table
          label="Attempts"
          columns={[
            { name: "Attempt", isExtra: true },
            { name: "Provider" },
            { name: "Model" },
            { name: "Status" },
            { name: "Time", isNumber: true },
          ]}
          rows={attempts.map(({ provider, model, status, ms }, index) => [
            index + 1,
            provider,
            <ModelName id={model} />,
            <Tag tone={isSuccess(status) ? "good" : "danger"}>
              {status === 0 ? "no reply" : status}
            </Tag>,
            formatMilliseconds(ms),
          ])}
        />
      )}
    </Card>
  );
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 400;
}

function RequestCard({
  call,
  keyName,
  logs,
}: {
  readonly call: UsageRecord;
  readonly keyName: string;
  readonly logs: string;
}): Child {
  return (
    <Card id="request" title="Request">
      <Details
        items={[
          ["Request id", <CopyText text={call.id} />],
          ["Time", <DateTime at={call.createdAt} />],
          ["API", `${call.api}${call.stream ? ", streamed" : ""}`],
          ["Key", <a href={pageWith(logs, { key: call.keyId }, {})}>{keyName}</a>],
          [
            "Outcome",
            <>
              <OutcomeTag call={call} /> {outcomeName(call.outcome)}
            </>,
          ],
          [
            "Labels",
            call.labels.length === 0
              ? "none"
              : call.labels.map((label) => (
                  <>
                    <a href={pageWith(logs, { label }, {})}>{label}</a>{" "}
                  </>
                )),
          ],
          ["Trace id", call.traceId === undefined ? "none sent" : <CopyText text={call.traceId} />],
        ]}
      />
    </Card>
  );
}

function HeaderCard({ call }: { readonly call: UsageRecord }): Child {
  const dropped = call.dropped ?? [];
  const headers: readonly (readonly [name: string, value: string])[] = [
    ["x-request-id", call.id],
    ["x-postern-model", call.model],
    ["x-postern-provider", call.provider],
    ...(call.byok ? [["x-postern-byok", "true"] as const] : []),
    ...(dropped.length === 0 ? [] : [["x-postern-dropped", dropped.join(", ")] as const]),
  ];
  return (
    <Card id="headers" title="Response headers">
      <Details
        items={headers.map(([name, value]) => [<code>{name}</code>, <code>{value}</code>])}
      />
    </Card>
  );
}

function GuardrailCard({ call: { guardrails = [] } }: { readonly call: UsageRecord }): Child {
  return (
    <ResultCard
      id="guardrails"
      title="Guardrails"
      docs={<a href="/docs/guardrails">How calls are checked</a>}
      heads={["Guardrail", "Checked"]}
      results={guardrails.map(({ name, phase, action, ms }) => [
        name,
        phase === "input" ? "Request" : "Reply",
        action,
        ms,
      ])}
    />
  );
}

function McpCard({ call: { mcpCalls = [] } }: { readonly call: UsageRecord }): Child {
  return (
    <ResultCard
      id="mcp-calls"
      title="Calls of MCP tools"
      docs={<a href="/docs/mcp-tools">How they are made</a>}
      heads={["Server", "Tool"]}
      results={mcpCalls.map(({ server, tool, ok, ms }) => [
        server,
        tool,
        ok ? "completed" : "failed",
        ms,
      ])}
    />
  );
}

interface ResultCardProps {
  readonly id: string;
  readonly title: string;
  readonly docs: Child;
  readonly heads: readonly [string, string];
  readonly results: readonly (readonly [string, string, result: string, ms: number])[];
}

function ResultCard({ id, title, docs, heads, results }: ResultCardProps): Child {
  if (results.length === 0) return null;
  return (
    <Card id={id} title={title} aside={docs}>
      <Table
        label={title}
        columns={[...heads, "Result", "ms"].map((name) => ({ name, isNumber: name === "ms" }))}
        rows={results.map(([first, second, result, ms]) => [
          <span class="line">{first}</span>,
          <span class="line">{second}</span>,
          result,
          formatInteger(ms),
        ])}
      />
    </Card>
  );
}

function LossCard({ call }: { readonly call: UsageRecord }): Child {
  const dropped = call.dropped ?? [];
  if (dropped.length === 0) return null;
  return (
    <Card id="losses" title="Dropped fields">
      <p>
        These fields of the request were dropped, because the provider's API has no equivalent.
        Those that begin with <code>reply.</code> are fields of the reply without an equivalent in
        your API. See <a href="/docs/translation">translation</a>.
      </p>
      <ul>
        {dropped.map((field) => (
          <li>
            <code>{field}</code>
          </li>
        ))}
      </ul>
    </Card>
  );
}

interface FailureNoticeProps {
  readonly call: UsageRecord;
  readonly workspace: WorkspaceContext;
}

const FALLBACKS = { href: "/docs/routing", label: "Set up fallbacks" } as const;

/** Why a call failed and what to do next, from its outcome and the status of its last attempt. */
function FailureNotice({ call, workspace }: FailureNoticeProps): Child {
  if (call.outcome === "completed") return null;
  if (call.outcome === "client_aborted")
    return (
      <Notice>
        The client closed the connection before the end of the reply. The tokens until then are
        charged.
      </Notice>
    );
  const charge =
    call.cost === 0n ? "It cost nothing." : "The part of the reply that was relayed is charged.";
  const isKeyRejected = call.byok && KEY_STATUSES.has(call.attempts.at(-1)?.status ?? 0);
  return (
    <Notice
      tone="danger"
      link={
        isKeyRejected
          ? {
              href: workspacePath(workspace.accountId, "/provider-keys"),
              label: "Check provider key",
            }
          : FALLBACKS
      }
    >
      <b>{failureCause(call)}</b> {charge}
    </Notice>
  );
}

const KEY_STATUSES: ReadonlySet<number> = new Set([401, 403]);

const STATUS_CAUSES: Readonly<Record<number, string>> = {
  0: "could not be reached, or closed the connection before it replied",
  400: "rejected the request as invalid. The error of the response names the field",
  401: "rejected the provider key",
  402: "reports that its account has no credit",
  403: "rejected the provider key",
  404: "does not know the model",
  408: "did not answer in time",
  413: "rejected the request as too large",
  429: "limited the rate of requests. Retry later",
  503: "was overloaded. Retry later",
  529: "was overloaded. Retry later",
};

export function failureCause(
  call: Pick<UsageRecord, "outcome" | "provider" | "attempts" | "byok">,
): string {
  if (call.outcome === "shut_down")
    return "The gateway shut down while the call was in flight. Retry it.";
  if (call.outcome === "limit_exceeded")
    return "The reply was longer than this gateway relays. Ask for fewer tokens, choices or log probabilities.";
  if (call.outcome === "budget_cut")
    return "No more credits could be held for this reply, so it ended early. Buy credits or raise the limit, and retry it.";
  if (call.outcome === "guardrail_denied")
    return "A guardrail of this workspace denied the reply. The model has answered, so the call was charged.";
  const last = call.attempts.at(-1);
  const provider = last?.provider ?? call.provider;
  if (call.outcome === "upstream_timeout")
    return `${provider} did not answer in time. Retry, stream the reply, or ask for fewer tokens.`;
  if (call.outcome === "empty_reply")
    return `${provider} sent a reply without any content. Retry it.`;
  if (last === undefined) return `${provider} was not called.`;
  const { status } = last;
  if (status >= 200 && status < 400) return `${provider} ended the reply before it was complete.`;
  const isOwnAccount = !call.byok && KEY_STATUSES.has(status);
  const cause = isOwnAccount
    ? "rejected the account of this gateway. Tell its operator"
    : (STATUS_CAUSES[status] ?? `failed with status ${status}. Retry later`);
  return `${provider} ${cause}.`;
}
