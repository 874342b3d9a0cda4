// Web Bot Auth on account creation, with the package `web-bot-auth` as signer and a key directory on loopback.

import { afterEach, describe, expect, test } from "bun:test";
import { signatureHeaders } from "web-bot-auth";
import { signerFromJWK } from "web-bot-auth/crypto";
import { sweepSolvedChallenges } from "../../src/accounts/proof-of-work.ts";
import { readConfig } from "../../src/config/config.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

interface Created {
  readonly balance?: { readonly usd: number };
  readonly error?: { readonly code: string; readonly message: string };
}

interface Directory {
  readonly url: string;
  readonly requests: string[];
  keys: readonly JsonWebKey[];
  status: number;
  readonly stop: () => Promise<void>;
}

async function newKey(): Promise<JsonWebKey> {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  return await crypto.subtle.exportKey("jwk", pair.privateKey);
}

function startDirectory(keys: readonly JsonWebKey[]): Directory {
  const requests: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      requests.push(new URL(request.url).pathname);
      const body = { keys: directory.keys.map(({ d: _private, ...key }) => key) };
      return Response.json(body, { status: directory.status });
    },
  });
  const url = `http://127.0.0.1:${server.port}`;
  const directory: Directory = { url, requests, keys, status: 200, stop: () => server.stop(true) };
  return directory;
}

interface SignOptions {
  readonly agent: string;
  readonly key: JsonWebKey;
  readonly url: string;
  readonly alg?: string;
  readonly created?: number;
  readonly expires?: number;
}

/** The headers of a signed request. `agent` is the whole value of Signature-Agent. */
async function sign({
  agent,
  key,
  url,
  alg,
  ...times
}: SignOptions): Promise<Record<string, string>> {
  const { created = Date.now() - 1_000, expires = Date.now() + 60_000 } = times;
  const request = new Request(`${url}/v1/accounts`, {
    method: "POST",
    headers: { "signature-agent": agent },
  });
  const signer = await signerFromJWK(key);
  // The name is only written into the signed parameters.
  if (alg !== undefined) Object.assign(signer, { alg });
  const headers = await signatureHeaders(request, signer, {
    created: new Date(created),
    expires: new Date(expires),
  });
  return {
    signature: headers.Signature,
    "signature-input": headers["Signature-Input"],
    "signature-agent": agent,
  };
}

