// An operator's provider with several wires: each is called on its own path and with its own authentication header.

import { expect, test } from "bun:test";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { type Api, bodyOf, grantCredits, postCall, USD } from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { startRawProvider } from "../support/raw-provider.ts";

test.each([
  ["with the version", "/v1", "/v1/chat/completions"],
  ["without the version", "", "/chat/completions"],
])("calls chat and messages of an operator's provider, base URL %s", async (_, base, chat) => {
  const provider = await startRawProvider(() => ({ status: 400, body: '{"error":{}}' }));
  const declared = {
    id: "both",
    base_url: provider.url + base,
    wires: ["chat", "messages"],
    api_key_env: "BOTH_KEY",
  };
  const model = {
    id: "both/m",
    pricing: { tokens: { input: "1", output: "1" } },
    context_length: 1_000,
    max_output_tokens: 100,
  };
  const env = { BOTH_KEY: "a-key-0123456789", ...withModels([model], [declared]) };
  const gateway = await startGateway({ providers: [], env });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
  const apis: readonly Api[] = ["chat", "messages"];
  for (const api of apis)
    await postCall(gateway, account, api, bodyOf(api, "x", { model: "both/m" }));
  expect(
    provider.requests.map(({ path, headers }) => [
      path,
      headers["authorization"],
      headers["x-api-key"],
    ]),
  ).toEqual([
    [chat, "Bearer a-key-0123456789", undefined],
    ["/v1/messages", undefined, "a-key-0123456789"],
  ]);
  await gateway.stop();
  await provider.stop();
});
