// Accounts as text for a terminal and as JSON.

import { usdText } from "../../base/money/money.ts";
import type { Page } from "../../base/pagination.ts";
import { formatUsdExact } from "../../base/text/format.ts";
import { replaceUnsafe } from "../../base/text/safe-text.ts";
import { nanoOfCents, nanoOfCredits } from "../../billing/invoices/cents.ts";
import { timestamp, timestampOrNull } from "../../http/schemas.ts";
import { tableText } from "../report/report-output.ts";
import type { AccountDetails } from "./account-details.ts";
import type { AccountSummary } from "./account-list.ts";

type AccountKey = AccountDetails["keys"][number];

export function accountListText({ data, next_cursor: next }: Page<AccountSummary>): string {
  if (data.length === 0) return "No accounts found.";
  const rows = data.map((account) => [
    account.id,
    account.state,
    usdText(account.promo),
    usdText(account.paid),
    usdText(account.held),
    usdText(account.owed),
    String(account.liveKeys),
    String(account.members),
    timestamp(account.createdAt),
  ]);
  const head = ["account", "state", "promo", "paid", "held", "owed", "keys", "members", "created"];
  const more = next === null ? "" : `\n\nFor older accounts: --cursor ${next}`;
  return tableText([head, ...rows]) + more;
}

export function accountSummaryJson(account: AccountSummary): unknown {
  return {
    id: account.id,
    email: account.email,
    state: account.state,
    created_at: timestamp(account.createdAt),
    claimed_at: timestampOrNull(account.claimedAt),
    last_used_at: timestampOrNull(account.lastUsedAt),
    ...moneyJson(account),
    live_keys: account.liveKeys,
    members: account.members,
  };
}

function moneyJson({
  promo,
  paid,
  held,
  owed,
}: Pick<AccountDetails, "promo" | "paid" | "held" | "owed">) {
  return {
    promo_usd: usdText(promo),
    paid_usd: usdText(paid),
    held_usd: usdText(held),
    owed_usd: usdText(owed),
  };
}

export function accountText(details: AccountDetails, now: number): string {
  const { account, promo, paid, held, owed, keys, members } = details;
  const usd = formatUsdExact;
  return [
    `account    ${account.id}`,
    `email      ${account.email ?? "none"}`,
    `created    ${timestamp(account.createdAt)} from ${details.createdFrom}${details.verifiedAgent === null ? "" : `, signed by an agent of ${details.verifiedAgent}`}`,
    `claimed    ${account.claimedAt === null ? "no" : timestamp(account.claimedAt)}`,
    `state      ${stateText(details)}`,
    `balance    ${usd(promo + paid)} (promotional ${usd(promo)}, paid ${usd(paid)})`,
    `held       ${usd(held)}`,
    `owed       ${usd(owed)}`,
    ...keys.map(
      (key) =>
        `key        ${key.id}  ${key.prefix}…${key.last4}  ${keyState(key, now)}  spent ${usd(key.spent)}${key.name === null ? "" : `  ${replaceUnsafe(key.name)}`}`,
    ),
    ...(details.hasMoreKeys
      ? [`           older keys are not shown; these are the newest ${keys.length}`]
      : []),
    ...members.map(
      ({ email, role, addedAt }) => `member     ${email}  ${role} since ${timestamp(addedAt)}`,
    ),
    ...details.invoices.map(
      ({ id, status, credits }) =>
        `invoice    ${id}  ${status}  ${usd(nanoOfCredits(credits))} of credits`,
    ),
    ...details.transfers.map(
      ({ at, kind, amount, from, to, memo }) =>
        `transfer   ${timestamp(at)}  ${kind}  ${usd(amount)}  ${from} → ${to}${memo === null ? "" : `  ${memo}`}`,
    ),
  ].join("\n");
}

export function accountJson(details: AccountDetails, now: number): unknown {
  const { account, freeze } = details;
  return {
    object: "account",
    id: account.id,
    email: account.email,
    created_at: timestamp(account.createdAt),
    created_from: details.createdFrom,
    verified_agent: details.verifiedAgent,
    claimed_at: timestampOrNull(account.claimedAt),
    frozen:
      freeze === undefined
        ? null
        : freeze.by === "debt"
          ? { by: "debt" }
          : freeze.by === "closing"
            ? { by: "closing", since: timestamp(freeze.since) }
            : { by: "operator", since: timestamp(freeze.since), reason: freeze.reason },
    ...moneyJson(details),
    keys: details.keys.map((key) => ({
      id: key.id,
      name: key.name,
      prefix: key.prefix,
      last4: key.last4,
      state: keyState(key, now),
      last_used_at: timestampOrNull(key.lastUsedAt),
      spent_usd: usdText(key.spent),
    })),
    members: details.members.map(({ email, role, addedAt }) => ({
      email,
      role,
      added_at: timestamp(addedAt),
    })),
    invoices: details.invoices.map(({ id, status, credits, payments }) => ({
      id,
      status,
      amount_usd: usdText(nanoOfCredits(credits)),
      payments: payments.map(({ id: payment, state, refundedCents, disputedCents }) => ({
        id: payment,
        state,
        refunded_usd: usdText(nanoOfCents(refundedCents)),
        disputed_usd: usdText(nanoOfCents(disputedCents)),
      })),
    })),
    movements: details.transfers.map(({ at, id, kind, amount, balanceChange, from, to, memo }) => ({
      at: timestamp(at),
      id,
      kind,
      amount_usd: usdText(amount),
      change_usd: usdText(balanceChange),
      from,
      to,
      memo,
    })),
  };
}

function stateText({ freeze }: AccountDetails): string {
  if (freeze === undefined) return "active";
  if (freeze.by === "closing") return `closing since ${timestamp(freeze.since)}`;
  return freeze.by === "debt"
    ? `frozen by a debt of ${formatUsdExact(freeze.owed)}`
    : `frozen by an operator since ${timestamp(freeze.since)}: ${freeze.reason}`;
}

function keyState(key: AccountKey, now: number): string {
  if (key.revokedAt !== null) return `revoked ${timestamp(key.revokedAt)}`;
  return key.expiresAt !== null && key.expiresAt <= now
    ? `expired ${timestamp(key.expiresAt)}`
    : "live";
}
