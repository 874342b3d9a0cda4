// Rotation of the master secret: what the previous secret made keeps working, moves to the current one, and then works
// without the previous one.

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { createTempFolder, runPostern, type Settings, stopAll } from "./run-postern.ts";

const IDEMPOTENCY_KEY = "5f1c0b7a9d3e4826b0c4d8e1f2a36795";
const OLD = "o".repeat(40);
const NEW = "n".repeat(40);
const tempFolder = createTempFolder();
afterEach(stopAll);
afterAll(tempFolder.remove);

describe.each([...STORE_KINDS])("postern admin rotate-secret on %s", (kind) => {
  test("moves keys, webhooks, stored responses and idempotent replies without a break", async () => {
    const settings = await settingsOf(kind);
    const before = await startOn({ ...settings, POSTERN_SECRET: OLD });
    const { api_key: used = "" } = await createAccount(before.url);
    const { api_key: unused = "" } = await createAccount(before.url);
    const client = clientOf(used);
    await client(before.url, "POST /v1/webhooks", { url: "http://127.0.0.1:9/", events: ["*"] });
    const stored = await client(before.url, "POST /v1/responses", {
      model: "sim/echo",
      input: "Remember this.",
      store: true,
    });
    const repeated = { name: "repeated" };
    const created = await client(before.url, "POST /v1/keys", repeated, IDEMPOTENCY_KEY);
    const message = { model: "sim/echo", messages: [{ role: "user", content: "Hello" }] };
    const charged = await client(
      before.url,
      "POST /v1/chat/completions",
      message,
      "charged-once-1",
    );
    const balance = await balanceOf(client, before.url);
    await before.stop();
    await expectLedgerValid({ ...settings, POSTERN_SECRET: OLD });

    const both = { ...settings, POSTERN_SECRET: NEW, POSTERN_SECRET_PREVIOUS: OLD };
    const during = await startOn(both);
    expect((await client(during.url, "GET /v1/account")).status).toBe(200);
    const replayed = await client(during.url, "POST /v1/keys", repeated, IDEMPOTENCY_KEY);
    expect(replayed.body).toEqual(created.body);
    const conflict = await client(during.url, "POST /v1/keys", { name: "x" }, IDEMPOTENCY_KEY);
    expect(conflict.status).toBe(409);
    const again = await client(during.url, "POST /v1/chat/completions", message, "charged-once-1");
    expect(again.body).toEqual(charged.body);
    expect(await balanceOf(client, during.url)).toEqual(balance);
    const first = await runInProcess(["admin", "rotate-secret"], both);
    expect([first.code, first.stderr]).toEqual([0, ""]);
    expect(first.stdout).toContain("Re-encrypted 1 of 1 webhook secrets.");
    expect(first.stdout).toContain("Re-encrypted 1 of 1 stored responses.");
    expect(first.stdout).toContain("2 of 3 live API keys still need the previous secret");
    await clientOf(unused)(during.url, "GET /v1/account");
    await clientOf(String(created.body["api_key"]))(during.url, "GET /v1/account");
    const second = await runInProcess(["admin", "rotate-secret"], both);
    expect(second.stdout).toContain("Re-encrypted 0 of 1 webhook secrets.");
    expect(second.stdout).toContain("All 3 live API keys moved.");
    await during.stop();

    const after = await startOn({ ...settings, POSTERN_SECRET: NEW });
    for (const key of [used, unused])
      expect((await clientOf(key)(after.url, "GET /v1/account")).status).toBe(200);
    const read = await client(after.url, `GET /v1/responses/${String(stored.body["id"])}`);
    expect(JSON.stringify(read.body)).toContain("Remember this.");
    expect(await balanceOf(client, after.url)).toEqual(balance);
    await after.stop();
    await expectLedgerValid({ ...settings, POSTERN_SECRET: NEW });
  });

  test("keys that were not used stop working without the previous secret", async () => {
    const settings = await settingsOf(kind);
    const before = await startOn({ ...settings, POSTERN_SECRET: OLD });
    const { api_key: key = "" } = await createAccount(before.url);
    await before.stop();
    const both = { ...settings, POSTERN_SECRET: NEW, POSTERN_SECRET_PREVIOUS: OLD };
    await (await startOn(both)).stop();
    const after = await startOn({ ...settings, POSTERN_SECRET: NEW });
    expect((await clientOf(key)(after.url, "GET /v1/account")).status).toBe(401);
    await after.stop();
  });

  test("a secret that the store does not know is refused by serve, doctor and rotate-secret", async () => {
    const settings = await settingsOf(kind);
    await (await startOn({ ...settings, POSTERN_SECRET: OLD })).stop();
    const wrong = { ...settings, POSTERN_SECRET: NEW };
    const problem = "the master secret is not the one that this store was created with";
    const served = await runPostern([], wrong);
    expect([served.code, served.stdout + served.stderr]).toEqual([
      1,
      expect.stringContaining(problem),
    ]);
    const checked = await runInProcess(["doctor"], wrong);
    expect([checked.code, checked.stdout]).toEqual([1, expect.stringContaining(problem)]);
    const rotated = await runInProcess(["admin", "rotate-secret"], {
      ...wrong,
      POSTERN_SECRET_PREVIOUS: `another-${NEW}`,
    });
    expect([rotated.code, rotated.stderr]).toEqual([1, expect.stringContaining(problem)]);
    // The first start on a store, and the one of a rotation, record the secret.
    await (await startOn({ ...wrong, POSTERN_SECRET_PREVIOUS: OLD })).stop();
    expect((await runInProcess(["doctor"], wrong)).stdout).not.toContain(problem);
  });

  test("the old secret is refused once a rotation has moved everything", async () => {
    const settings = await settingsOf(kind);
    await (await startOn({ ...settings, POSTERN_SECRET: OLD })).stop();
    const both = { ...settings, POSTERN_SECRET: NEW, POSTERN_SECRET_PREVIOUS: OLD };
    await (await startOn(both)).stop();
    expect((await runInProcess(["admin", "rotate-secret"], both)).code).toBe(0);
    const old = await runInProcess(["doctor"], { ...settings, POSTERN_SECRET: OLD });
    expect(old.stdout).toContain("the master secret is not the one");
  });
});

