// What a dishonest gateway, or a person who changes a proof, might try. Each attack changes a valid proof.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { signJws, signingKeyFrom } from "../../src/base/crypto/jws.ts";
import { type JsonObject, objectIn } from "../../src/base/json.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { SUM_MAX } from "../../src/ledger-proofs/merkle-tree.ts";
import { HEAD_TYPE } from "../../src/ledger-proofs/proof-format.ts";
import { verifyLog, verifyProof } from "../../src/ledger-proofs/verify-proof.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";
import { createWorld, dayName, dueAt, FIRST_DAY, publicKeyOf, type World } from "./fixtures.ts";

type Json = Record<string, unknown>;

/** The member at a path, which a test then changes. */
function at(value: unknown, ...path: readonly (string | number)[]): Json {
  let found = value;
  // Safe because a wrong path fails the test at the next step.
  for (const name of path) found = (found as Record<string | number, unknown>)[name];
  return found as Json;
}

describe("an attack on a proof fails", () => {
  let store: TestStore;
  let world: World;
  let accounts: readonly string[];
  let proof: JsonObject;
  const copy = (): Json => structuredClone(proof);
  const verify = (changed: JsonObject, account = accounts[0], day = dayName(1)) =>
    verifyProof(changed, publicKeyOf, { account, day });

  beforeAll(async () => {
    store = await openStore("sqlite");
    world = await createWorld(store.db);
    accounts = await Promise.all(
      Array.from({ length: 9 }, (_, index) => world.createAccount(FIRST_DAY + index)),
    );
    for (const account of accounts) await world.deposit(account, 5_000n, FIRST_DAY + 10);
    for (const day of [0, 1]) {
      for (const account of accounts.slice(0, 3))
        await world.charge(account, 7n, FIRST_DAY + day * DAY_MS + 20);
      await world.publish(dueAt(day));
    }
    proof = await world.proofOf(accounts[0] ?? "");
  });
  afterAll(() => store.close());

  test("the proof that is attacked is valid", () => {
    expect(verify(proof)).toMatchObject({ balanceNano: 4_986n, entries: 1, verifiedEntries: 1 });
  });

  test("a negative leaf that hides liabilities", () => {
    for (const share of [0, 1]) {
      const changed = copy();
      const sibling = at(changed, "balance", share, "path", 0);
      sibling["nano"] = String(BigInt(String(sibling["nano"])) - 5_000n);
      expect(() => verify(changed)).toThrow(/negative|published root/);
      sibling["nano"] = "-1";
      expect(() => verify(changed)).toThrow("negative");
    }
  });

  test("one leaf for two accounts with the same balance", async () => {
    const other = accounts[1] ?? "";
    expect(() => verify(proof, other)).toThrow(`not of ${other}`);
    // The other account's name in the proof does not change its leaves.
    const renamed = { ...proof, account: other };
    expect(() => verifyProof(renamed, publicKeyOf)).toThrow(`not of ${other}`);
    // The leaf names its account, so a changed leaf has another hash.
    const changed = copy();
    const share = at(changed, "balance", 0);
    share["leaf"] = String(share["leaf"]).replace(accounts[0] ?? "", other);
    at(changed, "balance", 1)["leaf"] = String(at(changed, "balance", 1)["leaf"]).replace(
      accounts[0] ?? "",
      other,
    );
    expect(() => verify(changed, other)).toThrow("published root");
  });

  test("one share twice instead of both", () => {
    const changed = copy();
    // Safe because a proof has two shares.
    const shares = changed["balance"] as unknown[];
    shares[1] = shares[0];
    expect(() => verify(changed)).toThrow("each once");
    shares.pop();
    expect(() => verify(changed)).toThrow("each once");
  });

  test("sums that overflow", () => {
    const changed = copy();
    const sibling = at(changed, "balance", 0, "path", 0);
    for (const nano of [SUM_MAX + 1n, 2n ** 128n]) {
      sibling["nano"] = String(nano);
      expect(() => verify(changed)).toThrow("too large");
    }
    sibling["nano"] = String(SUM_MAX);
    expect(() => verify(changed)).toThrow("too large");
    for (const nano of ["1e3", "0x10", "01", " 1", "", 1]) {
      sibling["nano"] = nano;
      expect(() => verify(changed)).toThrow("not a whole number");
    }
  });

  test("a proof of yesterday replayed as that of today", async () => {
    const older = await world.proofOf(accounts[0] ?? "", dayName(0));
    expect(verify(older, accounts[0], dayName(0)).balanceNano).toBe(4_993n);
    expect(() => verify(older)).toThrow(`the proof is of ${dayName(0)}, not of ${dayName(1)}`);
    expect(() => verify({ ...older, record: proof["record"] })).toThrow();
    expect(() => verify({ ...older, record: proof["record"], head: proof["head"] })).toThrow(
      `not of ${dayName(1)}`,
    );
  });

  test("an inner node of the tree as a leaf", () => {
    const changed = copy();
    const share = at(changed, "balance", 0);
    const [sibling, ...rest] = share["path"] as readonly JsonObject[];
    const own = createHash("sha256")
      .update(`\u0002${String(share["leaf"])}`)
      .digest();
    const other = Buffer.from(String(sibling?.["hash"]), "base64url");
    share["leaf"] = Buffer.concat([own, other]).toString("latin1");
    share["path"] = rest;
    expect(() => verify(changed)).toThrow("not of the type balance");
    const entries = at(changed, "entries");
    const entry = at(changed, "entries", "data", 0);
    entry["leaf"] = entries["leaf"];
    expect(() => verify({ ...proof, entries })).toThrow("not one of the account's entries");
  });

  test("a changed amount, entry, count or total", () => {
    const changes: readonly ((json: Json) => void)[] = [
      (json) => (json["balance_nano"] = "4987"),
      (json) => replaceIn(at(json, "balance", 0), "leaf", /"nano":"(\d)/, '"nano":"1$1'),
      (json) => replaceIn(at(json, "record"), "leaf", /"nano":"(\d)/, '"nano":"1$1'),
      (json) => replaceIn(at(json, "entries", "data", 0), "leaf", '"nano":"7"', '"nano":"8"'),
      (json) => replaceIn(at(json, "entries"), "leaf", '"count":1', '"count":2'),
      (json) => replaceIn(at(json, "entries"), "leaf", '"net_nano":"-7"', '"net_nano":"-8"'),
      (json) => (at(json, "balance", 0)["index"] = at(json, "balance", 1)["index"]),
      (json) => (at(json, "record")["path"] = []),
    ];
    for (const change of changes) {
      const changed = copy();
      change(changed);
      expect(() => verify(changed)).toThrow();
    }
  });

  test("a head that another key or for another purpose was signed with", () => {
    const [head = "", body = "", signature = ""] = String(proof["head"]).split(".");
    const payload = objectIn(JSON.parse(Buffer.from(body, "base64url").toString())) ?? {};
    const stranger = signingKeyFrom(new Uint8Array(32).fill(9), "postern-1");
    for (const text of [
      signJws(stranger, HEAD_TYPE, payload),
      `${head}.${Buffer.from(JSON.stringify({ ...payload, tree_size: 1 })).toString("base64url")}.${signature}`,
      signJws(
        signingKeyFrom(new Uint8Array(32).fill(7), "postern-1"),
        "postern-receipt+jwt",
        payload,
      ),
    ])
      expect(() => verify({ ...proof, head: text })).toThrow("signature of the tree head");
  });

  test("a rewritten log", async () => {
    const { log } = world.deps;
    const pageOf = async (since: number): Promise<JsonObject> => {
      const days = await log.read();
      return {
        head: log.headOf(days.length),
        data: days.slice(since).map(({ record }) => ({ record })),
        consistency: log.consistency(since, days.length),
      };
    };
    const first = verifyLog(
      { head: log.headOf(1), data: [{ record: (await log.read())[0]?.record }], consistency: [] },
      publicKeyOf,
      { size: 0 },
    );
    const next = await pageOf(1);
    expect(verifyLog(next, publicKeyOf, first).size).toBe(2);
    // The mirror saw another first record.
    const root = createHash("sha256").update("another record").digest("base64url");
    expect(() => verifyLog(next, publicKeyOf, { size: 1, root })).toThrow("rewritten");
    expect(() => verifyLog({ ...next, consistency: [] }, publicKeyOf, first)).toThrow("rewritten");
    expect(() => verifyLog({ ...next, data: [] }, publicKeyOf, first)).toThrow("not all records");
  });
});

function replaceIn(object: Json, member: string, what: string | RegExp, by: string): void {
  const before = String(object[member]);
  object[member] = before.replace(what, by);
  expect(object[member]).not.toBe(before);
}
