import { expect, test } from "bun:test";
import { createUser, visitPage } from "../billing/console-user.ts";
import { startGateway } from "../support/gateway.ts";

test("ending a session twice writes one audit entry", async () => {
  const gateway = await startGateway();
  const [current, other] = [await createUser(gateway, "ada"), await createUser(gateway, "ada")];
  const countEntries = async (): Promise<number> => {
    const sql = "select id from audit where actor_id = ?";
    return (await gateway.server.db.all(sql, [current.personId])).length;
  };
  const { text } = await visitPage(gateway, "/sessions", current);
  expect(text).toContain('<a href="/console">Console</a>');
  const card =
    text
      .split("<section")
      .slice(1)
      .find((part) => !part.includes("This browser")) ?? "";
  const otherSession = /name="session" value="(ses_\w+)"/.exec(card)?.[1] ?? "none";
  const end = (session: string) => visitPage(gateway, "/sessions", current, { session });
  const responses = await Promise.all([1, 2, 3].map(() => end(otherSession)));
  expect(responses.map(({ location }) => location)).toEqual(Array(3).fill("/sessions"));
  expect(await countEntries()).toBe(1);
  expect((await visitPage(gateway, "/sessions", other)).status).toBe(303);
  expect((await end("others")).location).toBe("/sessions");
  expect(await countEntries()).toBe(1);
  expect((await end("ses_none")).status).toBe(404);
  await gateway.stop();
});
