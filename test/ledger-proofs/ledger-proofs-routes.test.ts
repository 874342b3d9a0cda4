// Proofs and the log over HTTP, `postern verify-proof`, `postern admin publish-ledger`, and the example program.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import type { JsonObject } from "../../src/base/json.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { verifyLog, verifyProof } from "../../src/ledger-proofs/verify-proof.ts";
import { rotateSigningKey } from "../../src/signing/signing-keys.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { ROOT } from "../support/source/source-files.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { publishAt } from "./fixtures.ts";

const EXAMPLE = path.join(ROOT, "examples/ledger-proof.ts");

describe.each(STORE_KINDS)("proofs of the ledger over HTTP on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let other: TestAccount;
  // At noon, so that a later day is due at the same time of the day.
  const clock = { now: Math.floor(Date.now() / DAY_MS) * DAY_MS - 4.5 * DAY_MS };
  const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);
  const get = async (target: string, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(`${gateway.url}${target}`, { headers });
    const text = await response.text();
    return { status: response.status, text, json: JSON.parse(text) as JsonObject };
  };
  const readKeys = async () => {
    const { json } = await get("/.well-known/jwks.json");
    // Safe because the key set is that of the gateway.
    const keys = json["keys"] as readonly { readonly kid: string; readonly x: string }[];
    return (id: string): string | undefined => keys.find(({ kid }) => kid === id)?.x;
  };
  const callModel = async ({ headers }: TestAccount): Promise<void> => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "Hi" }] }),
    });
    expect(response.status).toBe(200);
    await response.text();
  };
  const first = dayOf(clock.now);

  beforeAll(async () => {
    gateway = await startGateway({ store, now: () => clock.now });
    account = await registerAccount(gateway);
    other = await registerAccount(gateway);
    const empty = await get("/v1/ledger/proof", account.headers);
    expectStatus("getLedgerProof", 404, empty);
    expect(empty.text).toContain("No roots of the ledger have been published yet.");
    expect((await get("/v1/ledger/roots")).json).toMatchObject({
      head: null,
      tree_size: 0,
      data: [],
    });
    await callModel(account);
    await callModel(account);
    clock.now += DAY_MS;
    expect(await publishAt(gateway, clock.now)).toEqual([first]);
  });
  afterAll(() => gateway.stop());

  test("an account gets its own proof, and none of another account", async () => {
    const proof = await get("/v1/ledger/proof", account.headers);
    expectStatus("getLedgerProof", 200, proof);
    const publicKeyOf = await readKeys();
    const proven = verifyProof(proof.json, publicKeyOf, { account: account.id, day: first });
    // The starting credit and two calls.
    expect(proven).toMatchObject({ iss: gateway.url, entries: 3, verifiedEntries: 3 });
    const of = await get("/v1/ledger/proof", other.headers);
    expect(verifyProof(of.json, publicKeyOf)).toMatchObject({ account: other.id, entries: 1 });
    expect(of.text).not.toContain(account.id);
    for (const query of [
      `account=${other.id}`,
      `account_id=${other.id}`,
      "day=yesterday",
      "limit=0",
    ])
      expectStatus("getLedgerProof", 400, await get(`/v1/ledger/proof?${query}`, account.headers));
    expectStatus("getLedgerProof", 401, await get("/v1/ledger/proof"));
    const unknown = await get("/v1/ledger/proof?day=2020-01-01", account.headers);
    expect(unknown.status).toBe(404);
    expect(unknown.text).toContain(`the last published day is ${first}`);
  });

  test("entries come in pages, each with its own paths", async () => {
    const publicKeyOf = await readKeys();
    const page = await get("/v1/ledger/proof?limit=2", account.headers);
    expect(page.json["entries"]).toMatchObject({ has_more: true, next_cursor: "2" });
    expect(verifyProof(page.json, publicKeyOf)).toMatchObject({ entries: 3, verifiedEntries: 2 });
    const rest = await get("/v1/ledger/proof?limit=2&cursor=2", account.headers);
    expect(rest.json["entries"]).toMatchObject({ has_more: false, next_cursor: null });
    expect(verifyProof(rest.json, publicKeyOf)).toMatchObject({ entries: 3, verifiedEntries: 1 });
  });

  test("a mirror follows the log from any size, also after a new signing key", async () => {
    const { secret, store: settings } = gateway.config;
    const master = loadMasterSecret({ secret }, settings.dataDir);
    const one = await get("/v1/ledger/roots?size=1");
    expectStatus("listLedgerRoots", 200, one);
    const mirrored = verifyLog(one.json, await readKeys(), { size: 0 });
    await gateway.server.db.write((tx) => rotateSigningKey(tx, master, clock.now));
    clock.now += 2 * DAY_MS;
    await publishAt(gateway, clock.now);
    const next = await get("/v1/ledger/roots?since=1");
    expect(verifyLog(next.json, await readKeys(), mirrored).size).toBeGreaterThan(1);
    // The head that was mirrored is enough, without the records.
    const { size, root } = mirrored;
    expect(verifyLog(next.json, await readKeys(), { size, root }).size).toBeGreaterThan(1);
    for (const query of ["since=99", "size=99", "since=1&size=0", "since=-1", "page=2"])
      expectStatus("listLedgerRoots", 400, await get(`/v1/ledger/roots?${query}`));
  });

  test("postern verify-proof and the example program verify it without the gateway's code", async () => {
    const folder = scratchFolder("proofs");
    const save = async (name: string, target: string): Promise<string> => {
      const file = path.join(folder, name);
      writeFileSync(file, (await get(target, account.headers)).text);
      return file;
    };
    const proof = await save("proof.json", `/v1/ledger/proof?day=${first}`);
    const keys = await save("jwks.json", "/.well-known/jwks.json");
    const roots = await save("roots.json", "/v1/ledger/roots");
    const run = (...args: readonly string[]) =>
      runInProcess(["verify-proof", proof, "--keys", keys, ...args], {});
    const valid = await run("--account", account.id, "--day", first, "--roots", roots);
    expect([valid.code, valid.stderr]).toEqual([0, ""]);
    expect(valid.stdout).toContain(`day          ${first}`);
    expect(valid.stdout).toContain("entries      3 of 3 verified");
    expect(await run("--account", other.id)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`the proof is not of ${other.id}`),
    });
    expect((await run("--day", dayOf(clock.now))).code).toBe(1);
    const rewritten = await save("rewritten.json", "/v1/ledger/roots?size=0");
    expect((await run("--roots", rewritten)).code).toBe(1);
    expect((await run("--roots", keys)).code).toBe(1);

    const child = Bun.spawn(
      [process.execPath, EXAMPLE, gateway.url, account.key, account.id, first],
      {
        stdout: "pipe",
        stderr: "pipe",
      },
    );
    const output = await new Response(child.stdout).text();
    expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
    expect(output).toContain(`at the end of ${first}: the proof is valid.`);
    expect(output).toContain("3 entries changed the balance");
  });
});

