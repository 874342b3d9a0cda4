// A program whose user signs in with Postern: it opens /connect, gets a code at a loopback address, and redeems it for a key.
//   node bin/bun.js examples/sign-in-with-postern.ts http://127.0.0.1:8787
// It prints the URL to open in a browser. Web apps do the same with an https callback URL.

import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const [url = "http://127.0.0.1:8787"] = process.argv.slice(2);

const verifier = randomBytes(32).toString("base64url");
const challenge = createHash("sha256").update(verifier).digest("base64url");
const state = randomBytes(16).toString("base64url");

const { promise, resolve, reject } = Promise.withResolvers<string>();
const server = createServer((request, response) => {
  const { searchParams } = new URL(request.url ?? "", "http://127.0.0.1");
  const code = searchParams.get("code");
  // Another page of the browser could send the user here with a code of its own.
  if (searchParams.get("state") !== state) return void response.writeHead(400).end();
  response.end("You can close this page.");
  if (code === null) reject(new Error(`not connected: ${searchParams.get("error")}`));
  else resolve(code);
});
await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));

// Safe because the server listens on a TCP port.
const { port } = server.address() as AddressInfo;
const connect = new URL("/connect", url);
connect.search = new URLSearchParams({
  callback_url: `http://127.0.0.1:${port}/callback`,
  code_challenge: challenge,
  code_challenge_method: "S256",
  state,
  limit: "5",
  reset: "month",
}).toString();
console.log(`Open ${connect.href}`);

const code = await promise;
server.close();
const redeemed = await fetch(`${url}/v1/auth/keys`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ code, code_verifier: verifier, code_challenge_method: "S256" }),
});
if (!redeemed.ok) throw new Error(`${redeemed.status} ${await redeemed.text()}`);
const { key } = (await redeemed.json()) as { key: string };

const reply = await fetch(`${url}/v1/chat/completions`, {
  method: "POST",
  headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
  body: JSON.stringify({
    model: "sim/echo",
    max_tokens: 20,
    messages: [{ role: "user", content: "Hello." }],
  }),
});
console.log(`The first call with the key: ${reply.status}`);
