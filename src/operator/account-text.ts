// Accounts as text for a terminal, and as JSON for programs.

import { usdText } from "../base/money.ts";
import type { Page } from "../base/page.ts";
import { showHidden } from "../base/shown-text.ts";
import { nanoOfCents } from "../billing/cents.ts";
import type { AccountFile } from "./account.ts";
import type { AccountLine } from "./accounts.ts";
import { tableText } from "./report-text.ts";

type ShownKey = AccountFile["keys"][number];

export function linesText({ data, next_cursor: next }: Page<AccountLine>): string {
  if (data.length === 0) return "No account was found.";
  const rows = data.map((one) => [
    one.id,
    one.state,
    usdText(one.promo),
    usdText(one.paid),
    usdText(one.held),
    usdText(one.owed),
    String(one.liveKeys),
    String(one.members),
    dateText(one.createdAt),
  ]);
  const head = ["account", "state", "promo", "paid", "held", "owed", "keys", "members", "created"];
  const more = next === null ? "" : `\n\nThere are older ones: --cursor ${next}`;
  return tableText([head, ...rows]) + more;
}

export function lineJson(line: AccountLine): unknown {
  return {
    id: line.id,
    email: line.email,
    state: line.state,
    created_at: dateText(line.createdAt),
    claimed_at: dateOrNull(line.claimedAt),
    last_used_at: dateOrNull(line.lastUsedAt),
    ...moneyJson(line),
    live_keys: line.liveKeys,
    members: line.members,
  };
}

function moneyJson({
  promo,
  paid,
  held,
  owed,
}: Pick<AccountFile, "promo" | "paid" | "held" | "owed">) {
  return {
    promo_usd: usdText(promo),
    paid_usd: usdText(paid),
    held_usd: usdText(held),
    owed_usd: usdText(owed),
  };
}

export function accountText(file: AccountFile, now: number): string {
  const { account, promo, paid, held, owed, keys, members } = file;
  const usd = (amount: bigint): string => `${usdText(amount)} USD`;
  return [
    `account    ${account.id}`,
    `email      ${account.email ?? "none was given"}`,
    `created    ${dateText(account.createdAt)} from ${file.createdFrom}`,
    `claimed    ${account.claimedAt === null ? "no" : dateText(account.claimedAt)}`,
    `state      ${stateText(file)}`,
    `balance    ${usd(promo + paid)} (promotional ${usd(promo)}, paid ${usd(paid)})`,
    `held       ${usd(held)}`,
    `owed       ${usd(owed)}`,
    ...keys.map(
      (key) =>
        `key        ${key.id}  ${key.prefix}…${key.last4}  ${keyState(key, now)}  spent ${usd(key.spent)}${key.name === null ? "" : `  ${showHidden(key.name)}`}`,
    ),
    ...(file.moreKeys ? [`           and older ones; these are the newest ${keys.length}`] : []),
    ...members.map(
      ({ email, role, addedAt }) => `member     ${email}  ${role} since ${dateText(addedAt)}`,
    ),
    ...file.invoices.map(
      ({ id, status, amountCents }) =>
        `invoice    ${id}  ${status}  ${usd(nanoOfCents(amountCents))} of credits`,
    ),
    ...file.movements.map(
      (one) =>
        `movement   ${dateText(one.at)}  ${one.kind}  ${usd(one.amount)}  ${one.from} → ${one.to}${one.memo === null ? "" : `  ${one.memo}`}`,
    ),
  ].join("\n");
}

export function accountJson(file: AccountFile, now: number): unknown {
  const { account, freeze } = file;
  return {
    object: "account",
    id: account.id,
    email: account.email,
    created_at: dateText(account.createdAt),
    created_from: file.createdFrom,
    claimed_at: dateOrNull(account.claimedAt),
    frozen:
      freeze === undefined
        ? null
        : freeze.by === "debt"
          ? { by: "debt" }
          : { by: "operator", since: dateText(freeze.since), reason: freeze.reason },
    ...moneyJson(file),
    keys: file.keys.map((key) => ({
      id: key.id,
      name: key.name,
      prefix: key.prefix,
      last4: key.last4,
      state: keyState(key, now),
      last_used_at: dateOrNull(key.lastUsedAt),
      spent_usd: usdText(key.spent),
    })),
    members: file.members.map(({ email, role, addedAt }) => ({
      email,
      role,
      added_at: dateText(addedAt),
    })),
    invoices: file.invoices.map(({ id, status, amountCents, payments }) => ({
      id,
      status,
      amount_usd: usdText(nanoOfCents(amountCents)),
      payments: payments.map(({ id: payment, state, refundedCents, disputedCents }) => ({
        id: payment,
        state,
        refunded_usd: usdText(nanoOfCents(refundedCents)),
        disputed_usd: usdText(nanoOfCents(disputedCents)),
      })),
    })),
    movements: file.movements.map(({ at, id, kind, amount, change, from, to, memo }) => ({
      at: dateText(at),
      id,
      kind,
      amount_usd: usdText(amount),
      change_usd: usdText(change),
      from,
      to,
      memo,
    })),
  };
}

function stateText({ freeze }: AccountFile): string {
  if (freeze === undefined) return "active";
  return freeze.by === "debt"
    ? `frozen by a dispute, until ${usdText(freeze.owed)} USD are made good`
    : `frozen by an operator since ${dateText(freeze.since)}: ${freeze.reason}`;
}

function keyState(key: ShownKey, now: number): string {
  if (key.revokedAt !== null) return `revoked ${dateText(key.revokedAt)}`;
  return key.expiresAt !== null && key.expiresAt <= now
    ? `expired ${dateText(key.expiresAt)}`
    : "live";
}

function dateText(at: number): string {
  return new Date(at).toISOString();
}

function dateOrNull(at: number | null): string | null {
  return at === null ? null : dateText(at);
}
