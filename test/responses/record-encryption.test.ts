// The encryption of stored responses: one data key for many records, and records with a data key of their own.

import { describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { wholeAccount } from "../../src/http/reach.ts";
import {
  createEnvelopes,
  decryptPart,
  deriveKek,
  type EncryptedResponse,
  RESPONSE_DATA_KEYS,
} from "../../src/responses/storage/response-encryption.ts";
import { findResponse, insertResponses } from "../../src/responses/storage/response-rows.ts";
import { reencryptRows } from "../../src/store/reencrypt-rows.ts";
import { describeEachStore } from "../support/stores/stores.ts";

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
  return { ...binding, dataKey, record, input: "", response: "" };
}

/** As a background response is stored: a ciphertext for each part. */
function recordOfParts(envelopes: ReturnType<typeof createEnvelopes>): EncryptedResponse {
  const binding = { ...BINDING, id: "resp_3" };
  const { dataKey, encrypt } = envelopes(binding);
  const [input, response] = [encrypt("input", INPUT), encrypt("response", RESPONSE)];
  return { ...binding, dataKey, record: null, input, response };
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

  test("reads a record whose parts have a ciphertext each", () => {
    const record = recordOfParts(createEnvelopes(kek));
    expect(decryptPart(kek, record, "input")).toBe(INPUT);
    expect(decryptPart(kek, record, "response")).toBe(RESPONSE);
  });
});

describeEachStore((store, open) => {
  test(`a rotation of the master secret moves the data keys of all kinds on ${store}`, async () => {
    const { db, close } = await open();
    const kek = deriveKek(MASTER);
    const shared = encryptRecord(createEnvelopes(kek), { ...BINDING, id: "resp_2" });
    const records = [shared, recordOfParts(createEnvelopes(kek))].map((record) => ({
      ...record,
      keyId: "key_1",
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
    const both = Object.assign({ previous: MASTER }, next);
    const moved = await reencryptRows(db, both, RESPONSE_DATA_KEYS);
    expect(moved).toEqual({ read: 2, moved: 2, unreadable: [] });
    for (const { id } of records) {
      const stored = await findResponse(db, wholeAccount("acct_1"), id, 50);
      if (stored === undefined) throw new Error(`no ${id}`);
      expect(decryptPart(deriveKek(next), stored, "input")).toBe(INPUT);
      expect(() => decryptPart(kek, stored, "input")).toThrow();
    }
    expect((await reencryptRows(db, next, RESPONSE_DATA_KEYS)).moved).toBe(0);
    await close();
  });
});
