// Creates a workspace for a signed-in person, without an agent. It gets what a claim gives: the bonus, once per human. It
// gets no starting credit, because a person could create any number of workspaces.

import {
  type Account,
  createAccount,
  parseAccountName,
  recordAccountCreated,
} from "../accounts/accounts.ts";
import { claimWorkspace } from "../accounts/members.ts";
import { personAct } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import type { Nano } from "../base/money/money.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Keys } from "../keys/keys.ts";
import { integer, type Tx } from "../store/db.ts";
import type { Claimer, Claims } from "./claims.ts";

const WORKSPACES_PER_PERSON_MAX = 20;
const FIRST_KEY_NAME = "First key";

export interface WorkspaceCreationDeps {
  readonly claims: Claims;
  readonly keys: Keys;
}

export interface NewWorkspace {
  readonly owner: Claimer;
  readonly name: string;
  readonly clientIp: string;
  readonly now: number;
}

export interface CreatedWorkspace {
  readonly account: Account;
  /** The raw key. */
  readonly raw: string;
  readonly bonus: Nano;
}

export async function createWorkspace(
  tx: Tx,
  { owner, name: typed, clientIp, now }: NewWorkspace,
  { claims, keys }: WorkspaceCreationDeps,
): Promise<CreatedWorkspace> {
  const { personId } = owner;
  const name = parseAccountName(typed);
  await tx.lockMany("person", "id", [personId]);
  const row = await tx.get("select count(*) as count from account where created_by = ?", [
    personId,
  ]);
  if (row !== undefined && integer(row, "count") >= WORKSPACES_PER_PERSON_MAX)
    throw new Fault("conflict", "too many workspaces of one person", {
      message: `You have created ${WORKSPACES_PER_PERSON_MAX} workspaces, which is the limit. Use one of them.`,
    });
  const [network] = networksOf(clientIp);
  const request = { name, email: null, createdBy: personId, network, startingCredit: 0n, now };
  const account = await createAccount(tx, request);
  await claimWorkspace(tx, { accountId: account.id, personId, via: account.id, now });
  const bonus = await claims.grantBonus(tx, owner, account.id, now);
  const settings = { name: FIRST_KEY_NAME, createdBy: personId };
  const act = personAct(account.id, personId, { clientIp, now });
  const { raw } = await keys.create(tx, act, settings);
  await recordAccountCreated(tx, account, act);
  return { account, raw, bonus };
}
