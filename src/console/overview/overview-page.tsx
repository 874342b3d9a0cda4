/** @jsxImportSource hono/jsx */
// The overview of a workspace: what is left, what is spent, and who and what can spend it.

import type { Child } from "hono/jsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import type { Freeze } from "../../ledger/freezes.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { TopUpNotice } from "../billing/top-up-card.tsx";
import { formatInteger, formatDateTime, formatUsd } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";
import type { Overview } from "./read-overview.ts";
import { UsageTable } from "../../usage/usage-table.tsx";

export function overviewPage(
  user: SessionUser,
  workspace: WorkspaceContext,
  overview: Overview,
): PageLayout {
  const { balance, freeze, topUp, days, liveKeys, members } = overview;
  const spent = days.reduce((sum, one) => sum + one.cost, 0n);
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
          <h2 id="balance">{formatUsd(balance.promo + balance.paid)} left</h2>
          <p>
            {formatUsd(balance.paid)} bought and {formatUsd(balance.promo)} given, which is spent
            first.{" "}
            {balance.held === 0n
              ? "No call is running."
              : `${formatUsd(balance.held)} is held by calls that run now.`}
          </p>
        </section>
        <p>
          <a href={workspacePath(workspace.accountId, "/keys")}>
            {formatInteger(liveKeys)} live {liveKeys === 1 ? "key" : "keys"}
          </a>{" "}
          and{" "}
          <a href={workspacePath(workspace.accountId, "/members")}>
            {formatInteger(members)} {members === 1 ? "member" : "members"}
          </a>{" "}
          can spend this balance.
        </p>
        <h2>{formatUsd(spent)} in the last thirty days</h2>
        {days.length === 0 ? <p>No model was called.</p> : <UsageTable groupBy="day" sums={days} />}
      </>
    ),
  });
}

function FreezeNotice({ freeze }: { readonly freeze: Freeze }): Child {
  return (
    <p class="notice danger" role="status">
      {freeze.by === "operator"
        ? `The operator of this gateway froze this workspace at ${formatDateTime(freeze.since)}: ${freeze.reason}. It makes no calls until the operator lifts that.`
        : `This workspace makes no calls: a bank took a payment back, and ${formatUsd(freeze.owed)} of it were spent. Credits that are bought make good for that first.`}
    </p>
  );
}
