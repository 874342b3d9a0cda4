// An agent whose signature was verified, and what it may create.

import { Fault } from "../base/fault.ts";
import type { Nano } from "../base/money/money.ts";
import type { Tx } from "../store/db.ts";
import { spendOnce } from "./proof-of-work.ts";

export interface VerifiedAgent {
  /** The origin of the agent's operator. */
  readonly url: string;
  /** Zero for no limit. */
  readonly accountsPerHour: number;
  readonly startingCredit: Nano;
  readonly signatureId: string;
  readonly expiresAt: number;
}

interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
}

/** Undefined if the request is not signed by a listed agent. Throws if a listed agent's signature is wrong. */
export type VerifyAgent = (
  request: SignedRequest,
  now: number,
) => Promise<VerifiedAgent | undefined>;

/** Rejects a signature that was used before. */
export async function takeSignature(
  tx: Tx,
  { signatureId, expiresAt }: VerifiedAgent,
): Promise<void> {
  if (await spendOnce(tx, `signature.${signatureId}`, expiresAt)) return;
  throw new Fault("forbidden", "agent signature used twice", {
    message:
      "The request's signature was used before. Nothing was created. Sign each request with a new nonce; to repeat a request, send the same `Idempotency-Key`.",
  });
}
