// The method `tempo` of Machine Payments over HTTP, with the official client unmodified and a node of the network.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { prepareTransactionRequest } from "viem/actions";
import { tempoModerato } from "viem/chains";
import { Actions } from "viem/tempo";
import { checkTempo } from "../../../src/commands/doctor/check-agent-payments.ts";
import { readConfig } from "../../../src/config/config.ts";
import {
  skipWithoutAnvil,
  startTempoChain,
  type TempoChain,
  type TempoWallet,
} from "../../support/fakes/tempo-chain.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  buyCredits,
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_CENT,
  readInvoice,
} from "../fixtures.ts";
import { alterCredential, challengesIn, createTempoClient, receiptIn } from "./client.ts";
import { CALL, paidCalls } from "./paid-call.ts";

/** What $1.00 buys: 952,380 credits. */
const TOP_UP_NANO = 952_380_000n;

describe.skipIf(skipWithoutAnvil()).each(STORE_KINDS)(
  "Machine Payments with tempo on %s",
  (store) => {
    let chain: TempoChain;
    let gateway: Gateway;
    let account: TestAccount;
    let wallet: TempoWallet;
    beforeAll(async () => {
      chain = await startTempoChain();
      gateway = await startGateway({ store, env: chain.env, providers: ["sim", "openai"] });
    });
    afterAll(async () => {
      const { db } = gateway.server;
      const cleared = -(await ledgerBalanceOf(db, "system:clearing:tempo"));
      expect(cleared).toBe((await chain.balanceOf(chain.payTo)) * NANO_PER_CENT);
      await expectLedgerValid(db);
      await gateway.stop();
      await chain.stop();
    });
    beforeEach(async () => {
      account = await registerAccount(gateway);
      wallet = await chain.newWallet(500n);
    });

    const { callUrl, request, call, paidNano } = paidCalls(() => ({ gateway, account }));

    async function credentialFor(payer = account, from = wallet): Promise<string> {
      const unpaid = await fetch(callUrl(), request(CALL, payer));
      return await createTempoClient(chain, from).credentialFor(unpaid);
    }

    async function expectNothingPaid(): Promise<void> {
      expect(await paidNano()).toBe(0n);
      expect(await chain.balanceOf(wallet.address)).toBe(500n);
      const rows = await gateway.server.db.all(
        "select id from agent_payment where account_id = ? union all select id from invoice where account_id = ?",
        [account.id, account.id],
      );
      expect(rows).toEqual([]);
    }

    test("the official client pays for a call and gets a receipt", async () => {
      const client = createTempoClient(chain, wallet);
      const response = await client.fetch(callUrl(), request());
      expect(response.status).toBe(200);
      const receipt = receiptIn(response);
      expect(receipt).toMatchObject({ method: "tempo", status: "success" });
      expect(receipt.reference).toMatch(/^0x[0-9a-f]{64}$/);
      expect(await chain.rpc("eth_getTransactionReceipt", [receipt.reference])).toMatchObject({
        status: "0x1",
      });
      expect(await chain.balanceOf(wallet.address)).toBe(400n);
      const paid = await paidNano();
      expect(paid > 0n && paid <= TOP_UP_NANO).toBe(true);
    });

    test("the official client pays for a stream and prepays an invoice", async () => {
      const stream = await createTempoClient(chain, wallet).fetch(
        callUrl(),
        request({ ...CALL, stream: true }),
      );
      expect(receiptIn(stream).method).toBe("tempo");
      expect(await stream.text()).toContain("[DONE]");
      const invoice = await buyCredits(gateway, account, 2);
      const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
      // anvil includes one transaction with an expiring nonce of each wallet.
      const second = await chain.newWallet(500n);
      const response = await createTempoClient(chain, second).fetch(url, request({}));
      expect(await response.json()).toMatchObject({ id: invoice.id, status: "paid" });
      expect(await chain.balanceOf(wallet.address)).toBe(400n);
      expect(await chain.balanceOf(second.address)).toBe(290n);
    });

    test("the challenge names the chain, its token and the mode", async () => {
      const unpaid = await fetch(callUrl(), request());
      expect(challengesIn(unpaid.headers)).toMatchObject([
        {
          method: "tempo",
          intent: "charge",
          request: {
            amount: "1000000",
            currency: chain.token,
            recipient: chain.payTo,
            methodDetails: { chainId: chain.chainId, supportedModes: ["pull"] },
          },
        },
      ]);
    });

    test("a credential is charged once, in sequence and at the same time", async () => {
      const credential = await credentialFor();
      const all = await Promise.all(Array.from({ length: 4 }, () => call(credential)));
      expect(all.some(({ status }) => status === 200)).toBe(true);
      await call(credential);
      expect(await chain.balanceOf(wallet.address)).toBe(400n);
      const sql = "select state, payer from agent_payment where account_id = ?";
      expect(await gateway.server.db.all(sql, [account.id])).toEqual([
        { state: "paid", payer: wallet.address.toLowerCase() },
      ]);
    });

    test("a used credential does not pay for another account, call or invoice", async () => {
      const credential = await credentialFor();
      expect((await call(credential)).status).toBe(200);
      const other = await registerAccount(gateway);
      const foreign = await call(credential, other);
      expect(foreign.body.error.payment_error).toContain("another account");
      const invoice = await buyCredits(gateway, account, 1);
      const url = `${gateway.url}/v1/billing/invoice/${invoice.id}/mpp`;
      const headers = { ...request().headers, authorization: credential };
      const again = await fetch(url, { method: "POST", headers, body: "{}" });
      expect(again.status).toBe(402);
      expect((await readInvoice(gateway, account, invoice.id)).status).toBe("open");
      expect(await chain.balanceOf(wallet.address)).toBe(400n);
    });

    /** A signed transaction with any calls, in a credential for the call's challenge. */
    async function credentialOf(
      change: (transfer: Transfer) => Partial<Transfer> = () => ({}),
      fields: object = {},
    ): Promise<string> {
      const honest = await credentialFor();
      const [challenge] = challengesIn((await fetch(callUrl(), request())).headers);
      if (challenge === undefined) throw new Error("no challenge");
      const memo = memoIn(honest);
      const transfer: Transfer = {
        token: chain.token,
        to: chain.payTo,
        amount: 1_000_000n,
        memo,
        copies: 1,
        chainId: chain.chainId,
      };
      const { copies, chainId, ...changed } = { ...transfer, ...change(transfer) };
      const client = chain.client();
      const { token, to, amount } = changed;
      const transferCall = Actions.token.transfer.call(client, {
        token: token as `0x${string}`,
        to: to as `0x${string}`,
        amount,
        ...(changed.memo === undefined ? {} : { memo: changed.memo }),
      });
      const validBefore = Math.floor(Date.now() / 1_000) + 25;
      const prepared = await prepareTransactionRequest(client, {
        account: wallet,
        calls: Array.from({ length: copies }, () => transferCall),
        nonceKey: "expiring",
        validBefore,
      } as never);
      const unsigned = { ...(prepared as object), chainId, ...fields };
      const serializer = tempoModerato.serializers.transaction;
      const signature = await wallet.signTransaction(unsigned as never, { serializer });
      return alterCredential(honest, () => ({ payload: { type: "transaction", signature } }));
    }

    interface Transfer {
      readonly token: string;
      readonly to: string;
      readonly amount: bigint;
      readonly memo: `0x${string}` | undefined;
      readonly copies: number;
      readonly chainId: number;
    }

    function memoIn(credential: string): `0x${string}` {
      const json = Buffer.from(credential.split(" ")[1] ?? "", "base64url").toString();
      const memo = /95777d59.{128}(.{64})/.exec(json)?.[1];
      return `0x${memo}`;
    }

    test("a transaction that is built by hand pays as well", async () => {
      const paid = await call(await credentialOf());
      expect([paid.status, paid.body.error?.payment_error]).toEqual([200, undefined]);
    });

    const STRANGER = `0x${"34".repeat(20)}` as const;
    const refusals: readonly (readonly [
      title: string,
      build: () => Promise<string>,
      reason: string,
    ])[] = [
      [
        "another recipient",
        () => credentialOf(() => ({ to: STRANGER })),
        "the transfer is to another recipient",
      ],
      [
        "a smaller amount",
        () => credentialOf(() => ({ amount: 999_999n })),
        "the transfer is of another amount",
      ],
      [
        "a larger amount",
        () => credentialOf(() => ({ amount: 1_000_001n })),
        "the transfer is of another amount",
      ],
      [
        "another token",
        () => credentialOf(() => ({ token: "0x20c0000000000000000000000000000000000001" })),
        "the transfer is of another token",
      ],
      [
        "no memo",
        () => credentialOf(() => ({ memo: undefined })),
        "the transaction must have one call",
      ],
      [
        "the memo of another challenge",
        () =>
          credentialOf(({ memo = "0x" }) => {
            const last = memo.endsWith("0") ? "1" : "0";
            return { memo: `${memo.slice(0, -1)}${last}` as `0x${string}` };
          }),
        "the memo does not name the challenge",
      ],
      [
        "the memo of another realm",
        () =>
          credentialOf(({ memo = "0x" }) => ({
            memo: `${memo.slice(0, 12)}${"00".repeat(10)}${memo.slice(32)}` as `0x${string}`,
          })),
        "the memo does not name the challenge",
      ],
      [
        "two transfers",
        () => credentialOf(() => ({ copies: 2 })),
        "the transaction must have one call",
      ],
      ["another chain", () => credentialOf(() => ({ chainId: 4_217 })), "for chain 4217"],
      [
        "no end",
        () => credentialOf(undefined, { nonceKey: undefined, validBefore: undefined }),
        "valid for longer than the challenge",
      ],
      [
        "an end after the challenge's",
        () =>
          credentialOf(undefined, {
            nonceKey: 1n,
            validBefore: Math.floor(Date.now() / 1_000) + 900,
          }),
        "valid for longer than the challenge",
      ],
      [
        "a start in the future",
        () =>
          credentialOf(undefined, {
            nonceKey: 1n,
            validAfter: Math.floor(Date.now() / 1_000) + 10,
          }),
        "is not valid yet",
      ],
    ];
    for (const [title, build, reason] of refusals)
      test(`a transaction with ${title} is refused, and nothing is sent or written`, async () => {
        const credential = await build();
        chain.calls.length = 0;
        const { status, body, headers } = await call(credential);
        expect(body.error.payment_error).toContain(reason);
        expect(status).toBe(402);
        expect(challengesIn(headers)).toHaveLength(1);
        expect(chain.calls).not.toContain("eth_sendRawTransaction");
        await expectNothingPaid();
      });

    test("a wallet that has spent the money meanwhile is refused before anything is sent", async () => {
      const credential = await credentialFor();
      await chain.spend(wallet, 450n);
      chain.calls.length = 0;
      const { status, body } = await call(credential);
      expect([status, body.error.payment_error]).toEqual([
        402,
        expect.stringContaining("the transfer fails: execution reverted"),
      ]);
      expect(chain.calls).not.toContain("eth_sendRawTransaction");
      expect(await paidNano()).toBe(0n);
    });

    test("a forged signature is refused by the network, and its invoice is voided", async () => {
      const credential = alterCredential(await credentialFor(), ({ payload }) => {
        const { signature } = payload as { signature: string };
        return { payload: { type: "transaction", signature: `${signature.slice(0, -6)}aaaa1b` } };
      });
      const { status, body } = await call(credential);
      expect(status).toBe(402);
      expect(body.error.payment_error).toContain("rejected the transaction");
      expect(await paidNano()).toBe(0n);
      expect(await chain.balanceOf(wallet.address)).toBe(500n);
      const sql = "select status from invoice where account_id = ?";
      expect(await gateway.server.db.all(sql, [account.id])).toEqual([{ status: "void" }]);
    });

    test("a transfer that the client sent itself is a 400, and an unreadable transaction too", async () => {
      const honest = await credentialFor();
      for (const payload of [
        { type: "hash", hash: `0x${"12".repeat(32)}` },
        { type: "transaction", signature: "0x76c0" },
        { type: "transaction", signature: "0x02f8" },
        { type: "transaction", signature: `0x76f8${"ff".repeat(40)}` },
      ]) {
        const { status, body } = await call(alterCredential(honest, () => ({ payload })));
        expect([status, body.error.param]).toEqual([400, "authorization"]);
      }
      const client = createTempoClient(chain, wallet, "push");
      const unpaid = await fetch(callUrl(), request());
      expect(client.credentialFor(unpaid)).rejects.toThrow("does not support push");
      await expectNothingPaid();
    });

    test("doctor checks the node, and warns of the test network outside development", async () => {
      const findings = async (env: Readonly<Record<string, string>>) => {
        const read = readConfig({ env: { ...chain.env, ...env }, hostName: "test", providers: [] });
        if (!read.ok) throw new Error(read.errors.join("; "));
        return (await checkTempo(read.config)).map(
          ({ status, message }) => `${status}: ${message}`,
        );
      };
      expect(await findings({})).toEqual(["ok: the node serves eip155:42431"]);
      const [wrong] = await findings({ TEMPO_CHAIN_ID: "4217" });
      expect(wrong).toBe("fail: the node serves eip155:42431, but payments are on eip155:4217");
      const production = {
        POSTERN_BASE_URL: "https://gateway.example",
        POSTERN_SECRET: "s".repeat(44),
      };
      expect((await findings(production))[1]).toStartWith("warn: Tempo's test network");
      chain.fault = "down";
      expect(await findings({})).toEqual(["fail: the node at TEMPO_RPC_URL does not answer"]);
      chain.fault = "ok";
      expect(await findings({ TEMPO_PAY_TO: "", TEMPO_RPC_URL: "" })).toEqual([]);
    });

    test("an incomplete or unknown setting is refused at the start", () => {
      const errorsOf = (env: Readonly<Record<string, string>>) => {
        const read = readConfig({ env, hostName: "test", providers: [] });
        return read.ok ? [] : read.errors;
      };
      const { TEMPO_PAY_TO: payTo = "", TEMPO_RPC_URL: rpcUrl = "" } = chain.env;
      const together = ["TEMPO_PAY_TO and TEMPO_RPC_URL must be set together"];
      expect(errorsOf({ TEMPO_PAY_TO: payTo })).toEqual(together);
      expect(errorsOf({ TEMPO_RPC_URL: rpcUrl })).toEqual(together);
      const unknown = { ...chain.env, TEMPO_CHAIN_ID: "1" };
      expect(errorsOf(unknown)).toEqual(["TEMPO_CHAIN_ID must be 4217 or 42431"]);
    });

    test("without its node the method moves nothing, and says so", async () => {
      const credential = await credentialFor();
      chain.fault = "down";
      const { status, body } = await call(credential);
      chain.fault = "ok";
      expect(status).toBe(503);
      expect(body.error.message).toContain("Nothing was charged");
      await expectNothingPaid();
      expect((await call(credential)).status).toBe(200);
    });
  },
);
