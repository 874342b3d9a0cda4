// Calls a model with a ceiling: the reply is shortened to fit, or the call is refused with what would fit.
//   node bin/bun.js examples/cost-ceiling.ts http://127.0.0.1:8787 sim/echo

const [url = "http://127.0.0.1:8787", model = "sim/echo"] = process.argv.slice(2);

async function post(path: string, body: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const account = (await post("/v1/accounts", {})).body as { api_key: string };
const authorization = { authorization: `Bearer ${account.api_key}` };
const max = "0.0005";
const messages = [{ role: "user", content: "Count to a thousand." }];
const call = (postern: object) =>
  post("/v1/chat/completions", { model, max_tokens: 5_000, messages, postern }, authorization);

const cut = await call({ max_cost_usd: max });
const shortened = cut.headers.get("x-postern-budget-cut") === "true";
console.log(`shortened: ${shortened}, to ${cut.headers.get("x-postern-max-tokens")} tokens`);
console.log(`cost $${cut.headers.get("x-postern-cost-usd")} of at most $${max}`);

const refused = await call({ max_cost_usd: max, on_max_cost: "refuse" });
const { error } = refused.body as { error: { affordable_max_tokens: number } };
console.log(`refused: ${refused.status}, and ${error.affordable_max_tokens} tokens would fit`);
