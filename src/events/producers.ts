// Turns changes of accounts, keys, members and balances into events and audit entries. Each function runs in the
// transaction of the change.

import type { AccountCreated, AccountRenamed } from "../accounts/accounts.ts";
import type { MemberChange } from "../accounts/members.ts";
import { type Actor, recordAuditEntry } from "../audit/audit.ts";
import { creditsOf, usdOf, usdText } from "../base/money/money.ts";
import type { ClaimEvent } from "../claims/claims.ts";
import { policyText } from "../http/key-policy.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { takeExpiringKeys } from "../keys/expiring-keys.ts";
import type { KeyChange } from "../keys/keys-routes.ts";
import { getKey, type Key } from "../keys/keys.ts";
import type { ThresholdCrossing } from "../ledger/balance-thresholds.ts";
import type { BudgetThresholdCrossing } from "../ledger/budget-rules.ts";
import type { KeyAlert } from "../ledger/key-alerts.ts";
import type { SessionsEnded } from "../people/people-routes.ts";
import type { ProviderKeyChange } from "../provider-keys/provider-keys-routes.ts";
import type { Tx } from "../store/db.ts";
import { queueAddressEmail } from "./emails.ts";
import { type NewEvent, emitEvent } from "./events.ts";

/** A new account and its first key. It cannot have a webhook yet, so no event is emitted. */
export async function onAccountCreated(tx: Tx, created: AccountCreated): Promise<void> {
  const { account, key, clientIp, now } = created;
  const { id: accountId, name, email, createdBy } = account;
  const actor: Actor =
    createdBy === null ? { type: "key", id: key.id } : { type: "person", id: createdBy };
  const common = { accountId, actor, now };
  const network = coarseNetwork(clientIp);
  await recordAuditEntry(tx, {
    ...common,
    action: "account.created",
    target: accountId,
    detail: { ...(email !== null && { email }), ...(name !== null && { name }) },
    network,
  });
  const { last4 } = key;
  const detail = { name: key.name, last4, limit_usd: null, limit_window: null, expires_at: null };
  await recordAuditEntry(tx, { ...common, action: "key.created", target: key.id, detail, network });
}

export async function onAccountRenamed(tx: Tx, renamed: AccountRenamed): Promise<void> {
  const { accountId, name, actor, clientIp, now } = renamed;
  await recordAuditEntry(tx, {
    accountId,
    actor,
    action: "account.renamed",
    target: accountId,
    detail: { name },
    network: coarseNetwork(clientIp),
    now,
  });
}

export async function onKeyChange(tx: Tx, change: KeyChange): Promise<void> {
  const { kind, key, actor, clientIp, now } = change;
  await recordKeyChange(tx, key, {
    action: kind,
    actor,
    network: coarseNetwork(clientIp),
    now,
  });
}

/** A key that an operator revoked on the command line. */
export async function onKeyRevokedByOperator(tx: Tx, key: Key, now: number): Promise<void> {
  await recordKeyChange(tx, key, { action: "key.revoked", actor: OPERATOR, network: null, now });
}

export async function onProviderKeyChange(tx: Tx, change: ProviderKeyChange): Promise<void> {
  const { kind, key, actor, clientIp, now } = change;
  await recordAuditEntry(tx, {
    accountId: key.accountId,
    actor,
    action: kind,
    target: key.id,
    detail: {
      provider: key.provider,
      name: key.name,
      last4: key.last4,
      api_key_ids: key.apiKeyIds,
      allow_store: key.allowStore,
    },
    network: coarseNetwork(clientIp),
    now,
  });
}

/** A change of the members, made by a person in the console. */
export async function onMemberChange(tx: Tx, change: MemberChange): Promise<void> {
  const { kind, accountId, actor, target, email, role, allowance, clientIp, now } = change;
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "person", id: actor.personId },
    action: kind,
    target,
    detail: {
      by: actor.email,
      ...(email === undefined ? {} : { email }),
      ...(kind === "member.changed"
        ? {
            role,
            allowance_usd: allowance === undefined ? null : usdText(allowance.limit),
            allowance_window: allowance?.window ?? null,
          }
        : {}),
    },
    network: coarseNetwork(clientIp),
    now,
  });
  if (kind === "member.invited" && email !== undefined) {
    const data = { by: actor.email, role };
    await queueAddressEmail(tx, { type: kind, accountId, address: email, data, now });
  }
  if (kind !== "member.added" || email === undefined || role === undefined) return;
  const data = { claim_attempt_id: null, email, role };
  await emitEvent(tx, { type: kind, accountId, data, now });
}

export async function onSessionsEnded(tx: Tx, ended: SessionsEnded): Promise<void> {
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "person", id: ended.personId },
    action: "session.ended",
    target: ended.sessionId,
    detail: { others: ended.others },
    network: coarseNetwork(ended.clientIp),
    now: ended.now,
  });
}

