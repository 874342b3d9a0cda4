// Machine Payments over MCP: the JSON-RPC errors of its MCP transport, and the official client unmodified.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Challenge, Credential } from "mppx";
import { evm } from "mppx/client";
import { McpClient } from "mppx/mcp/client";
import { expectLedgerValid } from "../billing/fixtures.ts";
import {
  createStripeClient,
  createTempoClient,
  type MppClient,
  stripeMethod,
  tempoMethod,
} from "../billing/mpp/client.ts";
import { fundedWallet } from "../billing/x402/wallet.ts";
import { type Json, listAt, textAt, valueAt } from "../spec/api-client.ts";
import { type FakeStripe, startFakeStripe } from "../support/fakes/stripe.ts";
import {
  skipWithoutAnvil,
  startTempoChain,
  type TempoChain,
} from "../support/fakes/tempo-chain.ts";
import { startFacilitator, type TestFacilitator } from "../support/fakes/x402-facilitator.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { postLegacy, postModern } from "./raw-mcp.ts";

const CREDENTIAL = "org.paymentauth/credential";
const RECEIPT = "org.paymentauth/receipt";
const REQUIRED = "org.paymentauth/payment-required";
/** Costs more than the starting credit. */
const CALL = {
  name: "send_message",
  arguments: { model: "sim/echo", prompt: "x".repeat(150_000), max_tokens: 100 },
};

function connect(gateway: Gateway, key: string): Promise<ClientV1> {
  const client = new ClientV1({ name: "test", version: "1" });
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const transport = new TransportV1(new URL(`${gateway.url}/mcp`), { requestInit });
  return client.connect(transport).then(() => client);
}

/** The reply to a call in revision 2025-11-25. */
async function callLegacy(gateway: Gateway, key: string, params: Json, root: Json = {}) {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params, ...root };
  const { text } = await postLegacy(gateway, body, { authorization: `Bearer ${key}` });
  return JSON.parse(text.slice(text.indexOf("data: ") + "data: ".length)) as Json;
}

/** The client's credential for the challenge of an error, as an object. */
async function answerTo(error: unknown, client: MppClient): Promise<Credential.Credential> {
  const [challenge] = listAt(error, "error.data.challenges") as Challenge.Challenge[];
  if (challenge === undefined) throw new Error("no challenge");
  const headers = { "www-authenticate": Challenge.serialize(challenge) };
  const response = new Response("", { status: 402, headers });
  return Credential.deserialize(await client.credentialFor(response));
}

