// The facts shown to a human who decides on a claim, read in one snapshot.

import { listAllMembers } from "../accounts/members.ts";
import type { Nano } from "../base/money/money.ts";
import { getWallet } from "../ledger/ledger.ts";
import { type Db, integer, text, textOrNull } from "../store/db.ts";
import { totalUsage } from "../usage/usage-stats.ts";
import type { ClaimAttempt } from "./claim-attempt.ts";
import { type BonusState, CLAIM_BONUS } from "./claim-bonus.ts";
import type { Claimer, Claims } from "./claims.ts";
import { type KeysAndSetup, readKeysAndSetup } from "./shown-state.ts";

export interface ClaimReview extends KeysAndSetup {
  readonly accountId: string;
  /** Anyone with a key can choose it; null if it has none. */
  readonly accountName: string | null;
  readonly openedAt: number;
  /** The network from which the account was created. */
  readonly openedFrom: string;
  readonly balance: Nano;
  /** The bonus that this human would get. */
  readonly bonus: Nano;
  readonly bonusState: BonusState;
  readonly calls: number;
  readonly spent: Nano;
  /** The owner's email; null if the account is unclaimed. */
  readonly owner: string | null;
  readonly memberCount: number;
}

export function readClaimReview(
  db: Db,
  claims: Claims,
  attempt: ClaimAttempt,
  { claimer, now }: { readonly claimer: Claimer; readonly now: number },
): Promise<ClaimReview> {
  const { accountId } = attempt;
  return db.snapshot(async (reader) => {
    const account = await reader.get(
      "select name, created_at, created_from from account where id = ?",
      [accountId],
    );
    if (account === undefined) throw new Error(`no account ${accountId}`);
    const wallet = await getWallet(reader, accountId);
    const used = await totalUsage(reader, accountId);
    const members = await listAllMembers(reader, accountId);
    const { listed, unlisted, webhookHosts, sinkHosts, ownProviders } = await readKeysAndSetup(
      reader,
      accountId,
      now,
    );
    const bonusState = await claims.bonusStateOf(reader, claimer, now);
    return {
      accountId,
      accountName: textOrNull(account, "name"),
      openedAt: integer(account, "created_at"),
      openedFrom: text(account, "created_from"),
      balance: wallet.promo + wallet.paid,
      bonus: !attempt.invitation && bonusState === "available" ? CLAIM_BONUS : 0n,
      bonusState,
      calls: used.calls,
      spent: used.cost,
      listed,
      unlisted,
      webhookHosts,
      sinkHosts,
      ownProviders,
      owner: members.find((member) => member.role === "owner")?.email ?? null,
      memberCount: members.length,
    };
  });
}
