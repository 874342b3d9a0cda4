import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  type Api,
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  postCall,
  simStats,
  USD,
  withHeaders,
} from "../support/harness.ts";

let gateway: Gateway;
let account: TestAccount;

beforeAll(async () => {
  gateway = await startGateway({
    providers: ["openai", "anthropic", "xai", "sim"],
    env: { SIM_BASE_URL: "" },
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
});
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
});

const MODELS: Readonly<Record<Api, string>> = {
  chat: "openai/gpt-5-mini",
  responses: "openai/gpt-5-mini",
  messages: "anthropic/claude-haiku-4-5",
  embeddings: "openai/text-embedding-3-small",
};

const user = (content: unknown): Json => ({ messages: [{ role: "user", content }] });
const input = (content: unknown): Json => ({ input: [{ type: "message", role: "user", content }] });
const tools = (tool: Json): Json => ({ tools: [tool] });

const USER_ITEM = { role: "user", content: "go on" };
const CODE_CALL = {
  type: "code_interpreter_call",
  id: "ci_1",
  code: "1 + 1",
  container_id: "cntr_1",
  outputs: null,
  status: "completed",
};
const SHELL_CALL = {
  type: "shell_call",
  call_id: "c_1",
  action: { commands: ["ls"] },
  environment: { type: "container_reference", container_id: "cntr_1" },
};

