// Invitations, transfer of ownership and leaving a workspace.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { roleOf } from "../../src/accounts/members.ts";
import {
  createUser,
  makeDeveloper,
  type PageResponse,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture, listAudit } from "./console-fixture.ts";

const invitationOf = ({ text }: PageResponse): string =>
  /name="invitation" value="([^"]+)"/.exec(text)?.[1] ?? "";

describeEachStore((store) => {
  describe(`invitations on ${store}`, () => {
    let fixture: ConsoleFixture;
    let membersPath: string;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
      membersPath = `/console/${fixture.account.id}/members`;
    });
    afterAll(() => fixture.gateway.stop());

    const sendMembers = (
      user: TestUser,
      form: Readonly<Record<string, string>>,
    ): Promise<PageResponse> => visitPage(fixture.gateway, membersPath, user, form);
    const roleIn = (user: TestUser) =>
      roleOf(fixture.gateway.server.db, fixture.account.id, user.personId);

    test("add the invited person as a developer, once, and are invisible to other people", async () => {
      const { gateway, account, owner, otherOwner } = fixture;
      const guest = await createUser(gateway, "guest-2");
      await sendMembers(owner, { do: "invite", email: "Guest-2@example.com" });
      const workspaces = await visitPage(gateway, "/console", guest);
      expect(workspaces.text).toContain(`Invitation from ${owner.email}`);
      const invitation = invitationOf(workspaces);
      const respond = (user: TestUser, answer: "accept" | "decline") =>
        visitPage(gateway, "/console/invitations", user, { invitation, answer });
      expect((await respond(otherOwner, "accept")).status).toBe(404);
      const accepted = await Promise.all([1, 2, 3].map(() => respond(guest, "accept")));
      for (const { location } of accepted) expect(location).toBe(`/console/${account.id}`);
      expect(await roleIn(guest)).toBe("developer");
      expect(await listAudit(gateway, account, `target=${guest.personId}`)).toHaveLength(1);
      expect((await respond(guest, "decline")).status).toBe(404);
      await sendMembers(owner, { do: "remove", person: guest.personId });
      expect((await respond(guest, "accept")).status).toBe(404);
      expect(await roleIn(guest)).toBeUndefined();
    });

    test("are withdrawn with one audit entry, which has the email address", async () => {
      const { gateway, account, owner } = fixture;
      const email = "invited@example.com";
      await sendMembers(owner, { do: "invite", email });
      const id = invitationOf(await visitPage(gateway, membersPath, owner));
      for (const invitation of [id, id, "inst_none"])
        expect((await sendMembers(owner, { do: "withdraw", invitation })).location).toBe(
          `${membersPath}?done=withdraw`,
        );
      const entries = await listAudit(gateway, account, "action=invitation.withdrawn");
      expect(entries).toMatchObject([{ target: id, detail: { by: owner.email, email } }]);
    });

    test("keep an invalid email address in the rejected form", async () => {
      const rejected = await sendMembers(fixture.owner, {
        do: "invite",
        email: "ada at example.com",
      });
      expect(rejected.text).toContain('value="ada at example.com"');
    });

    test("do not let an owner leave before transferring ownership", async () => {
      const { gateway, account, owner } = fixture;
      const heir = await createUser(gateway, "heir");
      await makeDeveloper(gateway, account.id, heir);
      expect((await sendMembers(owner, { do: "leave" })).status).toBe(403);

      const transfer = { do: "hand_over", person: heir.personId };
      const transfers = await Promise.all([1, 2, 3].map(() => sendMembers(owner, transfer)));
      for (const { status, location } of transfers)
        expect([status, location]).toEqual([303, `${membersPath}?done=hand_over`]);
      expect((await sendMembers(owner, transfer)).location).toContain(membersPath);
      expect(await roleIn(heir)).toBe("owner");
      expect((await sendMembers(heir, transfer)).status).toBe(400);

      const departures = await Promise.all(
        [1, 2, 3].map(() => sendMembers(owner, { do: "leave" })),
      );
      for (const { location } of departures) expect(location).toBe("/console");
      const removal = { do: "remove", person: owner.personId };
      expect((await sendMembers(heir, removal)).location).toBe(`${membersPath}?done=remove`);

      const entriesOf = (action: string, { personId }: TestUser) =>
        listAudit(gateway, account, `action=${action}&target=${personId}`);
      expect(await entriesOf("owner.changed", heir)).toMatchObject([
        { target: heir.personId, detail: { email: heir.email } },
      ]);
      expect(await entriesOf("member.removed", owner)).toMatchObject([
        { target: owner.personId, detail: { email: owner.email } },
      ]);
      expect((await visitPage(gateway, `/console/${account.id}`, owner)).status).toBe(404);
      const { headers } = account;
      expect((await fetch(`${gateway.url}/v1/account`, { headers })).status).toBe(200);
    });
  });
});