describe("with the method stripe", () => {
  let stripe: FakeStripe;
  let gateway: Gateway;
  beforeAll(async () => {
    stripe = startFakeStripe();
    const env = { ...stripe.env, STRIPE_NETWORK_ID: stripe.networkId };
    gateway = await startGateway({ env });
  });
  afterAll(async () => {
    await gateway.stop();
    await stripe.stop();
  });

  const unpaid = (key: string) => callLegacy(gateway, key, CALL);

  const credentialFor = (error: unknown) => answerTo(error, createStripeClient(stripe));

  test("mppx's wrapped client pays for a tool call and gets a receipt", async () => {
    const { key } = await registerAccount(gateway);
    const client = await connect(gateway, key);
    const paying = McpClient.wrap(client, { methods: [stripeMethod(stripe)] });
    const paid = await paying.callTool(CALL);
    expect(paid.isError).toBeUndefined();
    expect(paid.receipt).toMatchObject({ method: "stripe", status: "success" });
    expect(valueAt(paid.receipt, "challengeId")).toBeString();
    await client.close();
  });

  test("an unpaid call is the error -32042 with challenges, and the next steps of the HTTP API", async () => {
    const reply = await unpaid((await registerAccount(gateway)).key);
    expect(valueAt(reply, "error.code")).toBe(-32_042);
    expect(valueAt(reply, "error.data")).toMatchObject({
      httpStatus: 402,
      challenges: [{ method: "stripe", intent: "charge", request: { currency: "usd" } }],
      problem: { status: 402, type: "https://paymentauth.org/problems/payment-required" },
      error: { code: "insufficient_credits" },
    });
    expect(listAt(reply, "error.data.error.next").map((step) => valueAt(step, "tool"))).toContain(
      "create_invoice",
    );
  });

  test("in revision 2026-07-28, which reserves this code, a result has the challenges", async () => {
    const { key } = await registerAccount(gateway);
    const { body } = await postModern(gateway, { method: "tools/call", params: CALL, key });
    expect(valueAt(body, "result.isError")).toBe(true);
    expect(valueAt(body, "result.body")).toBeUndefined();
    expect(valueAt(body, "result._meta")).toMatchObject({
      [REQUIRED]: { challenges: [{ method: "stripe" }] },
    });
  });

  test("a credential is accepted in params._meta and in _meta of the message, and charged once", async () => {
    for (const place of ["params", "root"]) {
      const { key } = await registerAccount(gateway);
      const meta = { [CREDENTIAL]: await credentialFor(await unpaid(key)) };
      const before = stripe.intents.size;
      const send = () =>
        place === "params"
          ? callLegacy(gateway, key, { ...CALL, _meta: meta })
          : callLegacy(gateway, key, CALL, { _meta: meta });
      expect(valueAt(await send(), "result._meta")).toMatchObject({
        [RECEIPT]: { status: "success", challengeId: meta[CREDENTIAL].challenge.id },
      });
      await send();
      expect(stripe.intents.size).toBe(before + 1);
    }
  });

  test("a refused credential is the error -32043 with a fresh challenge", async () => {
    const { key } = await registerAccount(gateway);
    const credential = await credentialFor(await unpaid(key));
    const meta = { [CREDENTIAL]: { ...credential, payload: { spt: "spt_unknown" } } };
    const { body } = await postModern(gateway, { method: "tools/call", params: CALL, key, meta });
    expect(valueAt(body, "error.code")).toBe(-32_043);
    expect(textAt(body, "error.data.failure.detail")).toContain("shared payment token");
    expect(listAt(body, "error.data.challenges")).toHaveLength(1);
  });

  for (const [title, credential] of [
    ["that is no object", "text"],
    ["without a challenge", { payload: {} }],
    ["without a payload", undefined],
  ] as const)
    test(`a credential ${title} is the error -32602, and nothing is charged`, async () => {
      const { key } = await registerAccount(gateway);
      const sent = credential ?? {
        ...(await credentialFor(await unpaid(key))),
        payload: { other: 1 },
      };
      const before = stripe.intents.size;
      const meta = { [CREDENTIAL]: sent };
      const { body } = await postModern(gateway, { method: "tools/call", params: CALL, key, meta });
      expect(valueAt(body, "error.code")).toBe(-32_602);
      expect(stripe.intents.size).toBe(before);
    });

  test("a credential for a tool that needs no payment is ignored", async () => {
    const { key } = await registerAccount(gateway);
    const params = { name: "get_balance", arguments: {} };
    const meta = { [CREDENTIAL]: "text" };
    const { body } = await postModern(gateway, { method: "tools/call", params, key, meta });
    expect(valueAt(body, "result.structuredContent.account")).toBeObject();
  });

  test("the server advertises the methods", async () => {
    const expected = { payment: { methods: { stripe: { intents: ["charge"] } } } };
    const { body } = await postModern(gateway, { method: "server/discover" });
    expect(valueAt(body, "result.capabilities.experimental")).toEqual(expected);
    const client = await connect(gateway, (await registerAccount(gateway)).key);
    expect(client.getServerCapabilities()?.experimental).toEqual(expected);
    await client.close();
  });
});

