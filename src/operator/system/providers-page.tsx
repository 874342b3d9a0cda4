/** @jsxImportSource hono/jsx */
// The providers of the gateway: health, circuits, error rates and what today's calls cost.

import type { Child } from "hono/jsx";
import {
  formatCosts,
  formatInteger,
  formatPercentile,
  formatPercent,
  formatSum,
} from "../../base/text/format.ts";
import { Card, Figures, Notice, Tag } from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { percentileMs } from "../../usage/rollup/latency-histogram.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import {
  errorRateOf,
  type KeyHealth,
  type ModelHealth,
  type ProviderHealth,
} from "./provider-health.ts";

export const PROVIDERS_PATH = `${OPERATOR_PATH}/providers`;

const ERROR_RATE_WARN = 0.05;
const PERIOD_NOTE = "Last 24 hours, all processes, without callers' own provider keys";

export function providersPage(
  operator: Operator,
  providers: readonly ProviderHealth[],
): PageLayout {
  const models = providers.flatMap((provider) => provider.models);
  const total = (field: "calls" | "failures"): number =>
    providers.reduce((sum, provider) => sum + provider[field], 0);
  const circuits = providers.flatMap((provider) => provider.openCircuits);
  const rate = errorRateOf({
    completed: providers.reduce((sum, { completed }) => sum + completed, 0),
    failures: total("failures"),
  });
  return operatorPage({
    title: "Providers",
    operator,
    path: PROVIDERS_PATH,
    main: (
      <>
        {circuits.length === 0 ? null : (
          <Notice tone="danger" link={{ href: "#circuits", label: "Show circuits" }}>
            Calls skip {circuits.map(({ model }) => model).join(", ")}: five calls in a row failed.
          </Notice>
        )}
        <Figures
          figures={[
            {
              label: "Charged today",
              value: formatSum(providers.map(({ costToday }) => costToday)).total,
              remark: "since 00:00 UTC, at list prices",
            },
            { label: "Calls", value: formatInteger(total("calls")), remark: "in 24 hours" },
            {
              label: "Error rate",
              value: rate === undefined ? "–" : formatPercent(rate),
              remark: `${formatInteger(total("failures"))} failed attempts`,
            },
            { label: "Open circuits", value: circuits.length, remark: "in all processes" },
          ]}
        />
        <Card id="providers" title="Providers" aside={<span class="note">{PERIOD_NOTE}</span>}>
          {providers.length === 0 ? (
            <p class="muted">
              No provider has an account here. <a href="/docs/providers">Set a key</a>, for example{" "}
              <code>OPENAI_API_KEY</code>.
            </p>
          ) : (
            <ProviderTable providers={providers} />
          )}
        </Card>
        <KeyCard providers={providers} />
        <Card id="models" title="Models" aside={<span class="note">{PERIOD_NOTE}</span>}>
          {models.length === 0 ? (
            <p class="muted">No calls in the last 24 hours. Models with calls appear here.</p>
          ) : (
            <ModelTable models={models} />
          )}
        </Card>
        <Card
          id="circuits"
          title="Open circuits"
          aside={<span class="note">Of all processes</span>}
        >
          <CircuitTable circuits={circuits} />
        </Card>
      </>
    ),
  });
}

function ProviderTable({ providers }: { readonly providers: readonly ProviderHealth[] }): Child {
  const { parts: costs } = formatSum(providers.map(({ costToday }) => costToday));
  return (
    <Table
      label="Providers"
      isStacked
      columns={[
        { name: "Provider" },
        { name: "Health" },
        { name: "Calls", isNumber: true },
        { name: "Failed attempts", isNumber: true },
        { name: "Error rate", isNumber: true },
        { name: "First token", isNumber: true },
        { name: "Latency", isNumber: true },
        { name: "Charged today", isNumber: true },
      ]}
      rows={providers.map((provider, index) => [
        provider.provider,
        <HealthTag provider={provider} />,
        formatInteger(provider.calls),
        formatInteger(provider.failures),
        <ErrorRate figures={provider} />,
        median(provider.firstToken),
        median(provider.latency),
        costs[index] ?? "",
      ])}
    />
  );
}

