// Requests that an agent signs with its own key, on both stores: what they authenticate, and what attackers do not get.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import path from "node:path";
import * as fc from "fast-check";
import { signatureHeaders } from "web-bot-auth";
import { signerFromJWK } from "web-bot-auth/crypto";
import { keyIdOf, publicJwkOf, signedFetch } from "../../examples/signed-requests/signed-fetch.ts";
import { sweepSolvedChallenges } from "../../src/accounts/proof-of-work.ts";
import { chainOf } from "../../src/keys/derived-key.ts";
import { publicKeyName } from "../../src/keys/key-credential.ts";
import { handshake } from "../responses/websocket-client.ts";
import { call, textAt, valueAt } from "../spec/api-client.ts";
import { runs } from "../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const CHAT = { model: "sim/echo", max_tokens: 8, messages: [{ role: "user", content: "Hi" }] };
const JSON_TYPE = { "content-type": "application/json" };

function newPrivateKey(): KeyObject {
  return generateKeyPairSync("ed25519").privateKey;
}

/** What a request is signed as, where an attacker changes it. */

interface Forgery {
  readonly covered?: readonly (readonly [string, string])[];
  readonly created?: number;
  readonly expires?: number;
  readonly nonce?: string;
  readonly alg?: string;
  readonly tag?: string;
  readonly keyid?: string;
}