export async function onClaimEvent(tx: Tx, event: ClaimEvent, now: number): Promise<void> {
  const { kind, attempt } = event;
  const { accountId, email, id: target } = attempt;
  const common = { accountId, target, now, network: null };
  switch (kind) {
    case "claim.started":
      await recordAuditEntry(tx, {
        ...common,
        actor: { type: "key", id: attempt.keyId },
        action: kind,
        network: attempt.network,
        detail: { email, invitation: attempt.invitation },
      });
      await queueAddressEmail(tx, { type: kind, accountId, address: email, data: {}, now });
      return;
    case "claim.declined":
    case "claim.locked":
      await recordAuditEntry(tx, { ...common, actor: actorByEmail(email), action: kind });
      return;
    case "claim.completed":
    case "member.added":
      await recordClaimCompletion(tx, event, now);
      return;
    case "key.revoked":
    case "key.limited":
      await recordKeyChange(tx, await getKey(tx, accountId, event.keyId, now), {
        action: kind === "key.revoked" ? kind : "key.changed",
        actor: actorByEmail(email),
        network: null,
        now,
      });
  }
}

export async function emitBalanceEvents(
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
): Promise<void> {
  for (const { kind, accountId, balance, threshold, now } of crossings) {
    if (kind === "top_up") continue;
    const data = { credits: creditsOf(balance), usd: usdOf(balance), below_usd: usdOf(threshold) };
    await emitEvent(tx, { type: `balance.${kind}`, accountId, data, now });
  }
}

export async function emitBudgetEvents(
  tx: Tx,
  crossings: readonly BudgetThresholdCrossing[],
): Promise<void> {
  for (const { accountId, window, percent, used, limit, endsAt, now } of crossings) {
    const data = {
      window,
      percent,
      used_usd: Number(usdText(used)),
      limit_usd: Number(usdText(limit)),
      resets_at: new Date(endsAt).toISOString(),
    };
    await emitEvent(tx, { type: "budget.reached", accountId, data, now });
  }
}

export async function emitKeyAlerts(tx: Tx, alerts: readonly KeyAlert[]): Promise<void> {
  for (const { accountId, keyId, percent, spent, limit, endsAt, now } of alerts) {
    const data = {
      key_id: keyId,
      percent,
      spent_usd: Number(usdText(spent)),
      limit_usd: Number(usdText(limit)),
      resets_at: endsAt === null ? null : new Date(endsAt).toISOString(),
    };
    await emitEvent(tx, { type: "key.limit_reached", accountId, data, now });
  }
}

/** Emits an event for each key that expires soon, once per expiry. */
export async function emitExpiringKeys(tx: Tx, now: number): Promise<void> {
  for (const { id, accountId, name, last4, expiresAt } of await takeExpiringKeys(tx, now)) {
    const data = { key_id: id, name, last4, expires_at: new Date(expiresAt).toISOString() };
    await emitEvent(tx, { type: "key.expiring", accountId, data, now });
  }
}

const OPERATOR: Actor = { type: "operator", id: "command line" };

async function recordClaimCompletion(
  tx: Tx,
  event: Extract<ClaimEvent, { kind: "claim.completed" | "member.added" }>,
  now: number,
): Promise<void> {
  const { kind, attempt, personId, role, bonus } = event;
  const { accountId, email, id } = attempt;
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "person", id: personId },
    action: kind === "claim.completed" ? "account.claimed" : kind,
    target: id,
    detail: { email, role },
    network: null,
    now,
  });
  const data = { claim_attempt_id: id, email, role };
  const newEvent: NewEvent =
    kind === "claim.completed"
      ? { type: kind, accountId, data: { ...data, bonus_credits: creditsOf(bonus) }, now }
      : { type: kind, accountId, data, now };
  await emitEvent(tx, newEvent);
}

interface KeyChangeRecord {
  readonly action: "key.created" | "key.changed" | "key.revoked";
  readonly actor: Actor;
  readonly network: string | null;
  readonly now: number;
}

async function recordKeyChange(
  tx: Tx,
  key: Key,
  { action, actor, network, now }: KeyChangeRecord,
): Promise<void> {
  const { id, accountId, name, prefix, last4, limit, limitWindow, expiresAt } = key;
  const limits = { limit_usd: limit === null ? null : usdText(limit), limit_window: limitWindow };
  const expiry = { expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString() };
  const policy = policyText(key.policy);
  const detail = { name, last4, ...limits, ...expiry, ...(policy !== null && { policy }) };
  await recordAuditEntry(tx, { accountId, actor, action, target: id, detail, network, now });
  if (action === "key.changed") return;
  const data = { key_id: id, name, prefix, last4, by: actor.id };
  await emitEvent(tx, { type: action, accountId, data, now });
}

/** For a person of whom only the email is known. */
function actorByEmail(email: string): Actor {
  return { type: "person", id: email };
}

function coarseNetwork(address: string): string {
  return networksOf(address)[1];
}