/** Every field in which an API refers to an object in the provider account. */
const REFERENCES: readonly (readonly [api: Api, param: string, more: Json])[] = [
  ["responses", "previous_response_id", { previous_response_id: "resp_1" }],
  ["responses", "conversation", { conversation: "conv_1" }],
  ["responses", "conversation", { conversation: { id: "conv_1" } }],
  ["responses", "prompt", { prompt: { id: "pmpt_1" } }],
  ["responses", "background", { background: true, store: false }],
  ["responses", "input[0]", { input: [{ type: "item_reference", id: "msg_1" }] }],
  ["responses", "input[0].content[0].file_id", input([{ type: "input_file", file_id: "file-1" }])],
  [
    "responses",
    "input[0].content[1].file_id",
    input([
      { type: "input_text", text: "x" },
      { type: "input_image", file_id: "file-1" },
    ]),
  ],
  [
    "responses",
    "input[0].output[0].file_id",
    {
      input: [
        {
          type: "function_call_output",
          call_id: "c",
          output: [{ type: "input_image", file_id: "file-1" }],
        },
      ],
    },
  ],
  [
    "responses",
    "input[0].output.file_id",
    {
      input: [
        {
          type: "computer_call_output",
          call_id: "c",
          output: { type: "computer_screenshot", file_id: "file-1" },
        },
      ],
    },
  ],
  [
    "responses",
    "tools[0].vector_store_ids",
    tools({ type: "file_search", vector_store_ids: ["vs_1"] }),
  ],
  ["responses", "tools[0].container", tools({ type: "code_interpreter", container: "cntr_1" })],
  [
    "responses",
    "tools[0].container.file_ids",
    tools({ type: "code_interpreter", container: { type: "auto", file_ids: ["file-1"] } }),
  ],
  [
    "responses",
    "tools[0].input_image_mask.file_id",
    tools({ type: "image_generation", input_image_mask: { file_id: "file-1" } }),
  ],
  ["chat", "messages[0].content[0].file_id", user([{ type: "file", file: { file_id: "file-1" } }])],
  [
    "chat",
    "messages[0].content[0].file_id",
    user([{ type: "image_url", image_url: { file_id: "file-1" } }]),
  ],
  ["messages", "thread", { thread: { type: "continue", previous_message_id: "msg_1" } }],
  ["messages", "thread", { thread: { type: "create" } }],
  ["messages", "container", { container: "container_1" }],
  ["messages", "container", { container: { id: "container_1", skills: [] } }],
  [
    "messages",
    "messages[0].content[0].file_id",
    user([{ type: "document", source: { type: "file", file_id: "file_1" } }]),
  ],
  [
    "messages",
    "messages[0].content[0].file_id",
    user([{ type: "image", source: { type: "file", file_id: "file_1" } }]),
  ],
  ["messages", "messages[0].content[0]", user([{ type: "container_upload", file_id: "file_1" }])],
  [
    "messages",
    "messages[0].content[0].content[0].file_id",
    user([
      {
        type: "tool_result",
        tool_use_id: "t",
        content: [{ type: "image", source: { type: "file", file_id: "file_1" } }],
      },
    ]),
  ],
  [
    "chat",
    "messages[1].audio.id",
    {
      messages: [
        { role: "user", content: "x" },
        { role: "assistant", audio: { id: "audio_1" } },
      ],
    },
  ],
  ["chat", "deferred", { deferred: true }],
  [
    "chat",
    "extra_body.google.cached_content",
    { extra_body: { google: { cached_content: "cachedContents/1" } } },
  ],
  [
    "responses",
    "tools[1].collection_ids",
    { tools: [{ type: "web_search" }, { type: "file_search", collection_ids: ["c"] }] },
  ],
  ["chat", "input_file_id", { input_file_id: "file-1" }],
  ["chat", "cached_content", { cached_content: "cachedContents/1" }],
  ["chat", "preset", { preset: "preset_1" }],
  ["chat", "batch_id", { batch_id: "batch_1" }],
  ["messages", "user_profile_id", { user_profile_id: "user_1" }],
  [
    "responses",
    "prompt_cache_options.comparison_response_id",
    { prompt_cache_options: { comparison_response_id: "resp_1" } },
  ],
  [
    "messages",
    "diagnostics.previous_message_id",
    { diagnostics: { previous_message_id: "msg_1" } },
  ],
  ["chat", "tools[0].library_ids", tools({ type: "document_library", library_ids: ["lib_1"] })],
  [
    "responses",
    "tools[0].environment.container_id",
    tools({ type: "shell", environment: { type: "container_reference", container_id: "cntr_1" } }),
  ],
  [
    "responses",
    "tools[0].environment.file_ids",
    tools({ type: "shell", environment: { type: "container_auto", file_ids: ["file-1"] } }),
  ],
  ...["shell", "code_interpreter"].map((type): (typeof REFERENCES)[number] => {
    const skills = [{ type: "skill_reference", skill_id: "skill_1" }];
    const field = type === "shell" ? "environment" : "container";
    return [
      "responses",
      `tools[0].${field}.skills[0].skill_id`,
      tools({ type, [field]: { type: "auto", skills } }),
    ];
  }),
  [
    "responses",
    "tools[0].tunnel_id",
    tools({ type: "mcp", server_label: "x", tunnel_id: `tunnel_${"a".repeat(32)}` }),
  ],
  ["responses", "input[0]", { input: [{ id: "msg_1" }] }],
  ["responses", "input[0]", { input: [{ type: null, id: "msg_1" }] }],
  ...["additional_tools", "tool_search_output"].map((type): (typeof REFERENCES)[number] => [
    "responses",
    "input[0].tools[0].vector_store_ids",
    { input: [{ type, tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] }] },
  ]),
  ...[
    { type: "code_interpreter", container: { type: "auto" } },
    { type: "shell", environment: { type: "container_auto" } },
  ].flatMap((tool): readonly (typeof REFERENCES)[number][] => [
    ["responses", "input[0].container_id", { ...tools(tool), input: [CODE_CALL, USER_ITEM] }],
    [
      "responses",
      "input[0].environment.container_id",
      { ...tools(tool), input: [SHELL_CALL, USER_ITEM] },
    ],
    [
      "responses",
      "input[0].environment.container_id",
      { ...tools(tool), input: [{ ...SHELL_CALL, container_id: 1 }, USER_ITEM] },
    ],
    [
      "responses",
      "input[0].container_id",
      { input: [CODE_CALL, { type: "additional_tools", tools: [tool] }, USER_ITEM] },
    ],
  ]),
  ["chat", "audio.voice.id", { audio: { format: "mp3", voice: { id: "voice_1" } } }],
  [
    "messages",
    "messages[0].content[0].source.content[0].file_id",
    user([
      {
        type: "document",
        source: {
          type: "content",
          content: [{ type: "image", source: { type: "file", file_id: "file_1" } }],
        },
      },
    ]),
  ],
  ...[
    "gs://b/x.png",
    "s3://b/x.png",
    "files/x",
    "https://generativelanguage.googleapis.com/v1beta/files/x",
  ].map((url): (typeof REFERENCES)[number] => [
    "messages",
    "messages[0].content[0].source",
    user([{ type: "image", source: { type: "url", url } }]),
  ]),
  [
    "chat",
    "messages[0].content[0].video_url",
    user([{ type: "video_url", video_url: { url: "gs://b/x.mp4" } }]),
  ],
  [
    "responses",
    "input[0].content[0].video_url",
    {
      input: [{ role: "user", content: [{ type: "input_video", video_url: "gs://b/x.mp4" }] }],
    },
  ],
];

