// The commands migrate, doctor and admin, with and without a running gateway.

import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { startFakeStripe } from "../support/fakes/stripe.ts";
import { runInProcess } from "../support/run-command.ts";
import { testPostgres } from "../support/stores/postgres.ts";
import {
  createTempFolder,
  type RunningProcess,
  startPostern,
  stopPostern,
  stopAll,
} from "./run-postern.ts";

const tempFolder = createTempFolder();
const { settings, folder } = tempFolder;
let gateway: RunningProcess;
let account = { id: "", key: "", keyId: "" };

beforeAll(async () => {
  gateway = await startPostern(["serve"], settings);
  account = await createAccount();
});
afterAll(async () => {
  await stopPostern(gateway);
  stopAll();
  tempFolder.remove();
});

describe("postern migrate", () => {
  test("applies pending migrations, and nothing the second time", async () => {
    const other = createTempFolder();
    expect((await runInProcess(["migrate"], other.settings)).stdout).toMatch(/^Applied \d{4}-/);
    expect(await runInProcess(["migrate"], other.settings)).toEqual({
      code: 0,
      stdout: "The store is up to date.\n",
      stderr: "",
    });
    other.remove();
  });

  test("is required before other commands on an empty store", async () => {
    const other = createTempFolder();
    const { code, stderr } = await runInProcess(["admin", "verify-ledger"], other.settings);
    expect(code).toBe(1);
    expect(stderr).toContain("postern migrate and the first start create a new store");
    other.remove();
  });

  test("works on PostgreSQL, as do doctor and verify-ledger", async () => {
    const there = { ...settings, DATABASE_URL: await testPostgres() };
    expect((await runInProcess(["migrate"], there)).stdout).toMatch(/^Applied \d{4}-/);
    expect((await runInProcess(["migrate"], there)).stdout).toBe("The store is up to date.\n");
    expect((await runInProcess(["doctor"], there)).stdout).toContain(
      "PostgreSQL is readable and writable",
    );
    expect((await runInProcess(["admin", "verify-ledger"], there)).stdout).toContain(
      "No differences.",
    );
  });
});

describe("postern admin grant", () => {
  test("grants credit while the gateway runs", async () => {
    const { code, stdout } = await runAdmin("grant", account.id, "5.25", "--reason", "welcome");
    expect(code).toBe(0);
    expect(stdout).toBe(`Granted $5.25 to ${account.id}. Its balance is $5.30.\n`);
    expect(await balanceOf(account.key)).toBe(5_300_000);
  });

  test("applies once per --id", async () => {
    const before = await balanceOf(account.key);
    const line = ["grant", account.id, "1", "--reason", "twice", "--id", "ticket-7"] as const;
    expect((await runAdmin(...line)).stdout).toContain("Granted $1.00");
    expect(await runAdmin(...line)).toMatchObject({ code: 0, stderr: "" });
    expect((await runAdmin(...line)).stdout).toContain("already made");
    expect(await balanceOf(account.key)).toBe(before + 1_000_000);
  });

  test("rejects unknown accounts and invalid amounts", async () => {
    expect(await runAdmin("grant", "acct_none", "5", "--reason", "x")).toMatchObject({
      code: 1,
      stderr:
        "postern admin grant: The account acct_none does not exist. postern admin list lists the accounts.\n",
    });
    for (const amount of ["0", "five", "1e3", "0.0000000001"])
      expect((await runAdmin("grant", account.id, amount, "--reason", "x")).code).toBe(2);
    expect((await runAdmin("grant", account.id, "5", "--reason", "  ")).code).toBe(2);
  });
});

describe("postern admin show and revoke-key", () => {
  test("show an account with its balance and its keys, never a raw key", async () => {
    const { code, stdout } = await runAdmin("show", account.id);
    expect(code).toBe(0);
    expect(stdout).toContain(`account    ${account.id}`);
    expect(stdout).toContain("balance    ");
    expect(stdout).toContain(`key        ${account.keyId}`);
    expect(stdout).not.toContain(account.key);
  });

  test("revoke a key, which the running gateway rejects from its next request", async () => {
    const other = await createAccount();
    expect(await runAdmin("revoke-key", other.keyId)).toMatchObject({
      code: 0,
      stdout: `Revoked ${other.keyId} of ${other.id}.\n`,
    });
    const answer = await fetch(`${gateway.url}/v1/account`, {
      headers: { authorization: `Bearer ${other.key}` },
    });
    expect(answer.status).toBe(401);
    expect((await runAdmin("revoke-key", other.keyId)).code).toBe(0);
    expect((await runAdmin("show", other.id)).stdout).toContain("revoked 20");
  });

  test("report an unknown key or account", async () => {
    expect((await runAdmin("revoke-key", "key_none")).code).toBe(1);
    expect((await runAdmin("show", "acct_none")).code).toBe(1);
  });
});

