// Creates a batch in two steps. First its items are checked, priced and stored, while it is `validating` and not visible.
// Then one transaction holds the cost of all of them and starts it. What a crash leaves of the first step is deleted later.

import type { DerivedKey } from "../base/crypto/encryption.ts";
import { endedKeyFault, Fault, type FaultCode, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import { creditsOf, type Nano, NANO_PER_USD, usdText } from "../base/money/money.ts";
import { type PaymentOptions, purchaseStep } from "../base/purchase-steps.ts";
import { formatUsd } from "../base/text/format.ts";
import { HOUR_MS, SECOND_MS } from "../base/time.ts";
import type { Caller } from "../http/route.ts";
import type { CallInput } from "../inference/lifecycle/call.ts";
import type { ItemEstimate } from "../inference/lifecycle/estimate-item.ts";
import { ceilCredits } from "../inference/lifecycle/hold/hold-faults.ts";
import { rejectQuote } from "../inference/request/call-options.ts";
import { itemTexts, memberText } from "../inference/request/json-edit.ts";
import { type BatchHoldOutcome, freeCreditsForBatch, holdBatch } from "../ledger/batch-holds.ts";
import type { HoldRequest } from "../ledger/decide.ts";
import type { KeyRateLimit } from "../ledger/rate-limit-rules.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import { readCallLabels } from "../usage/session-labels.ts";
import { takeBatchShares } from "./at-provider/provider-batch-rows.ts";
import { createDataKey, openSealer, type Sealer } from "./batch-encryption.ts";
import {
  type BatchForm,
  discardBatch,
  insertBatch,
  isStarted,
  readBatchUse,
  setBatchBytes,
  startBatch,
} from "./batch-rows.ts";
import { type BatchEndpoint, itemErrorBody, itemInput, keptHeaders } from "./item-call.ts";
import {
  countCovered,
  deleteSomeItems,
  insertItems,
  ITEM_ROW_BYTES,
  type NewItem,
} from "./item-rows.ts";

export const REQUESTS_MAX = 10_000;
const UNFINISHED_MAX = 50;
const ACCOUNT_BYTES_MAX = 2 * 1_073_741_824;
const REQUEST_MAX_BYTES = 16 * 1_048_576;
const CUSTOM_ID = /^[^\p{Cc}]{1,256}$/u;
const CHUNK_ITEMS = 200;
const CHUNK_BYTES = 4 * 1_048_576;
/** Validation gives other requests a turn this often. */
const TURN_MS = 10;

export interface CreateBatchDeps {
  readonly db: Db;
  readonly kek: DerivedKey;
  readonly now: () => number;
  /** The call with the settings of the preset that it names. */
  readonly expandPreset: (input: CallInput) => CallInput | Promise<CallInput>;
  /** What a call can cost at most; throws the fault that it would have. */
  readonly estimateItem: (input: CallInput) => Promise<ItemEstimate>;
  /** Whether the provider is known to have no batches. */
  readonly hasNoBatches: (provider: string) => boolean;
  readonly rejectIfFrozen: (accountId: string) => Promise<void>;
  /** The request rate of a key. */
  readonly rateOf: (policy: Caller["policy"]) => KeyRateLimit | undefined;
  readonly paymentOptions: PaymentOptions;
}

/** A request of a batch as the caller sent it. */
export interface SentItem {
  /** Where it is, for errors: `requests[3]` or `line 4`. */
  readonly path: string;
  readonly customId: unknown;
  readonly body: unknown;
  /** The body as it was sent. */
  readonly text: string | undefined;
}

export const PROCESSINGS = ["auto", "gateway", "provider"] as const;
/** Who is to run a batch. */
export type Processing = (typeof PROCESSINGS)[number];

export interface NewBatchRequest {
  readonly caller: Caller;
  readonly form: BatchForm;
  readonly endpoint: BatchEndpoint;
  readonly headers: Headers;
  readonly metadata: JsonObject | null;
  readonly inputFileId: string | null;
  /** Set if the only item completes a background response. What is wrong with it fails the batch. */
  readonly response?: { readonly id: string; readonly requestSha256: string };
  readonly windowMs: number;
  readonly processing: Processing;
  readonly items: Iterable<SentItem> | AsyncIterable<SentItem>;
}

/** A batch whose items are stored, and whose cost is not held yet. */
export interface PreparedBatch {
  readonly id: string;
  readonly caller: Caller;
  readonly requests: number;
  readonly bytes: number;
  readonly total: Nano;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** Null if the gateway runs it. */
  readonly provider: string | null;
  /** Whether it is the call of a background response, which its key's request rate counts now and not when it runs. */
  readonly isResponse: boolean;
}

export async function prepareBatch(
  deps: CreateBatchDeps,
  request: NewBatchRequest,
): Promise<PreparedBatch> {
  const { db, kek } = deps;
  const { caller, form, endpoint, metadata, inputFileId, response } = request;
  const { accountId, keyId } = caller;
  if (caller.policy?.sessionLimitUsd !== undefined) throw sessionLimitFault();
  readCallLabels(request.headers);
  rejectQuote({}, request.headers);
  await deps.rejectIfFrozen(accountId);
  const { bytes: used } = await rejectOverQuota(db, accountId);
  const bytesLeft = ACCOUNT_BYTES_MAX - used;
  const createdAt = deps.now();
  const id = newId("batch", createdAt);
  const dataKey = createDataKey(kek, { id, accountId });
  const expiresAt = createdAt + request.windowMs;
  const headers = keptHeaders(request.headers);
  const batch = {
    id,
    accountId,
    keyId,
    form,
    endpoint,
    headers,
    metadata,
    inputFileId,
    responseId: response?.id ?? null,
    requestSha256: response?.requestSha256 ?? null,
  };
  await db.write((tx) => insertBatch(tx, { ...batch, dataKey, createdAt, expiresAt }), "os_cache");
  const { expandPreset, estimateItem, now } = deps;
  const sealer = openSealer(kek, { id, accountId }, dataKey);
  const isResponse = response !== undefined;
  const call = { endpoint, headers, caller, isResponse };
  const context = { db, expandPreset, estimateItem, now, ...call, sealer };
  try {
    const { totals, provider, ...stored } = await storeItems(context, id, request.items, bytesLeft);
    if (stored.requests === 0) throw invalid("requests", "A batch must have at least one request.");
    const runsAt = providerFor(deps, request, provider);
    const total = runsAt === null ? totals.atGateway : totals.inBatch;
    const prepared = { id, caller, createdAt, expiresAt, ...stored, total };
    const batch = { ...prepared, provider: runsAt, isResponse };
    await freeCreditsForBatch(db, holdRequestOf(deps, batch, now()));
    return batch;
  } catch (error) {
    await discard(db, id);
    throw error;
  }
}

/** Else a sweep deletes it, an hour later. */
export async function discard(db: Db, id: string): Promise<void> {
  const deleteSome = async (tx: Tx): Promise<boolean> =>
    !(await isStarted(tx, id)) && (await deleteSomeItems(tx, id));
  const deleteAll = async (): Promise<void> => {
    while (await db.write(deleteSome)) await new Promise((resolve) => setImmediate(resolve));
    await db.write((tx) => discardBatch(tx, id));
  };
  await deleteAll().catch(() => {});
}

async function rejectOverQuota(
  reader: Reader,
  accountId: string,
  starting?: Pick<PreparedBatch, "bytes">,
): ReturnType<typeof readBatchUse> {
  const use = await readBatchUse(reader, accountId);
  if (use.unfinished >= UNFINISHED_MAX) throw tooManyBatches();
  // Of two batches that fit only one by one, the first to start is kept.
  const bytes = starting === undefined ? use.bytes : use.startedBytes + starting.bytes;
  if (bytes > ACCOUNT_BYTES_MAX) throw quotaFault();
  return use;
}

/** A provider's batch takes up to this time. */
const PROVIDER_WINDOW_MS = 24 * HOUR_MS;
/** Usually it takes a few hours, and OpenAI's caller who lets a response wait for eight asks for the lower price. */
const RESPONSE_WINDOW_MS = 8 * HOUR_MS;

/** `found`: the provider that can run all of the requests. */
function providerFor(
  { hasNoBatches }: CreateBatchDeps,
  { processing, windowMs, response }: NewBatchRequest,
  found: string | undefined,
): string | null {
  if (processing === "gateway") return null;
  const leastMs = response === undefined ? PROVIDER_WINDOW_MS : RESPONSE_WINDOW_MS;
  const isPossible = found !== undefined && windowMs >= leastMs && !hasNoBatches(found);
  if (isPossible) return found;
  if (processing === "auto") return null;
  throw invalid(
    "processing",
    "No provider can run this batch. `completion_window` must be 24h, and all requests must go to one provider that has batches, on the gateway's account. It is not possible with guardrails, a data policy that forbids storage, tools that the gateway runs, or another `service_tier`. Send `processing` as `auto`.",
  );
}

async function storeItems(
  context: ItemContext,
  id: string,
  sentItems: NewBatchRequest["items"],
  bytesLeft: number,
): Promise<StoredItems> {
  const seen = new Set<string>();
  let chunk: NewItem[] = [];
  let chunkBytes = 0;
  let bytes = 0;
  const totals = { atGateway: 0n, inBatch: 0n };
  // Undefined until the first request, null if no provider can run all of them.
  let runner: string | null | undefined;
  let turnStart = performance.now();
  const flush = async (): Promise<void> => {
    const items = chunk;
    const stored = bytes;
    chunk = [];
    chunkBytes = 0;
    if (items.length === 0) return;
    // The commit that starts the batch makes it durable.
    await context.db.write(async (tx) => {
      await insertItems(tx, id, items);
      await setBatchBytes(tx, id, stored);
    }, "os_cache");
  };
  for await (const sent of sentItems) {
    const { customId, text } = checkItem(sent, seen);
    const item = await toNewItem(context, { customId, text, position: seen.size - 1 });
    chunk.push(item);
    totals.atGateway += item.share;
    totals.inBatch += item.inBatch?.share ?? 0n;
    if (item.status === "pending") {
      const at = item.inBatch?.runner ?? null;
      runner = runner === undefined || runner === at ? at : null;
    }
    const itemBytes = bytesOf(item);
    bytes += itemBytes;
    chunkBytes += itemBytes;
    if (bytes > bytesLeft) throw quotaFault();
    if (chunk.length >= CHUNK_ITEMS || chunkBytes >= CHUNK_BYTES) await flush();
    if (performance.now() - turnStart < TURN_MS) continue;
    await new Promise((resolve) => setImmediate(resolve));
    turnStart = performance.now();
  }
  await flush();
  const provider = runner === undefined || runner === null ? undefined : runner.split(" ")[0];
  return { requests: seen.size, bytes, totals, provider };
}

function bytesOf({ sealedRequest, sealedResult }: NewItem): number {
  return ITEM_ROW_BYTES + (sealedRequest?.length ?? 0) + (sealedResult?.length ?? 0);
}

interface StoredItems extends Pick<PreparedBatch, "requests" | "bytes"> {
  readonly totals: { readonly atGateway: Nano; readonly inBatch: Nano };
  readonly provider: string | undefined;
}

/** What is wrong with the structure of a batch fails all of it; what is wrong with a call fails the item. */
function checkItem(
  { path, customId, body, text }: SentItem,
  seen: Set<string>,
): { readonly customId: string; readonly text: string } {
  if (seen.size >= REQUESTS_MAX) throw tooManyRequests(path);
  if (typeof customId !== "string" || !CUSTOM_ID.test(customId))
    throw invalid(
      `${path}.custom_id`,
      `\`custom_id\` of ${path} must be a text of 1 to 256 characters without control characters.`,
    );
  if (seen.has(customId))
    throw invalid(
      `${path}.custom_id`,
      `\`custom_id\` of ${path} is repeated: ${customId}. Give each request its own.`,
    );
  seen.add(customId);
  if (!isObject(body) || text === undefined)
    throw invalid(path, `The body of ${path} must be an object.`);
  for (const field of ["stream", "background"])
    if (body[field] !== undefined && body[field] !== null && body[field] !== false)
      throw invalid(
        `${path}.${field}`,
        `\`${field}\` of ${path} must be absent or false: requests of a batch are not streamed.`,
      );
  if (text.length > REQUEST_MAX_BYTES)
    throw invalid(path, `The body of ${path} must have at most ${REQUEST_MAX_BYTES} characters.`);
  return { customId, text };
}

interface ItemContext extends Pick<
  CreateBatchDeps,
  "db" | "expandPreset" | "estimateItem" | "now"
> {
  readonly endpoint: BatchEndpoint;
  readonly headers: Readonly<Record<string, string>>;
  readonly caller: Caller;
  readonly isResponse: boolean;
  readonly sealer: Sealer;
}

async function toNewItem(
  { expandPreset, estimateItem, now: clock, sealer, ...context }: ItemContext,
  {
    customId,
    text,
    position,
  }: { readonly customId: string; readonly text: string; readonly position: number },
): Promise<NewItem> {
  const { endpoint, headers, caller, isResponse } = context;
  const now = clock();
  const requestId = newId("req", now);
  try {
    // The version of now: a later one may cost more than is held.
    const call = await expandPreset(itemInput({ endpoint, headers, caller, text, requestId, now }));
    const { amount: share, inBatch: found } = await estimateItem(call);
    const inBatch = found === undefined ? null : toInBatch(found);
    const sealedRequest = sealer.seal(`request/${position}`, call.text);
    const pending = { status: "pending", httpStatus: null, sealedResult: null } as const;
    return { position, customId, share, inBatch, sealedRequest, ...pending };
  } catch (error) {
    if (isResponse || !(error instanceof Fault)) throw error;
    const body = itemErrorBody(endpoint, error, requestId);
    return {
      position,
      customId,
      status: "errored",
      share: 0n,
      httpStatus: error.status,
      inBatch: null,
      sealedRequest: null,
      sealedResult: sealer.seal(`result/${position}`, body),
    };
  }
}

function toInBatch({ target, amount }: NonNullable<ItemEstimate["inBatch"]>): NewItem["inBatch"] {
  const runner = `${target.provider} ${target.credential}`;
  return { target: JSON.stringify(target), share: amount, runner };
}

/** Holds the cost of all items and starts the batch, or throws what is missing and how many requests would fit. */
export async function holdAndStart(
  tx: Tx,
  deps: Pick<CreateBatchDeps, "paymentOptions" | "rateOf">,
  batch: PreparedBatch,
  now: number,
): Promise<void> {
  const { id, caller } = batch;
  const outcome = await holdBatch(tx, holdRequestOf(deps, batch, now));
  if (outcome.status === "refused") throw await refusedFault(tx, deps, batch, outcome);
  // The hold has locked the wallet, so other batches of the account start before or after this one.
  await rejectOverQuota(tx, caller.accountId, batch);
  if (batch.provider !== null) await takeBatchShares(tx, id);
  if (!(await startBatch(tx, batch, now))) throw new Error(`the batch ${id} was started before`);
}

function holdRequestOf(
  { rateOf }: Pick<CreateBatchDeps, "rateOf">,
  { id, caller, total: amount, expiresAt, isResponse }: PreparedBatch,
  now: number,
): HoldRequest {
  const { accountId, keyId, restrictions } = caller;
  const rateLimit = isResponse ? rateOf(caller.policy) : undefined;
  return { id, accountId, keyId, amount, now, expiresAt, restrictions, rateLimit };
}

async function refusedFault(
  tx: Tx,
  { paymentOptions }: Pick<CreateBatchDeps, "paymentOptions">,
  batch: PreparedBatch,
  { outcome, affordable }: Extract<BatchHoldOutcome, { status: "refused" }>,
): Promise<Fault> {
  const { total, requests } = batch;
  if (outcome.status === "key_rejected") return endedKeyFault(`key is ${outcome.reason}`);
  if (outcome.status === "rate_limited")
    return new Fault("rate_limited", "key exceeded its rate limit", {
      retryAfterSeconds: outcome.retryAfterMs / SECOND_MS,
    });
  if (outcome.status === "key_changed")
    return new Fault("conflict", "key changed since it was read", {
      message: "The policy or the scopes of this key changed meanwhile. Send the batch again.",
    });
  const fitting = await countCovered(tx, batch, affordable);
  const rest = fitting === 0 ? "" : ` The first ${fitting} of its ${requests} requests would fit.`;
  const [code, of, advice] = REFUSALS[outcome.status] ?? NO_CREDITS;
  const missing = Number((total - affordable + NANO_PER_USD - 1n) / NANO_PER_USD);
  return new Fault(code, `batch refused: ${outcome.status}`, {
    message: `This batch may cost up to ${formatUsd(total)}, and ${formatUsd(affordable)} of ${of} is available.${rest} ${advice}`,
    fields: {
      required_credits: ceilCredits(total),
      available_credits: creditsOf(affordable),
      required_usd: usdText(total),
      affordable_requests: fitting,
    },
    ...(code === "insufficient_credits"
      ? { next: [purchaseStep(paymentOptions, { usd: missing, buys: "Buy credits" })] }
      : {}),
  });
}

type Refusal = readonly [code: FaultCode, of: string, advice: string];

const NO_CREDITS: Refusal = [
  "insufficient_credits",
  "credits",
  "Buy credits, limit the output of the requests, or send fewer.",
];

const REFUSALS: Readonly<Record<string, Refusal>> = {
  frozen: [
    "insufficient_credits",
    "credits",
    "The workspace is frozen or owes a debt: see GET /v1/account.",
  ],
  key_limit: [
    "key_limit_reached",
    "the key's spending limit",
    "Use another key, limit the output of the requests, or send fewer.",
  ],
  budget: [
    "workspace_budget_reached",
    "the workspace's budget",
    "Wait until the budget resets, or send fewer requests.",
  ],
};

/** The hold of a batch is of no session, so its items could exceed what a session may spend. */
function sessionLimitFault(): Fault {
  return new Fault("forbidden", "key policy: session_limit_usd", {
    message:
      "This key has `session_limit_usd`, and batches have no session. Use another key, or send the requests one by one.",
    fields: { policy: "session_limit_usd" },
  });
}

/** The items of a batch whose requests are in the body that creates it: `requests`, as they were parsed from `bodyText`. */
export function* bodyItems(
  requests: readonly unknown[],
  bodyText: string,
  toItem: (request: JsonObject, path: string, text: string) => SentItem,
): Generator<SentItem, undefined> {
  if (requests.length > REQUESTS_MAX) throw tooManyRequests("requests");
  const texts = itemTexts(memberText(bodyText, "requests") ?? "[]");
  for (const [index, request] of requests.entries()) {
    const path = `requests[${index}]`;
    if (!isObject(request)) throw invalid(path, `\`${path}\` must be an object.`);
    yield toItem(request, path, texts.next().value ?? "");
  }
  return undefined;
}

function tooManyRequests(param: string): Fault {
  return invalid(
    param,
    `A batch has at most ${REQUESTS_MAX} requests. Send the others as another batch.`,
  );
}

function tooManyBatches(): Fault {
  return new Fault("rate_limited", "too many unfinished batches", {
    message: `This account has ${UNFINISHED_MAX} unfinished batches, including responses that wait, which is the limit. Wait until one has ended, or cancel one.`,
    retryAfterSeconds: 60,
  });
}

function quotaFault(): Fault {
  return new Fault("conflict", "batches above the quota", {
    message: `The batches of this account may store at most ${ACCOUNT_BYTES_MAX / 1_073_741_824} GiB. Delete batches that have ended.`,
  });
}