/** The caller's own data that look like references. */
const HARMLESS: readonly (readonly [api: Api, more: Json])[] = [
  [
    "chat",
    {
      messages: [
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "c1",
              type: "function",
              function: { name: "open", arguments: '{"file_id":"mine"}' },
            },
          ],
        },
        { role: "tool", tool_call_id: "c1", content: "file_id: mine" },
      ],
    },
  ],
  [
    "messages",
    {
      messages: [
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: [
            { type: "tool_use", id: "t1", name: "open", input: { file_id: "mine", type: "file" } },
          ],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "ok" }] },
      ],
    },
  ],
  ["responses", { previous_response_id: null, conversation: null }],
  ["chat", { metadata: { container: "mine", conversation: "mine" } }],
  ["responses", { background: false }],
  ["responses", tools({ type: "mcp", server_label: "x", tunnel_id: null })],
  ["responses", tools({ type: "code_interpreter", container: { type: "auto", file_ids: [] } })],
  ["responses", tools({ type: "code_interpreter", container: { type: "auto", file_ids: null } })],
  ["chat", { extra_body: { google: { cached_content: null } } }],
  // Without a tool that runs code, the container id has no effect.
  ["responses", { input: [CODE_CALL, USER_ITEM] }],
];

describe("a reference to an object in the provider account", () => {
  test.each(REFERENCES.map(([api, param, more]) => ({ api, param, more })))(
    "is rejected on the gateway's account, with an alternative: $param on $api",
    async ({ api, param, more }) => {
      const before = (await simStats(gateway)).requests;
      for (const stream of [false, true]) {
        const response = await postCall(
          gateway,
          account,
          api,
          bodyOf(api, "x", { model: MODELS[api], stream, ...more }),
        );
        const body: unknown = await response.json();
        expect([response.status, JSON.stringify(body)]).toEqual([400, JSON.stringify(body)]);
        expectEnvelope(api, body);
        const error = errorOf(body);
        expect(error["param"]).toBe(param);
        expect(String(error["message"])).toContain("provider");
        expect(String(error["message"])).toContain("POST /v1/provider-keys");
      }
      expect((await simStats(gateway)).requests).toBe(before);
    },
  );

  test.each(["vector_store_ids", "collection_ids", "library_ids"])(
    "to stored documents (%s) is rejected before credits are held, with what to send instead",
    async (field) => {
      // Costs more than the starting credit, so a hold would be a 402.
      const max_output_tokens = 100_000;
      const more = { max_output_tokens, ...tools({ type: "file_search", [field]: ["stored_1"] }) };
      const response = await postCall(
        gateway,
        await registerAccount(gateway),
        "responses",
        bodyOf("responses", "x", { model: MODELS.responses, ...more }),
      );
      expect(errorOf(await response.json())).toMatchObject({
        param: `tools[0].${field}`,
        message: expect.stringContaining("Send the documents in the request"),
      });
    },
  );

  test.each(HARMLESS.map(([api, more]) => ({ api, more })))(
    "is not found in the caller's own data ($api, case %#)",
    async ({ api, more }) => {
      const response = await postCall(
        gateway,
        account,
        api,
        bodyOf(api, "x", { model: MODELS[api], ...more }),
      );
      expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    },
  );

  test("is rejected by count_tokens", async () => {
    const response = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: MODELS.messages,
        ...user([{ type: "document", source: { type: "file", file_id: "file_1" } }]),
      }),
    });
    expect(response.status).toBe(400);
  });
});

async function sentBody(api: Api, more: Json): Promise<Json> {
  const response = await postCall(
    gateway,
    account,
    api,
    bodyOf(api, "x", { model: MODELS[api], ...more }),
  );
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  return JSON.parse((await lastSimulatorRequest(gateway)).body) as Json;
}

describe("`store`", () => {
  test("is sent to the provider as false on the gateway's account", async () => {
    for (const more of [{}, { store: true }, { store: false }, { store: null }])
      expect((await sentBody("responses", more))["store"]).toBe(false);
    expect((await sentBody("chat", { store: true }))["store"]).toBe(false);
    expect([undefined, false]).toContain((await sentBody("chat", {}))["store"] as undefined);
  });
});

