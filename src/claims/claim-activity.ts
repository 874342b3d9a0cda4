// What a step of a claim leaves behind: an audit entry, an event or an email. Each is written in the transaction of the step.

import { recordMemberAdded } from "../accounts/account-activity.ts";
import type { Role } from "../accounts/members.ts";
import { type Actor, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { creditsOf, type Nano } from "../base/money/money.ts";
import type { Tx } from "../store/db.ts";
import type { ClaimAttempt } from "./claim-attempt.ts";

type ClaimStep =
  | {
      readonly kind: "claim.started" | "claim.declined" | "claim.locked";
      readonly attempt: ClaimAttempt;
    }
  | {
      readonly kind: "claim.completed";
      readonly attempt: ClaimAttempt;
      readonly personId: string;
      readonly role: Role;
      readonly bonus: Nano;
    }
  | {
      readonly kind: "joined";
      readonly attempt: ClaimAttempt;
      readonly personId: string;
      readonly role: Role;
    };

export async function recordClaimStep(tx: Tx, event: ClaimStep, now: number): Promise<void> {
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
      await emitEvent(tx, {
        type: kind,
        accountId,
        data: { claim_attempt_id: target, email },
        now,
      });
      return;
    case "claim.declined":
    case "claim.locked":
      await recordAuditEntry(tx, { ...common, actor: personActor(email), action: kind });
      return;
    case "joined": {
      const act = { accountId, actor: personActor(event.personId), network: null, now };
      await recordMemberAdded(tx, act, { email, role: event.role, claimAttemptId: target });
      return;
    }
    case "claim.completed":
      await recordClaimCompletion(tx, event, now);
      return;
  }
}

async function recordClaimCompletion(
  tx: Tx,
  event: Extract<ClaimStep, { kind: "claim.completed" }>,
  now: number,
): Promise<void> {
  const { kind, attempt, personId, role, bonus } = event;
  const { accountId, email, id } = attempt;
  await recordAuditEntry(tx, {
    accountId,
    actor: personActor(personId),
    action: "account.claimed",
    target: id,
    detail: { email, role },
    network: null,
    now,
  });
  const data = { claim_attempt_id: id, email, role, bonus_credits: creditsOf(bonus) };
  await emitEvent(tx, { type: kind, accountId, data, now });
}

/** By the id or, if only that is known, the email. */
function personActor(id: string): Actor {
  return { type: "person", id };
}