function HealthTag({ provider }: { readonly provider: ProviderHealth }): Child {
  const rate = errorRateOf(provider);
  if (provider.openCircuits.length > 0) return <Tag tone="danger">circuit open</Tag>;
  if (rate === undefined) return <Tag>no calls</Tag>;
  return rate > ERROR_RATE_WARN ? <Tag tone="warn">degraded</Tag> : <Tag tone="good">up</Tag>;
}

/** The keys of the providers at which the gateway has several. */
function KeyCard({ providers }: { readonly providers: readonly ProviderHealth[] }): Child {
  const keys = providers.flatMap(({ keys: ofProvider }) => ofProvider);
  if (keys.length === 0) return null;
  return (
    <Card id="keys" title="Keys" aside={<span class="note">{PERIOD_NOTE}</span>}>
      <KeyTable keys={keys} />
    </Card>
  );
}

function KeyTable({ keys }: { readonly keys: readonly KeyHealth[] }): Child {
  const costs = formatCosts(keys.map(({ cost }) => cost));
  return (
    <Table
      label="Keys"
      isStacked
      columns={[
        { name: "Provider" },
        { name: "Key" },
        { name: "Health" },
        { name: "Weight", isNumber: true },
        { name: "Calls", isNumber: true },
        { name: "Failed attempts", isNumber: true },
        { name: "Charged", isNumber: true },
      ]}
      rows={keys.map((key, index) => [
        key.provider,
        <code>{key.name}</code>,
        key.openCircuits > 0 ? (
          <Tag tone="danger">circuit open</Tag>
        ) : (
          <KeyHealthTag figures={key} />
        ),
        key.weight,
        formatInteger(key.calls),
        formatInteger(key.failures),
        costs[index] ?? "",
      ])}
    />
  );
}

function KeyHealthTag({ figures: { calls, failures } }: { readonly figures: KeyHealth }): Child {
  if (calls + failures === 0) return <Tag>no calls</Tag>;
  return failures / (calls + failures) > ERROR_RATE_WARN ? (
    <Tag tone="warn">degraded</Tag>
  ) : (
    <Tag tone="good">up</Tag>
  );
}

function ModelTable({ models }: { readonly models: readonly ModelHealth[] }): Child {
  const costs = formatCosts(models.map(({ cost }) => cost));
  return (
    <Table
      label="Models"
      isStacked
      columns={[
        { name: "Model" },
        { name: "Calls", isNumber: true },
        { name: "Failed attempts", isNumber: true },
        { name: "Error rate", isNumber: true },
        { name: "First token", isNumber: true },
        { name: "Latency", isNumber: true },
        { name: "Charged", isNumber: true },
      ]}
      rows={models.map((figures, index) => [
        <code>{figures.model}</code>,
        formatInteger(figures.calls),
        formatInteger(figures.failures),
        <ErrorRate figures={figures} />,
        median(figures.firstToken),
        median(figures.latency),
        costs[index] ?? "",
      ])}
      isTall
    />
  );
}

function ErrorRate({
  figures,
}: {
  readonly figures: Pick<ModelHealth, "completed" | "failures">;
}): Child {
  const rate = errorRateOf(figures);
  if (rate === undefined) return "–";
  return <Tag tone={rate > ERROR_RATE_WARN ? "danger" : "good"}>{formatPercent(rate)}</Tag>;
}

function median(histogram: readonly number[]): string {
  const ms = percentileMs(histogram, 0.5);
  return ms === undefined ? "–" : formatPercentile(ms);
}

function CircuitTable({ circuits }: { readonly circuits: ProviderHealth["openCircuits"] }): Child {
  if (circuits.length === 0)
    return (
      <p class="muted">
        None. A circuit opens for 10 seconds when a model fails five times in a row; calls then go
        to another provider.
      </p>
    );
  return (
    <Table
      label="Open circuits"
      isStacked
      columns={[{ name: "Provider" }, { name: "Model" }, { name: "Account" }, { name: "Process" }]}
      rows={circuits.map(({ provider, account, model, process }) => [
        provider,
        <code>{model}</code>,
        account,
        process,
      ])}
    />
  );
}
