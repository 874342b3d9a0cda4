/** @jsxImportSource hono/jsx */
// The state of this process: jobs, queues and settings.

import type { Child } from "hono/jsx";
import type { JobRun } from "../../base/job-run.ts";
import { formatInteger, formatMilliseconds, formatUsd, pluralize } from "../../base/text/format.ts";
import {
  Card,
  Details,
  EmptyState,
  Figures,
  Notice,
  Tag,
} from "../../http/pages/components/content.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { parseRecord } from "../../ledger-proofs/proof-format.ts";
import type { LoggedDay } from "../../ledger-proofs/published-log.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import { type Queue, QUEUE_COUNT_MAX } from "./queues.ts";
import type { SystemState } from "./system-state.ts";

export const SYSTEM_PATH = `${OPERATOR_PATH}/system`;

interface SystemPageProps {
  readonly system: SystemState;
  readonly queues: readonly Queue[];
  /** The log of the ledger's roots. */
  readonly published: readonly LoggedDay[];
}

export function systemPage(
  operator: Operator,
  { system, queues, published }: SystemPageProps,
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
          figures={queues.map((queue) => ({ label: queue.name, value: queueLength(queue) }))}
        />
        <Card id="jobs" title="Jobs" aside={<span class="note">Of this process</span>}>
          <JobTable jobRuns={system.jobRuns} />
        </Card>
        <Card
          id="ledger-roots"
          title="Roots of the ledger"
          aside={<a href="/docs/ledger-proofs#mirror-the-log">Mirror the log</a>}
        >
          <RootList published={published} />
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

function RootList({ published }: Pick<SystemPageProps, "published">): Child {
  const last = published.at(-1);
  if (last === undefined)
    return (
      <EmptyState title="No roots yet">
        The first ones follow a day at whose end there were accounts, at 01:30 UTC.
      </EmptyState>
    );
  const { balances, entries, difference_nano: difference } = parseRecord(last.record);
  return (
    <Details
      items={[
        ["Last day", last.day],
        ["Published", <RelativeTime at={last.publishedAt} />],
        ["Records in the log", <a href="/v1/ledger/roots">{formatInteger(published.length)}</a>],
        ["Balances of all accounts", formatUsd(BigInt(balances.nano))],
        ["Root of the balances", <code>{balances.root}</code>],
        ["Root of the entries", <code>{entries.root}</code>],
        ["Entries", formatInteger(entries.count)],
        ["Difference to the entries", difference === null ? "–" : formatUsd(BigInt(difference))],
      ]}
    />
  );
}

function SettingList({ settings }: Pick<SystemState, "settings">): Child {
  return <Details items={settings.map(([name, value]) => [<code>{name}</code>, value])} />;
}

function queueLength({ length }: Queue): string {
  return length >= QUEUE_COUNT_MAX
    ? `at least ${formatInteger(QUEUE_COUNT_MAX)}`
    : formatInteger(length);
}

function JobTable({ jobRuns }: Pick<SystemState, "jobRuns">): Child {
  return (
    <Table
      label="Jobs"
      columns={[
        { name: "Job" },
        { name: "Status" },
        { name: "Last run", isDate: true },
        { name: "Duration", isNumber: true, isExtra: true },
        { name: "Interval", isNumber: true, isExtra: true },
        { name: "Failures", isNumber: true },
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
