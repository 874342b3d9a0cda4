// The encryption of stored responses: one data key for many records, and records with a data key of their own.

import { describe, expect, test } from "bun:test";
import { encrypt } from "../../src/base/crypto/encryption.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { reencryptResponses } from "../../src/responses/storage/reencrypt-responses.ts";
import {
  createEnvelopes,
  decryptPart,
  deriveKek,
  type EncryptedResponse,
  KEK_VERSION,
} from "../../src/responses/storage/response-encryption.ts";
import { findResponse, insertResponses } from "../../src/responses/storage/response-rows.ts";
import { describeEachStore } from "../support/stores/stores.ts";

// The first test of a store starts PostgreSQL.

const MASTER = secret("a master secret of the tests");
const BINDING = { id: "resp_1", accountId: "acct_1" };
const INPUT = '[{"role":"user","content":"12:Grüße \\ud83d\\ude00"}]';
const RESPONSE = '{"id":"resp_1"}';

function encryptRecord(
  envelopes: ReturnType<typeof createEnvelopes>,
  binding = BINDING,
): EncryptedResponse {
  const { dataKey, encryptRecord: encryptBoth } = envelopes(binding);
  const record = encryptBoth(INPUT, RESPONSE);
  return { ...binding, dataKey, kekVersion: KEK_VERSION, record, input: "", response: "" };
}

/** As the version before wrote it: as text. */
function textRecord(envelopes: ReturnType<typeof createEnvelopes>): EncryptedResponse {
  const { record, ...others } = encryptRecord(envelopes, { ...BINDING, id: "resp_3" });
  if (record === null) throw new Error("no record");
  return { ...others, record: null, response: Buffer.from(record).toString("base64") };
}

/** A record of an earlier version. */
function boundRecord(kek: ReturnType<typeof deriveKek>): EncryptedResponse {
  const key = new Uint8Array(32).fill(7);
  const bound = "stored-response/v1|acct_1|resp_1";
  return {
    ...BINDING,
    kekVersion: 1,
    dataKey: encrypt(kek, `${bound}|key`, Buffer.from(key).toString("base64")),
    record: null,
    input: encrypt([key], `${bound}|input`, INPUT),
    response: encrypt([key], `${bound}|response`, RESPONSE),
  };
}

describe("the encryption of stored responses", () => {
  const kek = deriveKek(MASTER);

  test("returns both parts of a record", () => {
    const record = encryptRecord(createEnvelopes(kek));
    expect(decryptPart(kek, record, "input")).toBe(INPUT);
    expect(decryptPart(kek, record, "response")).toBe(RESPONSE);
  });

  test("uses one data key for many records, and replaces it", () => {
    const envelopes = createEnvelopes(kek, 2);
    const keys = [1, 2, 3].map((number) => {
      const record = encryptRecord(envelopes, { ...BINDING, id: `resp_${number}` });
      expect(decryptPart(kek, record, "response")).toBe(RESPONSE);
      return record.dataKey;
    });
    expect(keys[0]).toBe(keys[1] ?? "");
    expect(keys[2]).not.toBe(keys[0] ?? "");
  });

  test("rejects a record of another account or id that has the same data key", () => {
    const record = encryptRecord(createEnvelopes(kek));
    expect(() => decryptPart(kek, { ...record, id: "resp_2" }, "input")).toThrow();
    expect(() => decryptPart(kek, { ...record, accountId: "acct_2" }, "input")).toThrow();
    expect(() => decryptPart(deriveKek(secret("another")), record, "input")).toThrow();
  });

  test("reads a record that is stored as text", () => {
    const record = textRecord(createEnvelopes(kek));
    expect(decryptPart(kek, record, "input")).toBe(INPUT);
    expect(decryptPart(kek, record, "response")).toBe(RESPONSE);
  });

  test("reads a record whose data key is bound to it", () => {
    const record = boundRecord(kek);
    expect(decryptPart(kek, record, "input")).toBe(INPUT);
    expect(decryptPart(kek, record, "response")).toBe(RESPONSE);
    expect(() => decryptPart(kek, { ...record, id: "resp_2" }, "input")).toThrow();
  });
});

describeEachStore((store, open) => {
  test(`a rotation of the master secret moves the data keys of all kinds on ${store}`, async () => {
    const { db, close } = await open();
    const kek = deriveKek(MASTER);
    const shared = encryptRecord(createEnvelopes(kek), { ...BINDING, id: "resp_2" });
    const records = [boundRecord(kek), shared, textRecord(createEnvelopes(kek))].map((record) => ({
      ...record,
      previousId: null,
      status: "completed" as const,
      background: false,
      holdId: "req_1",
      origin: null,
      bytes: 1,
      createdAt: 1,
      expiresAt: 100,
    }));
    await db.write((tx) => insertResponses(tx, records));
    const next = secret("the next master secret");
    const moved = await reencryptResponses(db, Object.assign({ previous: MASTER }, next));
    expect(moved).toEqual({ read: 3, moved: 3, unreadable: [] });
    for (const { id } of records) {
      const stored = await findResponse(db, "acct_1", id, 50);
      if (stored === undefined) throw new Error(`no ${id}`);
      expect(decryptPart(deriveKek(next), stored, "input")).toBe(INPUT);
      expect(() => decryptPart(kek, stored, "input")).toThrow();
    }
    expect((await reencryptResponses(db, next)).moved).toBe(0);
    await close();
  });
});
