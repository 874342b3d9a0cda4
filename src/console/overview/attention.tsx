/** @jsxImportSource hono/jsx */
// What needs attention in a workspace, the most urgent first.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import {
  formatDateTime,
  formatDuration,
  formatPercent,
  formatUsd,
  pluralize,
} from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import type { ClaimAttempt } from "../../claims/claim-attempt.ts";
import { waitingClaimPath } from "../../claims/claim-format.ts";
import { Notice, WorkspaceName } from "../../http/pages/components/content.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import { EXPIRY_NOTICE_DAYS, isExpiringSoon } from "../../keys/expiring-keys.ts";
import type { Key } from "../../keys/key.ts";
import type { Freeze } from "../../ledger/freezes.ts";
import { TopUpNotice } from "../billing/top-up-card.tsx";
import { workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../require-access.ts";
import { keyName } from "../usage/read-usage.ts";
import type { Overview } from "./read-overview.ts";

const LIMIT_NOTICE_PERCENT = 80n;
/** More keys than this are counted in one notice. */
const KEY_NOTICES_MAX = 3;

interface AttentionProps {
  readonly workspace: WorkspaceContext;
  readonly overview: Overview;
  readonly now: number;
}

export function Attention({ workspace, overview, now }: AttentionProps): Child {
  const { freeze, topUp } = overview;
  return (
    <>
      <WaitingClaimNotices claims={overview.waitingClaims} now={now} />
      {freeze === undefined ? null : <FreezeNotice workspace={workspace} freeze={freeze} />}
      <TopUpNotice workspace={workspace} topUp={topUp} linksToBilling />
      <BalanceNotice workspace={workspace} overview={overview} />
      <BudgetNotices workspace={workspace} overview={overview} />
      <KeyNotices workspace={workspace} overview={overview} now={now} />
      {hasPermission(workspace.role, "members.invite") ? (
        <ClaimNotices workspace={workspace} overview={overview} />
      ) : null}
      {hasPermission(workspace.role, "webhooks.read") ? (
        <WebhookNotices workspace={workspace} overview={overview} />
      ) : null}
    </>
  );
}

function FreezeNotice({
  workspace,
  freeze,
}: {
  readonly workspace: WorkspaceContext;
  readonly freeze: Freeze;
}): Child {
  if (freeze.by === "closing")
    return (
      <p class="notice danger" role="status">
        This workspace has been closing since <DateTime at={freeze.since} />. Calls and purchases
        are rejected. The owner can reopen it in the settings.
      </p>
    );
  if (freeze.by === "operator")
    return (
      <p class="notice danger" role="status">
        The operator of this gateway froze this workspace at {formatDateTime(freeze.since)}:{" "}
        {freeze.reason}. It can make no calls until the operator unfreezes it.
      </p>
    );
  const link = { href: workspacePath(workspace.accountId, "/billing"), label: "Buy credits" };
  return (
    <Notice tone="danger" link={link}>
      This workspace owes {formatUsd(freeze.owed)}: a call cost more than its credits, or a bank
      reversed a payment. Calls that cost credits are rejected until new credits have paid this
      debt.
    </Notice>
  );
}

type NoticeProps = Omit<AttentionProps, "now">;

const UNPAID_THRESHOLD_DIVISOR = 4n;

function BalanceNotice({
  workspace,
  overview: { balance, lowThreshold, usage, freeze },
}: NoticeProps): Child {
  // The notice of the debt asks for credits.
  if (freeze?.by === "debt") return null;
  const total = balance.promo + balance.paid;
  const link = { href: workspacePath(workspace.accountId, "/billing"), label: "Buy credits" };
  if (total <= 0n)
    return (
      <Notice tone="danger" link={link}>
        The balance is used up. Calls are rejected until you buy credits.
      </Notice>
    );
  // A new workspace has only its starting credit, which is below the default threshold from the first call on.
  if (balance.paid <= 0n && usage.latest.length === 0) return null;
  if (total >= (balance.paid > 0n ? lowThreshold : lowThreshold / UNPAID_THRESHOLD_DIVISOR))
    return null;
  return (
    <Notice tone="warn" link={link}>
      {balance.paid > 0n
        ? `The balance is below the alert threshold of ${formatUsd(lowThreshold)}.`
        : `The starting credit is nearly used up: ${formatUsd(total)} left.`}
    </Notice>
  );
}

const BUDGET_NAMES = { day: "daily", month: "monthly" } as const;

function BudgetNotices({ workspace, overview: { budgets } }: NoticeProps): Child {
  const windows = ["day", "month"] as const;
  return (
    <>
      {windows.map((window) => {
        const { limit, used: spent } = budgets[window];
        if (limit === null || spent * 100n < limit * LIMIT_NOTICE_PERCENT) return null;
        return (
          <Notice
            tone={spent >= limit ? "danger" : "warn"}
            link={{ href: workspacePath(workspace.accountId, "/budgets"), label: "Review budget" }}
          >
            {formatUsd(spent)} of the {BUDGET_NAMES[window]} budget of {formatUsd(limit)} is spent.
          </Notice>
        );
      })}
    </>
  );
}

function KeyNotices({ workspace, overview: { keys }, now }: AttentionProps): Child {
  const link = { href: workspacePath(workspace.accountId, "/keys"), label: "Review limit" };
  const atLimit = keys.filter(
    ({ limit, spent }) => limit !== null && spent * 100n >= limit * LIMIT_NOTICE_PERCENT,
  );
  const expiring = keys.filter((key) => isExpiringSoon(key, now));
  return (
    <>
      {atLimit.slice(0, KEY_NOTICES_MAX).map((key) => (
        <Notice tone="warn" link={link}>
          {keyMark(key)} has used {usedPercent(key)} of its {formatUsd(key.limit ?? 0n)} limit.
        </Notice>
      ))}
      {expiring.slice(0, KEY_NOTICES_MAX).map((key) => (
        <Notice tone="warn" link={{ ...link, label: "Change expiry" }}>
          {keyMark(key)} expires on {utcDay(key.expiresAt ?? now)}.
        </Notice>
      ))}
      <MoreKeys
        state={`At least ${LIMIT_NOTICE_PERCENT}% of the limit used`}
        keys={atLimit}
        link={{ ...link, label: "Review limits" }}
      />
      <MoreKeys
        state={`Expiring within ${EXPIRY_NOTICE_DAYS} days`}
        keys={expiring}
        link={{ ...link, label: "Review keys" }}
      />
    </>
  );
}

function MoreKeys({
  state,
  keys,
  link,
}: {
  readonly state: string;
  readonly keys: readonly Key[];
  readonly link: { readonly href: string; readonly label: string };
}): Child {
  if (keys.length <= KEY_NOTICES_MAX) return null;
  return (
    <Notice tone="warn" link={link}>
      {state}: {pluralize(keys.length - KEY_NOTICES_MAX, "more key")}.
    </Notice>
  );
}

function keyMark(key: Key): Child {
  return (
    <b>
      <bdi>{keyName(key)}</bdi>
    </b>
  );
}

function usedPercent({ limit, spent }: Key): string {
  return limit === null || limit === 0n ? "100%" : formatPercent(Number(spent) / Number(limit));
}

function ClaimNotices({ workspace, overview: { pendingClaims } }: NoticeProps): Child {
  const link = { href: workspacePath(workspace.accountId, "/members"), label: "Review members" };
  return (
    <>
      {pendingClaims.map(({ email, expiresAt }) => (
        <Notice link={link}>
          An agent of this workspace invited{" "}
          <b>
            <bdi>{email}</bdi>
          </b>
          . The invitation expires on <DateTime at={expiresAt} />.
        </Notice>
      ))}
    </>
  );
}

/** On the pages on which a person lands after sign-in. */
export function WaitingClaimNotices({
  claims,
  now,
}: {
  readonly claims: readonly ClaimAttempt[];
  readonly now: number;
}): Child {
  return (
    <>
      {claims.map((claim) => (
        <Notice tone="warn" link={{ href: waitingClaimPath(claim), label: "Review claim" }}>
          An agent asks you to {claim.invitation ? "join the workspace" : "take over its account"}{" "}
          <WorkspaceName id={claim.accountId} name={claim.accountName} />. The claim expires in{" "}
          {formatDuration(claim.expiresAt - now)}.
        </Notice>
      ))}
    </>
  );
}

function WebhookNotices({ workspace, overview: { webhooks } }: NoticeProps): Child {
  const link = { href: workspacePath(workspace.accountId, "/webhooks"), label: "Review webhook" };
  return (
    <>
      {webhooks.map(({ url, status, disabledReason, failingSince }) =>
        status === "disabled" && disabledReason !== null ? (
          <Notice tone="danger" link={link}>
            The webhook to <b>{new URL(url).host}</b> is disabled.
          </Notice>
        ) : failingSince === null || status !== "active" ? null : (
          <Notice tone="warn" link={link}>
            The webhook to <b>{new URL(url).host}</b> has failed since{" "}
            <DateTime at={failingSince} />.
          </Notice>
        ),
      )}
    </>
  );
}
