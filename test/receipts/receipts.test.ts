// Signed receipts: what they say, how they are verified, and what cannot be forged.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, createPublicKey, verify } from "node:crypto";
import { deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { signJws, signingKeyFrom, verifyJws } from "../../src/base/crypto/jws.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { RECEIPT_TYPE } from "../../src/receipts/receipt.ts";
import { rotateSigningKey } from "../../src/signing/signing-keys.ts";
import { createBatch, readLines, waitForEnd } from "../batches/batch-harness.ts";
import {
  bodyOf,
  errorOf,
  type Json,
  postCall,
  STREAMED_APIS,
  withHeaders,
} from "../inference/support/harness.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const sha256 = (bytes: Uint8Array | string): string =>
  createHash("sha256").update(bytes).digest("hex");

interface Jwks {
  readonly keys: readonly { readonly kid: string; readonly x: string; readonly kty: string }[];
}

/** As a client would verify it, without code of the gateway. */
function payloadOf(receipt: string, { keys }: Jwks): Json | undefined {
  const [head = "", body = "", signature = ""] = receipt.split(".");
  const { kid, typ } = JSON.parse(Buffer.from(head, "base64url").toString()) as Json;
  const jwk = keys.find((key) => key.kid === kid);
  if (jwk === undefined || typ !== RECEIPT_TYPE) return undefined;
  const key = createPublicKey({ key: { ...jwk }, format: "jwk" });
  const isValid = verify(
    null,
    Buffer.from(`${head}.${body}`),
    key,
    Buffer.from(signature, "base64url"),
  );
  return isValid ? (JSON.parse(Buffer.from(body, "base64url").toString()) as Json) : undefined;
}

for (const store of STORE_KINDS) {
  describe(`receipts on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let now = Date.now();
    beforeAll(async () => {
      gateway = await startGateway({ store, now: () => now });
      account = await registerAccount(gateway);
    });
    afterAll(async () => {
      await gateway.stop();
    });
    const readJwks = async (): Promise<Jwks> =>
      (await (await fetch(`${gateway.url}/.well-known/jwks.json`)).json()) as Jwks;
    const readReceipt = async (id: string | null, headers = account.headers): Promise<Response> =>
      await fetch(`${gateway.url}/v1/usage/${id}/receipt`, { headers });
    const receiptOf = async (id: string | null): Promise<Json> => {
      const response = await readReceipt(id);
      expectStatus("getReceipt", 200, response);
      const { receipt } = (await response.json()) as { receipt: string };
      return payloadOf(receipt, await readJwks()) ?? {};
    };
    const asked = { "x-postern-receipt": "1" };

    for (const api of STREAMED_APIS)
      for (const stream of [false, true])
        test(`hashes the request and what was sent (${api}${stream ? ", streamed" : ""})`, async () => {
          const body = bodyOf(api, "count to three", { stream });
          const response = await postCall(gateway, withHeaders(account, asked), api, body);
          const sent = new Uint8Array(await response.arrayBuffer());
          const id = response.headers.get("x-request-id");
          const payload = await receiptOf(id);
          expect(payload).toMatchObject({
            version: 1,
            network: "postern",
            payer: account.id,
            transaction: id,
            requested_model: body["model"],
            model: response.headers.get("x-postern-model"),
            provider: response.headers.get("x-postern-provider"),
            outcome: "completed",
            stream,
            request_sha256: sha256(JSON.stringify(body)),
            response_sha256: sha256(sent),
          });
          const header = response.headers.get("x-postern-receipt");
          expect(header !== null).toBe(!stream);
          if (header !== null) expect(payloadOf(header, await readJwks())).toEqual(payload);
        });

    test("states the price lines that give the cost", async () => {
      const response = await postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hello", { postern: { receipt: true } }),
      );
      const payload = await receiptOf(response.headers.get("x-request-id"));
      const lines = payload["price"] as { count: number; usd: string }[];
      const sum = lines.reduce((total, { count, usd }) => total + count * Number(usd), 0);
      expect(sum).toBeCloseTo(Number(payload["cost_usd"]), 9);
      expect(payload["cost_usd"]).toBe(response.headers.get("x-postern-cost-usd"));
      expect(payload["fee_usd"]).toBe("0");
      expect(payload["price_checked"]).toEqual(expect.any(String));
    });

    test("is the same for a repetition with the same Idempotency-Key", async () => {
      const headers = withHeaders(account, { ...asked, "idempotency-key": crypto.randomUUID() });
      const first = await postCall(gateway, headers, "chat", bodyOf("chat", "once"));
      const again = await postCall(gateway, headers, "chat", bodyOf("chat", "once"));
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      expect(again.headers.get("x-postern-receipt")).toBe(first.headers.get("x-postern-receipt"));
      expect(await again.text()).toBe(await first.text());
    });

    test("is of every call with the account's setting, until it is turned off", async () => {
      const owner = await registerAccount(gateway);
      const set = async (receipts: boolean): Promise<unknown> => {
        const changed = await fetch(`${gateway.url}/v1/account`, {
          method: "PATCH",
          headers: owner.headers,
          body: JSON.stringify({ receipts }),
        });
        return [changed.status, ((await changed.json()) as Json)["receipts"]];
      };
      const called = async (more: Json = {}) => {
        now += 6_000;
        const sent = withHeaders(owner, { "x-postern-receipt": "0" });
        return await postCall(gateway, sent, "chat", bodyOf("chat", "hello", more));
      };
      expect((await called()).headers.get("x-postern-receipt")).toBeNull();
      expect(await set(true)).toEqual([200, true]);
      const first = (await called()).headers.get("x-postern-receipt") ?? "";
      expect(payloadOf(first, await readJwks())?.["payer"]).toBe(owner.id);
      const streamed = await called({ stream: true });
      await streamed.text();
      const id = streamed.headers.get("x-request-id");
      expect((await readReceipt(id, owner.headers)).status).toBe(200);
      expect(await set(false)).toEqual([200, false]);
      expect((await called()).headers.get("x-postern-receipt")).toBeNull();
    });

    test("is of every call of a key with that policy, and of every key below it", async () => {
      const minted = await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ receipts: true }),
      });
      const { api_key: key = "" } = (await minted.json()) as { api_key?: string };
      for (const each of [key, deriveKey(key, { id: "below" })]) {
        const sender = withHeaders(account, {
          ...account.headers,
          authorization: `Bearer ${each}`,
        });
        const sent = withHeaders(sender, { "x-postern-receipt": "0" });
        const response = await postCall(gateway, sent, "chat", bodyOf("chat", "hello"));
        expect([response.status, response.headers.get("x-postern-receipt")]).toEqual([
          200,
          expect.stringMatching(/^eyJ/),
        ]);
      }
      const removed = await fetch(`${gateway.url}/v1/keys/self`, {
        headers: { authorization: `Bearer ${key}` },
      });
      expect(((await removed.json()) as Json)["receipts"]).toBe(true);
    });

    test("hashes what a caller with a preset sent, and not what the preset adds", async () => {
      await fetch(`${gateway.url}/v1/presets/short`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ model: "sim/echo", temperature: 0 }),
      });
      const body = bodyOf("chat", "hello", { model: "@preset/short" });
      const response = await postCall(gateway, withHeaders(account, asked), "chat", body);
      const payload = await receiptOf(response.headers.get("x-request-id"));
      expect(payload).toMatchObject({
        request_sha256: sha256(JSON.stringify(body)),
        requested_model: "sim/echo",
      });
    });

    test("is of the call that was charged, and not of a reply from the cache", async () => {
      const headers = withHeaders(account, { ...asked, "x-postern-cache": "60" });
      const body = bodyOf("chat", "cached");
      const first = await postCall(gateway, headers, "chat", body);
      expect(first.headers.get("x-postern-receipt")).toMatch(/^eyJ/);
      const hit = await postCall(gateway, headers, "chat", body);
      expect([hit.headers.get("x-postern-cache"), hit.headers.get("x-postern-receipt")]).toEqual([
        "hit",
        null,
      ]);
      expect((await readReceipt(hit.headers.get("x-request-id"))).status).toBe(404);
    });

    test("is of each item of a batch that asks for one, by the id in its result", async () => {
      const item = bodyOf("chat", "in a batch", { postern: { receipt: true } });
      const created = await createBatch(gateway, account, [{ custom_id: "one", body: item }]);
      const { output_file_id: file } = await waitForEnd(gateway, account, created["id"]);
      const [line] = await readLines(gateway, account, `/v1/files/${String(file)}/content`);
      const { request_id: id, body } = (line?.["response"] ?? {}) as {
        request_id: string;
        body: Json;
      };
      expect(await receiptOf(id)).toMatchObject({
        transaction: id,
        request_sha256: sha256(JSON.stringify(item)),
        response_sha256: sha256(JSON.stringify(body)),
      });
    });

    test("is refused for a call that did not ask for one", async () => {
      const response = await postCall(gateway, account, "chat", bodyOf("chat", "hello"));
      expect(response.headers.get("x-postern-receipt")).toBeNull();
      const refused = await readReceipt(response.headers.get("x-request-id"));
      const error = errorOf(await refused.json());
      expectStatus("getReceipt", 404, refused);
      expect(error["code"]).toBe("not_found");
      expect(error["message"]).toContain("x-postern-receipt: 1");
    });

    test("refuses an id with a NUL character", async () => {
      const refused = await readReceipt("req_%00");
      expectStatus("getReceipt", 400, refused);
    });

    test("is not shown to another account", async () => {
      const response = await postCall(
        gateway,
        withHeaders(account, asked),
        "chat",
        bodyOf("chat", "hello"),
      );
      const other = await registerAccount(gateway);
      const refused = await readReceipt(response.headers.get("x-request-id"), other.headers);
      expect(refused.status).toBe(404);
    });

    test("needs 1 or 0 in the header and a boolean in the body", async () => {
      for (const [headers, more, param] of [
        [{ "x-postern-receipt": "yes" }, {}, "x-postern-receipt"],
        [{}, { postern: { receipt: "1" } }, "postern.receipt"],
      ] as const) {
        const response = await postCall(
          gateway,
          withHeaders(account, headers),
          "chat",
          bodyOf("chat", "hello", more),
        );
        expect([response.status, errorOf(await response.json())["param"]]).toEqual([400, param]);
      }
    });

    test("stays valid after the signing key was rotated, and new receipts use the new key", async () => {
      const before = await postCall(
        gateway,
        withHeaders(account, asked),
        "chat",
        bodyOf("chat", "hello"),
      );
      const old = before.headers.get("x-postern-receipt") ?? "";
      const { config, server } = gateway;
      const { db } = server;
      const master = loadMasterSecret(config, config.store.dataDir);
      const kid = await db.write((tx) => rotateSigningKey(tx, master, Date.now()));
      const jwks = await readJwks();
      expect(jwks.keys[0]?.kid).toBe(kid);
      expect(payloadOf(old, jwks)?.["transaction"]).toBe(before.headers.get("x-request-id"));
      const { receipt } = (await (
        await readReceipt(before.headers.get("x-request-id"))
      ).json()) as {
        receipt: string;
      };
      const [head = ""] = receipt.split(".");
      expect(JSON.parse(Buffer.from(head, "base64url").toString())).toMatchObject({ kid });
    });
  });
}

describe("signatures", () => {
  const key = signingKeyFrom(crypto.getRandomValues(new Uint8Array(32)), "postern-1");
  const text = signJws(key, RECEIPT_TYPE, { cost_usd: "1" });
  const check = (candidate: string, type = RECEIPT_TYPE) =>
    verifyJws(candidate, type, (id) => (id === key.id ? key.publicKey : undefined));

  test("have the payload", () => {
    expect(check(text)).toEqual({ cost_usd: "1" });
  });

  test("are refused with another type, algorithm, key, payload or encoding", () => {
    const [head = "", body = "", signature = ""] = text.split(".");
    const encode = (value: Json): string =>
      Buffer.from(JSON.stringify(value)).toString("base64url");
    const stranger = signingKeyFrom(crypto.getRandomValues(new Uint8Array(32)), "postern-1");
    expect(check(text, "postern-quote+jwt")).toBeUndefined();
    for (const forged of [
      `${encode({ alg: "none", kid: key.id, typ: RECEIPT_TYPE })}.${body}.${signature}`,
      `${encode({ alg: "none", kid: key.id, typ: RECEIPT_TYPE })}.${body}.`,
      `${head}.${encode({ cost_usd: "0" })}.${signature}`,
      `${head}.${body}.${signature}=`,
      `${head}.${body}.${signature}.`,
      `${head}.${body}`,
      signJws(stranger, RECEIPT_TYPE, { cost_usd: "0" }),
      signJws({ ...key, id: "postern-2" }, RECEIPT_TYPE, { cost_usd: "0" }),
      "",
    ])
      expect(check(forged)).toBeUndefined();
  });
});