describe("postern admin backup and verify-ledger", () => {
  test("copy the store while it is in use, readable only by its owner, and overwrite no file", async () => {
    const file = path.join(folder, "copy.db");
    expect((await runAdmin("backup", file)).code).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const again = await runAdmin("backup", file);
    expect(`${again.code} ${again.stderr}`).toContain("1 ");
    expect(again.stderr).toContain("already exists");
    for (const nowhere of ["", path.join(folder, "no-such-folder", "copy.db")]) {
      const refused = await runAdmin("backup", nowhere);
      expect(`${refused.code} ${refused.stderr}`).toStartWith(
        `1 postern admin backup: "${nowhere}" cannot be created`,
      );
    }
  });

  test("create no store and report the folder that they used", async () => {
    const elsewhere = path.join(folder, "wrong chain");
    const { code, stderr } = await runInProcess(["admin", "list"], {
      ...settings,
      POSTERN_DATA_DIR: elsewhere,
    });
    expect(`${code} ${stderr}`).toStartWith(
      `1 postern admin list: There is no store in ${elsewhere}: set POSTERN_DATA_DIR`,
    );
    expect(existsSync(elsewhere)).toBe(false);
  });

  test("verify a restored copy", async () => {
    const restored = await restoreBackup("restored");
    const { code, stdout } = await runInProcess(["admin", "verify-ledger"], restored);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^Checked \d+ wallets, \d+ keys, 0 open holds, \d+ transfers and 0 usage records\.\nNo differences\.\n$/,
    );
    expect((await runInProcess(["admin", "show", account.id], restored)).stdout).toContain(
      account.id,
    );
  });

  test("report a balance that was changed by hand", async () => {
    const tampered = await restoreBackup("tampered");
    const database = new Database(path.join(tampered["POSTERN_DATA_DIR"] ?? "", "postern.db"));
    database.run("update wallet set promo = promo + 1 where account_id = ?", [account.id]);
    database.close();
    const { code, stderr } = await runInProcess(["admin", "verify-ledger"], tampered);
    expect(code).toBe(1);
    expect(stderr).toContain("1 difference:");
    expect(stderr).toContain(account.id);
  });

  test("report wrong hourly sums, and recompute them", async () => {
    const tampered = await restoreBackup("tampered-sums");
    const database = new Database(path.join(tampered["POSTERN_DATA_DIR"] ?? "", "postern.db"));
    database.run("insert into charge_hour values (0, 7, 0, 0)");
    database.close();
    for (const flags of [[], ["--full"]]) {
      const { code, stderr } = await runInProcess(["admin", "verify-ledger", ...flags], tampered);
      expect(code).toBe(1);
      expect(stderr).toContain("1 difference:");
      expect(stderr).toContain("postern admin verify-ledger --rebuild-sums");
    }
    const { code, stdout } = await runInProcess(
      ["admin", "verify-ledger", "--full", "--rebuild-sums"],
      tampered,
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^Recomputed the charges of \d+ hours? and the usage summaries of 0 accounts\.$/m,
    );
    expect(stdout).toContain("No differences.");
  });

  test("run beside the gateway", async () => {
    expect((await runAdmin("verify-ledger")).stdout).toContain("No differences.");
  });
});

