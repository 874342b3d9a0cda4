/** @jsxImportSource hono/jsx */
// The state of this process: jobs, queues and settings.

import type { Child } from "hono/jsx";
import type { JobRun } from "../../base/job-run.ts";
import { formatInteger, formatMilliseconds, pluralize } from "../../base/text/format.ts";
import { Card, Details, Figures, Notice, Tag } from "../../http/pages/components/content.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import { type Queue, QUEUE_COUNT_MAX } from "./queues.ts";
import type { SystemState } from "./system-state.ts";

export const SYSTEM_PATH = `${OPERATOR_PATH}/system`;

interface SystemPageProps {
  readonly system: SystemState;
  readonly queues: readonly Queue[];
}

export function systemPage(operator: Operator, { system, queues }: SystemPageProps): PageLayout {
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

function JobTable({ jobRuns }: Pick<SystemState, "jobRuns">): Child {
  return (
    <Table
      label="Jobs"
      columns={[
        { name: "Job" },
        { name: "State" },
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