describe("postern admin rotate-secret", () => {
  test("says which settings it needs", async () => {
    const settings = { POSTERN_DATA_DIR: `${tempFolder.folder}/plain`, POSTERN_SECRET: NEW };
    await runInProcess(["migrate"], settings);
    const { code, stderr } = await runInProcess(["admin", "rotate-secret"], settings);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("POSTERN_SECRET_PREVIOUS is not set"),
    ]);
    const alone = await runInProcess(["doctor"], { POSTERN_SECRET_PREVIOUS: OLD });
    expect(alone.stdout).toContain("POSTERN_SECRET_PREVIOUS needs POSTERN_SECRET, the new secret");
  });
});

/** In this process, because each start of another one takes half a second of CPU time. */
function startOn(settings: Settings): Promise<Gateway> {
  const { DATABASE_URL: databaseUrl } = settings;
  return startGateway({ env: settings, ...(databaseUrl === undefined ? {} : { databaseUrl }) });
}

let folders = 0;

async function settingsOf(kind: string): Promise<Settings> {
  const place: Settings =
    kind === "postgres"
      ? { DATABASE_URL: await migratedPostgres() }
      : { POSTERN_DATA_DIR: `${tempFolder.folder}/${(folders += 1)}` };
  return { ...tempFolder.settings, ...place };
}

async function balanceOf(client: ReturnType<typeof clientOf>, url: string): Promise<unknown> {
  return (await client(url, "GET /v1/account")).body["balance"];
}

async function expectLedgerValid(settings: Settings): Promise<void> {
  const { code, stdout } = await runInProcess(["admin", "verify-ledger", "--full"], settings);
  expect([code, code === 0 ? "" : stdout]).toEqual([0, ""]);
}

async function createAccount(url: string): Promise<Record<string, string>> {
  const { body } = await clientOf("")(url, "POST /v1/accounts", {});
  return { api_key: String(body["api_key"]) };
}

interface Reply {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

function clientOf(key: string) {
  return async (
    url: string,
    line: string,
    body?: unknown,
    idempotencyKey?: string,
  ): Promise<Reply> => {
    const [method = "", target = ""] = line.split(" ");
    const response = await fetch(url + target, {
      method,
      headers: {
        "content-type": "application/json",
        ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const json: unknown = await response.json();
    return { status: response.status, body: Object.fromEntries(Object.entries(json ?? {})) };
  };
}