describe("the end user id", () => {
  const fieldOf = {
    chat: (body: Json) => body["safety_identifier"],
    responses: (body: Json) => body["safety_identifier"],
    messages: (body: Json) => (body["metadata"] as Json | undefined)?.["user_id"],
  };

  test("is a stable pseudonym for each account that reveals nothing about it", async () => {
    for (const api of ["chat", "responses"] as const) {
      const first = fieldOf[api](await sentBody(api, {}));
      expect(String(first)).toMatch(/^[\w-]{16,64}$/);
      expect(fieldOf[api](await sentBody(api, {}))).toBe(first);
      const mine = account;
      account = await registerAccount(gateway);
      await grantCredits(gateway, account, USD);
      expect(fieldOf[api](await sentBody(api, {}))).not.toBe(first);
      account = mine;
      expect(account.id).not.toContain(String(first));
    }
  });

  test("is not inserted into a Messages request unless the operator asks for it", async () => {
    expect((await sentBody("messages", {}))["metadata"]).toBeUndefined();
    const plain = gateway;
    const own = account;
    gateway = await startGateway({
      providers: ["anthropic"],
      env: { POSTERN_ANTHROPIC_USER_ID: "true" },
    });
    account = await registerAccount(gateway);
    try {
      expect(fieldOf.messages(await sentBody("messages", {}))).toMatch(/^[\w-]{16,64}$/);
    } finally {
      await gateway.stop();
      gateway = plain;
      account = own;
    }
  });

  test("is the caller's own if the request has one", async () => {
    expect(await sentBody("chat", { user: "u1" })).toMatchObject({ user: "u1" });
    expect((await sentBody("chat", { user: "u1" }))["safety_identifier"]).toBeUndefined();
    expect(await sentBody("responses", { safety_identifier: "u2" })).toMatchObject({
      safety_identifier: "u2",
    });
    expect(await sentBody("messages", { metadata: { user_id: "u3" } })).toMatchObject({
      metadata: { user_id: "u3" },
    });
    expect((await sentBody("messages", { metadata: {} }))["metadata"]).toEqual({});
  });
});

describe("the request to the provider", () => {
  test("is the caller's body, byte for byte except for the model name and added fields", async () => {
    const own = {
      temperature: 1,
      chat_template_kwargs: { deep: [1, 2, { three: "drei 😀" }] },
      unknown_field: 0.5,
      top_p: 1,
    };
    const body = await sentBody("chat", own);
    expect(body).toMatchObject({ ...own, model: "gpt-5-mini" });
    const raw =
      '{ "model" : "openai/gpt-5-mini" ,\n "messages":[ {"role":"user","content":"\\u0041 1.0 1e3"} ], "seed": 1.50e2, "x": -0.0 }';
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: raw,
    });
    expect(response.status).toBe(200);
    const sent = (await lastSimulatorRequest(gateway)).body;
    expect(sent).toEndWith(
      raw.slice(raw.indexOf('"openai/gpt-5-mini"') + '"openai/gpt-5-mini"'.length),
    );
  });

  test("has the caller's API headers, but neither key nor cookies", async () => {
    const sender = withHeaders(account, {
      "anthropic-beta": "context-1m",
      "anthropic-version": "2023-06-01",
      "anthropic-dangerous-direct-browser-access": "true",
      "anthropic-workspace-id": "wrkspc_1",
      "anthropic-user-profile-id": "prof_1",
      cookie: "a=b",
      "x-forwarded-for": "1.2.3.4",
      "x-custom": "c",
    });
    await postCall(
      gateway,
      sender,
      "messages",
      bodyOf("messages", "x", { model: MODELS.messages }),
    );
    const { headers } = await lastSimulatorRequest(gateway);
    expect(headers).toMatchObject({
      "anthropic-beta": "context-1m",
      "anthropic-version": "2023-06-01",
      "anthropic-dangerous-direct-browser-access": "true",
    });
    for (const name of [
      "anthropic-workspace-id",
      "anthropic-user-profile-id",
      "cookie",
      "x-forwarded-for",
      "x-custom",
      "authorization",
    ])
      expect([name, headers[name]]).toEqual([name, undefined]);
    expect(JSON.stringify(headers)).not.toContain(account.key.slice(-4));
  });

  test("asks for the usage of a stream, which the caller sees only on request", async () => {
    for (const isRequested of [false, true]) {
      const response = await postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "x", {
          model: MODELS.chat,
          stream: true,
          ...(isRequested ? { stream_options: { include_usage: true } } : {}),
        }),
      );
      const text = await response.text();
      expect(/"usage":\{/.test(text)).toBe(isRequested);
      expect(text.includes('"cost":')).toBe(isRequested);
      expect(
        (JSON.parse((await lastSimulatorRequest(gateway)).body) as Json)["stream_options"],
      ).toMatchObject({
        include_usage: true,
      });
    }
  });
});
