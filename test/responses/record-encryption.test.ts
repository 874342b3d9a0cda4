// The encryption of stored responses: one data key for many records, and records with a data key of their own.

import { describe, expect, test } from "bun:test";
import { encrypt } from "../../src/base/encryption.ts";
import { secret } from "../../src/base/secret.ts";
import {
  createEnvelopes,
  decryptPart,
  deriveKek,
  type EncryptedResponse,
  KEK_VERSION,
  toRecordText,
} from "../../src/responses/storage/encryption.ts";

const MASTER = secret("a master secret of the tests");
const BINDING = { id: "resp_1", accountId: "acct_1" };
const INPUT = '[{"role":"user","content":"12:Grüße \\ud83d\\ude00"}]';
const RESPONSE = '{"id":"resp_1"}';

function encryptRecord(
  envelopes: ReturnType<typeof createEnvelopes>,
  binding = BINDING,
): EncryptedResponse {
  const { dataKey, encrypt: encryptPart } = envelopes(binding);
  const response = encryptPart("record", toRecordText(INPUT, RESPONSE));
  return { ...binding, dataKey, kekVersion: KEK_VERSION, input: "", response };
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

  test("reads a record whose data key is bound to it", () => {
    const key = new Uint8Array(32).fill(7);
    const bound = "stored-response/v1|acct_1|resp_1";
    const record: EncryptedResponse = {
      ...BINDING,
      kekVersion: 1,
      dataKey: encrypt(kek, `${bound}|key`, Buffer.from(key).toString("base64")),
      input: encrypt([key], `${bound}|input`, INPUT),
      response: encrypt([key], `${bound}|response`, RESPONSE),
    };
    expect(decryptPart(kek, record, "input")).toBe(INPUT);
    expect(decryptPart(kek, record, "response")).toBe(RESPONSE);
    expect(() => decryptPart(kek, { ...record, id: "resp_2" }, "input")).toThrow();
  });
});
