// A gateway with two claimed workspaces, and people in every role.

import { changeMember } from "../../src/accounts/members.ts";
import { createUser, makeDeveloper, makeOwner, type TestUser } from "../billing/console-user.ts";
import { actIn } from "../support/act.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import type { StoreKind } from "../support/stores/stores.ts";

const DEVELOPER_ALLOWANCE = 100_000_000_000n;

export interface ConsoleFixture {
  readonly gateway: Gateway;
  readonly account: TestAccount;
  readonly owner: TestUser;
  readonly developer: TestUser;
  /** Another workspace, with an owner who is no member of the first. */
  readonly otherAccount: TestAccount;
  readonly otherOwner: TestUser;
}

export async function createConsoleFixture(store: StoreKind): Promise<ConsoleFixture> {
  const gateway = await startGateway({ store });
  const [account, otherAccount] = [await registerAccount(gateway), await registerAccount(gateway)];
  const owner = await createUser(gateway, "olga");
  const developer = await createUser(gateway, "dev");
  const otherOwner = await createUser(gateway, "oscar");
  await makeOwner(gateway, account.id, owner);
  await makeDeveloper(gateway, account.id, developer);
  const allowance = { limit: DEVELOPER_ALLOWANCE, window: null };
  await gateway.server.db.write((tx) =>
    changeMember(tx, actIn(account.id, Date.now()), developer.personId, {
      role: "developer",
      allowance,
    }),
  );
  await makeOwner(gateway, otherAccount.id, otherOwner);
  return { gateway, account, owner, developer, otherAccount, otherOwner };
}

export interface AuditItem {
  readonly action: string;
  readonly target: string;
  readonly actor: object;
  readonly detail: object;
}

/** The audit entries that a query finds, such as `action=member.removed`. */
export async function listAudit(
  gateway: Gateway,
  account: TestAccount,
  query: string,
): Promise<readonly AuditItem[]> {
  const response = await fetch(`${gateway.url}/v1/audit?${query}`, { headers: account.headers });
  // Safe because the tests read only fields that audit entries have.
  return ((await response.json()) as { readonly data: readonly AuditItem[] }).data;
}
