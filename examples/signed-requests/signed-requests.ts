// Opens an account without a secret and calls a model: each request is signed by a key that never leaves this process.
//   node bin/bun.js examples/signed-requests/signed-requests.ts http://127.0.0.1:8787 sim/echo

import { generateKeyPairSync } from "node:crypto";
import { publicJwkOf, signedFetch } from "./signed-fetch.ts";

const [url = "http://127.0.0.1:8787", model = "sim/echo"] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync("ed25519");
const request = signedFetch(privateKey);

async function post(path: string, body: unknown) {
  const response = await request(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

const credential = { type: "public_key", jwk: publicJwkOf(privateKey) };
const { account, api_key } = await post("/v1/accounts", { credential });
console.log(`${account.id} has no secret: ${api_key === null}`);
const reply = await post("/v1/chat/completions", {
  model,
  max_tokens: 20,
  messages: [{ role: "user", content: "Hello." }],
});
console.log(reply.choices[0].message.content);
