/** @jsxImportSource hono/jsx */
// The workspaces of which a person can give a program a key.

import type { Child } from "hono/jsx";
import { hasPermission, listMemberships, type Membership } from "../accounts/members.ts";
import type { Reader } from "../store/db.ts";

export async function listKeyWorkspaces(
  reader: Reader,
  personId: string,
): Promise<readonly Membership[]> {
  const workspaces = await listMemberships(reader, personId);
  return workspaces.filter(({ role, needsSso }) => !needsSso && hasPermission(role, "keys.create"));
}

export function WorkspaceSelect({
  workspaces,
  selected,
}: {
  readonly workspaces: readonly Membership[];
  readonly selected?: string | undefined;
}): Child {
  return (
    <>
      <label for="account">Workspace</label>
      <select id="account" name="account" required>
        {workspaces.map(({ accountId, name }) => (
          <option value={accountId} selected={accountId === selected}>
            {name === null ? accountId : `${name} (${accountId})`}
          </option>
        ))}
      </select>
    </>
  );
}

export function NoWorkspace(): Child {
  return (
    <p>
      None of your workspaces allows you to create a key. <a href="/console">Go to the console</a>.
    </p>
  );
}
