// What must be removed from the errors of providers, and what must stay readable.

import { describe, expect, test } from "bun:test";
import { secret } from "../../../src/base/crypto/secret.ts";
import type { Credential } from "../../../src/inference/providers/credentials.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { redact } from "../../../src/inference/upstream/redact.ts";
import { expectLinearCpuTime } from "../../support/cpu-time.ts";

const [provider] = PROVIDERS;
if (provider === undefined) throw new Error("there is no provider");
const credential: Credential = {
  provider,
  baseUrl: "https://provider.test",
  apiKey: secret("a plain word of a key"),
  label: "gateway",
  byok: false,
};

describe("redact", () => {
  test.each([
    ["Rate limit reached in organization org-Abcdefgh1234 on tokens", "Abcdefgh1234"],
    ["rate limit for your organization (0dccdde6-1f2a-4b3c-8d9e-0123456789ab)", "0dccdde6"],
    ["Your team 0dccdde6-1f2a-4b3c-8d9e-0123456789ab has no credits", "0dccdde6"],
    ["exceeded for consumer 'project_number:583189302742'", "583189302742"],
    ["Publisher Model `projects/acme-prod-1234/locations/global` was not found", "acme-prod"],
    ["User: arn:aws:iam::123456789012:user/gateway is not authorized", "123456789012"],
    ["Incorrect API key provided: sk-proj-ab12********cd34", "cd34"],
    ["Incorrect API key provided: sk-abcdefghijklmnop", "abcdef"],
    ["Incorrect API key provided: sk-proj-abcdefghijklmnop", "abcdef"],
    ["API key not valid: AIzaSyA1234567890abcdefghijklmnopq", "AIzaSy"],
    ["Bearer abc.def is bad", "abc.def"],
    ["the key was a plain word of a key", "plain word"],
  ])("removes keys and account names: %s", (text, secret) => {
    expect(redact(text, credential)).not.toContain(secret);
  });

  test.each([
    "key-",
    "api-",
    "org-",
    "sk-",
    "user_",
    "projects/",
    "arn:aws:",
    "Bearer ",
    "deadbeef-",
  ])("takes linear time for repeated text: %s", (unit) => {
    expectLinearCpuTime((size) => redact(unit.repeat(size / unit.length), credential), 1_000_000);
  });

  test.each([
    "api_connection_error",
    "user_location_unsupported",
    "project_suspended",
    "key_missing_or_malformed",
    "Unknown model: sk-learn-model-x, or fw-instruct-large",
    "The model gpt-5.4-mini-2026-03-17 does not exist",
    "req_0123456789abcdef is the id to quote",
  ])("keeps other text: %s", (text) => {
    expect(redact(text, credential)).toBe(text);
  });
});
