/** @jsxImportSource hono/jsx */
// The overview of a workspace: balance, recent spending, keys and members.

import type { Child } from "hono/jsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import type { Freeze } from "../../ledger/freezes.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { TopUpNotice } from "../billing/top-up-card.tsx";
import { formatDateTime, formatUsd, pluralize } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";
import type { Overview } from "./read-overview.ts";
import { UsageTable } from "../../usage/usage-table.tsx";

export function overviewPage(
  user: SessionUser,
  workspace: WorkspaceContext,
  overview: Overview,
): PageLayout {
  const { balance, freeze, topUp, days, liveKeys, members } = overview;
  const spent = days.reduce((total, { cost }) => total + cost, 0n);
  return consolePage({
    title: "Overview",
    workspace,
    user,
    page: "",
    main: (
      <>
        {freeze === undefined ? null : <FreezeNotice freeze={freeze} />}
        <TopUpNotice workspace={workspace} topUp={topUp} linksToBilling />
        <section class="card" aria-labelledby="balance">
          <h2 id="balance">Balance: {formatUsd(balance.promo + balance.paid)}</h2>
          <p>
            {formatUsd(balance.paid)} paid and {formatUsd(balance.promo)} promotional, which is
            spent first.{" "}
            {balance.held === 0n
              ? "No calls are running."
              : `${formatUsd(balance.held)} is on hold for running calls.`}
          </p>
        </section>
        <p>
          <a href={workspacePath(workspace.accountId, "/keys")}>
            {pluralize(liveKeys, "active key")}
          </a>{" "}
          and{" "}
          <a href={workspacePath(workspace.accountId, "/members")}>
            {pluralize(members, "member")}
          </a>{" "}
          can spend this balance.
        </p>
        <h2>Spent in the last 30 days: {formatUsd(spent)}</h2>
        {days.length === 0 ? <p>No calls.</p> : <UsageTable groupBy="day" sums={days} />}
      </>
    ),
  });
}

function FreezeNotice({ freeze }: { readonly freeze: Freeze }): Child {
  return (
    <p class="notice danger" role="status">
      {freeze.by === "operator"
        ? `The operator of this gateway froze this workspace at ${formatDateTime(freeze.since)}: ${freeze.reason}. It makes no calls until the operator lifts that.`
        : `This workspace is frozen: a bank reversed a payment, and ${formatUsd(freeze.owed)} of its credits were already spent. Calls are rejected until new credits have paid this debt.`}
    </p>
  );
}
