// The `postern admin` commands for accounts, while a gateway runs.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { runInProcess } from "../support/run-command.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import {
  type ExitResult,
  createTempFolder,
  type RunningProcess,
  type Settings,
  startPostern,
  stopPostern,
  stopAll,
} from "./run-postern.ts";

describe.each(["sqlite", "postgres"] as const)("postern admin on %s", (kind) => {
  const place = createTempFolder();
  let settings: Settings;
  let gateway: RunningProcess;
  let account: Made;

  beforeAll(async () => {
    settings =
      kind === "sqlite"
        ? place.settings
        : { ...place.settings, DATABASE_URL: await migratedPostgres() };
    gateway = await startPostern(["serve"], settings);
    account = await createAccount();
  });
  afterAll(async () => {
    await stopPostern(gateway);
    stopAll();
    place.remove();
  });

  interface Made {
    readonly id: string;
    readonly key: string;
  }

  // The commands run in this process, which is faster; the gateway runs in another.
  const admin = (...args: readonly string[]): Promise<ExitResult> =>
    runInProcess(["admin", ...args], settings);

  async function createAccount(): Promise<Made> {
    const answer = await call("/v1/accounts", undefined, {});
    const { account: made, api_key: key } = (await answer.json()) as {
      account: { id: string };
      api_key: string;
    };
    return { id: made.id, key };
  }

  function call(path: string, key?: string, body?: unknown): Promise<Response> {
    return fetch(gateway.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        "content-type": "application/json",
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  async function audit(made: Made, action: string): Promise<readonly Record<string, unknown>[]> {
    const answer = await call(`/v1/audit?action=${action}`, made.key);
    return ((await answer.json()) as { data: Record<string, unknown>[] }).data;
  }

  const echo = (key: string): Promise<Response> =>
    call("/v1/chat/completions", key, {
      model: "sim/echo",
      max_tokens: 20,
      messages: [{ role: "user", content: "hi" }],
    });

  describe("list", () => {
    test("shows accounts as a table and as JSON, newest first, in pages", async () => {
      const newer = await createAccount();
      const table = await admin("list");
      expect(table.code).toBe(0);
      expect(table.stdout).toMatch(
        /^account +state +promo +paid +held +owed +keys +members +created\n/,
      );
      expect(table.stdout.indexOf(newer.id)).toBeLessThan(table.stdout.indexOf(account.id));
      expect(table.stdout).toContain("active");
      const one = await admin("list", "--limit", "1", "--json");
      const page = JSON.parse(one.stdout) as { data: { id: string }[]; next_cursor: string };
      expect(page).toMatchObject({
        object: "list",
        has_more: true,
        data: [{ id: newer.id, state: "active", promo_usd: "0.05", live_keys: 1, members: 0 }],
      });
      const rest = await admin("list", "--cursor", page.next_cursor);
      expect(rest.stdout).toContain(account.id);
      expect(rest.stdout).not.toContain(newer.id);
      const wrong = await admin("list", "--cursor", "zzz");
      expect(wrong.code).toBe(2);
      expect(wrong.stderr).toContain("--cursor must be an account ID");
    });

    test("finds accounts by a prefix of the id or of a key", async () => {
      expect((await admin("list", "--search", account.id.slice(0, 24))).stdout).toContain(
        account.id,
      );
      expect((await admin("list", "--search", account.key.slice(0, 12))).stdout).toContain(
        account.id,
      );
      expect((await admin("list", "--search", "missing@example.com")).stdout).toBe(
        "No accounts found.\n",
      );
    });

    test("rejects invalid limits and states", async () => {
      for (const flags of [
        ["--limit", "0"],
        ["--limit", "101"],
        ["--limit", "0x10"],
        ["--state", "asleep"],
      ])
        expect([flags, (await admin("list", ...flags)).code]).toEqual([flags, 2]);
    });
  });

  describe("adjust", () => {
    test("increases and decreases a balance and records it", async () => {
      const up = await admin("adjust", account.id, "2.5", "--reason", "lost transfer");
      expect([up.code, up.stderr]).toEqual([0, ""]);
      expect(up.stdout).toBe(
        `Adjusted ${account.id} by $2.50. Its balance is $2.55 (promotional $0.05, paid $2.50).\n`,
      );
      const down = await admin("adjust", account.id, "-1.05", "--reason", "too much");
      expect(down.stdout).toContain(
        "by −$1.05. Its balance is $1.50 (promotional $0.00, paid $1.50)",
      );
      const bucket = await admin(
        "adjust",
        account.id,
        "1",
        "--bucket",
        "promo",
        "--reason",
        "gift",
      );
      expect(bucket.stdout).toContain("(promotional $1.00, paid $1.50)");
      expect(await audit(account, "account.adjusted")).toMatchObject([
        { actor: { type: "operator", id: "operator" }, detail: { usd: "1", reason: "gift" } },
        { detail: { usd: "-1.05", promo_before: "0.05", paid_before: "2.5", paid_after: "1.5" } },
        { detail: { usd: "2.5", reason: "lost transfer", paid_before: "0", paid_after: "2.5" } },
      ]);
    });

    test("applies once per --id", async () => {
      const line = ["adjust", account.id, "0.25", "--reason", "once", "--id", "ticket-1"] as const;
      expect((await admin(...line)).stdout).toContain("by $0.25.");
      expect((await admin(...line)).stdout).toContain("was already made; nothing changed");
      expect((await admin("verify-ledger")).stdout).toContain("No differences.");
    });

    test("rejects a negative balance, invalid amounts, a blank reason and unknown buckets and accounts", async () => {
      const below = await admin("adjust", account.id, "-100", "--reason", "x");
      expect(below.code).toBe(1);
      expect(below.stderr).toContain("postern admin adjust: At most $2.75 can be taken");
      for (const line of [
        [account.id, "0", "--reason", "x"],
        [account.id, "five", "--reason", "x"],
        [account.id, "1e3", "--reason", "x"],
        [account.id, "1", "--reason", "  "],
        [account.id, "1"],
        [account.id, "--reason", "x"],
        [account.id, "1", "--reason", "x", "--bucket", "gold"],
        [account.id, "1", "--reason", "x", "--frob"],
      ])
        expect([line, (await admin("adjust", ...line)).code]).toEqual([line, 2]);
      const unknown = await admin("adjust", "acct_none", "1", "--reason", "x");
      expect([unknown.code, unknown.stderr]).toEqual([
        1,
        "postern admin adjust: The account acct_none does not exist. postern admin list lists the accounts.\n",
      ]);
    });
  });

  describe("freeze and unfreeze", () => {
    test("block and allow the calls of a running gateway", async () => {
      expect((await echo(account.key)).status).toBe(200);
      const frozen = await admin("freeze", account.id, "--reason", "abuse");
      expect([frozen.code, frozen.stdout]).toEqual([
        0,
        `Froze ${account.id}. It can make no calls until postern admin unfreeze.\n`,
      ]);
      expect((await echo(account.key)).status).toBe(403);
      expect((await admin("freeze", account.id, "--reason", "again")).stdout).toContain(
        "is already frozen; nothing changed",
      );
      expect((await admin("show", account.id)).stdout).toContain(": abuse");
      expect((await admin("list", "--state", "frozen")).stdout).toContain(account.id);
      const lifted = await admin("unfreeze", account.id, "--reason", "talked");
      expect(lifted.stdout).toBe(`Unfroze ${account.id}.\n`);
      expect((await echo(account.key)).status).toBe(200);
      expect((await admin("unfreeze", account.id, "--reason", "again")).stdout).toContain(
        "nothing changed",
      );
      expect((await audit(account, "account.frozen")).length).toBe(1);
      expect(await audit(account, "account.unfrozen")).toMatchObject([
        { detail: { reason: "talked", frozen_for: "abuse" } },
      ]);
    });

    test("reject a blank reason and an unknown account", async () => {
      for (const command of ["freeze", "unfreeze"]) {
        expect((await admin(command, account.id)).code).toBe(2);
        expect((await admin(command, account.id, "--reason", " ")).code).toBe(2);
        expect((await admin(command, "acct_none", "--reason", "x")).code).toBe(1);
      }
    });
  });

  describe("audit log", () => {
    test("records grants, paid and refunded transfers and debts", async () => {
      const made = await createAccount();
      await admin("grant", made.id, "1", "--reason", "welcome");
      const answer = await call("/v1/billing/invoice", made.key, { amount_usd: 10 });
      const { id } = (await answer.json()) as { id: string };
      expect((await admin("mark-paid", id, "--reference", "transfer 7")).code).toBe(0);
      expect((await admin("mark-paid", id, "--reference", "transfer 7")).code).toBe(0);
      expect((await admin("mark-refunded", id, "10.50", "--reference", "back 7")).code).toBe(0);
      expect(await audit(made, "account.credited")).toMatchObject([
        { detail: { usd: "1", reason: "welcome", promo_before: "0.05", promo_after: "1.05" } },
      ]);
      expect(await audit(made, "invoice.marked_paid")).toMatchObject([
        { target: id, detail: { reference: "transfer 7", paid_before: "0", paid_after: "10" } },
      ]);
      expect(await audit(made, "invoice.marked_refunded")).toMatchObject([
        { target: id, detail: { usd: "10.5", reference: "back 7", paid_after: "0" } },
      ]);
      const nothing = await admin("write-off", made.id, "--reason", "lost");
      expect(nothing.stdout).toBe(`${made.id} owes nothing.\n`);
      expect((await admin("write-off", made.id, "--reason", " ")).code).toBe(2);
      expect((await admin("write-off", "acct_none", "--reason", "x")).code).toBe(1);
      expect(await audit(made, "debt.written_off")).toEqual([]);
    });
  });

  describe("show", () => {
    test("shows all details as text and as JSON, without raw keys", async () => {
      const text = await admin("show", account.id);
      for (const line of [
        /^account {4}acct_/m,
        /^state {6}active$/m,
        /^balance {4}\$[\d.]+ \(promotional/m,
        /^owed {7}\$0\.00$/m,
        /^transfer {3}20.* adjustment /m,
        /^created {4}20.* from /m,
      ])
        expect(text.stdout).toMatch(line);
      const json = await admin("show", account.id, "--json");
      expect(JSON.parse(json.stdout)).toMatchObject({
        object: "account",
        id: account.id,
        frozen: null,
        owed_usd: "0",
        keys: [{ state: "live" }],
        members: [],
      });
      expect(text.stdout + json.stdout).not.toContain(account.key);
      expect((await admin("show", "acct_none", "--json")).code).toBe(1);
    });
  });

  describe("report", () => {
    test("sums up a period as a table and as JSON", async () => {
      const day = new Date().toISOString().slice(0, 10);
      const json = await admin("report", "--json");
      expect(json.code).toBe(0);
      const report = JSON.parse(json.stdout) as {
        usage: { total_usd: string };
        provider_cost: { total_usd: string };
        providers: { model: string; calls: number }[];
      };
      expect(report).toMatchObject({
        object: "report",
        grants: { operator_usd: "1" },
        adjustments: { up_usd: "3.75", down_usd: "1.05" },
        income: { fees_usd: "0" },
        providers: [{ provider: "sim", model: "sim/echo", calls: 2 }],
        processors: [
          {
            processor: "manual",
            kind: "purchase",
            credit_usd: "10",
            fee_usd: "0.5",
            total_usd: "10.5",
          },
          {
            processor: "manual",
            kind: "refund",
            credit_usd: "10",
            fee_usd: "0.5",
            total_usd: "10.5",
          },
        ],
      });
      expect(report.provider_cost.total_usd).toBe(report.usage.total_usd);
      const text = await admin("report", "--from", day);
      expect(text.stdout).toMatch(
        /^Period: 20.* to 20.* \(exclusive\)\. Liabilities are at its end\.\n/,
      );
      expect(text.stdout).toMatch(/^ {2}sim {2}sim\/echo +2 /m);
      const empty = await admin("report", "--from", "2020-01-01", "--to", "2020-02-01", "--json");
      expect(JSON.parse(empty.stdout)).toMatchObject({
        providers: [],
        liabilities: { total_usd: "0" },
      });
    });

    test("rejects invalid periods", async () => {
      for (const flags of [
        ["--from", "yesterday"],
        ["--from", "2027-02-30"],
        ["--from", "2027-02-02", "--to", "2027-02-01"],
        ["--to", "0x10"],
      ])
        expect([flags, (await admin("report", ...flags)).code]).toEqual([flags, 2]);
    });
  });

  describe("providers", () => {
    test("shows today's calls, and the open circuits of the running gateway", async () => {
      const failing = {
        model: "sim/echo",
        max_tokens: 20,
        messages: [{ role: "user", content: "hi [[sim: status=503]]" }],
      };
      const { key } = await createAccount();
      // Repeated, because only failures within a few seconds open a circuit.
      await eventually(async () => {
        for (let failed = 0; failed < 5; failed++)
          await (await call("/v1/chat/completions", key, failing)).text();
        const { stdout } = await admin("providers");
        return /^Open: sim echo with account gateway, in process /m.test(stdout);
      });
      expect((await admin("providers")).stdout).toMatch(
        /^provider +set +calls +failed +USD +open circuits\nsim +yes +\d+ +\d+ +[\d.]+ +1\n/,
      );
      const json = await admin("providers", "--json");
      expect(JSON.parse(json.stdout)).toMatchObject({
        providers: [{ provider: "sim", set: true, open_circuits: [{ model: "echo" }] }],
      });
    });
  });
});
