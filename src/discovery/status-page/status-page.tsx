/** @jsxImportSource hono/jsx */
// /status: incidents, and 90 days of availability and latency of each provider and model.

import type { Child } from "hono/jsx";
import { formatDateTime } from "../../base/text/format.ts";
import { Table } from "../../http/pages/components/table.tsx";
import {
  type DayFigures,
  openIncidents,
  type ProviderStatus,
  STATUS_DAYS,
  type StatusSnapshot,
} from "../../status/availability.ts";
import type { Incident } from "../../status/incidents.ts";
import { durationText, uptimeText } from "../model-pages/model-list.ts";
import { renderSite } from "../site/site-frame.tsx";
import { FEED_PATH, IMPACT_LABELS, STATE_LABELS } from "./status-labels.ts";

const OPEN_TEXTS: Readonly<Record<number, string>> = {
  0: "No open incidents.",
  1: "One open incident.",
};

export function statusPage(snapshot: StatusSnapshot): string {
  const open = openIncidents(snapshot);
  const { providers, incidents } = snapshot;
  return renderSite({
    title: "Status",
    description: "Availability and latency of this gateway's providers, and incidents.",
    path: "/status",
    canonicalUrl: "/status",
    feedUrl: FEED_PATH,
    content: (
      <main id="main" tabindex={-1} class="status">
        <h1>Status</h1>
        <p class={`status-now ${open.length === 0 ? "" : "warn"}`.trim()} role="status">
          {OPEN_TEXTS[open.length] ?? `${open.length} open incidents.`}
        </p>
        {open.length === 0 ? null : <h2 id="open">Open incidents</h2>}
        {open.map((incident) => (
          <IncidentText incident={incident} />
        ))}
        <h2 id="providers">Providers</h2>
        <p>
          The last {STATUS_DAYS} days on this gateway's own provider accounts, up to{" "}
          {formatDateTime(snapshot.at)}.
        </p>
        {providers.length === 0 ? <p>No provider has been called often enough yet.</p> : null}
        {providers.map((provider) => (
          <Provider provider={provider} />
        ))}
        <p class="note">
          Uptime is the share of requests that the provider completed. Latency is the median time to
          the end of a reply, first token that of a stream. Days with fewer than five calls are
          gray. The same is at <code>GET /v1/status</code>, and what is promised on{" "}
          <a href="/docs/sla">service levels</a>.
        </p>
        <h2 id="history">Past incidents</h2>
        {incidents.length === open.length ? <p>None in the last {STATUS_DAYS} days.</p> : null}
        {incidents
          .filter((incident) => !open.includes(incident))
          .map((incident) => (
            <IncidentText incident={incident} />
          ))}
        <p>
          <a href={FEED_PATH}>Subscribe to incidents (Atom)</a>
        </p>
      </main>
    ),
  });
}

const PROVIDER_STATES = {
  operational: "Operational",
  degraded: "Degraded",
  down: "Down",
} as const;

function Provider({ provider }: { readonly provider: ProviderStatus }): Child {
  const { name, state, uptime, days, models, latencyMs, firstTokenMs } = provider;
  return (
    <section class="status-provider">
      <h3 id={provider.id}>{name}</h3>
      <p class={`status-state ${state ?? "none"}`}>
        {state === undefined ? "Few calls" : PROVIDER_STATES[state]}
      </p>
      <Days days={days} label={`${name}, ${STATUS_DAYS} days: ${uptimeText(uptime)} uptime`} />
      <p class="status-figures">
        {uptimeText(uptime)} uptime · {durationText(latencyMs)} latency ·{" "}
        {durationText(firstTokenMs)} to the first token
      </p>
      <LatencyDays name={name} days={days} />
      <details>
        <summary>{models.length === 1 ? "1 model" : `${models.length} models`}</summary>
        <Table
          label={`Models of ${name}`}
          columns={[
            { name: "Model" },
            { name: "Uptime", isNumber: true },
            { name: "Latency", isNumber: true },
            { name: "First token", isNumber: true, isExtra: true },
          ]}
          rows={models.map((model) => [
            <>
              <a href={`/models/${model.id}`}>{model.id}</a>
              <Days days={model.days} label={`${model.id}: ${uptimeText(model.uptime)} uptime`} />
            </>,
            uptimeText(model.uptime),
            durationText(model.latencyMs),
            durationText(model.firstTokenMs),
          ])}
        />
      </details>
    </section>
  );
}

const BAR_STEP = 4;
const BAR_WIDTH = 3;
const BAR_HEIGHT = 24;
const DAY_CLASSES = ["ok", "warn", "bad", "none"] as const;

function dayClass({ uptime }: DayFigures): (typeof DAY_CLASSES)[number] {
  if (uptime === undefined) return "none";
  if (uptime >= 0.99) return "ok";
  return uptime >= 0.95 ? "warn" : "bad";
}

/** A bar for each day, one path for each color: 90 elements for each of 50 models would be a large page. */
function Days({ days, label }: { readonly days: readonly DayFigures[]; readonly label: string }) {
  return (
    <Bars days={days} label={label}>
      {DAY_CLASSES.map((name) => (
        <path
          class={name}
          d={days
            .map((day, at) =>
              dayClass(day) === name
                ? `M${at * BAR_STEP} 0h${BAR_WIDTH}v${BAR_HEIGHT}h-${BAR_WIDTH}z`
                : "",
            )
            .join("")}
        />
      ))}
    </Bars>
  );
}

/** A bar for each day with enough calls, as high as its median latency. */
function LatencyDays({
  name,
  days,
}: {
  readonly name: string;
  readonly days: readonly DayFigures[];
}): Child {
  const max = Math.max(0, ...days.map(({ latencyMs = 0 }) => latencyMs));
  if (max === 0) return null;
  const heightOf = (latencyMs: number): number => Math.round((latencyMs / max) * BAR_HEIGHT);
  return (
    <>
      <Bars days={days} label={`${name}, median latency by day, up to ${durationText(max)}`}>
        <path
          class="latency"
          d={days
            .map(({ latencyMs }, at) =>
              latencyMs === undefined
                ? ""
                : `M${at * BAR_STEP} ${BAR_HEIGHT}h${BAR_WIDTH}v-${heightOf(latencyMs)}h-${BAR_WIDTH}z`,
            )
            .join("")}
        />
      </Bars>
      <p class="status-figures">Latency by day, up to {durationText(max)}</p>
    </>
  );
}

interface BarsProps {
  readonly days: readonly DayFigures[];
  readonly label: string;
  readonly children?: Child;
}

function Bars({ days, label, children }: BarsProps): Child {
  return (
    <svg
      class="status-days"
      viewBox={`0 0 ${days.length * BAR_STEP} ${BAR_HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {children}
    </svg>
  );
}

function IncidentText({ incident }: { readonly incident: Incident }): Child {
  const { id, title, impact, state, updates } = incident;
  return (
    <article class="status-incident">
      <h3 id={id}>{title}</h3>
      <p class="status-figures">
        {IMPACT_LABELS[impact]} · {STATE_LABELS[state]}
      </p>
      <ol>
        {updates.map((update) => (
          <li>
            <strong>{STATE_LABELS[update.state]}</strong>{" "}
            <time datetime={new Date(update.at).toISOString()}>{formatDateTime(update.at)}</time>
            <p>{update.message}</p>
          </li>
        ))}
      </ol>
    </article>
  );
}
