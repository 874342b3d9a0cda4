/** @jsxImportSource hono/jsx */
// Every component of the design system on one page, in development mode.

import type { Child } from "hono/jsx";
import {
  Amounts,
  Card,
  CodeTabs,
  CopyText,
  Details,
  EmptyState,
  Figures,
  Notice,
  Segments,
  Tag,
  UsageBar,
} from "../http/pages/components/content.tsx";
import { ErrorMessage, FilterSelect } from "../http/pages/components/form.tsx";
import { RelativeTime } from "../http/pages/components/local-time.tsx";
import { Legend, StackedBars } from "../http/pages/components/stacked-bars.tsx";
import { OlderLink, Table } from "../http/pages/components/table.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";

export const COMPONENTS_PATH = "/console/_components";

const SERIES = [
  { label: "claude-sonnet-5-5", values: [3, 5, 4, 8, 2, 6, 7] },
  { label: "gpt-6-mini", values: [1, 2, 2, 3, 1, 2, 4] },
  { label: "other", values: [1, 0, 1, 1, 0, 2, 1] },
];
const DAYS = ["Nov 17", "Nov 18", "Nov 19", "Nov 20", "Nov 21", "Nov 22", "Nov 23"];

export function componentsPage(user: SessionUser, now: number): PageLayout {
  return {
    title: "Components – Postern",
    isPrivate: true,
    app: {
      homeHref: "/console",
      navGroups: [{ links: [{ href: COMPONENTS_PATH, label: "Components" }] }],
      path: COMPONENTS_PATH,
      heading: "Components",
      crumbs: [{ href: "/console", label: "Console" }],
      actions: (
        <>
          <a class="button secondary" href={COMPONENTS_PATH}>
            Secondary action
          </a>
          <a class="button" href={COMPONENTS_PATH}>
            Primary action
          </a>
        </>
      ),
      email: user.email,
      accountLinks: [],
      signOut: { action: "/signout", csrf: user.csrf },
    },
    main: (
      <>
        <Messages />
        <Data now={now} />
        <Forms />
        <Code />
      </>
    ),
  };
}

function Messages(): Child {
  return (
    <>
      <Notice>Saved. New calls use the new limit.</Notice>
      <Notice tone="warn" link={{ href: COMPONENTS_PATH, label: "Review limit" }}>
        <b>nightly-eval</b> has used 92% of its $20.00 monthly limit.
      </Notice>
      <Notice tone="danger">The last payment failed.</Notice>
      <ErrorMessage message="The limit must be a number of US dollars, such as 20 or 0.50." />
      <p>
        <Tag>canceled</Tag> <Tag tone="good">200</Tag> <Tag tone="warn">expiring</Tag>{" "}
        <Tag tone="danger">429</Tag>
      </p>
    </>
  );
}

function Data({ now }: { readonly now: number }): Child {
  return (
    <>
      <Figures
        figures={[
          { label: "Balance", value: "$41.87", remark: "about 19 days at this rate" },
          { label: "Calls", value: "48,112", remark: "0.4% failed" },
        ]}
      />
      <Card id="chart" title="Spend by model" aside={<Legend series={SERIES} />}>
        <StackedBars
          label="Spend by model, 7 days"
          bars={DAYS}
          series={SERIES}
          format={(value) => `$${value}`}
        />
      </Card>
      <div class="columns">
        <Card id="table" title="Table" aside={<a href={COMPONENTS_PATH}>All calls</a>}>
          <Table
            label="Calls"
            columns={[
              { name: "Time", isDate: true },
              { name: "Model" },
              { name: "Cost", isNumber: true },
            ]}
            rows={[
              [<RelativeTime at={now - 300_000} />, "gpt-6-mini", "$0.0004"],
              [<RelativeTime at={now - 7_200_000} />, "claude-sonnet-5-5", "$0.0338"],
            ]}
          />
          <OlderLink path={COMPONENTS_PATH} query={{}} cursor="next" />
        </Card>
        <Card id="bars" title="Limits">
          <Table
            label="Limits of keys"
            columns={[{ name: "Name" }, { name: "This month" }, { name: "Spend", isNumber: true }]}
            rows={[
              ["nightly-eval", <UsageBar label="92% used" used={92n} limit={100n} />, "$18.40"],
              ["production", <UsageBar label="36% used" used={36n} limit={100n} />, "$36.11"],
            ]}
          />
        </Card>
      </div>
      <h2>Names and values</h2>
      <div class="side-by-side">
        <Card id="amounts" title="Amounts">
          <Amounts
            items={[
              ["Paid", "$40.00"],
              ["Promotional", "$1.87"],
            ]}
          />
        </Card>
        <Card id="details" title="Details">
          <Details items={[["Request id", <CopyText text="req_01kah5t3mq7d2c9w4e6r8t0yax" />]]} />
        </Card>
      </div>
    </>
  );
}

function Forms(): Child {
  return (
    <>
      <h2>Controls</h2>
      <Segments
        label="Range"
        links={["24h", "7d", "30d"].map((label) => ({
          href: COMPONENTS_PATH,
          label,
          isCurrent: label === "30d",
        }))}
      />
      <form class="inline" action={COMPONENTS_PATH}>
        <FilterSelect
          name="outcome"
          label="Outcome"
          allLabel="Any outcome"
          options={["succeeded", "failed"]}
          selected={undefined}
        />
        <div>
          <label for="field">Field</label>
          <input id="field" name="field" />
        </div>
        <button type="submit">Filter</button>
        <button type="submit" class="secondary">
          Secondary
        </button>
        <button type="submit" class="danger">
          Revoke
        </button>
        <button type="submit" disabled>
          Disabled
        </button>
      </form>
    </>
  );
}

function Code(): Child {
  return (
    <>
      <Card id="code" title="Code">
        <CodeTabs
          id="snippet"
          label="Examples"
          tabs={[
            { label: "curl", code: "curl https://gateway.example/v1/models" },
            { label: "Python", code: "client.models.list()" },
          ]}
        />
      </Card>
      <Card id="empty" title="Empty state">
        <EmptyState title="No calls yet">
          <p class="muted">Calls appear here a second after they end.</p>
        </EmptyState>
      </Card>
    </>
  );
}
