// `Idempotency-Key` on a model call: the first request runs, a repetition gets its response.

import { isDeepStrictEqual } from "node:util";
import { endedKeyFault, Fault } from "../../base/fault.ts";
import type { IdempotentCall } from "../../http/request/idempotent-call.ts";
import type { Caller } from "../../http/route.ts";
import { type Db, isUnavailable, type Reader, type Tx } from "../../store/db.ts";
import type { CallInput, StoredReply } from "./call.ts";
import { replayReply } from "./reply/idempotent-reply.ts";

export interface IdempotencyDeps {
  readonly db: Db;
  readonly now: () => number;
  /** A replay takes no hold, which would check the key. Undefined for a key that no longer works. */
  readonly findKey: (
    reader: Reader,
    keyId: string,
    now: number,
  ) => Promise<Pick<Caller, "restrictions"> | undefined>;
  /** Returns the response of an earlier call, or reserves the key for this one. */
  readonly begin: (tx: Tx, call: IdempotentModelCall) => Promise<ClaimedReply | undefined>;
  readonly release: (tx: Tx, call: IdempotentModelCall) => Promise<void>;
}

export interface ClaimedReply extends StoredReply {
  /** When the call that it is of began. */
  readonly createdAt: number;
}

export type IdempotentModelCall = IdempotentCall & { readonly holdId: string };

export async function withIdempotency(
  deps: IdempotencyDeps,
  input: CallInput,
  idempotent: IdempotentCall,
  run: () => Promise<Response>,
): Promise<Response> {
  const stored = await claimReply(deps, input, idempotent);
  if (stored !== undefined) return replayReply(stored, input.text);
  return runClaimed(deps, input, idempotent, run);
}

/**
 * Returns the stored reply of an earlier call, or reserves the key for this one. With `isOfOthers`, the reply may be that of
 * another key: those of the caller, which may be some seconds old, must be its restrictions now.
 */
export async function claimReply(
  { db, now, findKey, begin, release }: IdempotencyDeps,
  { caller, requestId }: CallInput,
  idempotent: IdempotentCall,
  isOfOthers = false,
): Promise<ClaimedReply | undefined> {
  const call = withHold(idempotent, requestId);
  const claim = db.write(async (tx) => {
    const key = await findKey(tx, caller.keyId, now());
    if (key === undefined) throw endedKeyFault("revoked or expired key");
    if (isOfOthers && !isDeepStrictEqual(key.restrictions, caller.restrictions))
      throw new Fault("conflict", "key changed since it was read");
    return begin(tx, call);
  });
  return claim.catch(async (error: unknown) => {
    // The claim may have been committed although its reply was lost.
    if (isUnavailable(error)) await runNowOrLater(() => db.write((tx) => release(tx, call)));
    throw error;
  });
}

/** Frees the key if the call fails, so that it may be repeated. */
export async function runClaimed(
  { db, release }: IdempotencyDeps,
  { requestId }: CallInput,
  idempotent: IdempotentCall,
  run: () => Promise<Response>,
): Promise<Response> {
  try {
    return await run();
  } catch (error) {
    const call = withHold(idempotent, requestId);
    await runNowOrLater(() => db.write((tx) => release(tx, call)));
    throw error;
  }
}

/** Its hold shows whether the call is running. */
export function withHold(call: IdempotentCall, holdId: string): IdempotentModelCall {
  return { ...call, holdId };
}

const RETRY_MS = 250;
const RETRY_DOUBLINGS_MAX = 6;
/** Together about five minutes: after that, a repetition takes the key over. */
const RETRIES_MAX = 25;

/** Resolves after the first attempt; if it fails, others follow in the background. */
async function runNowOrLater(work: () => Promise<void>, attempt = 0): Promise<void> {
  try {
    await work();
  } catch {
    if (attempt === RETRIES_MAX) return;
    const delayMs = RETRY_MS * 2 ** Math.min(attempt, RETRY_DOUBLINGS_MAX);
    setTimeout(() => void runNowOrLater(work, attempt + 1), delayMs).unref();
  }
}
