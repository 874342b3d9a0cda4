// The facts shown to a human who decides on a claim, read in one snapshot.

import { listAllMembers } from "../accounts/members.ts";
import type { Nano } from "../base/money/money.ts";
import type { Key } from "../keys/keys.ts";
import { getWallet } from "../ledger/ledger.ts";
import { listLiveProviderKeys } from "../provider-keys/provider-keys.ts";
import { type Db, integer, type Reader, text, textOrNull } from "../store/db.ts";
import { totalUsage } from "../usage/usage-stats.ts";
import type { ClaimAttempt } from "./claim-attempt.ts";
import { type BonusState, CLAIM_BONUS } from "./claim-bonus.ts";
import type { Claimer, Claims } from "./claims.ts";
import { listLiveKeys } from "./key-choices.ts";

/** Further keys get one common choice on the page. */
const KEYS_LISTED_MAX = 12;

export interface ClaimReview {
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
  readonly keys: readonly Key[];
  /** The number of live keys that are not listed. */
  readonly moreKeys: number;
  /** The hosts of its webhooks. */
  readonly webhookHosts: readonly string[];
  /** The providers for which it has provider keys of its own. */
  readonly ownProviders: readonly string[];
  /** The owner's email; null if the account is unclaimed. */
  readonly owner: string | null;
  readonly memberCount: number;
}

export interface ClaimReviewDeps {
  readonly claims: Claims;
  /** Of the webhooks that are not deleted, newest first. */
  readonly listWebhookUrls: (reader: Reader, accountId: string) => Promise<readonly string[]>;
}

export function readClaimReview(
  db: Db,
  { claims, listWebhookUrls }: ClaimReviewDeps,
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
    const keys = await listLiveKeys(reader, accountId, now);
    const members = await listAllMembers(reader, accountId);
    const webhookUrls = await listWebhookUrls(reader, accountId);
    const providerKeys = await listLiveProviderKeys(reader, accountId);
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
      keys: keys.slice(0, KEYS_LISTED_MAX),
      moreKeys: Math.max(0, keys.length - KEYS_LISTED_MAX),
      webhookHosts: [...new Set(webhookUrls.map((url) => new URL(url).host))],
      ownProviders: [...new Set(providerKeys.map(({ provider }) => provider))].toSorted(),
      owner: members.find((member) => member.role === "owner")?.email ?? null,
      memberCount: members.length,
    };
  });
}