describe.each(STORE_KINDS)("a signed request on %s", (store) => {
  let gateway: Gateway;
  let privateKey: KeyObject;
  let clock = Date.now();

  beforeAll(async () => {
    gateway = await startGateway({
      store,
      now: () => clock,
      env: { POSTERN_ACCOUNTS_PER_HOUR: "0" },
    });
  });
  afterAll(() => gateway.stop());
  beforeEach(() => {
    clock = Date.now();
    privateKey = newPrivateKey();
  });

  const send = async (
    method: string,
    target: string,
    {
      body,
      headers = {},
      key = privateKey,
    }: { body?: unknown; headers?: Record<string, string>; key?: KeyObject } = {},
  ) => {
    const response = await signedFetch(key)(`${gateway.url}${target}`, {
      method,
      headers: { ...(body === undefined ? {} : JSON_TYPE), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as unknown };
  };
  const credentialOf = (key: KeyObject) => ({ type: "public_key", jwk: publicJwkOf(key) });
  const createAccount = async (key = privateKey) => {
    const created = await send("POST", "/v1/accounts", {
      body: { credential: credentialOf(key) },
      key,
    });
    expect(created.status).toBe(201);
    return created.body;
  };

  /** The headers of a request as an attacker can sign it. */
  function forge(
    {
      covered,
      created,
      expires,
      nonce = crypto.randomUUID(),
      alg = "ed25519",
      tag = "web-bot-auth",
      keyid,
    }: Forgery = {},
    key = privateKey,
  ): Record<string, string> {
    const components = covered ?? [
      ["@method", "GET"],
      ["@authority", new URL(gateway.url).host],
      ["@path", "/v1/account"],
    ];
    const at = Math.floor(clock / 1_000);
    const names = components.map(([name]) => `"${name}"`).join(" ");
    const params = `(${names});created=${created ?? at};expires=${expires ?? at + 60};nonce="${nonce}";keyid="${keyid ?? keyIdOf(key)}";alg="${alg}";tag="${tag}"`;
    const lines = components.map(([name, value]) => `"${name}": ${value}`);
    const base = [...lines, `"@signature-params": ${params}`].join("\n");
    return {
      "signature-input": `sig=${params}`,
      signature: `sig=:${sign(null, Buffer.from(base), key).toString("base64")}:`,
    };
  }
  const get = async (target: string, headers: Record<string, string>) => {
    const response = await fetch(`${gateway.url}${target}`, { headers });
    return { status: response.status, text: await response.text() };
  };

  test("creates an account without a secret, and calls models, reads and changes things", async () => {
    const created = await createAccount();
    expect(created).toMatchObject({ api_key: null, balance: { usd: 0.05 } });
    expect((await send("POST", "/v1/chat/completions", { body: CHAT })).status).toBe(200);
    const responses = await send("POST", "/v1/responses", {
      body: { model: "sim/echo", input: "Hi", max_output_tokens: 20 },
      headers: { "x-postern-max-cost-usd": "0.01", "idempotency-key": crypto.randomUUID() },
    });
    expect(responses.status).toBe(200);
    const usage = await send("GET", "/v1/usage?limit=5");
    expect(valueAt(usage.body, "data.length")).toBe(2);
    const self = await send("GET", "/v1/keys/self");
    expect(self.body).toMatchObject({
      credential: { type: "public_key", keyid: keyIdOf(privateKey) },
    });
    const child = await send("POST", "/v1/keys", { body: { name: "child", limit_usd: 0.01 } });
    expect(child.status).toBe(201);
    const id = textAt(child.body, "id");
    expect((await send("DELETE", `/v1/keys/${id}`)).status).toBe(200);
  });

  test("is bound to an account later, beside a key with a secret", async () => {
    const account = await registerAccount(gateway);
    const created = await send("POST", "/v1/keys", {
      body: { name: "signed", limit_usd: 0.02, credential: credentialOf(privateKey) },
      headers: { authorization: `Bearer ${account.key}` },
    });
    expect(created.status).toBe(201);
    expect(created.body).toMatchObject({ api_key: null, limit_usd: 0.02 });
    expect((await send("POST", "/v1/chat/completions", { body: CHAT })).status).toBe(200);
    const id = textAt(created.body, "id");
    expect((await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key })).status).toBe(200);
    expect((await send("GET", "/v1/account")).status).toBe(401);
  });

  test("has a name that is no key", async () => {
    await createAccount();
    expect((await send("GET", "/v1/account")).status).toBe(200);
    const authorization = `Bearer public-key:${keyIdOf(privateKey)}`;
    expect((await get("/v1/account", { authorization })).status).toBe(401);
  });

  test("is accepted from the package `web-bot-auth`", async () => {
    await createAccount();
    const signer = await signerFromJWK(privateKey.export({ format: "jwk" }));
    const url = `${gateway.url}/v1/account`;
    const headers = await signatureHeaders({ method: "GET", url, headers: {} }, signer, {
      created: new Date(clock - 1_000),
      expires: new Date(clock + 60_000),
      components: ["@method", "@authority", "@path"],
    });
    const sent = { signature: headers.Signature, "signature-input": headers["Signature-Input"] };
    expect((await get("/v1/account", sent)).status).toBe(200);
  });

  test("calls tools of the MCP server", async () => {
    await createAccount();
    const message = {
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "get_balance", arguments: {} },
    };
    const accept = { accept: "application/json, text/event-stream" };
    const post = (body: unknown, headers: Record<string, string>) =>
      fetch(`${gateway.url}/mcp`, {
        method: "POST",
        headers: { ...JSON_TYPE, ...accept, ...headers },
        body: JSON.stringify(body),
      });
    const signed = await signedFetch(privateKey)(`${gateway.url}/mcp`, {
      method: "POST",
      headers: { ...JSON_TYPE, ...accept },
      body: JSON.stringify(message),
    });
    expect(await signed.text()).toContain("held_credits");
    const unsignedBody = forge({
      covered: [
        ["@method", "POST"],
        ["@authority", new URL(gateway.url).host],
        ["@path", "/mcp"],
      ],
    });
    expect((await post(message, unsignedBody)).status).toBe(401);
  });

  test("works once: a replay is refused, also at the same time and with another label", async () => {
    await createAccount();
    const headers = forge();
    const statuses = await Promise.all(
      Array.from({ length: 4 }, async () => (await get("/v1/account", headers)).status),
    );
    expect(statuses.toSorted((left, right) => left - right)).toEqual([200, 401, 401, 401]);
    const renamed = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value.replace(/^sig=/, "other=")]),
    );
    expect((await get("/v1/account", renamed)).text).toContain("used before");
  });

  test("is not replayed at a process whose clock is behind that of the one that deletes old nonces", async () => {
    await createAccount();
    const headers = forge();
    expect((await get("/v1/account", headers)).status).toBe(200);
    const at = clock;
    await gateway.server.db.write((tx) => sweepSolvedChallenges(tx, at + 61_000));
    clock = at + 59_000;
    expect((await get("/v1/account", headers)).status).toBe(401);
  });

  test("opens no WebSocket, whose messages are not signed", async () => {
    await createAccount();
    const { host } = new URL(gateway.url);
    const covered = [
      ["@method", "GET"],
      ["@authority", host],
      ["@path", "/v1/responses"],
    ] as const;
    const refused = await handshake(gateway, forge({ covered }));
    expect([refused.status, refused.body]).toEqual([426, expect.stringContaining("signed")]);
    expect((await handshake(gateway, forge({ covered }))).status).toBe(426);
  });

  test("is refused outside of its time, with another algorithm, key, tag, path, method or host", async () => {
    await createAccount();
    const at = Math.floor(clock / 1_000);
    const host = new URL(gateway.url).host;
    const base = [
      ["@method", "GET"],
      ["@authority", host],
      ["@path", "/v1/account"],
    ] as const;
    const changed = (index: number, value: string): Forgery => ({
      covered: base.map((pair, each) => (each === index ? ([pair[0], value] as const) : pair)),
    });
    const refusals: readonly (readonly [Forgery, string])[] = [
      [{ created: at - 120, expires: at - 60 }, "has expired"],
      [{ created: at + 120, expires: at + 180 }, "created in the future"],
      [{ created: at - 1, expires: at + 600 }, "must expire within"],
      [{ created: at + 30, expires: at + 30 }, "must expire within"],
      [{ alg: "hmac-sha256" }, "`alg` must be"],
      [{ alg: "rsa-pss-sha512" }, "`alg` must be"],
      [{ nonce: "" }, "`nonce` must have"],
      [{ nonce: "n".repeat(201) }, "`nonce` must have"],
      [{ tag: "agent-browser-auth" }, "missing"],
      [{ keyid: keyIdOf(newPrivateKey()) }, "No live API key"],
      [changed(0, "POST"), "does not match"],
      [changed(1, "gateway.elsewhere.example"), "does not match"],
      [changed(2, "/v1/keys"), "does not match"],
      [{ covered: base.slice(1) }, "does not cover `@method`"],
      [{ covered: base.slice(0, 2) }, "does not cover `@path`"],
      [{ covered: [base[0], base[2]] }, "must cover `@authority`"],
    ];
    for (const [forgery, reason] of refusals) {
      const { status, text } = await get("/v1/account", forge(forgery));
      expect([reason, status, text]).toEqual([reason, 401, expect.stringContaining(reason)]);
    }
    const byOther = forge({ keyid: keyIdOf(privateKey) }, newPrivateKey());
    expect((await get("/v1/account", byOther)).text).toContain("does not match");
    expect((await get("/v1/account", forge())).status).toBe(200);
  });

  test("is refused with a query, a body or a header that it does not cover", async () => {
    await createAccount();
    const host = new URL(gateway.url).host;
    expect((await get("/v1/account?extra=1", forge())).text).toContain("does not cover `@query`");
    const limited = { ...forge(), "x-postern-max-cost-usd": "1" };
    expect((await get("/v1/account", limited)).text).toContain("x-postern-max-cost-usd");
    const post = async (headers: Record<string, string>) => {
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { ...JSON_TYPE, ...headers },
        body: JSON.stringify(CHAT),
      });
      return await response.text();
    };
    const target = [
      ["@method", "POST"],
      ["@authority", host],
      ["@path", "/v1/chat/completions"],
    ] as const;
    expect(await post(forge({ covered: target }))).toContain("does not cover `content-digest`");
    const digest = `sha-256=:${Buffer.alloc(32).toString("base64")}:`;
    const wrong = forge({ covered: [...target, ["content-digest", digest]] });
    expect(await post({ ...wrong, "content-digest": digest })).toContain("not that of the body");
    const weak = forge({ covered: [...target, ["content-digest", "md5=:AAAA:"]] });
    expect(await post({ ...weak, "content-digest": "md5=:AAAA:" })).toContain("`sha-256`");
    const usage = await send("GET", "/v1/usage");
    expect(valueAt(usage.body, "data.length")).toBe(0);
  });

  test("uploads the file that was signed, and no other", async () => {
    await createAccount();
    const { host } = new URL(gateway.url);
    const type = "multipart/form-data; boundary=b";
    const upload = async (sent: string, signed = sent) => {
      const form = (content: string): string =>
        [
          "--b",
          'content-disposition: form-data; name="purpose"',
          "",
          "batch",
          "--b",
          'content-disposition: form-data; name="file"; filename="a.jsonl"',
          "",
          content,
          "--b--",
          "",
        ].join("\r\n");
      const hash = createHash("sha256").update(form(signed)).digest("base64");
      const digest = `sha-256=:${hash}:`;
      const headers = forge({
        covered: [
          ["@method", "POST"],
          ["@authority", host],
          ["@path", "/v1/files"],
          ["content-digest", digest],
          ["content-type", type],
        ],
      });
      const response = await fetch(`${gateway.url}/v1/files`, {
        method: "POST",
        headers: { ...headers, "content-digest": digest, "content-type": type },
        body: form(sent),
      });
      return { status: response.status, text: await response.text() };
    };
    const long = `{"a": "${"x".repeat(300_000)}"}`;
    expect((await upload(long)).status).toBe(200);
    for (const [sent, signed] of [
      ['{"b": 1}', '{"a": 1}'],
      [long, `${long.slice(0, -3)}y"}`],
    ] as const) {
      const refused = await upload(sent, signed);
      expect([refused.status, refused.text]).toEqual([
        401,
        expect.stringContaining("not that of the body"),
      ]);
    }
    const { body } = await send("GET", "/v1/files");
    expect(valueAt(body, "data")).toHaveLength(1);
  });

  test("is refused if the boundary of its form was replaced, so that a file makes other fields", async () => {
    await createAccount();
    const part = (boundary: string, name: string, value: string): string =>
      `--${boundary}\r\ncontent-disposition: form-data; name=${name}\r\n\r\n${value}\r\n`;
    const file = '"file"; filename="a.jsonl"';
    const inner = `${part("evil", '"purpose"', "batch")}${part("evil", file, '{"evil": 1}')}--evil--`;
    const body = `${part("b", '"purpose"', "batch")}${part("b", file, `{"a": 1}\r\n${inner}`)}--b--\r\n`;
    const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
    const signed = [
      ["@method", "POST"],
      ["@authority", new URL(gateway.url).host],
      ["@path", "/v1/files"],
      ["content-digest", digest],
    ] as const;
    const upload = async (covered: typeof signed | readonly (readonly [string, string])[]) => {
      const response = await fetch(`${gateway.url}/v1/files`, {
        method: "POST",
        headers: {
          ...forge({ covered }),
          "content-digest": digest,
          "content-type": "multipart/form-data; boundary=evil",
        },
        body,
      });
      return [response.status, await response.text()];
    };
    expect(await upload(signed)).toEqual([
      401,
      expect.stringContaining("does not cover `content-type`"),
    ]);
    expect(await upload([...signed, ["content-type", "multipart/form-data; boundary=b"]])).toEqual([
      401,
      expect.stringContaining("does not match the request"),
    ]);
    const { body: files } = await send("GET", "/v1/files");
    expect(valueAt(files, "data")).toHaveLength(0);
  });

  test("is refused if a header that changes what the call does, or whose session it is of, was added", async () => {
    await createAccount();
    const body = JSON.stringify(CHAT);
    const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
    const covered = [
      ["@method", "POST"],
      ["@authority", new URL(gateway.url).host],
      ["@path", "/v1/messages"],
      ["content-digest", digest],
    ] as const;
    const post = async (added: Record<string, string>) => {
      const response = await fetch(`${gateway.url}/v1/messages`, {
        method: "POST",
        headers: { ...JSON_TYPE, ...forge({ covered }), "content-digest": digest, ...added },
        body,
      });
      return { status: response.status, text: await response.text() };
    };
    expect((await post({})).status).toBe(200);
    for (const name of [
      "anthropic-beta",
      "anthropic-version",
      "openai-beta",
      "x-grok-conv-id",
      "session-id",
      "x-claude-code-session-id",
      "x-codex-parent-thread-id",
      "payment-signature",
    ]) {
      const refused = await post({ [name]: "2023-06-01" });
      expect([name, refused.status, refused.text]).toEqual([
        name,
        401,
        expect.stringContaining(`does not cover \`${name}\``),
      ]);
    }
  });

  test("takes a Machine Payment beside the signature", async () => {
    await createAccount();
    const body = JSON.stringify(CHAT);
    const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
    const headers = forge({
      covered: [
        ["@method", "POST"],
        ["@authority", new URL(gateway.url).host],
        ["@path", "/v1/chat/completions"],
        ["content-digest", digest],
      ],
    });
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...JSON_TYPE, ...headers, "content-digest": digest, authorization: "Payment e30" },
      body,
    });
    expect(await response.text()).not.toContain("The API key is missing");
  });

  test("does not bind the public key of another agent, or one that was bound before", async () => {
    await createAccount();
    const victim = newPrivateKey();
    const attacker = await registerAccount(gateway);
    const bind = (headers: Record<string, string>, jwk: object) =>
      call(gateway, "POST /v1/keys", {
        key: attacker.key,
        headers,
        body: { credential: { type: "public_key", jwk } },
      });
    const unsigned = await bind({}, publicJwkOf(victim));
    expect([unsigned.status, valueAt(unsigned.body, "error.param")]).toEqual([403, "credential"]);
    const byOther = await send("POST", "/v1/keys", {
      key: newPrivateKey(),
      headers: { authorization: `Bearer ${attacker.key}` },
      body: { credential: credentialOf(victim) },
    });
    expect(byOther.status).toBe(403);
    const again = await send("POST", "/v1/keys", {
      headers: { authorization: `Bearer ${attacker.key}` },
      body: { credential: credentialOf(privateKey) },
    });
    expect(again.status).toBe(409);
    const own = await send("GET", "/v1/keys/self");
    const ownId = textAt(own.body, "id");
    await send("DELETE", `/v1/keys/${ownId}`);
    expect(
      (await send("POST", "/v1/accounts", { body: { credential: credentialOf(privateKey) } }))
        .status,
    ).toBe(409);
    const leaked = await bind({}, privateKey.export({ format: "jwk" }));
    expect([leaked.status, JSON.stringify(leaked.body)]).toEqual([
      400,
      expect.stringContaining("private key"),
    ]);
  });

  test("has no secret that works as a bearer key, can be rotated, or that keys can be derived from", async () => {
    await createAccount();
    const { body } = await send("GET", "/v1/keys/self");
    const name = publicKeyName(keyIdOf(privateKey));
    for (const bearer of [name, keyIdOf(privateKey), textAt(body, "id")]) {
      const reply = await call(gateway, "GET /v1/account", { key: bearer });
      expect(reply.status).toBe(401);
    }
    const { reference, secret } = chainOf(name);
    const mac = (key: Buffer, text: string) => createHmac("sha256", key).update(text).digest();
    const block = Buffer.from(JSON.stringify({ id: "forged" })).toString("base64url");
    const signature = mac(mac(Buffer.from(secret, "base64url"), reference), block).toString(
      "base64url",
    );
    const derived = `pst-dk-${reference}.${block}.${signature}`;
    expect((await call(gateway, "GET /v1/account", { key: derived })).status).toBe(401);
    const rotated = await send("POST", `/v1/keys/${textAt(body, "id")}/rotate`, { body: {} });
    expect(rotated.status).toBe(409);
  });

  test("a body that is changed in any place is refused, and nothing is charged", async () => {
    await createAccount();
    const body = JSON.stringify(CHAT);
    const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
    await fc.assert(
      fc.asyncProperty(fc.nat(body.length - 1), fc.string({ maxLength: 3 }), async (at, text) => {
        const changed = body.slice(0, at) + text + body.slice(at + 1);
        fc.pre(changed !== body);
        const signed = forge({
          covered: [
            ["@method", "POST"],
            ["@authority", new URL(gateway.url).host],
            ["@path", "/v1/chat/completions"],
            ["content-digest", digest],
          ],
        });
        const response = await fetch(`${gateway.url}/v1/chat/completions`, {
          method: "POST",
          headers: { ...JSON_TYPE, ...signed, "content-digest": digest },
          body: changed,
        });
        expect(response.status).toBe(401);
        await response.body?.cancel();
      }),
      { numRuns: runs(40) },
    );
    const usage = await send("GET", "/v1/usage");
    expect(valueAt(usage.body, "data.length")).toBe(0);
  });
});

test("examples/signed-requests opens an account without a secret and calls a model", async () => {
  const gateway = await startGateway();
  const example = path.join(import.meta.dir, "../../examples/signed-requests/signed-requests.ts");
  const run = Bun.spawn([process.execPath, example, gateway.url, "sim/echo"], { stderr: "pipe" });
  const output = await new Response(run.stdout).text();
  expect([await run.exited, output]).toEqual([0, expect.stringContaining("has no secret: true")]);
  await gateway.stop();
});
