// Opens an account, compares two models by binding quotes, calls the cheaper one, and verifies the receipt.
//   node bin/bun.js examples/quote-and-receipt.ts http://127.0.0.1:8787 sim/echo sim/reason

import { createHash, createPublicKey, verify } from "node:crypto";

const [url = "http://127.0.0.1:8787", ...models] = process.argv.slice(2);

interface PublicKey {
  readonly kid: string;
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
}

interface Quote {
  readonly object: string;
  readonly model: string;
  readonly offer: string;
  readonly cost_usd_max: string;
}

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return { headers: response.headers, text };
}

function verifyReceipt(receipt: string, keys: readonly PublicKey[]) {
  const [head = "", body = "", signature = ""] = receipt.split(".");
  const { alg, kid, typ } = JSON.parse(Buffer.from(head, "base64url").toString());
  const jwk = keys.find((key) => key.kid === kid);
  if (alg !== "EdDSA" || typ !== "postern-receipt+jwt" || jwk === undefined)
    throw new Error("not a receipt of this gateway");
  const key = createPublicKey({ key: { ...jwk }, format: "jwk" });
  const signed = Buffer.from(`${head}.${body}`);
  if (!verify(null, signed, key, Buffer.from(signature, "base64url")))
    throw new Error("the signature is wrong");
  return JSON.parse(Buffer.from(body, "base64url").toString());
}

const account = JSON.parse((await post("/v1/accounts", {})).text);
const authorization = { authorization: `Bearer ${account.api_key}` };
const call = {
  model: models[0] ?? "sim/echo",
  max_tokens: 50,
  messages: [{ role: "user", content: "Hello." }],
};

const list = JSON.parse(
  (await post(`/v1/quote?models=${models.join(",") || call.model}`, call, authorization)).text,
);
const quotes = (list.data as Quote[]).filter(({ object }) => object === "quote");
const [cheapest] = quotes.toSorted((a, b) => Number(a.cost_usd_max) - Number(b.cost_usd_max));
if (cheapest === undefined) throw new Error("no model can serve this call");
console.log(`${cheapest.model} costs at most $${cheapest.cost_usd_max}`);

const reply = await post(
  "/v1/chat/completions",
  { ...call, model: cheapest.model },
  { ...authorization, "x-postern-quote": cheapest.offer, "x-postern-receipt": "1" },
);
const { keys } = (await (await fetch(`${url}/.well-known/jwks.json`)).json()) as {
  keys: PublicKey[];
};
const receipt = verifyReceipt(reply.headers.get("x-postern-receipt") ?? "", keys);
const isSameReply =
  receipt.response_sha256 === createHash("sha256").update(reply.text).digest("hex");
console.log(
  `it cost $${receipt.cost_usd}; the receipt is valid, and of this reply: ${isSameReply}`,
);
