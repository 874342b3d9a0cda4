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
            {workspaceLabel(name, accountId, workspaces)}
          </option>
        ))}
      </select>
    </>
  );
}

/** The id only where the name is not enough. */
function workspaceLabel(
  name: string | null,
  accountId: string,
  workspaces: readonly Membership[],
): string {
  if (name === null) return accountId;
  return workspaces.filter((other) => other.name === name).length > 1
    ? `${name} (${accountId})`
    : name;
}

export function NoWorkspace(): Child {
  return (
    <p>
      None of your workspaces allows you to create a key. <a href="/console">Go to the console</a>.
    </p>
  );
}
