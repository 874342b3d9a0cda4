// A call whose provider reports no usage: the gateway counts its tokens on a thread that is a file of its own in each bundle.

import { isObject } from "../../src/base/json.ts";

/** Of `You said: ` and 18 digits, by OpenAI's tokenizer; an estimate has fewer. */
export const COUNTED_TOKENS = 10;

/** The output tokens of the call's usage record. */
export async function countedCall(url: string, apiKey: string): Promise<unknown> {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const messages = [{ role: "user", content: "[[sim: usage=none]] 123456789123456789" }];
  const body = JSON.stringify({ model: "sim/echo", messages });
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
  const id = response.headers.get("x-request-id") ?? "";
  const record: unknown = await (await fetch(`${url}/v1/usage/${id}`, { headers })).json();
  return isObject(record) && isObject(record["usage"]) && record["usage"]["output_tokens"];
}
