// Calls without an API key that a wallet pays after they ran, with the official client: what is charged, what is shown as
// evidence, and what stays behind.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";
import { decodePaymentResponseHeader } from "@x402/fetch";
import OpenAI from "openai";
import {
  startFacilitator,
  type TestFacilitator,
  type Wallet,
} from "../../support/fakes/x402-facilitator.ts";
import { casesOn, testOn } from "../../support/full.ts";
import { type Gateway, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { expectLedgerValid, ledgerBalanceOf, readWallet } from "../fixtures.ts";
import { approvedWallet, uptoEnv, uptoFetch } from "./upto.ts";
import { challengeIn } from "./wallet.ts";

const MODEL = "openai/gpt-5";
const TEXT = "[[sim: tokens=20]] hello";
const messages = [{ role: "user", content: TEXT }];
const CALLS = {
  chat: ["/v1/chat/completions", { model: MODEL, messages, max_tokens: 1_000 }],
  responses: ["/v1/responses", { model: MODEL, input: TEXT, max_output_tokens: 1_000 }],
  messages: ["/v1/messages", { model: MODEL, messages, max_tokens: 1_000 }],
} as const;

interface ReceiptBody {
  readonly response_sha256: string;
  readonly cost_usd: string;
  readonly fee_usd: string;
  readonly payment: Readonly<Record<string, string>>;
}

function payloadOf(receipt: string | null): ReceiptBody {
  return JSON.parse(Buffer.from((receipt ?? "").split(".")[1] ?? "", "base64url").toString());
}

describe.each(STORE_KINDS)("upto on %s", (store) => {
  const testOnce = testOn(store);
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  let wallet: Wallet;
  beforeAll(async () => {
    facilitator = startFacilitator();
    gateway = await startGateway({
      store,
      env: uptoEnv(facilitator),
      providers: ["sim", "openai"],
    });
  });
  afterAll(async () => {
    const { db } = gateway.server;
    const received = facilitator.chain.unitsOf(facilitator.payTo) * 1_000n;
    expect(-(await ledgerBalanceOf(db, "system:clearing:x402"))).toBe(received);
    await expectLedgerValid(db);
    await gateway.stop();
    await facilitator.stop();
  });
  beforeEach(() => {
    wallet = approvedWallet(facilitator);
    facilitator.calls.length = 0;
  });

  function request(name: keyof typeof CALLS, more: object = {}): [string, RequestInit] {
    const [path, body] = CALLS[name];
    const headers = { "content-type": "application/json" };
    return [
      gateway.url + path,
      { method: "POST", headers, body: JSON.stringify({ ...body, ...more }) },
    ];
  }

  function spent(): bigint {
    return 5_000_000n - facilitator.chain.unitsOf(wallet.address);
  }

  /** The receipt, the settlement and the chain name the same amount. */
  function expectSameAmount(receipt: string | null, settlement: string | null): ReceiptBody {
    const settled = decodePaymentResponseHeader(settlement ?? "");
    const payload = payloadOf(receipt);
    expect(settled).toMatchObject({ success: true, payer: wallet.address.toLowerCase() });
    expect(settled.amount).toBe(String(spent()));
    expect(payload.payment).toMatchObject({
      scheme: "upto",
      amount: String(spent()),
      transaction: settled.transaction,
      payer: wallet.address.toLowerCase(),
    });
    const usd = Number(payload.cost_usd) + Number(payload.fee_usd);
    expect(usd).toBeCloseTo(Number(spent()) / 1_000_000, 9);
    expect(spent()).toBeGreaterThan(0n);
    expect(spent()).toBeLessThanOrEqual(BigInt(payload.payment["ceiling"] ?? "0"));
    return payload;
  }

  for (const name of casesOn(store, ["chat", "responses", "messages"] as const)) {
    test(`charges a call on ${name} what it cost, and no more`, async () => {
      const response = await uptoFetch(wallet)(...request(name));
      expect(response.status).toBe(200);
      const body = await response.text();
      const payload = expectSameAmount(
        response.headers.get("x-postern-receipt"),
        response.headers.get("payment-response"),
      );
      expect(payload.response_sha256).toBe(createHash("sha256").update(body).digest("hex"));
      expect(facilitator.calls).toEqual(["verify", "settle"]);
    });

    test(`ends a stream on ${name} with the settlement, in comments`, async () => {
      const response = await uptoFetch(wallet)(...request(name, { stream: true }));
      expect(response.status).toBe(200);
      const body = await response.text();
      const settlement = /^: payment-response (\S+)$/m.exec(body)?.[1] ?? null;
      const receipt = /^: x-postern-receipt (\S+)$/m.exec(body)?.[1] ?? null;
      const payload = expectSameAmount(receipt, settlement);
      const relayed = body.slice(0, body.indexOf(": payment-response"));
      expect(payload.response_sha256).toBe(createHash("sha256").update(relayed).digest("hex"));
    });
  }

  testOnce("serves the official SDKs, streamed and whole", async () => {
    // The SDKs always send a key.
    const withoutKey = (url: string, init?: RequestInit) => {
      const headers = new Headers(init?.headers);
      for (const name of ["authorization", "x-api-key"]) headers.delete(name);
      return uptoFetch(wallet)(url, { ...init, headers });
    };
    const options = { apiKey: "none", fetch: withoutKey as never, maxRetries: 0 };
    const openai = new OpenAI({ ...options, baseURL: `${gateway.url}/v1` });
    const body = { model: MODEL, messages: [{ role: "user" as const, content: TEXT }] };
    let text = "";
    const chunks = await openai.chat.completions.create({ ...body, max_tokens: 500, stream: true });
    for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toContain("the sim can say");
    // The SDK stops at the last event, which leaves after the settlement.
    expect(facilitator.calls).toEqual(["verify", "settle"]);
    const anthropic = new Anthropic({ ...options, baseURL: gateway.url });
    const message = await anthropic.messages.stream({ ...body, max_tokens: 500 }).finalMessage();
    expect(message.stop_reason).not.toBeNull();
    expect(facilitator.calls).toEqual(["verify", "settle", "verify", "settle"]);
  });

  test("a 402 names the ceiling that a quote names, and max_cost_usd lowers it", async () => {
    const response = await fetch(...request("chat"));
    expect(response.status).toBe(402);
    const [upto] = challengeIn(response.headers).accepts;
    expect(upto).toMatchObject({
      scheme: "upto",
      network: "eip155:84532",
      payTo: facilitator.payTo,
      maxTimeoutSeconds: 3_600,
    });
    const lower = await fetch(...request("chat", { postern: { max_cost_usd: 0.002 } }));
    expect(challengeIn(lower.headers).accepts[0]?.amount).toBe("2100");
    expect(BigInt(upto?.amount ?? 0)).toBeGreaterThan(2_100n);
    expect(facilitator.calls).toEqual([]);
  });

  test("nothing stays behind: no balance, no usable key, no stored reply", async () => {
    const response = await uptoFetch(wallet)(...request("responses"));
    const { id } = (await response.json()) as { id: string };
    const { db } = gateway.server;
    const [key] = await db.all("select * from api_key where credential like ?", [
      `%${wallet.address.toLowerCase()}%`,
    ]);
    const accountId = String(key?.["account_id"]);
    expect(await readWallet(db, accountId)).toEqual({ promo: 0n, paid: 0n, held: 0n, owed: 0n });
    expect(
      await db.all("select id from stored_response where account_id = ?", [accountId]),
    ).toEqual([]);
    expect(id).toStartWith("resp_");
    const bearer = await fetch(`${gateway.url}/v1/account`, {
      headers: { authorization: `Bearer wallet:${wallet.address.toLowerCase()}` },
    });
    expect(bearer.status).toBe(401);
    // The next call of the wallet has the same account.
    await uptoFetch(wallet)(...request("chat"));
    const keys = await db.all("select id from api_key where account_id = ?", [accountId]);
    expect(keys).toHaveLength(1);
  });

  test("many calls of one wallet at once leave no balance, and nothing reserved for more", async () => {
    const { db } = gateway.server;
    const lost = await ledgerBalanceOf(db, "system:refund_expense");
    const responses = await Promise.all(
      Array.from({ length: 24 }, () => uptoFetch(wallet)(...request("chat"))),
    );
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200));
    const [key] = await db.all("select account_id from api_key where credential like ?", [
      `%${wallet.address.toLowerCase()}%`,
    ]);
    const empty = { promo: 0n, paid: 0n, held: 0n, owed: 0n };
    expect(await readWallet(db, String(key?.["account_id"]))).toEqual(empty);
    expect(await ledgerBalanceOf(db, "system:refund_expense")).toBe(lost);
  });

  test("a call that fails costs nothing, and its authorization is released", async () => {
    const body = { messages: [{ role: "user", content: "[[sim: status=400]] no" }] };
    const response = await uptoFetch(wallet)(...request("chat", body));
    expect(response.status).toBe(400);
    const settled = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
    expect(settled).toMatchObject({ success: true, transaction: "", amount: "0" });
    expect(spent()).toBe(0n);
    expect(facilitator.calls).toEqual(["verify"]);
  });

  test("routes that are not paid by the call still need a key", async () => {
    for (const path of ["/v1/responses/compact", "/v1/messages/count_tokens", "/v1/quote"]) {
      const [, init] = request("messages");
      const response = await fetch(gateway.url + path, init);
      expect([path, response.status]).toEqual([path, 401]);
    }
    const wrong = await fetch(request("chat")[0], {
      ...request("chat")[1],
      headers: { authorization: "Bearer wrong", "content-type": "application/json" },
    });
    expect(wrong.status).toBe(401);
  });

  test("a background call is refused before anything is signed", async () => {
    const response = await fetch(...request("responses", { background: true }));
    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: { param: string } }).error.param).toBe(
      "background",
    );
  });
});

describe("without upto", () => {
  test("a call without a key is a 401", async () => {
    const facilitator = startFacilitator();
    const env = { ...facilitator.env, X402_RPC_URL: facilitator.rpcUrl };
    const gateway = await startGateway({ env, providers: ["sim", "openai"] });
    try {
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(CALLS.chat[1]),
      });
      expect(response.status).toBe(401);
      expect(response.headers.has("payment-required")).toBe(false);
    } finally {
      await gateway.stop();
      await facilitator.stop();
    }
  });
});
