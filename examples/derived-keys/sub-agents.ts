// Gives two sub-agents a key each without a request, reads what each spent, and ends both by the key above them.
//   node bin/bun.js examples/derived-keys/sub-agents.ts http://127.0.0.1:8787 sim/echo

import { deriveKey } from "./derive-key.ts";

const [url = "http://127.0.0.1:8787", model = "sim/echo"] = process.argv.slice(2);

async function send(method: string, path: string, key?: string, body?: unknown) {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      "content-type": "application/json",
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: JSON.parse(await response.text()) };
}

const chat = (key: string) =>
  send("POST", "/v1/chat/completions", key, {
    model,
    max_tokens: 20,
    messages: [{ role: "user", content: "Hello." }],
  });

const owner = (await send("POST", "/v1/accounts", undefined, {})).body.api_key as string;
const lead = deriveKey(owner, { id: "lead", usd: "0.02", models: [model] });
const inAnHour = Math.floor(Date.now() / 1_000) + 3_600;
const writer = deriveKey(lead, { id: "writer", usd: "0.005", endpoints: ["chat"], exp: inAnHour });
const searcher = deriveKey(lead, { id: "searcher", usd: "0.005", endpoints: ["embeddings"] });

console.log(`the writer's call: ${(await chat(writer)).status}`);
console.log(`the searcher's call: ${(await chat(searcher)).status}`);
const { id } = (await send("GET", "/v1/keys/self", lead)).body;
const { data } = (await send("GET", `/v1/keys?derived_from=${id}`, owner)).body;
for (const { name, spent_usd, limit_usd } of data)
  console.log(`${name} spent $${spent_usd} of $${limit_usd}`);
await send("DELETE", `/v1/keys/${id}`, owner);
console.log(
  `after the revocation of the lead: ${(await send("GET", "/v1/account", writer)).status}`,
);
