// What a step of a claim leaves behind: an audit entry, an event or an email. Each is written in the transaction of the step.

import type { Role } from "../accounts/members.ts";
import { type Actor, recordAuditEntry } from "../audit/audit.ts";
import { creditsOf, type Nano } from "../base/money/money.ts";
import { queueAddressEmail } from "../events/emails.ts";
import { emitEvent, type NewEvent } from "../events/events.ts";
import type { Tx } from "../store/db.ts";
import type { ClaimAttempt } from "./claim-attempt.ts";

type ClaimStep =
  | {
      readonly kind: "claim.started" | "claim.declined" | "claim.locked";
      readonly attempt: ClaimAttempt;
    }
  | {
      readonly kind: "claim.completed" | "member.added";
      readonly attempt: ClaimAttempt;
      readonly personId: string;
      readonly role: Role;
      readonly bonus: Nano;
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
  }
}

async function recordClaimCompletion(
  tx: Tx,
  event: Extract<ClaimStep, { kind: "claim.completed" | "member.added" }>,
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

/** For a person of whom only the email is known. */
function actorByEmail(email: string): Actor {
  return { type: "person", id: email };
}
