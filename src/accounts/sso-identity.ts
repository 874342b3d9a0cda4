// What a person of a workspace's identity provider may not do elsewhere.

import { Fault } from "../base/fault.ts";
import { type Reader, text } from "../store/db.ts";

/** The only workspace of a person whom its identity provider signs in. */
async function ssoAccountOf(reader: Reader, personId: string): Promise<string | undefined> {
  const row = await reader.get("select sso_account_id from person where id = ?", [personId]);
  return (row && text(row, "sso_account_id")) || undefined;
}

/** Throws for a person of a workspace's identity provider, in every other workspace: it could assert any address. */
export async function requireOwnIdentity(
  reader: Reader,
  accountId: string | undefined,
  personId: string,
): Promise<void> {
  const only = await ssoAccountOf(reader, personId);
  if (only === undefined || only === accountId) return;
  throw new Fault("forbidden", "a person of another workspace's identity provider", {
    message:
      "You are signed in with the single sign-on of one workspace, which opens no other. Sign out, then sign in with your own account.",
  });
}

/** Throws for a new owner who could be locked out together with everyone else. */
export async function requireOwnSignIn(reader: Reader, personId: string): Promise<void> {
  if ((await ssoAccountOf(reader, personId)) !== undefined)
    throw new Fault("conflict", "the new owner signs in with single sign-on", {
      message:
        "This member signs in with the workspace's identity provider. The owner must be able to sign in without it, so that its failure cannot lock everyone out. Invite their other account, or choose another member.",
    });
}