describe("with x402 and the method evm", () => {
  let facilitator: TestFacilitator;
  let gateway: Gateway;
  beforeAll(async () => {
    facilitator = startFacilitator();
    gateway = await startGateway({ env: facilitator.env });
  });
  afterAll(async () => {
    await gateway.stop();
    await facilitator.stop();
  });

  test("mppx's wrapped client pays, although it does not say that it can", async () => {
    const { key } = await registerAccount(gateway);
    const account = fundedWallet(facilitator, 10_000n);
    const client = await connect(gateway, key);
    const method = evm.charge({ account, authorization: { name: "USDC", version: "2" } });
    const paid = await McpClient.wrap(client, { methods: [method] }).callTool(CALL);
    expect(paid.isError).toBeUndefined();
    expect(paid.receipt).toMatchObject({ method: "evm", status: "success" });
    await client.close();
  });

  test("a call without a credential is a result that clients of both protocols read", async () => {
    const { key } = await registerAccount(gateway);
    const reply = await callLegacy(gateway, key, CALL);
    expect(valueAt(reply, "result._meta")).toMatchObject({
      [REQUIRED]: { challenges: [{ method: "evm" }] },
    });
    expect(valueAt(reply, "result.structuredContent")).toMatchObject({ x402Version: 2 });
  });
});

describe.skipIf(skipWithoutAnvil())("with the method tempo", () => {
  let chain: TempoChain;
  let gateway: Gateway;
  beforeAll(async () => {
    chain = await startTempoChain();
    gateway = await startGateway({ env: chain.env });
  });
  afterAll(async () => {
    await expectLedgerValid(gateway.server.db);
    await gateway.stop();
    await chain.stop();
  });

  test("mppx's wrapped client pays for a tool call and gets a receipt", async () => {
    const { key } = await registerAccount(gateway);
    const wallet = await chain.newWallet(500n);
    const client = await connect(gateway, key);
    const paying = McpClient.wrap(client, { methods: [tempoMethod(chain, wallet)] });
    const paid = await paying.callTool(CALL);
    expect(paid.isError).toBeUndefined();
    expect(paid.receipt).toMatchObject({ method: "tempo", status: "success" });
    const receipt = await chain.rpc("eth_getTransactionReceipt", [paid.receipt?.reference]);
    expect(receipt).toMatchObject({ status: "0x1" });
    expect(await chain.balanceOf(wallet.address)).toBe(400n);
    await client.close();
  });

  test("a credential that is sent twice is charged once", async () => {
    const { key } = await registerAccount(gateway);
    const wallet = await chain.newWallet(500n);
    const unpaid = await callLegacy(gateway, key, CALL);
    const credential = await answerTo(unpaid, createTempoClient(chain, wallet));
    const meta = { [CREDENTIAL]: credential };
    for (let sent = 0; sent < 2; sent += 1)
      expect(
        valueAt(await callLegacy(gateway, key, { ...CALL, _meta: meta }), "error"),
      ).toBeUndefined();
    expect(await chain.balanceOf(wallet.address)).toBe(400n);
  });

  test("a wallet without money is the error -32043, and nothing is charged", async () => {
    const { key } = await registerAccount(gateway);
    const wallet = await chain.newWallet(50n);
    const unpaid = await callLegacy(gateway, key, CALL);
    const credential = await answerTo(unpaid, createTempoClient(chain, wallet));
    const meta = { [CREDENTIAL]: credential };
    const { body } = await postModern(gateway, { method: "tools/call", params: CALL, key, meta });
    expect(valueAt(body, "error.code")).toBe(-32_043);
    expect(listAt(body, "error.data.challenges")).toMatchObject([{ method: "tempo" }]);
    expect(await chain.balanceOf(wallet.address)).toBe(50n);
  });

  test("the server advertises the method", async () => {
    const { body } = await postModern(gateway, { method: "server/discover" });
    expect(valueAt(body, "result.capabilities.experimental")).toEqual({
      payment: { methods: { tempo: { intents: ["charge"] } } },
    });
  });
});
