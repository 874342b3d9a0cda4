// Proof of work for new accounts, for a gateway whose starting credit is abused from many networks. A challenge is signed
// and kept nowhere; a solved one is recorded until it expires, so that it works once. It owns the table solved_challenge.

import { createHash } from "node:crypto";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { randomBase62, timingSafeEqualText } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { timestamp } from "../http/schemas.ts";
import type { Tx } from "../store/db.ts";

const PROOF_HEADER = "proof-of-work";
export const PROOF_HEADER_DOC = {
  [PROOF_HEADER]:
    "Only where the gateway asks for it with `403 proof_of_work_required`: the challenge of that error, `.` and a number.",
} as const;

/** Long enough to solve the hardest challenge on one slow core. */
export const CHALLENGE_LIFETIME_MS = 10 * MINUTE_MS;
const NONCE_CHARACTERS = 16;
/** `<bits>.<expires at, in epoch seconds>.<nonce>.<signature>.<solution>` */
const PROOF = /^((\d{1,2})\.(\d{1,12})\.[0-9A-Za-z]{16})\.([\w-]{43})\.[0-9A-Za-z]{1,32}$/;

interface ProofRequest {
  readonly headers: Headers;
  readonly clientIp: string;
  readonly now: number;
}

export interface ProofOfWork {
  /** The leading zero bits that the hash of a proof needs. */
  readonly bits: number;
  /** Spends the proof in the request's header. Without a valid one, throws a 403 with a challenge. */
  readonly require: (tx: Tx, request: ProofRequest) => Promise<void>;
}

export function createProofOfWork(master: MasterSecret, bits: number): ProofOfWork {
  const key = deriveKey(master, "proof-of-work/v1");
  // The signature covers the network, so that a challenge works only where it was issued.
  const signedText = (text: string, clientIp: string): string =>
    `${text} ${networksOf(clientIp)[0]}`;
  const newChallengeFault = (problem: string, { clientIp, now }: ProofRequest): Fault => {
    const expiresAt = now + CHALLENGE_LIFETIME_MS;
    const text = `${bits}.${Math.floor(expiresAt / SECOND_MS)}.${randomBase62(NONCE_CHARACTERS)}`;
    const challenge = `${text}.${fingerprint(key, signedText(text, clientIp))}`;
    return proofRequiredFault(problem, { challenge, bits, expiresAt });
  };
  return {
    bits,
    require: async (tx, request) => {
      const proof = request.headers.get(PROOF_HEADER);
      if (proof === null) throw newChallengeFault("A new account needs a proof of work.", request);
      const [, text = "", sentBits, expiry, signature = ""] = PROOF.exec(proof) ?? [];
      const isSigned = fingerprints(key, signedText(text, request.clientIp)).some((expected) =>
        timingSafeEqualText(expected, signature),
      );
      if (!isSigned)
        throw newChallengeFault(
          "The challenge in `proof-of-work` is not one that this gateway gave to your network.",
          request,
        );
      if (Number(expiry) * SECOND_MS <= request.now)
        throw newChallengeFault("The challenge in `proof-of-work` has expired.", request);
      if (Number(sentBits) < bits || leadingZeroBits(proof) < bits)
        throw newChallengeFault(
          `The SHA-256 of \`proof-of-work\` does not begin with ${bits} zero bits.`,
          request,
        );
      if (!(await spendOnce(tx, text, Number(expiry) * SECOND_MS)))
        throw newChallengeFault("The challenge in `proof-of-work` was used before.", request);
    },
  };
}

export async function sweepSolvedChallenges(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from solved_challenge where expires_at < ?", [now]);
}

/** Another process, whose clock is behind by as much, accepts what has expired here. */
const CLOCK_SKEW_MS = MINUTE_MS;

/** False if it was spent before. A second transaction with it waits for the first. */
export async function spendOnce(tx: Tx, challenge: string, expiresAt: number): Promise<boolean> {
  const row = await tx.get(
    `insert into solved_challenge (challenge, expires_at) values (?, ?)
     on conflict (challenge) do nothing returning challenge`,
    [challenge, expiresAt + CLOCK_SKEW_MS],
  );
  return row !== undefined;
}

interface Challenge {
  readonly challenge: string;
  readonly bits: number;
  readonly expiresAt: number;
}

function proofRequiredFault(problem: string, { challenge, bits, expiresAt }: Challenge): Fault {
  return new Fault("proof_of_work_required", problem, {
    message: `${problem} Append \`.\` and a number to the challenge, so that the SHA-256 of the whole text begins with ${bits} zero bits, and send that text in the header \`${PROOF_HEADER}\`.`,
    param: PROOF_HEADER,
    fields: { proof_of_work: { challenge, bits, expires_at: timestamp(expiresAt) } },
    next: [
      {
        method: "POST",
        url: "/v1/accounts",
        body: {},
        why: `Send the request again with the header \`${PROOF_HEADER}: ${challenge}.<number>\`.`,
      },
    ],
  });
}

/** The number of zero bits at the beginning of the text's SHA-256. */
function leadingZeroBits(text: string): number {
  const hash = createHash("sha256").update(text).digest();
  const at = hash.findIndex((byte) => byte !== 0);
  return at === -1 ? hash.length * 8 : at * 8 + Math.clz32(hash[at] ?? 0) - 24;
}
