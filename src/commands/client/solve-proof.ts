// Solves the proof of work that a gateway may ask for before it creates an account.

import { createHash } from "node:crypto";
import { isObject, stringIn } from "../../base/json.ts";

/** Appends a number to the challenge, such that the SHA-256 begins with as many zero bits as the challenge's first part says. */
export function solveProof(challenge: string): string {
  const bits = Number(challenge.split(".", 1)[0]);
  for (let number = 0; ; number++) {
    const proof = `${challenge}.${number}`;
    const hash = createHash("sha256").update(proof).digest("hex");
    if (BigInt(`0x${hash}`) >> BigInt(HASH_BITS - bits) === 0n) return proof;
  }
}

const HASH_BITS = 256;

/** The challenge of a `403 proof_of_work_required`. */
export function challengeIn(error: unknown): string | undefined {
  const demand = isObject(error) ? error["proof_of_work"] : undefined;
  const challenge = isObject(demand) ? stringIn(demand["challenge"]) : undefined;
  // A gateway must not make the command compute forever.
  return challenge !== undefined && /^([12]?\d)\.\d/.test(challenge) ? challenge : undefined;
}
