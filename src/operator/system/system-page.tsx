/** @jsxImportSource hono/jsx */
// Providers, circuits and queues of all processes; jobs and settings of this one.

import type { Child } from "hono/jsx";
import { formatInteger, formatMilliseconds, formatUsd, pluralize } from "../../base/format.ts";
import type { JobRun } from "../../base/job-run.ts";
import {
  Card,
  Details,
  Figures,
  Notice,
  RelativeTime,
  Tag,
} from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorPage } from "../operator-layout.tsx";
import { ProviderTable } from "../report/daily-charts.tsx";
import type { ProviderFigures } from "../report/daily-figures.ts";
import { type Operator, OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import type { OpenCircuit } from "./open-circuits.ts";
import { type Queue, QUEUE_COUNT_MAX } from "./queues.ts";
import type { SystemState } from "./system-state.ts";

export const SYSTEM_PATH = `${OPERATOR_PATH}/system`;

interface SystemPageProps {
  readonly system: SystemState;
  /** Of the current UTC day. */
  readonly providers: readonly ProviderFigures[];
  readonly circuits: readonly OpenCircuit[];
  readonly queues: readonly Queue[];
}

export function systemPage(
  operator: Operator,
  { system, providers, circuits, queues }: SystemPageProps,
): PageLayout {
  const half = Math.ceil(system.settings.length / 2);
  const failing = [...system.jobRuns.values()].filter(({ last }) => last?.isFailed).length;
  return operatorPage({
    title: "System",
    operator,
    path: SYSTEM_PATH,
    main: (
      <>
        {failing === 0 ? null : (
          <Notice tone="danger">
            The last run of {pluralize(failing, "job")} failed. The log has the cause.
          </Notice>
        )}
        <Figures
          figures={[
            { label: "Open circuits", value: circuits.length, remark: "in all processes" },
            { label: "Failing jobs", value: failing, remark: `of ${system.jobRuns.size}` },
            {
              label: "Calls today",
              value: formatInteger(providers.reduce((sum, { calls }) => sum + calls, 0)),
              remark: "since 00:00 UTC",
            },
            {
              label: "Charged today",
              value: formatUsd(providers.reduce((sum, { cost }) => sum + cost, 0n)),
              remark: "at list prices",
            },
          ]}
        />
        <div class="side-by-side">
          <Card id="providers" title="Providers today">
            {providers.length === 0 ? (
              <p class="muted">
                No calls since 00:00 UTC. Calls, failures and charges appear here.
              </p>
            ) : (
              <ProviderTable providers={providers} />
            )}
            <h3>Open circuits</h3>
            <CircuitTable circuits={circuits} />
          </Card>
          <Card id="queues" title="Queues" aside={<span class="note">Of all processes</span>}>
            <Table
              label="Queues"
              columns={[{ name: "Queue" }, { name: "Length", isNumber: true }]}
              rows={queues.map((queue) => [queue.name, queueLength(queue)])}
            />
          </Card>
        </div>
        <Card id="jobs" title="Jobs" aside={<span class="note">Of this process</span>}>
          <JobTable jobRuns={system.jobRuns} />
        </Card>
        <Card id="settings" title="Settings" aside={<a href="/docs/settings">All settings</a>}>
          <div class="side-by-side">
            <SettingList settings={system.settings.slice(0, half)} />
            <SettingList settings={system.settings.slice(half)} />
          </div>
        </Card>
      </>
    ),
  });
}

function SettingList({ settings }: Pick<SystemState, "settings">): Child {
  return <Details items={settings.map(([name, value]) => [<code>{name}</code>, value])} />;
}

function queueLength({ length }: Queue): string {
  return length >= QUEUE_COUNT_MAX
    ? `at least ${formatInteger(QUEUE_COUNT_MAX)}`
    : formatInteger(length);
}

function CircuitTable({ circuits }: { readonly circuits: readonly OpenCircuit[] }): Child {
  if (circuits.length === 0)
    return (
      <p class="muted">
        None. A circuit opens for 30 seconds when a model fails five times in a row; calls then go
        to another provider.
      </p>
    );
  return (
    <Table
      label="Open circuits"
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

function JobTable({ jobRuns }: Pick<SystemState, "jobRuns">): Child {
  return (
    <Table
      label="Jobs"
      columns={[
        { name: "Job" },
        { name: "State" },
        { name: "Last run", isDate: true },
        { name: "Duration", isNumber: true },
        { name: "Interval", isNumber: true, isExtra: true },
        { name: "Failures", isNumber: true, isExtra: true },
      ]}
      rows={[...jobRuns].map(([name, { intervalMs, failures, last }]) => [
        name,
        <JobTag last={last} />,
        last === undefined ? "–" : <RelativeTime at={last.startedAt} />,
        last === undefined ? "–" : formatMilliseconds(last.ms),
        intervalText(intervalMs),
        formatInteger(failures),
      ])}
    />
  );
}

function JobTag({ last }: Pick<JobRun, "last">): Child {
  if (last === undefined) return <Tag>waiting</Tag>;
  return last.isFailed ? <Tag tone="danger">failed</Tag> : <Tag tone="good">ok</Tag>;
}

/** `5 s`, `10 min`, `1 h`. */
function intervalText(ms: number): string {
  if (ms < 60_000) return `${ms / 1_000} s`;
  return ms < 3_600_000 ? `${ms / 60_000} min` : `${ms / 3_600_000} h`;
}
