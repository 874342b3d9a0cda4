// CPU time of what the contracts add to a call: the receipt of a call, its hashes, and the signature of a request. Run it with
// `node bin/bun.js bench/contracts.ts`. CPU time and not time, so that other work on the machine counts little.

import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  verify,
} from "node:crypto";
import { signingKeyFrom, signJws } from "../src/base/crypto/jws.ts";
import { readSignature } from "../src/signed-requests/http-signature.ts";

const RUNS = 5_000;
const ROUNDS = 7;

function microsecondsOf(run: () => unknown): number {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const start = process.cpuUsage();
    for (let each = 0; each < RUNS; each++) run();
    const { user, system } = process.cpuUsage(start);
    return (user + system) / RUNS;
  });
  return rounds.toSorted((left, right) => left - right)[Math.floor(ROUNDS / 2)] ?? 0;
}

const key = signingKeyFrom(randomBytes(32), "postern-1");
/** As long as a receipt. */
const payload = { usage: { input_tokens: 1_000, output_tokens: 100 }, text: "x".repeat(1_000) };
const body = randomBytes(1_000);

const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const jwk = publicKey.export({ format: "jwk" });
const params =
  '("@method" "@authority" "@path" "content-digest");created=1;expires=60;nonce="n";keyid="k";tag="web-bot-auth"';
const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
const base = `"@method": POST\n"@authority": gateway.example\n"@path": /v1/messages\n"content-digest": ${digest}\n"@signature-params": ${params}`;
const headers = new Headers({
  "content-digest": digest,
  "signature-input": `sig=${params}`,
  signature: `sig=:${sign(null, Buffer.from(base), privateKey).toString("base64")}:`,
});
const message = {
  method: "POST",
  authority: "gateway.example",
  scheme: "https",
  path: "/v1/messages",
  headers,
};

const figures = {
  "hash of a request or reply of 1 KB": () => createHash("sha256").update(body).digest("hex"),
  "signature of a receipt": () => signJws(key, "postern-receipt+jwt", payload),
  "verification of a signed request": () => {
    const signed = readSignature(message);
    if (signed === undefined || typeof signed === "string") throw new Error(signed);
    const { x = "" } = jwk;
    const publicJwk = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    if (!verify(null, Buffer.from(signed.base), publicJwk, signed.signature))
      throw new Error("not signed");
  },
};
for (const [name, run] of Object.entries(figures))
  console.log(`${name}: ${microsecondsOf(run).toFixed(1)} µs`);
