// Creates a key for a CI job that has no secret, and plays the job: it gets a token of its issuer, and calls a model with it.
//   POSTERN_API_KEY=… node bin/bun.js examples/workload-identity.ts http://127.0.0.1:8787 sim/echo
// On GitHub Actions the issuer is https://token.actions.githubusercontent.com; this example is its own issuer.

import { generateKeyPairSync, sign } from "node:crypto";
import { createServer } from "node:http";
import { env } from "node:process";

const [url = "http://127.0.0.1:8787", model = "sim/echo"] = process.argv.slice(2);
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

const server = createServer(({ url: path }, response) => {
  const keys = [{ ...publicKey.export({ format: "jwk" }), kid: "1", alg: "ES256", use: "sig" }];
  const body = path === "/jwks" ? { keys } : { issuer, jwks_uri: `${issuer}/jwks` };
  response.setHeader("content-type", "application/json").end(JSON.stringify(body));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = server.address();
if (address === null || typeof address === "string") throw new Error("no port");
const issuer = `http://127.0.0.1:${address.port}`;

/** What the job's platform does. */
function tokenFor(audience: string): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1_000);
  const claims = { iss: issuer, sub: "repo:acme/app:ref:refs/heads/main", aud: audience };
  const signed = `${encode({ alg: "ES256", kid: "1" })}.${encode({ ...claims, iat: now, exp: now + 300 })}`;
  const key = { key: privateKey, dsaEncoding: "ieee-p1363" } as const;
  return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
}

async function post(path: string, key: string | undefined, body: unknown) {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

const key = await post("/v1/keys", env["POSTERN_API_KEY"], {
  name: "ci",
  limit_usd: 0.01,
  scopes: ["models:write"],
  credential: { type: "oidc", issuer, subject: "repo:acme/app:*" },
});
console.log(`the job has no secret: ${key.api_key === null}`);
const reply = await post("/v1/chat/completions", tokenFor(key.credential.audience), {
  model,
  max_tokens: 20,
  messages: [{ role: "user", content: "Hello." }],
});
console.log(reply.choices[0].message.content);
server.close();
