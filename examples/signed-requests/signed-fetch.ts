// A `fetch` that signs each request with an Ed25519 key (RFC 9421, Web Bot Auth). Copy this file: it needs no packages.

import { createHash, createPublicKey, type KeyObject, randomUUID, sign } from "node:crypto";

/** Headers that change what a request does or costs, and the hash and the type of its body. */
const COVERED =
  /^(content-digest|content-type|idempotency-key|payment-signature|openai-beta|session[-_]id|conversation_id|thread-id|(x-postern|anthropic|x-openai|x-grok|x-claude-code|x-codex)-.*)$/;

export function publicJwkOf(privateKey: KeyObject) {
  const { x = "" } = createPublicKey(privateKey).export({ format: "jwk" });
  return { kty: "OKP", crv: "Ed25519", x } as const;
}

/** The id of the key in signatures: its thumbprint (RFC 7638). */
export function keyIdOf(privateKey: KeyObject): string {
  const { crv, kty, x } = publicJwkOf(privateKey);
  return createHash("sha256").update(JSON.stringify({ crv, kty, x })).digest("base64url");
}

export function signedFetch(privateKey: KeyObject): typeof fetch {
  const signing = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const { host, pathname, search } = new URL(request.url);
    const body = new Uint8Array(await request.clone().arrayBuffer());
    const headers = new Headers(request.headers);
    const covered: [string, string][] = [
      ["@method", request.method],
      ["@authority", host],
      ["@path", pathname],
    ];
    if (search !== "") covered.push(["@query", search]);
    if (body.length > 0) {
      const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
      headers.set("content-digest", digest);
    }
    for (const [name, value] of headers) if (COVERED.test(name)) covered.push([name, value]);
    const created = Math.floor(Date.now() / 1_000);
    const names = covered.map(([name]) => `"${name}"`).join(" ");
    const params = `(${names});created=${created};expires=${created + 60};nonce="${randomUUID()}";keyid="${keyIdOf(privateKey)}";alg="ed25519";tag="web-bot-auth"`;
    const lines = covered.map(([name, value]) => `"${name}": ${value}`);
    const base = [...lines, `"@signature-params": ${params}`].join("\n");
    const signature = sign(null, Buffer.from(base), privateKey).toString("base64");
    headers.set("signature-input", `sig=${params}`);
    headers.set("signature", `sig=:${signature}:`);
    return await fetch(new Request(request, { headers }));
  };
  return Object.assign(signing, { preconnect: () => {} });
}
