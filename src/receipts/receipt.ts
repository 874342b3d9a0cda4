// The receipt of a call: its usage record with hashes of the request and the reply, signed. It is made from the record
// alone, so it can be read again for as long as the record is kept.

import { signJws, type SigningKey } from "../base/crypto/jws.ts";
import type { JsonObject } from "../base/json.ts";
import { creditsOf, type Nano, usdText } from "../base/money/money.ts";
import { SECOND_MS } from "../base/time.ts";
import { API_PATHS, type UsageRecord } from "../usage/usage.ts";

/** The `typ` of the signature's header: a quote is never taken for a receipt. */
export const RECEIPT_TYPE = "postern-receipt+jwt";
const VERSION = 1;

/** Undefined for a call that asked for no receipt. */
export function signReceipt(
  record: UsageRecord,
  baseUrl: string,
  key: SigningKey,
  paid?: WalletPayment,
): string | undefined {
  const { receipt } = record;
  if (receipt === undefined) return undefined;
  const unpaid = receiptOf(record, receipt, baseUrl);
  const payload = paid && { ...unpaid, fee_usd: usdText(paid.fee), payment: paid.payment };
  return signJws(key, RECEIPT_TYPE, payload ?? unpaid);
}

/** The payment of a call that a wallet paid. */
export interface WalletPayment {
  readonly payment: JsonObject;
  readonly fee: Nano;
}

/** The first six members are those of the receipt of x402's Offer and Receipt extension; the others are our own. */
function receiptOf(
  record: UsageRecord,
  receipt: NonNullable<UsageRecord["receipt"]>,
  baseUrl: string,
): JsonObject {
  const { id, createdAt, latencyMs } = record;
  return {
    version: VERSION,
    network: "postern",
    resourceUrl: `${baseUrl}${API_PATHS[record.api]}`,
    payer: record.accountId,
    issuedAt: Math.floor((createdAt + latencyMs) / SECOND_MS),
    transaction: id,
    iss: baseUrl,
    key_id: record.keyId,
    requested_model: receipt.requestedModel,
    model: record.model,
    provider: record.provider,
    stream: record.stream,
    outcome: record.outcome,
    request_sha256: receipt.requestSha256,
    response_sha256: receipt.responseSha256,
    usage: {
      input_tokens: record.inputTokens,
      cache_read_tokens: record.cacheReadTokens,
      cache_write_tokens: record.cacheWriteTokens,
      output_tokens: record.outputTokens,
      reasoning_tokens: record.reasoningTokens,
    },
    exact: record.exact,
    price: [...record.price],
    price_source: receipt.priceSource,
    price_checked: receipt.priceChecked,
    cost_usd: usdText(record.cost),
    cost_credits: creditsOf(record.cost),
    fee_usd: "0",
    byok: record.byok,
    ...(receipt.quoteId !== undefined && { quote_id: receipt.quoteId }),
  };
}