test("the examples of docs/site/ledger-proofs.md run", async () => {
  const gateway = await startGateway({ now: () => Date.now() - 2 * DAY_MS });
  const account = await registerAccount(gateway);
  // Which day is due depends on the time of the day.
  const { stdout } = await runPublish(gateway);
  const [day] = /\d{4}-\d{2}-\d{2}/.exec(stdout) ?? [];
  const page = await Bun.file(path.join(ROOT, "docs/site/ledger-proofs.md")).text();
  const blocksIn = (language: string): string =>
    [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))]
      .map(([, code = ""]) => code)
      .join("\n")
      .replaceAll("http://127.0.0.1:8787", gateway.url);
  const folder = scratchFolder("proof-examples");
  const shell = Bun.spawn(["bash", "-euc", blocksIn("sh").replaceAll("curl ", "curl --fail ")], {
    cwd: folder,
    env: { ...process.env, POSTERN_API_KEY: account.key },
    stderr: "pipe",
  });
  expect([await shell.exited, await new Response(shell.stderr).text()]).toEqual([0, ""]);
  const check = `
    import { readFileSync } from "node:fs";
    const [proof, jwks] = ["proof.json", "jwks.json"].map((file) => JSON.parse(readFileSync(file)));
    const of = (account, day) => String(verifyBalance(proof, jwks, account, day));
    console.log(of("${account.id}", "${day}"), of("acct_other", "${day}"), of("${account.id}", "2020-01-01"));
    proof.balance[0].path.push({ hash: proof.balance[1].path[0].hash, nano: "0" });
    console.log(of("${account.id}", "${day}"));`;
  writeFileSync(path.join(folder, "verify.mjs"), blocksIn("js") + check);
  const verifier = Bun.spawn([process.execPath, path.join(folder, "verify.mjs")], {
    cwd: folder,
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = await new Response(verifier.stdout).text();
  expect([await verifier.exited, await new Response(verifier.stderr).text()]).toEqual([0, ""]);
  const [valid = "", ...others] = output.trim().split(/\s/);
  expect([/^[1-9]\d*$/.test(valid), others]).toEqual([
    true,
    ["undefined", "undefined", "undefined"],
  ]);
  await gateway.stop();
});

test("the log is a 500 while the store is broken", async () => {
  const gateway = await startGateway();
  await gateway.server.db.write((tx) => tx.run("drop table ledger_day"));
  const response = await fetch(`${gateway.url}/v1/ledger/roots`);
  expectStatus("listLedgerRoots", 500, response);
  await gateway.stop();
});

test("postern admin publish-ledger publishes the days that are due, once", async () => {
  const gateway = await startGateway({ now: () => Date.now() - 2 * DAY_MS });
  await registerAccount(gateway);
  expect(await runPublish(gateway)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("Published 20"),
  });
  expect(await runPublish(gateway)).toMatchObject({ code: 0, stdout: "No day is due.\n" });
  await gateway.stop();
});

function runPublish({ url, config }: Gateway) {
  return runInProcess(["admin", "publish-ledger"], {
    POSTERN_DATA_DIR: config.store.dataDir,
    POSTERN_BASE_URL: url,
  });
}
