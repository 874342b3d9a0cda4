/** @jsxImportSource hono/jsx */
// What a developer who cannot create keys sees instead of a form that fails.

import type { Child } from "hono/jsx";
import { ownerEmail } from "../../accounts/allowance-requests.ts";
import { getMember } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import { PostForm } from "../../http/pages/components/form.tsx";
import type { SessionUser } from "../../http/route.ts";
import { readKeyAllowance } from "../../keys/member-keys.ts";
import type { Reader } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";

/** Why a member cannot create keys, and whom to ask. */
export interface KeyBlock {
  readonly reason: string;
  readonly owner: string | undefined;
  /** null if the member has not asked yet. */
  readonly requestedAt: number | null;
}

/** Undefined if the member can create keys. */
export async function readKeyBlock(
  db: Reader,
  member: Parameters<typeof readKeyAllowance>[1],
): Promise<KeyBlock | undefined> {
  const allowance = await readKeyAllowance(db, member);
  if (allowance.kind !== "none") return undefined;
  const { accountId, personId } = member;
  const { allowanceRequestedAt: requestedAt } = await getMember(db, accountId, personId);
  return { reason: allowance.reason, owner: await ownerEmail(db, accountId), requestedAt };
}

export function AllowanceNotice({
  block: { reason, owner, requestedAt },
  user,
  accountId,
}: {
  readonly block: KeyBlock;
  readonly user: SessionUser;
  readonly accountId: string;
}): Child {
  return (
    <PostForm
      class="notice warn row"
      user={user}
      action={workspacePath(accountId, "/members")}
      fields={{ do: "request_allowance" }}
    >
      <span>
        {reason} {owner === undefined ? null : <b>{owner}</b>} owns this workspace and can set an
        allowance: what your keys may spend together.
      </span>
      {requestedAt === null ? (
        <button type="submit" class="small">
          Request allowance
        </button>
      ) : (
        <span>
          Requested on <span class="date">{utcDay(requestedAt)}</span>.
        </span>
      )}
    </PostForm>
  );
}