describe.each(STORE_KINDS)("verified agents on %s", (store) => {
  const stops: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  async function start(setting: string, env: Record<string, string> = {}) {
    const key = await newKey();
    const directory = startDirectory([key]);
    const agents = `${directory.url};${setting}`;
    const gateway = await startGateway({
      store,
      env: { POSTERN_VERIFIED_AGENTS: agents, ...env },
    });
    stops.push(gateway.stop, directory.stop);
    const signed = (options: Partial<SignOptions> = {}) =>
      sign({ agent: `"${directory.url}"`, key, url: gateway.url, ...options });
    return { gateway, directory, key, signed };
  }

  async function create({ url }: Gateway, headers: Record<string, string> = {}) {
    const response = await fetch(`${url}/v1/accounts`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: "{}",
    });
    return { status: response.status, body: (await response.json()) as Created };
  }

  async function accountCount({ server }: Gateway): Promise<number> {
    const row = await server.db.get("select count(*) as count from account");
    return Number(row?.["count"]);
  }

  test("a listed operator has its own quota and starting credit; unsigned requests do not", async () => {
    const { gateway, directory, signed } = await start("2;0.25", {
      POSTERN_ACCOUNTS_PER_HOUR: "1",
    });
    const first = await create(gateway, await signed());
    expect([first.status, first.body.balance?.usd]).toEqual([201, 0.25]);
    // The network's own place is still free.
    const unsigned = await create(gateway);
    expect([unsigned.status, unsigned.body.balance?.usd]).toEqual([201, 0.05]);
    expect((await create(gateway)).status).toBe(429);
    expect((await create(gateway, await signed())).status).toBe(201);
    const third = await create(gateway, await signed());
    expect(third.status).toBe(429);
    expect(third.body.error?.message).toContain(directory.url);
    const signedBy = await gateway.server.db.all(
      "select verified_agent, count(*) as accounts from account group by verified_agent order by 2",
    );
    expect(signedBy.map((row) => [row["verified_agent"], Number(row["accounts"])])).toEqual([
      [null, 1],
      [directory.url, 2],
    ]);
    // The directory is cached.
    expect(directory.requests).toEqual(["/.well-known/http-message-signatures-directory"]);
    const authMd = await (await fetch(`${gateway.url}/auth.md`)).text();
    expect(authMd).toContain(`Agents of ${directory.url} that sign`);
  });

  test("the dictionary form of Signature-Agent works too", async () => {
    const { gateway, directory, key } = await start("10;0.25");
    const agent = `sig1="${directory.url}"`;
    const { status, body } = await create(gateway, await sign({ agent, key, url: gateway.url }));
    expect([status, body.balance?.usd]).toEqual([201, 0.25]);
  });

  test("refuses wrong signatures and writes nothing", async () => {
    const { gateway, signed, directory } = await start("10;0.25");
    const now = Date.now();
    const good = await signed();
    const refusals: readonly (readonly [Record<string, string>, string])[] = [
      [await signed({ created: now - 120_000, expires: now - 60_000 }), "has expired"],
      [await signed({ created: now + 600_000, expires: now + 900_000 }), "in the future"],
      [await signed({ created: now - 1_000, expires: now + 90_000_000 }), "more than a day"],
      [await signed({ key: await newKey() }), "no current Ed25519 key"],
      [await signed({ url: "https://elsewhere.example" }), "does not match"],
      [await signed({ alg: "rsa-pss-sha512" }), "`alg` must be"],
      [await signed({ alg: "hmac-sha256" }), "`alg` must be"],
      [{ ...good, signature: (await signed()).signature ?? "" }, "does not match"],
      [{ ...good, signature: "sig1=:bm8=:" }, "does not match"],
      [{ ...good, signature: "other=:bm8=:" }, "no valid member"],
      [{ ...good, "signature-input": "sig1=(" }, "cannot be read"],
      [
        {
          ...good,
          "signature-input": (good["signature-input"] ?? "").replace(/ "signature-agent"/, ""),
        },
        "must cover `signature-agent`",
      ],
      [
        {
          ...good,
          "signature-input": (good["signature-input"] ?? "").replace('"@authority"', '"x-other"'),
        },
        "not supported",
      ],
    ];
    for (const [headers, reason] of refusals) {
      const { status, body } = await create(gateway, headers);
      expect([status, body.error?.code, body.error?.message]).toEqual([
        403,
        "forbidden",
        expect.stringContaining(reason),
      ]);
    }
    expect(await accountCount(gateway)).toBe(0);
    expect(directory.requests).toHaveLength(1);
    expect((await create(gateway, good)).status).toBe(201);
  });

  test("a signature works once, also at the same time; a repeated request returns its account", async () => {
    const { gateway, signed } = await start("10;0.25");
    const headers = await signed();
    const statuses = await Promise.all(
      Array.from({ length: 4 }, async () => (await create(gateway, headers)).status),
    );
    expect(statuses.toSorted((left, right) => left - right)).toEqual([201, 403, 403, 403]);
    const repeated = { ...(await signed()), "idempotency-key": "5f1c0b7a9d3e4826b0c4d8e1f2a36795" };
    const first = await create(gateway, repeated);
    expect(await create(gateway, repeated)).toEqual(first);
    expect(await accountCount(gateway)).toBe(2);
  });

  test("a signature does not work again at a process whose clock is behind", async () => {
    const { gateway, signed } = await start("10;0.25");
    const expires = Date.now() + 60_000;
    const headers = await signed({ expires });
    expect((await create(gateway, headers)).status).toBe(201);
    await gateway.server.db.write((tx) => sweepSolvedChallenges(tx, expires + 30_000));
    expect((await create(gateway, headers)).status).toBe(403);
    expect(await accountCount(gateway)).toBe(1);
  });

  test("an operator that is not listed counts as unsigned", async () => {
    const { gateway } = await start("10;0.25");
    const headers = await sign({
      agent: '"https://other.example"',
      key: await newKey(),
      url: gateway.url,
    });
    const { status, body } = await create(gateway, headers);
    expect([status, body.balance?.usd]).toEqual([201, 0.05]);
  });

  test("a directory that cannot be read is a 503", async () => {
    const { gateway, directory, signed } = await start("10;0.25");
    directory.status = 500;
    const { status, body } = await create(gateway, await signed());
    expect([status, body.error?.code]).toEqual([503, "overloaded"]);
    expect(body.error?.message).toContain(directory.url);
    expect(await accountCount(gateway)).toBe(0);
  });

  test("a verified agent needs no proof of work", async () => {
    const { gateway, signed } = await start("10;0.25", { POSTERN_PROOF_OF_WORK_BITS: "20" });
    expect((await create(gateway)).status).toBe(403);
    expect((await create(gateway, await signed())).status).toBe(201);
  });
});

function settingErrors(agents: string): string {
  const env = {
    POSTERN_VERIFIED_AGENTS: agents,
    POSTERN_BASE_URL: "https://gateway.example",
    POSTERN_SECRET: "s".repeat(44),
  };
  const result = readConfig({ env, hostName: "test", providers: [] });
  return result.ok ? "" : result.errors.join("; ");
}

test("the setting refuses what is no public origin", () => {
  for (const wrong of [
    "chatgpt.com",
    "https://a.example;x",
    "http://a.example",
    "https://10.0.0.1",
  ])
    expect(settingErrors(wrong)).toContain("POSTERN_VERIFIED_AGENTS must");
  expect(settingErrors("https://chatgpt.com, https://a.example;5;0.5")).toBe("");
});
