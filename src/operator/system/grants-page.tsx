/** @jsxImportSource hono/jsx */
// Starting credit and the networks that created accounts, to see abuse.

import type { Child } from "hono/jsx";
import type { Nano } from "../../base/money/money.ts";
import { formatCosts, formatInteger, formatPercent, formatUsd } from "../../base/text/format.ts";
import { Card, Figures, Notice, Segments } from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import type { GrantFigures, NetworkUse, VerifiedAgentUse } from "./grant-figures.ts";
import type { ListedOperator } from "./system-state.ts";

export const GRANTS_PATH = `${OPERATOR_PATH}/grants`;
export const GRANT_PERIODS = ["1", "7", "30"] as const;
type GrantPeriod = (typeof GRANT_PERIODS)[number];

/** More new accounts than this from one network deserve a look. */
const MANY_ACCOUNTS = 20;

interface GrantsPageProps {
  readonly days: GrantPeriod;
  readonly figures: GrantFigures;
  readonly networks: readonly NetworkUse[];
  readonly agents: readonly VerifiedAgentUse[];
  readonly verifiedAgents: readonly ListedOperator[];
  readonly grantPerDay: Nano;
}

export function grantsPage(
  operator: Operator,
  { days, figures, networks, agents, verifiedAgents, grantPerDay }: GrantsPageProps,
): PageLayout {
  const suspicious = networks.filter(
    ({ accounts, claimed }) => accounts >= MANY_ACCOUNTS && claimed === 0,
  );
  const limit = grantPerDay === 0n ? "no daily limit" : `of ${formatUsd(grantPerDay)} a day`;
  return operatorPage({
    title: "Grants and abuse",
    operator,
    path: GRANTS_PATH,
    actions: (
      <Segments
        label="Period"
        links={GRANT_PERIODS.map((period) => ({
          href: `${GRANTS_PATH}?days=${period}`,
          label: `${period}d`,
          isCurrent: period === days,
        }))}
      />
    ),
    main: (
      <>
        {suspicious.slice(0, 3).map(({ network, accounts }) => (
          <Notice tone="warn" link={{ href: "#networks", label: "Review network" }}>
            {network} created {formatInteger(accounts)} accounts, and none was claimed.
          </Notice>
        ))}
        <Figures
          figures={[
            { label: "Starting credit today", value: formatUsd(figures.granted), remark: limit },
            { label: "Accounts today", value: formatInteger(figures.accounts) },
            { label: "Claimed today", value: formatInteger(figures.claimed) },
            { label: "Frozen accounts", value: formatInteger(figures.frozen) },
          ]}
        />
        <Card
          id="networks"
          title="Accounts created by network"
          aside={<a href="/docs/operations">Limits of new accounts</a>}
        >
          <NetworkTable networks={networks} />
        </Card>
        <p class="note">
          A network is an IPv4 address or an IPv6 /64. To stop one,{" "}
          <a href={`${OPERATOR_PATH}/controls`}>
            block it, lower the limits or freeze its accounts
          </a>
          .
        </p>
        <Card
          id="verified-agents"
          title="Verified agents today"
          aside={<a href="/docs/verified-agents">Verified agents</a>}
        >
          <AgentTable agents={agents} verifiedAgents={verifiedAgents} />
        </Card>
      </>
    ),
  });
}

function NetworkTable({ networks }: Pick<GrantsPageProps, "networks">): Child {
  if (networks.length === 0)
    return (
      <p class="muted">
        No accounts were created in this period. Each network appears here with its accounts, how
        many were claimed, and their balance.
      </p>
    );
  const promo = formatCosts(networks.map((use) => use.promo));
  const paid = formatCosts(networks.map((use) => use.paid));
  return (
    <Table
      label="Networks that created most accounts"
      isStacked
      columns={[
        { name: "Network" },
        { name: "Accounts", isNumber: true },
        { name: "Claimed", isNumber: true },
        { name: "Promotional credit left", isNumber: true },
        { name: "Paid credit left", isNumber: true },
        { name: "Latest account", isWide: true },
      ]}
      rows={networks.map((use, index) => [
        <code>{use.network}</code>,
        formatInteger(use.accounts),
        formatPercent(use.claimed / Math.max(1, use.accounts)),
        promo[index],
        paid[index],
        <a href={`${OPERATOR_PATH}/accounts/${use.latest}`}>
          <span class="line">{use.latest}</span>
        </a>,
      ])}
    />
  );
}

function AgentTable({
  agents,
  verifiedAgents,
}: Pick<GrantsPageProps, "agents" | "verifiedAgents">): Child {
  if (agents.length === 0)
    return (
      <p class="muted">
        No operator is listed. Set <code>POSTERN_VERIFIED_AGENTS</code> to give accounts that its
        agents create with a signature their own quota and starting credit.
      </p>
    );
  const granted = formatCosts(agents.map((use) => use.granted));
  return (
    <Table
      label="Operators of verified agents"
      isStacked
      columns={[
        { name: "Operator" },
        { name: "Accounts", isNumber: true },
        { name: "Claimed", isNumber: true },
        { name: "Starting credit", isNumber: true },
        { name: "This hour", isNumber: true },
        { name: "Credit per account", isNumber: true },
        { name: "Latest account", isWide: true },
      ]}
      rows={agents.map((use, index) => {
        const listed = verifiedAgents.find(({ url }) => url === use.url);
        return [
          <code>{use.url}</code>,
          formatInteger(use.accounts),
          formatPercent(use.claimed / Math.max(1, use.accounts)),
          granted[index],
          quotaText(use, listed),
          listed === undefined ? "not listed" : formatUsd(listed.startingCredit),
          use.latest === null ? (
            "–"
          ) : (
            <a href={`${OPERATOR_PATH}/accounts/${use.latest}`}>
              <span class="line">{use.latest}</span>
            </a>
          ),
        ];
      })}
    />
  );
}

function quotaText(
  { accountsThisHour }: VerifiedAgentUse,
  listed: ListedOperator | undefined,
): string {
  const limit = listed?.accountsPerHour ?? 0;
  return limit === 0
    ? formatInteger(accountsThisHour)
    : `${formatInteger(accountsThisHour)} of ${formatInteger(limit)}`;
}
