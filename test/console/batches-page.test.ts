// The page of batches: progress and cost, results to download, and who may cancel one.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chatRequests, createBatch, createSlowKey, waitForEnd } from "../batches/batch-harness.ts";
import { type PageResponse, type TestUser, textOf, visitPage } from "../billing/console-user.ts";
import { bodyOf } from "../inference/support/harness.ts";
import { call } from "../responses/harness.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

describe("the page of batches", () => {
  let fixture: ConsoleFixture;
  beforeAll(async () => {
    fixture = await createConsoleFixture("sqlite");
  });
  afterAll(() => fixture.gateway.stop());

  const path = (page = ""): string => `/console/${fixture.account.id}/batches${page}`;
  const open = (
    user: TestUser,
    page = "",
    form?: Readonly<Record<string, string>>,
  ): Promise<PageResponse> => visitPage(fixture.gateway, path(page), user, form);

  test("says where batches come from while there are none", async () => {
    expect(textOf(await open(fixture.owner))).toContain("No batches yet");
  });

  test("shows progress and cost, and downloads the results in the form of the batch", async () => {
    const { gateway, account, owner, otherOwner, developer } = fixture;
    const { id } = await createBatch(gateway, account, chatRequests(3));
    await waitForEnd(gateway, account, id);
    const page = textOf(await open(owner));
    for (const text of [String(id), "Completed", "3 of 3", "Gateway"]) expect(page).toContain(text);
    const results = await open(owner, `/${String(id)}/results`);
    expect(results.headers.get("content-disposition")).toBe(
      `attachment; filename="${String(id)}.jsonl"`,
    );
    expect(results.text.trim().split("\n").length).toBe(3);
    const logs = `/console/${account.id}/logs?batch=${String(id)}`;
    expect((await open(owner)).text).toContain(`href="${logs}"`);
    await call(gateway, account, "POST /v1/chat/completions", { body: bodyOf("chat", "alone") });
    const calls = (query: string): Promise<PageResponse> =>
      visitPage(gateway, `/console/${account.id}/logs.csv${query}`, owner);
    const rowsOf = async (query: string): Promise<number> =>
      (await calls(query)).text.trim().split("\r\n").length - 1;
    expect([await rowsOf(""), await rowsOf(`?batch=${String(id)}`)]).toEqual([4, 3]);
    const usage = await visitPage(gateway, `/console/${account.id}/usage?by=batch`, owner);
    expect(textOf(usage)).toContain("Spend by batch");
    expect(textOf(usage)).toContain(String(id));
    expect((await open(otherOwner, `/${String(id)}/results`)).status).toBe(404);
    expect((await open(developer, `/${String(id)}/results`)).status).toBe(403);
    expect((await open(owner, "/batch_none/results")).status).toBe(404);
  });

  test("cancels a batch after a confirmation", async () => {
    const { gateway, account, owner, developer } = fixture;
    const slow = await createSlowKey(gateway, account);
    const { id } = await createBatch(gateway, slow, chatRequests(60));
    expect((await open(developer, `/${String(id)}`, {})).status).toBe(403);
    expect((await open(owner, `/${String(id)}/results`)).status).toBe(409);
    expect((await open(owner, `?cancel=${String(id)}`)).text).toContain("Cancel batch");
    const canceled = await open(owner, `/${String(id)}`, {});
    expect(canceled.location).toBe(`${path()}?done=canceled`);
    const ended = await waitForEnd(gateway, account, id);
    expect(ended["status"]).toBe("cancelled");
  });
});