describe("postern doctor", () => {
  test("finds no problem on a new gateway", async () => {
    const { code, stdout } = await runInProcess(["doctor"], settings);
    expect(code).toBe(0);
    expect(stdout).toContain("No problems found.");
    for (const about of [
      "settings",
      "secret",
      "store",
      "providers",
      "prices",
      "identity",
      "payments",
    ])
      expect(stdout).toMatch(new RegExp(`^ {2}(ok|note|warn) +${about} `, "m"));
  });

  test("changes nothing: a folder without a store stays without one", async () => {
    const other = createTempFolder();
    expect((await runInProcess(["doctor"], other.settings)).code).toBe(0);
    expect(existsSync(other.settings["POSTERN_DATA_DIR"] ?? "")).toBe(false);
    other.remove();
  });

  test("reports open x402 payments while x402 is off", async () => {
    const other = createTempFolder();
    await runInProcess(["migrate"], other.settings);
    const store = new Database(path.join(other.settings["POSTERN_DATA_DIR"] ?? "", "postern.db"));
    const add = store.query(
      `insert into agent_payment (id, account_id, invoice_id, made_invoice, signed, payer, total_cents, state, expires_at, created_at)
       values (?, 'a', 'i', 0, '{}', '0x0', 100, ?, 1, 1)`,
    );
    for (const state of ["open", "paid", "refused", "unclear"]) add.run(state, state);
    store.close();
    const { code, stdout } = await runInProcess(["doctor"], other.settings);
    expect(code).toBe(0);
    expect(stdout).toContain("x402 is off while 1 x402 payments are open");
    other.remove();
  });

  test("asks Stripe whether the key works, and reports what an operator must fix", async () => {
    const other = createTempFolder();
    await runInProcess(["migrate"], other.settings);
    const stripe = startFakeStripe();
    const withStripe = { ...other.settings, ...stripe.env };
    const good = await runInProcess(["doctor"], withStripe);
    expect(good).toMatchObject({ code: 0 });
    expect(good.stdout).toContain("Stripe accepts the secret key");
    const wrongKey = { ...withStripe, STRIPE_SECRET_KEY: "sk_test_wrong" };
    const wrong = await runInProcess(["doctor"], wrongKey);
    expect(wrong).toMatchObject({ code: 1 });
    expect(wrong.stdout).toContain("Stripe does not accept STRIPE_SECRET_KEY.");
    const error = { status: 403, type: "invalid_request_error", message: "no access" };
    stripe.refusals.set("GET /v1/disputes", error);
    stripe.taxStatus = "pending";
    const taxed = await runInProcess(["doctor"], { ...withStripe, STRIPE_AUTOMATIC_TAX: "true" });
    expect(taxed.stdout).toContain("STRIPE_SECRET_KEY has no read access to Disputes.");
    expect(taxed.stdout).toContain("Stripe Tax is pending");
    await stripe.stop();
    const down = await runInProcess(["doctor"], withStripe);
    expect(down).toMatchObject({ code: 1 });
    expect(down.stdout).toContain("Stripe did not answer a request");
    const store = new Database(path.join(other.settings["POSTERN_DATA_DIR"] ?? "", "postern.db"));
    store.run(
      `insert into top_up (id, account_id, invoice_id, method_id, amount_cents, fee_cents, state, reason, created_at, ended_at)
       values ('t', 'a', 'i', 'm', 1000, 50, 'failed', 'processor_refused', 1, ?)`,
      [Date.now()],
    );
    store.close();
    const refused = await runInProcess(["doctor"], other.settings);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stdout).toContain("The payment processor refused 1 automatic top-up");
    other.remove();
  });

  test("names every error in the settings", async () => {
    const { code, stdout } = await runInProcess(["doctor"], {
      POSTERN_PORT: "x",
      POSTERN_FROB: "1",
      POSTERN_API_KEY: "of a client in the same shell",
    });
    expect(code).toBe(2);
    expect(stdout).not.toContain("POSTERN_API_KEY");
    expect(stdout).toContain(
      "fail  settings    POSTERN_PORT must be a whole number from 0 to 65535",
    );
    expect(stdout).toContain("fail  settings    POSTERN_FROB is not a setting");
    expect(stdout).toContain("2 problems to fix.");
  });

  test("reports the limits of connections outside development", async () => {
    const stdoutWith = async (env: Readonly<Record<string, string>>): Promise<string> =>
      (
        await runInProcess(["doctor"], {
          ...settings,
          POSTERN_BASE_URL: "https://gateway.example.com",
          POSTERN_SECRET: "a secret of at least 32 characters",
          ...env,
        })
      ).stdout;
    expect(await stdoutWith({ POSTERN_CONNECTIONS_PER_NETWORK: "5" })).toContain(
      process.platform === "linux"
        ? "ok    connections at most 5 per IPv4 address or IPv6 /64, 10 per /24 or /48"
        : "warn  connections connections per network are not limited",
    );
    expect(await stdoutWith({ POSTERN_CONNECTIONS_PER_NETWORK: "0" })).toContain(
      "note  connections connections per network are not limited",
    );
  });

  test("reports an unreachable store without its password", async () => {
    const { code, stdout, stderr } = await runInProcess(["doctor"], {
      ...settings,
      DATABASE_URL: "postgres://postern:hunter2@127.0.0.1:1/postern",
    });
    expect(code).toBe(1);
    expect(stdout).toContain("fail  store       PostgreSQL at 127.0.0.1:1 cannot be used");
    expect(stdout + stderr).not.toContain("hunter2");
  });

  test("checks the OpenTelemetry collector", async () => {
    const collector = Bun.serve({
      port: 0,
      fetch: (request) =>
        Response.json({}, { status: request.headers.get("api-key") === "good" ? 200 : 401 }),
    });
    const settled = { ...settings, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url.href };
    const good = await runInProcess(["doctor"], {
      ...settled,
      OTEL_EXPORTER_OTLP_HEADERS: "api-key=good",
    });
    expect(good.stdout).toContain(
      `ok    telemetry   the collector at ${collector.url.host} accepts`,
    );
    const bad = await runInProcess(["doctor"], {
      ...settled,
      OTEL_EXPORTER_OTLP_HEADERS: "api-key=very-secret",
    });
    await collector.stop(true);
    expect(bad.code).toBe(0);
    expect(bad.stdout).toContain("does not accept spans: status 401");
    expect(bad.stdout).toContain("OTEL_EXPORTER_OTLP_HEADERS");
    expect(bad.stdout).not.toContain("very-secret");
    const away = await runInProcess(["doctor"], settled);
    expect(away.stdout).toContain("does not accept spans: ");
  });

  test("checks each provider key without charges", async () => {
    const provider = Bun.serve({
      port: 0,
      fetch: (request) =>
        new Response("{}", {
          status: request.headers.get("authorization") === "Bearer good" ? 200 : 401,
        }),
    });
    const address = provider.url.href.replace(/\/$/, "");
    const { code, stdout } = await runInProcess(["doctor"], {
      ...settings,
      OPENAI_API_KEY: "good",
      OPENAI_BASE_URL: address,
      GROQ_API_KEY: "bad-and-secret",
      GROQ_BASE_URL: address,
      MISTRAL_API_KEY: "any",
      MISTRAL_BASE_URL: "http://127.0.0.1:1",
    });
    await provider.stop(true);
    expect(code).toBe(1);
    expect(stdout).toContain("ok    openai      OpenAI accepts the key");
    expect(stdout).toContain("fail  groq        Groq rejects the key (401)");
    expect(stdout).toContain("fail  mistral     Mistral AI cannot be reached");
    expect(stdout).not.toContain("bad-and-secret");
  });

  test("checks the keys of the models file", async () => {
    const provider = Bun.serve({
      port: 0,
      fetch: (request) =>
        new Response("{}", {
          status: request.headers.get("authorization") === "Bearer good" ? 200 : 401,
        }),
    });
    const models = path.join(folder, "keys.json");
    const keyFile = path.join(folder, "second-key");
    writeFileSync(keyFile, "bad-and-secret");
    const keyOf = (name: string, source: object) => ({ provider: "openai", name, ...source });
    const credentials = [
      keyOf("good", { api_key_env: "SECOND_KEY" }),
      keyOf("bad", { api_key_file: keyFile }),
      keyOf("unset", { api_key_env: "NO_SUCH_KEY" }),
      { ...keyOf("account", { api_key_env: "SECOND_KEY" }), provider: "vertex" },
    ];
    writeFileSync(models, JSON.stringify({ credentials }));
    const { code, stdout } = await runInProcess(["doctor"], {
      ...settings,
      OPENAI_API_KEY: "good",
      OPENAI_BASE_URL: provider.url.href.replace(/\/$/, ""),
      SECOND_KEY: "good",
      POSTERN_MODELS_FILE: models,
    });
    await provider.stop(true);
    expect(code).toBe(1);
    expect(stdout).toMatch(/ok +openai\/good +OpenAI accepts the key/);
    expect(stdout).toMatch(/fail +openai\/bad +OpenAI rejects the key \(401\)/);
    expect(stdout).toMatch(/fail +openai\/unset .*NO_SUCH_KEY is not set/);
    expect(stdout).toMatch(/fail +vertex\/account .*the provider/);
    expect(stdout).not.toContain("bad-and-secret");
  });

  test("checks Google's key, and reports a key as unverified if the model list is public", async () => {
    const asked: string[] = [];
    const provider = Bun.serve({
      port: 0,
      fetch: (request) => {
        const { pathname } = new URL(request.url);
        asked.push(pathname);
        const isOpen = pathname.startsWith("/open");
        const isGood = request.headers.get("authorization") === "Bearer good";
        return new Response("{}", { status: isOpen || isGood ? 200 : 401 });
      },
    });
    const address = provider.url.href.replace(/\/$/, "");
    const { stdout } = await runInProcess(["doctor"], {
      ...settings,
      GOOGLE_API_KEY: "good",
      GOOGLE_BASE_URL: `${address}/v1beta`,
      OPENROUTER_API_KEY: "anything",
      OPENROUTER_BASE_URL: `${address}/open`,
    });
    await provider.stop(true);
    expect(stdout).toContain("ok    google      Google accepts the key");
    expect(stdout).toMatch(/note +openrouter +OpenRouter responds; its model list needs no key/);
    expect(asked).toContain("/v1beta/openai/models");
  });

  test("reports missing settings of a public gateway", async () => {
    const { code, stdout } = await runInProcess(["doctor"], {
      ...settings,
      POSTERN_BASE_URL: "http://gateway.example.com",
      POSTERN_SECRET: "x".repeat(40),
    });
    expect(code).toBe(1);
    expect(stdout).toContain("is not https");
    expect(stdout).toContain("POSTERN_TRUSTED_PROXIES");
    expect(stdout).toContain("fail  providers   no provider key is set\n");
  });

  test("rejects a development gateway that listens on all interfaces", async () => {
    const { code, stdout } = await runInProcess(["doctor"], {
      ...settings,
      POSTERN_HOST: "0.0.0.0",
    });
    expect(code).toBe(2);
    expect(stdout).toContain("fail  settings    POSTERN_HOST must be 127.0.0.1");
  });

  test("reports errors in the models file", async () => {
    const file = path.join(folder, "models.json");
    writeFileSync(file, '{"models":[{"id":"nonsense"}]}');
    const broken = await runInProcess(["doctor"], { ...settings, POSTERN_MODELS_FILE: file });
    expect(broken.code).toBe(2);
    expect(broken.stdout).toContain("models[0]");
    const missing = await runInProcess(["doctor"], {
      ...settings,
      POSTERN_MODELS_FILE: `${file}.no`,
    });
    expect(`${missing.code} ${missing.stdout}`).toContain("does not exist");
  });
});

