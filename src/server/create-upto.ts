// Wires the calls that wallets pay after they ran to accounts, keys, usage records and receipts.

import { createAccount } from "../accounts/accounts.ts";
import { setOwnStorage } from "../accounts/own-response-storage.ts";
import type { JsonObject } from "../base/json.ts";
import type { Nano } from "../base/money/money.ts";
import type { UptoDeps } from "../billing/x402/upto-payments.ts";
import type { X402Service } from "../billing/x402/x402-protocol.ts";
import type { Config } from "../config/config.ts";
import { walletName } from "../keys/key-credential.ts";
import { signReceipt } from "../receipts/receipt.ts";
import type { Tx } from "../store/db.ts";
import { findUsage } from "../usage/usage.ts";
import type { Core } from "./core.ts";

/** Undefined unless the settings enable `upto`. */
export function createUpto(
  { x402: settings, baseUrl }: Config,
  x402: X402Service | undefined,
  core: Pick<Core, "db" | "keys" | "signingKeys">,
): UptoDeps | undefined {
  const { db, keys, signingKeys } = core;
  if (x402 === undefined || settings === undefined || settings.uptoRiskMax === 0n) return undefined;
  const { billing, now, paymentTerms, facilitator, chain } = x402.deps;
  if (chain === undefined) return undefined;
  return {
    db,
    log: billing.log,
    now,
    paymentTerms,
    facilitator,
    chain,
    riskMax: settings.uptoRiskMax,
    openAccount: (tx, payer, at) => openAccount(tx, core, payer, at),
    findCaller: async (payer, at) => await keys.findByCredential(walletName(payer), at, "store"),
    findCall: async (reader, accountId, requestId) => {
      const record = await findUsage(reader, accountId, requestId);
      if (record === undefined) return undefined;
      const charge = record.cost - (record.owed ?? 0n);
      const receipt = (payment: JsonObject, fee: Nano) =>
        signReceipt(record, baseUrl, signingKeys.current(), { payment, fee });
      return { charge, receipt };
    },
    running: new Set(),
  };
}

/** It has a key without a secret, which only payments of the wallet use, and stores no responses. */
async function openAccount(
  tx: Tx,
  { keys }: Pick<Core, "keys">,
  payer: string,
  now: number,
): Promise<string> {
  const network = "wallet";
  const { id: accountId } = await createAccount(tx, {
    email: null,
    network,
    startingCredit: 0n,
    now,
  });
  await setOwnStorage(tx, accountId, { mode: "never", retentionDays: 1 });
  const act = { accountId, actor: undefined, network, now };
  const credential = { type: "wallet", address: payer } as const;
  await keys.create(tx, act, { scopes: ["models:write"], credential });
  return accountId;
}
