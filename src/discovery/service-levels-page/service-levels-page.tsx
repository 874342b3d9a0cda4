/** @jsxImportSource hono/jsx */
// /docs/sla: the service levels of this gateway, what a breach is worth, and what was measured in the last 90 days.

import type { Child } from "hono/jsx";
import { formatDateTime } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { Table } from "../../http/pages/components/table.tsx";
import { SIMULATOR } from "../../service-levels/breach.ts";
import {
  creditText,
  EVERY_MODEL,
  isInForce,
  levelText,
  type ServiceLevel,
} from "../../service-levels/service-levels.ts";
import { type ModelFigures, STATUS_DAYS, type StatusSnapshot } from "../../status/availability.ts";
import { durationText, uptimeText } from "../model-pages/model-list.ts";
import { renderSite } from "../site/site-frame.tsx";

export const SLA_PATH = "/docs/sla";

/** The levels that are on or still cover a window, and the figures of their models. */
export interface PublishedLevels {
  readonly at: number;
  readonly levels: readonly ServiceLevel[];
  readonly models: readonly ModelFigures[];
}

export function publishedLevels(
  { at, models }: StatusSnapshot,
  levels: readonly ServiceLevel[],
): PublishedLevels {
  const inForce = levels.filter((level) => isInForce(level, at));
  const isCovered = (id: string): boolean =>
    !id.startsWith(`${SIMULATOR}/`) &&
    inForce.some(({ model }) => model === EVERY_MODEL || model === id);
  return { at, levels: inForce, models: models.filter(({ id }) => isCovered(id)) };
}

export function serviceLevelsPage({ at, levels, models }: PublishedLevels): string {
  return renderSite({
    title: "Service levels",
    description: "The service levels of this gateway, and what it credits if one is not met.",
    path: SLA_PATH,
    canonicalUrl: SLA_PATH,
    content: (
      <main id="main" tabindex={-1} class="status">
        <h1>Service levels</h1>
        {levels.length === 0 ? (
          <p>
            This gateway has no service levels. What it measures is on the{" "}
            <a href="/status">status page</a>.
          </p>
        ) : (
          <>
            <p>
              If one of these levels is not met for your calls, credit is added to your balance
              after the window, without a request. <a href="/docs/service-levels">What counts</a>{" "}
              and where you see it. The same is at <code>GET /v1/service-levels</code>.
            </p>
            <LevelTable levels={levels} />
            <h2 id="figures">Last {STATUS_DAYS} days</h2>
            <p>
              What this gateway measured for all accounts on its own provider accounts. Availability
              is the share of requests to providers that they completed. More is on the{" "}
              <a href="/status">status page</a>.
            </p>
            {models.length === 0 ? <p>No model has been called often enough yet.</p> : null}
            {models.length === 0 ? null : <FiguresTable models={models} />}
            <p>As of {utcDay(at)}, in UTC.</p>
          </>
        )}
      </main>
    ),
  });
}

function LevelTable({ levels }: { readonly levels: readonly ServiceLevel[] }): Child {
  return (
    <Table
      label="Service levels"
      isStacked
      columns={[
        { name: "Level" },
        { name: "Credit", isWide: true },
        { name: "In force", isWide: true },
      ]}
      rows={levels.map((level) => [
        <span id={level.id}>{levelText(level)}</span>,
        creditText(level),
        level.endedAt === null
          ? `from ${formatDateTime(level.startsAt)}`
          : `ends with the ${level.period} of ${formatDateTime(level.endedAt)}`,
      ])}
    />
  );
}

function FiguresTable({ models }: { readonly models: readonly ModelFigures[] }): Child {
  return (
    <Table
      label="Figures by model"
      columns={[
        { name: "Model" },
        { name: "Availability", isNumber: true },
        { name: "First token, p95", isNumber: true },
        { name: "First token, p99", isNumber: true, isExtra: true },
      ]}
      rows={models.map(({ id, uptime, firstTokenP95Ms, firstTokenP99Ms }) => [
        <a href={`/models/${id}`}>{id}</a>,
        uptimeText(uptime),
        durationText(firstTokenP95Ms),
        durationText(firstTokenP99Ms),
      ])}
    />
  );
}
