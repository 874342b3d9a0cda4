// Numbers that a double cannot hold, as docs/site/translation.md describes them.

import { expect, test } from "bun:test";
import { type Json, lastSimulatorRequest } from "../inference/support/harness.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";

const ID = "9223372036854775807";
const ARGUMENTS = `{"id":${ID}}`;

test("arguments of calls that both APIs have as text keep all digits", async () => {
  const gateway = await openGateway({});
  const account = await fundedAccount(gateway);
  const callee = { name: "find", arguments: ARGUMENTS };
  const reply = await call(gateway, account, "POST /v1/responses", {
    body: {
      model: "groq/llama-3.3-70b-versatile",
      max_output_tokens: 64,
      store: false,
      input: [
        { role: "user", content: "Find it." },
        { type: "function_call", call_id: "call_1", ...callee },
        { type: "function_call_output", call_id: "call_1", output: ARGUMENTS },
      ],
      tools: [{ type: "function", name: "find", parameters: { type: "object" } }],
    },
  });
  expect([reply.status, reply.text]).toEqual([200, expect.anything()]);
  const { body } = await lastSimulatorRequest(gateway);
  // Safe because the gateway translated the request to Chat Completions.
  const { messages } = JSON.parse(body) as { readonly messages: readonly Json[] };
  expect(messages[1]?.["tool_calls"]).toMatchObject([{ function: callee }]);
  expect(messages[2]).toMatchObject({ role: "tool", content: ARGUMENTS });
  await gateway.stop();
});
