// Proof of work for new accounts: an agent solves a challenge, once, from the network that got it.

import { afterEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { CHALLENGE_LIFETIME_MS, sweepSolvedChallenges } from "../../src/accounts/proof-of-work.ts";
import { challengeIn, solveProof } from "../../src/commands/client/connect.ts";
import {
  type ApiResponse,
  call,
  createFakeClock,
  expectError,
  textAt,
  valueAt,
} from "../spec/api-client.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const BITS = 8;
const START = Date.UTC(2026, 10, 23, 9);

describe.each(STORE_KINDS)("a new account with proof of work, on %s", (store) => {
  const clock = createFakeClock(START);
  let gateway: Gateway;
  afterEach(() => gateway.stop());

  async function start(bits: number): Promise<void> {
    gateway = await startGateway({
      store,
      now: clock.now,
      env: {
        POSTERN_PROOF_OF_WORK_BITS: String(bits),
        POSTERN_TRUSTED_PROXIES: "127.0.0.1",
        POSTERN_SECRET: "a master secret of at least 32 characters",
      },
    });
  }

  function register(
    proof?: string,
    { ip = "203.0.113.7", headers = {} }: { ip?: string; headers?: Record<string, string> } = {},
  ): Promise<ApiResponse> {
    return call(gateway, "POST /v1/accounts", {
      body: {},
      headers: {
        "x-forwarded-for": ip,
        ...(proof === undefined ? {} : { "proof-of-work": proof }),
        ...headers,
      },
    });
  }

  async function challenge(ip?: string): Promise<string> {
    const refused = await register(undefined, ip === undefined ? {} : { ip });
    return textAt(refused.body, "error.proof_of_work.challenge");
  }

  test("is created with a solved challenge, which works once", async () => {
    await start(BITS);
    const refused = await register();
    expectStatus("createAccount", 403, refused);
    expectDemand(refused, "needs a proof");
    expect(valueAt(refused.body, "error.proof_of_work")).toEqual({
      challenge: expect.any(String),
      bits: BITS,
      expires_at: new Date(clock.now() + CHALLENGE_LIFETIME_MS).toISOString(),
    });
    expect(textAt(refused.body, "error.next.0.url")).toBe("/v1/accounts");
    const proof = solve(textAt(refused.body, "error.proof_of_work.challenge"));
    const races = await Promise.all([register(proof), register(proof), register(proof)]);
    expect(races.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(races.filter(({ status }) => status === 403)).toHaveLength(2);
    expectDemand(await register(proof), "used before");
    // By a process whose clock is ahead of this one's.
    const ahead = clock.now() + CHALLENGE_LIFETIME_MS + 30_000;
    await gateway.server.db.write((tx) => sweepSolvedChallenges(tx, ahead));
    expectDemand(await register(proof), "used before");
  });

  test("is repeated with the same Idempotency-Key and proof", async () => {
    await start(BITS);
    const headers = { "idempotency-key": "5f1c0b7a9d3e4826b0c4d8e1f2a36795" };
    const proof = solve(await challenge());
    const first = await register(proof, { headers });
    const second = await register(proof, { headers });
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body).toEqual(first.body);
  });

  test("is refused with a proof of another network, time, signature or difficulty", async () => {
    await start(BITS);
    const ofOther = solve(await challenge("198.51.100.1"));
    expectDemand(await register(ofOther), "your network");
    const changed = (await challenge()).replace(/^8\./, "0.");
    expectDemand(await register(solve(changed)), "your network");
    const unsolved = `${await challenge()}.`;
    const wrong = Array.from({ length: 1_000 }, (_, index) => unsolved + String(index)).find(
      (text) => !hash(text).startsWith("00"),
    );
    expectDemand(await register(wrong), "8 zero bits");
    for (const proof of ["", "a", "8.1.a.b.c", "9".repeat(5_000)])
      expectDemand(await register(proof));
    const late = solve(await challenge());
    clock.advance(CHALLENGE_LIFETIME_MS);
    expectDemand(await register(late), "expired");
  });

  test("needs none by default, and auth.md describes it only where one is needed", async () => {
    await start(0);
    expect((await register()).status).toBe(201);
    expect((await call(gateway, "GET /auth.md")).text).not.toContain("asks for a proof");
    await gateway.stop();
    await start(BITS);
    const { text } = await call(gateway, "GET /auth.md");
    expect(text).toContain("`403 proof_of_work_required`");
    const program = /```sh\n(python3 -c .*?)\n```/s.exec(text)?.[1] ?? "";
    const proof = Bun.spawnSync(["sh", "-c", program], {
      env: { ...process.env, CHALLENGE: await challenge() },
    });
    expect((await register(proof.stdout.toString().trim())).status).toBe(201);
    // As `postern connect` does.
    const demanded = challengeIn(valueAt((await register()).body, "error")) ?? "";
    expect((await register(solveProof(demanded))).status).toBe(201);
  });
});

function expectDemand(response: ApiResponse, problem = ""): void {
  expectError(response, { status: 403, code: "proof_of_work_required", param: "proof-of-work" });
  expect(textAt(response.body, "error.message")).toContain(problem);
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function solve(text: string): string {
  for (let number = 0; ; number++)
    if (hash(`${text}.${number}`).startsWith("0".repeat(BITS / 4))) return `${text}.${number}`;
}
