// Of members with one name, parsers read the first, the last or both. The check of references reads one of them, so a body
// that is passed on with both could name the provider's storage in the other.

import { afterAll, afterEach, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { isObject } from "../../../src/base/json.ts";
import { rejectAmbiguousMembers } from "../../../src/inference/request/ambiguous-members.ts";
import { memberSpans } from "../../../src/inference/request/json-edit.ts";
import { runs } from "../../support/full.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { errorOf, grantCredits, type Json, USD } from "../support/harness.ts";
import { startRawProvider } from "../support/raw-provider.ts";

const provider = await startRawProvider(() => ({
  body: JSON.stringify({
    choices: [{ index: 0, message: { role: "assistant", content: "x" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }),
}));
const gateway = await startGateway({
  providers: [],
  env: {
    OPENAI_BASE_URL: provider.url,
    OPENAI_API_KEY: "sk-gateway-0123456789abcdef",
    ANTHROPIC_BASE_URL: provider.url,
    ANTHROPIC_API_KEY: "sk-gateway-0123456789abcdef",
  },
});
const account = await registerAccount(gateway);
await grantCredits(gateway, account, USD);
afterAll(async () => {
  await gateway.stop();
  await provider.stop();
});
afterEach(() => {
  provider.requests.length = 0;
});

async function send(path: string, body: string): Promise<{ status: number; error: Json }> {
  const { headers } = account;
  const response = await fetch(`${gateway.url}/v1/${path}`, { method: "POST", headers, body });
  const json = (await response.json()) as Json;
  return { status: response.status, error: response.status === 200 ? {} : errorOf(json) };
}

const chat = (part: string): string =>
  `{"model":"openai/gpt-5-mini","max_tokens":50,"messages":[{"role":"user","content":[${part}]}]}`;
const messages = (part: string): string =>
  `{"model":"anthropic/claude-haiku-4-5","max_tokens":50,"messages":[{"role":"user","content":[${part}]}]}`;
const responses = (part: string): string =>
  `{"model":"openai/gpt-5-mini","max_output_tokens":50,"input":[{"role":"user","content":[${part}]}]}`;

describe("a body with an ambiguous member reaches no provider", () => {
  const hidden: readonly (readonly [path: string, body: string, param: string])[] = [
    [
      "chat/completions",
      chat('{"type":"file","file":{"file_id":"file-1","file_id":null}}'),
      "file_id",
    ],
    [
      "chat/completions",
      chat('{"type":"file","file":{"file_id":"file-1"},"file":{"file_data":"eA=="}}'),
      "file",
    ],
    ["chat/completions", chat('{"type":"text","text":"x","type":"text"}'), "type"],
    [
      "chat/completions",
      chat('{"type":"file","file":{"file\\u005fid":"file-1","file_id":null}}'),
      "file_id",
    ],
    [
      "messages",
      messages(
        '{"type":"image","source":{"type":"file","file_id":"f","type":"url","file_id":null}}',
      ),
      "type",
    ],
    ["messages/count_tokens", messages('{"type":"text","text":"a","text":"b"}'), "text"],
    ["responses", responses('{"type":"input_file","file_id":"file-1","file_id":null}'), "file_id"],
    [
      "embeddings",
      '{"model":"openai/text-embedding-3-small","input":"x","metadata":{"a":[{"b":1,"b":2}]}}',
      "b",
    ],
    [
      "chat/completions",
      `{"model":"openai/gpt-5-mini","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"__proto__":1,"__proto__":2}}}]}`,
      "__proto__",
    ],
    ...["Model", "MAX_TOKENS", "\u017ftream", "N", "Stor\u0065", "bac\u212aground"].map(
      (name): readonly [string, string, string] => [
        "chat/completions",
        `{"model":"openai/gpt-5-mini","messages":[{"role":"user","content":"x"}],"${name}":"openai/gpt-5.4"}`,
        name,
      ],
    ),
  ];
  for (const [path, body, param] of hidden)
    test(`${path} with ${param}: ${body.slice(-70)}`, async () => {
      const { status, error } = await send(path, body);
      expect([status, error["param"] ?? param]).toEqual([400, param]);
      expect(String(error["message"])).toContain(`\`${param}\``);
      expect(provider.requests).toEqual([]);
    });

  test("a body without one passes, however its text is written", async () => {
    for (const part of [
      '{"type":"text","text":"{\\"a\\":1,\\"a\\":2} : \\\\"}',
      '{ "type" : "text" , "text" : "a:b" }',
    ])
      expect((await send("chat/completions", chat(part))).status).toBe(200);
    expect(provider.requests.length).toBe(2);
  });
});

describe("the check of members", () => {
  const rejects = (text: string): boolean => {
    const json: unknown = JSON.parse(text);
    const spans = memberSpans(text);
    if (!isObject(json) || spans === undefined) throw new Error("not an object");
    try {
      rejectAmbiguousMembers(text, spans, json);
      return false;
    } catch {
      return true;
    }
  };
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: "grapheme" }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(fc.string({ maxLength: 5 }), tie("value"), { maxKeys: 4 }),
    ),
  }));

  test("passes every body that JSON.stringify writes", () => {
    fc.assert(
      fc.property(value, (content) => !rejects(JSON.stringify({ messages: content }))),
      { numRuns: runs(1_000) },
    );
  });

  test("finds a member that is written twice at any depth", () => {
    fc.assert(
      fc.property(value, fc.string({ maxLength: 5 }), fc.nat(40), (content, name, depth) => {
        const key = JSON.stringify(name);
        const twice = `{${key}:${JSON.stringify(content)},"other":[1],${key}:null}`;
        return rejects(`{"messages":${"[".repeat(depth)}${twice}${"]".repeat(depth)}}`);
      }),
      { numRuns: runs(1_000) },
    );
  });
});