describe("postern admin prices", () => {
  test("shows what a price table changes, and doctor and the gateway use it", async () => {
    const file = path.join(folder, "prices.jsonl");
    const row = {
      provider: "openai",
      name: "gpt-5.4",
      pricing: [{ tokens: { input: "9", output: "15" } }],
      sources: ["own"],
    };
    const header = { checked: "2026-01-01", sources: { own: "1" } };
    writeFileSync(file, `${JSON.stringify(header)}\n${JSON.stringify(row)}\n`);
    const { code, stdout } = await runAdmin("prices", file);
    expect(code).toBe(0);
    expect(stdout).toContain("checked on 2026-01-01");
    expect(stdout).toContain("changed  openai/gpt-5.4: input 2.5 → 9 (+260%)");
    const json = await runAdmin("prices", file, "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({ after: "2026-01-01" });
    const doctor = await runInProcess(["doctor"], { ...settings, POSTERN_PRICES_FILE: file });
    expect(doctor.stdout).toMatch(/warn {2}prices .* are \d+ days old/);
  });

  test("rejects a file that is not a price table", async () => {
    const file = path.join(folder, "broken.jsonl");
    writeFileSync(file, "{}\n");
    const { code, stderr } = await runAdmin("prices", file);
    expect(code).toBe(1);
    expect(stderr).toContain("Line 1 of the price table is not valid");
    const missing = await runAdmin("prices", `${file}.no`);
    expect(missing).toMatchObject({
      code: 2,
      stderr: `postern admin prices: The file ${file}.no does not exist.\n`,
    });
  });
});

function runAdmin(...args: readonly string[]) {
  return runInProcess(["admin", ...args], settings);
}

async function createAccount(): Promise<typeof account> {
  const made = await fetch(`${gateway.url}/v1/accounts`, {
    method: "POST",
    body: "{}",
    headers: { "content-type": "application/json" },
  });
  const { account: record, api_key: key } = await made.json();
  const read = await fetch(`${gateway.url}/v1/account`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return { id: record.id, key, keyId: (await read.json()).key.id };
}

async function balanceOf(key: string): Promise<number> {
  const answer = await fetch(`${gateway.url}/v1/account`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return (await answer.json()).balance.credits;
}

/** The settings of a data folder with a copy of the running gateway's store. */
async function restoreBackup(name: string): Promise<typeof settings> {
  const copy = path.join(folder, `${name}.db`);
  await runAdmin("backup", copy);
  const data = path.join(folder, name);
  mkdirSync(data);
  renameSync(copy, path.join(data, "postern.db"));
  return { ...settings, POSTERN_DATA_DIR: data };
}
