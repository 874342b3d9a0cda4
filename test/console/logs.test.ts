import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { textOf, visitPage } from "../billing/console-user.ts";
import { createConsoleHistory, type ConsoleHistory } from "../browser/console-history.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

describeEachStore((store) => {
  describe(`console logs and usage on ${store}`, () => {
    let fixture: ConsoleFixture;
    let history: ConsoleHistory;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
      history = await createConsoleHistory(fixture);
    });
    afterAll(() => fixture.gateway.stop());

    const visit = (page: string) =>
      visitPage(fixture.gateway, `/console/${fixture.account.id}${page}`, fixture.owner);
    const rowsOf = (html: string): number => (html.match(/<th scope="row"/g) ?? []).length;

    test("lists 50 calls a page, newest first, and continues with older ones", async () => {
      const first = await visit("/logs");
      expect(rowsOf(first.text)).toBe(50);
      expect(first.text.indexOf(history.callId)).toBeLessThan(first.text.indexOf("</table>"));
      expect(textOf(first)).toContain(
        "prompts and replies are kept only for keys with prompt logging",
      );
      const older = /href="([^"]+cursor=[^"]+)">Older calls/.exec(first.text)?.[1] ?? "";
      const second = await visitPage(
        fixture.gateway,
        older.replaceAll("&amp;", "&"),
        fixture.owner,
      );
      expect(rowsOf(second.text)).toBe(50);
      expect(second.text).not.toContain(history.callId);
      expect(second.text).toContain("Newest calls");
    });

    test("filters by model, outcome, status, label and request id, and keeps the filter in the form", async () => {
      const failed = await visit("/logs?outcome=failed&range=90d");
      expect(rowsOf(failed.text)).toBeGreaterThan(0);
      expect(failed.text).not.toContain('<span class="tag good">');
      expect(failed.text).toContain('<option value="failed" selected="">');
      const byStatus = await visit("/logs?status=502&range=90d");
      expect(rowsOf(byStatus.text)).toBe(rowsOf(failed.text));
      const model = await visit("/logs?model=openai%2Fgpt-6-mini");
      expect(model.text).not.toContain('</bdi><span class="type">anthropic');
      expect(rowsOf((await visit(`/logs?request=${history.callId}`)).text)).toBe(1);
      expect(rowsOf((await visit("/logs?label=job%3Dnightly")).text)).toBe(1);
      const none = await visit("/logs?model=sim%2Fnone");
      expect(textOf(none)).toContain("No calls match these filters");
    });

    test("sorts by cost, latency and tokens, and finds calls by cost and by a part of their id", async () => {
      const costs = async (query: string): Promise<readonly number[]> => {
        const csv = await visit(`/logs.csv?range=90d${query}`);
        const [head = "", ...lines] = csv.text.trim().split("\r\n");
        const column = head.split(",").indexOf("cost_usd");
        return lines.map((line) => Number(line.split(",")[column]));
      };
      const all = await costs("");
      expect(await costs("&sort=cost")).toEqual(all.toSorted((a, b) => b - a));
      const least = all.toSorted((a, b) => b - a)[4] ?? 0;
      const dear = await costs(`&min_cost=${encodeURIComponent(`$${least}`)}`);
      expect(dear).toEqual(all.filter((cost) => cost >= least));
      for (const [sort, column] of [
        ["latency", "latency_ms"],
        ["tokens", "input_tokens"],
      ] as const) {
        const { text } = await visit(`/logs.csv?range=90d&sort=${sort}`);
        const [head = "", first = ""] = text.split("\r\n");
        const unsorted = (await visit("/logs.csv?range=90d")).text.trim().split("\r\n").slice(1);
        const at = head.split(",").indexOf(column);
        const values = unsorted.map((line) => Number(line.split(",")[at]));
        if (sort === "latency") expect(Number(first.split(",")[at])).toBe(Math.max(...values));
        else expect(Number(first.split(",")[at])).toBeGreaterThan(0);
      }
      const page = await visit("/logs?range=90d&sort=cost");
      expect(page.text).toContain('aria-sort="descending"');
      expect(textOf(page)).toContain("Highest cost first, at most 50 calls of this period.");
      const part = history.callId.slice(-9).toUpperCase();
      expect(rowsOf((await visit(`/logs?request=${part}`)).text)).toBe(1);
    });

    test("names the keys in the CSV, and shows the most expensive calls of a period", async () => {
      const csv = await visit("/logs.csv?range=90d");
      const [head = "", first = ""] = csv.text.split("\r\n");
      expect(head.split(",").slice(2, 4)).toEqual(["key_id", "key_name"]);
      expect(first.split(",")[3]).not.toBe("");
      expect((await visit("/usage.csv?by=key")).text).toStartWith("key_id,key_name,");
      const usage = await visit("/usage?range=90d");
      expect(textOf(usage)).toContain("Most expensive calls");
      const [, table = ""] = usage.text.split('aria-label="Most expensive calls"');
      expect(rowsOf(table.slice(0, table.indexOf("</table>")))).toBe(5);
    });

    test("links to the failed calls, and says on the page of one why it failed", async () => {
      const logs = await visit("/logs?range=90d");
      const failed = /href="([^"]*outcome=failed[^"]*)"/.exec(logs.text)?.[1] ?? "";
      const list = await visitPage(fixture.gateway, failed.replaceAll("&amp;", "&"), fixture.owner);
      expect(list.text).toContain('aria-current="true">Failed');
      const call = /href="([^"]*\/logs\/req_[^"]*)"/.exec(list.text)?.[1] ?? "";
      const page = await visitPage(fixture.gateway, call, fixture.owner);
      expect(textOf(page)).toMatch(/\w+ failed with status 502\. Retry later\. +It cost nothing\./);
      expect(page.text.indexOf("Attempts</h2>")).toBeLessThan(page.text.indexOf("Price</h2>"));
    });

    test("shows the usage of yesterday and of one day by the hour", async () => {
      const yesterday = await visit("/usage?range=yesterday");
      expect(yesterday.text).toContain('aria-current="true">Yesterday');
      expect(textOf(yesterday)).toContain("Spend, yesterday $");
      const month = await visit("/usage");
      const day = /<a href="([^"]*from=(\d{4}-\d\d-\d\d)&amp;to=\2)"/.exec(month.text)?.[1] ?? "";
      const page = await visitPage(fixture.gateway, day.replaceAll("&amp;", "&"), fixture.owner);
      expect(page.status).toBe(200);
      expect(textOf(page)).toContain("Hour");
      expect(page.text).toContain("/logs?from=");
    });

    test("shows the price of a call line by line, its attempts, trace and losses", async () => {
      const text = textOf(await visit(`/logs/${history.callId}`));
      expect(text).toMatch(/Input 1,866 0\.0000020 2\.00 0\.003732 /);
      expect(text).toMatch(/Cache read 1,865 0\.0000002 0\.20 0\.000373 /);
      expect(text).toMatch(/Output 143 0\.0000060 6\.00 0\.000858 /);
      expect(text).toContain("Total at list prices 0.004963");
      expect(text).toMatch(/1 openai mistral\/ large-3 529 212 ms 2 mistral mistral\/ large-3 200/);
      expect(text).toContain("4bf92f3577b34da6a3ce929d0e0e4736");
      expect(text).toContain("logit_bias");
      expect((await visit("/logs/req_none")).status).toBe(404);
      const foreign = `/console/${fixture.otherAccount.id}/logs/${history.callId}`;
      expect((await visitPage(fixture.gateway, foreign, fixture.otherOwner)).status).toBe(404);
    });

    test("links each group of the usage to its calls", async () => {
      const usage = await visit("/usage?range=90d&by=label");
      const link = /<a class="name" href="([^"]*label=team%3Dsearch[^"]*)"/.exec(usage.text)?.[1];
      const path = (link ?? "").replaceAll("&amp;", "&");
      expect(path).toContain("/logs?range=90d");
      const calls = await visitPage(fixture.gateway, path, fixture.owner);
      expect(rowsOf(calls.text)).toBeGreaterThan(0);
      expect(calls.text).toContain('<option value="team=search" selected="">');
      expect(calls.text).toContain('<details class="more-filters" open="">');
    });

    test("exports the calls of the view", async () => {
      const csv = await visit("/logs.csv?outcome=failed&range=90d");
      expect(csv.headers.get("content-type")).toContain("text/csv");
      expect(csv.text).toContain("upstream_error");
      expect(csv.text).not.toContain("completed");
    });

    test("groups usage by key and label over days and hours, in the reader's time zone", async () => {
      expect(textOf(await visit("/usage?by=key&range=7d"))).toContain("Spend by key");
      expect(textOf(await visit("/usage?by=label"))).toContain("team=search");
      const hourly = textOf(await visit("/usage?range=24h&tz=Europe%2FBerlin"));
      expect(hourly).toContain("Times are in Europe/Berlin");
      expect(hourly).toContain("Hour");
      expect((await visit("/usage?tz=Mars")).status).toBe(400);
    });

    test("shows a custom period, and says what will appear in a workspace without calls", async () => {
      const old = textOf(await visit("/usage?from=2020-01-01&to=2020-01-31"));
      expect(old).toContain("No calls, 2020-01-01 to 2020-01-31");
      const { gateway, otherAccount, otherOwner } = fixture;
      const path = `/console/${otherAccount.id}/logs`;
      const empty = await visitPage(gateway, path, otherOwner);
      expect(empty.text).toContain(`curl ${gateway.url}/v1/chat/completions`);
    });

    test("warns about keys near their limit and a low balance", async () => {
      const overview = textOf(await visit(""));
      expect(overview).toContain("nightly-eval has used 92% of its $20.00 limit.");
      expect(overview).toContain("The starting credit is nearly used up: $0.05 left.");
    });

    test("show times in the time zone that the person saved, and days of usage begin at its midnight", async () => {
      const { gateway, account, owner, developer } = fixture;
      const path = `/console/${account.id}`;
      const save = (time_zone: string) =>
        visitPage(gateway, `${path}/time-zone`, owner, { time_zone });
      const rejected = await save("Mars/Olympus");
      expect([rejected.status, textOf(rejected)]).toEqual([
        400,
        expect.stringContaining("Choose a time zone from the list"),
      ]);
      expect((await save("Asia/Kolkata")).location).toBe(`${path}/settings?saved=true`);
      const created = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ name: "winter", expires_at: "2027-01-31T00:00:00.000Z" }),
      });
      expect(created.status).toBe(201);
      expect(textOf(await visit("/audit"))).toContain("expires at: 2027-01-31 05:30 GMT+5:30");
      expect((await visit("/settings")).text).toContain(
        '<option value="Asia/Kolkata" selected="">',
      );
      expect(textOf(await visit(`/logs/${history.callId}`))).toContain("GMT+5:30");
      expect(textOf(await visit("/usage"))).toContain("Times are in Asia/Kolkata");
      expect(textOf(await visit("/usage?tz=UTC"))).toContain("Times are in UTC");
      const other = await visitPage(gateway, `${path}/logs/${history.callId}`, developer);
      expect(textOf(other)).not.toContain("GMT+5:30");
      await save("UTC");
      expect(textOf(await visit(`/logs/${history.callId}`))).not.toContain("GMT+5:30");
    });
  });
});
