// Request features in the form of each API: the rows of docs/site/translation.md.

import type { Api, CallerApi, Json } from "./harness.ts";

export interface Feature {
  readonly title: string;
  readonly group: string;
  /** The feature in each API that has it. `messages`, `input` and `contents` replace those of the base request. */
  readonly bodies: Readonly<Partial<Record<CallerApi, Json>>>;
}

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg==";
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const chatTool = { type: "function", function: { name: "weather", parameters: SCHEMA } };
const responsesTool = { type: "function", name: "weather", parameters: SCHEMA, strict: false };
const messagesTool = { name: "weather", input_schema: SCHEMA };
const chatClockTool = { type: "function", function: { name: "clock", parameters: SCHEMA } };
const responsesClockTool = { type: "function", name: "clock", parameters: SCHEMA, strict: false };
const messagesClockTool = { name: "clock", input_schema: SCHEMA };

const googleTool = (...names: readonly string[]): Json => ({
  functionDeclarations: names.map((name) => ({ name, parametersJsonSchema: SCHEMA })),
});
const withCalling = (functionCallingConfig: Json, ...names: readonly string[]): Json => ({
  tools: [googleTool(...names)],
  toolConfig: { functionCallingConfig },
});
const withConfig = (generationConfig: Json): Json => ({ generationConfig });
const withThinking = (thinkingConfig: Json): Json => withConfig({ thinkingConfig });

const user = (content: unknown) => ({ role: "user", content });
const googleTurn = (...parts: readonly Json[]): Json => ({ role: "user", parts });
const googleReply = (...parts: readonly Json[]): Json => ({ role: "model", parts });
const fromGoogle = (...parts: readonly Json[]): Json => ({ contents: [googleTurn(...parts)] });
const inline = (mimeType: string, data: string): Json => ({ inlineData: { mimeType, data } });
const GOOGLE_HELLO = googleTurn({ text: "hello" });
/** A conversation with a tool call and this result. */
const afterGoogleResult = (response: Json, more: Json = {}): Json => ({
  tools: [googleTool("weather")],
  contents: [
    GOOGLE_HELLO,
    googleReply({ functionCall: { id: "call_1", name: "weather", args: { city: "Oslo" } } }),
    googleTurn({ functionResponse: { id: "call_1", name: "weather", response, ...more } }),
  ],
});
const hello = user("hello");
const sameForAll = (more: Json): Readonly<Record<Api, Json>> => ({
  chat: more,
  responses: more,
  messages: more,
});
const openaiOnly = (more: Json): Readonly<Partial<Record<Api, Json>>> => ({
  chat: more,
  responses: more,
});

const chatCall = (name = "weather", id = "call_1") => ({
  id,
  type: "function",
  function: { name, arguments: '{"city":"Oslo"}' },
});
const responsesCall = (name = "weather", id = "call_1") => ({
  type: "function_call",
  call_id: id,
  name,
  arguments: '{"city":"Oslo"}',
});
const messagesCall = (name = "weather", id = "call_1") => ({
  type: "tool_use",
  id,
  name,
  input: { city: "Oslo" },
});

/** A conversation with a tool call and this result. */
const afterToolResult = (
  chat: unknown,
  responses: unknown,
  messages: Json,
): Readonly<Partial<Record<Api, Json>>> => ({
  ...(chat === undefined
    ? {}
    : {
        chat: {
          tools: [chatTool],
          messages: [
            hello,
            { role: "assistant", content: null, tool_calls: [chatCall()] },
            { role: "tool", tool_call_id: "call_1", content: chat },
          ],
        },
      }),
  ...(responses === undefined
    ? {}
    : {
        responses: {
          tools: [responsesTool],
          input: [
            hello,
            responsesCall(),
            { type: "function_call_output", call_id: "call_1", output: responses },
          ],
        },
      }),
  messages: {
    tools: [messagesTool],
    messages: [
      hello,
      { role: "assistant", content: [messagesCall()] },
      user([{ type: "tool_result", tool_use_id: "call_1", ...messages }]),
    ],
  },
});

const INSTRUCTIONS: readonly Omit<Feature, "group">[] = [
  {
    title: "system instructions",
    bodies: {
      chat: { messages: [{ role: "system", content: "Be brief." }, hello] },
      responses: { instructions: "Be brief." },
      messages: { system: "Be brief." },
      gemini: { systemInstruction: { parts: [{ text: "Be brief." }] } },
    },
  },
  {
    title: "developer instructions",
    bodies: {
      chat: { messages: [{ role: "developer", content: "Be brief." }, hello] },
      responses: { input: [{ role: "developer", content: "Be brief." }, hello] },
    },
  },
  {
    title: "instructions mid-conversation",
    bodies: {
      chat: {
        messages: [
          hello,
          { role: "assistant", content: "hi" },
          { role: "system", content: "Be brief." },
          hello,
        ],
      },
      responses: {
        input: [
          hello,
          { role: "assistant", content: "hi" },
          { role: "system", content: "Be brief." },
          hello,
        ],
      },
      messages: {
        messages: [
          hello,
          { role: "assistant", content: "hi" },
          hello,
          { role: "system", content: "Be brief." },
        ],
      },
    },
  },
  {
    title: "trailing assistant turn",
    bodies: {
      chat: { messages: [hello, { role: "assistant", content: "He" }] },
      responses: { input: [hello, { role: "assistant", content: "He" }] },
      messages: { messages: [hello, { role: "assistant", content: "He" }] },
      gemini: { contents: [GOOGLE_HELLO, googleReply({ text: "He" })] },
    },
  },
  {
    title: "consecutive user turns",
    bodies: {
      chat: { messages: [hello, hello] },
      responses: { input: [hello, hello] },
      messages: { messages: [hello, hello] },
      gemini: { contents: [GOOGLE_HELLO, GOOGLE_HELLO] },
    },
  },
];

const imageUrl = "https://example.com/cat.png";
const pdfUrl = "https://example.com/paper.pdf";
const CONTENT: readonly Omit<Feature, "group">[] = [
  {
    title: "image as base64",
    bodies: {
      chat: {
        messages: [
          user([{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }]),
        ],
      },
      responses: {
        input: [user([{ type: "input_image", image_url: `data:image/png;base64,${PNG}` }])],
      },
      messages: {
        messages: [
          user([{ type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }]),
        ],
      },
      gemini: fromGoogle(inline("image/png", PNG)),
    },
  },
  {
    title: "image by URL",
    bodies: {
      chat: { messages: [user([{ type: "image_url", image_url: { url: imageUrl } }])] },
      responses: { input: [user([{ type: "input_image", image_url: imageUrl }])] },
      messages: {
        messages: [user([{ type: "image", source: { type: "url", url: imageUrl } }])],
      },
      gemini: fromGoogle({ fileData: { mimeType: "image/png", fileUri: imageUrl } }),
    },
  },
  {
    title: "image with detail level",
    bodies: {
      chat: {
        messages: [
          user([
            {
              type: "image_url",
              image_url: { url: `data:image/png;base64,${PNG}`, detail: "high" },
            },
          ]),
        ],
      },
      responses: {
        input: [
          user([
            { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "high" },
          ]),
        ],
      },
      gemini: fromGoogle({
        ...inline("image/png", PNG),
        mediaResolution: { level: "MEDIA_RESOLUTION_HIGH" },
      }),
    },
  },
  {
    title: "PDF as base64",
    bodies: {
      chat: {
        messages: [
          user([
            {
              type: "file",
              file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` },
            },
            { type: "text", text: "read" },
          ]),
        ],
      },
      responses: {
        input: [
          user([
            {
              type: "input_file",
              filename: "a.pdf",
              file_data: `data:application/pdf;base64,${PDF}`,
            },
            { type: "input_text", text: "read" },
          ]),
        ],
      },
      messages: {
        messages: [
          user([
            {
              type: "document",
              source: { type: "base64", media_type: "application/pdf", data: PDF },
            },
            { type: "text", text: "read" },
          ]),
        ],
      },
      gemini: fromGoogle(inline("application/pdf", PDF), { text: "read" }),
    },
  },
  {
    title: "PDF by URL",
    bodies: {
      responses: {
        input: [
          user([
            { type: "input_file", file_url: pdfUrl },
            { type: "input_text", text: "read" },
          ]),
        ],
      },
      messages: {
        messages: [
          user([
            { type: "document", source: { type: "url", url: pdfUrl } },
            { type: "text", text: "read" },
          ]),
        ],
      },
      gemini: fromGoogle(
        { fileData: { mimeType: "application/pdf", fileUri: pdfUrl } },
        { text: "read" },
      ),
    },
  },
  {
    title: "plain text document",
    bodies: {
      messages: {
        messages: [
          user([
            {
              type: "document",
              title: "Notes",
              source: { type: "text", media_type: "text/plain", data: "It rained." },
            },
            { type: "text", text: "read" },
          ]),
        ],
      },
      gemini: fromGoogle(inline("text/plain", "SXQgcmFpbmVkLg=="), { text: "read" }),
    },
  },
  {
    title: "document with citations",
    bodies: {
      messages: {
        messages: [
          user([
            {
              type: "document",
              source: { type: "text", media_type: "text/plain", data: "It rained." },
              citations: { enabled: true },
            },
            { type: "text", text: "read" },
          ]),
        ],
      },
    },
  },
  {
    title: "audio as base64",
    bodies: {
      chat: {
        messages: [
          user([{ type: "input_audio", input_audio: { format: "wav", data: "UklGRiQAAABXQVZF" } }]),
        ],
      },
      gemini: fromGoogle(inline("audio/wav", "UklGRiQAAABXQVZF")),
    },
  },
  {
    title: "file by ID",
    bodies: {
      chat: { messages: [user([{ type: "file", file: { file_id: "file-1" } }])] },
      responses: { input: [user([{ type: "input_file", file_id: "file-1" }])] },
      messages: {
        messages: [user([{ type: "document", source: { type: "file", file_id: "file-1" } }])],
      },
      gemini: fromGoogle({
        fileData: {
          mimeType: "application/pdf",
          fileUri: "https://generativelanguage.googleapis.com/v1beta/files/file-1",
        },
      }),
    },
  },
  {
    title: "cache breakpoint on text",
    bodies: {
      chat: {
        messages: [user([{ type: "text", text: "hello", cache_control: { type: "ephemeral" } }])],
      },
      messages: {
        messages: [user([{ type: "text", text: "hello", cache_control: { type: "ephemeral" } }])],
      },
    },
  },
  {
    title: "cache breakpoint on instructions",
    bodies: {
      chat: {
        messages: [
          {
            role: "system",
            content: [{ type: "text", text: "be brief", cache_control: { type: "ephemeral" } }],
          },
          hello,
        ],
      },
      messages: {
        system: [{ type: "text", text: "be brief", cache_control: { type: "ephemeral" } }],
      },
    },
  },
  {
    title: "cache breakpoint with 1-hour TTL",
    bodies: {
      messages: {
        messages: [
          user([{ type: "text", text: "hello", cache_control: { type: "ephemeral", ttl: "1h" } }]),
        ],
      },
    },
  },
];

const TOOLS: readonly Omit<Feature, "group">[] = [
  {
    title: "tools",
    bodies: {
      chat: { tools: [chatTool] },
      responses: { tools: [responsesTool] },
      messages: { tools: [messagesTool] },
      gemini: { tools: [googleTool("weather")] },
    },
  },
  {
    title: "strict tool",
    bodies: {
      chat: { tools: [{ ...chatTool, function: { ...chatTool.function, strict: true } }] },
      responses: { tools: [{ ...responsesTool, strict: true }] },
      messages: { tools: [{ ...messagesTool, strict: true }] },
      gemini: withCalling({ mode: "VALIDATED" }, "weather"),
    },
  },
  {
    title: "required tool call",
    bodies: {
      chat: { tools: [chatTool], tool_choice: "required" },
      responses: { tools: [responsesTool], tool_choice: "required" },
      messages: { tools: [messagesTool], tool_choice: { type: "any" } },
      gemini: withCalling({ mode: "ANY" }, "weather"),
    },
  },
  {
    title: "required tool by name",
    bodies: {
      chat: {
        tools: [chatTool, chatClockTool],
        tool_choice: { type: "function", function: { name: "clock" } },
      },
      responses: {
        tools: [responsesTool, responsesClockTool],
        tool_choice: { type: "function", name: "clock" },
      },
      messages: {
        tools: [messagesTool, messagesClockTool],
        tool_choice: { type: "tool", name: "clock" },
      },
      gemini: withCalling({ mode: "ANY", allowedFunctionNames: ["clock"] }, "weather", "clock"),
    },
  },
  {
    title: "no tool calls",
    bodies: {
      chat: { tools: [chatTool], tool_choice: "none" },
      responses: { tools: [responsesTool], tool_choice: "none" },
      messages: { tools: [messagesTool], tool_choice: { type: "none" } },
      gemini: withCalling({ mode: "NONE" }, "weather"),
    },
  },
  {
    title: "allowed tools",
    bodies: {
      chat: {
        tools: [chatTool, chatClockTool],
        tool_choice: {
          type: "allowed_tools",
          allowed_tools: {
            mode: "auto",
            tools: [{ type: "function", function: { name: "clock" } }],
          },
        },
      },
      responses: {
        tools: [responsesTool, responsesClockTool],
        tool_choice: {
          type: "allowed_tools",
          mode: "auto",
          tools: [{ type: "function", name: "clock" }],
        },
      },
      gemini: withCalling(
        { mode: "VALIDATED", allowedFunctionNames: ["clock"] },
        "weather",
        "clock",
      ),
    },
  },
  {
    title: "no parallel tool calls",
    bodies: {
      chat: { tools: [chatTool], parallel_tool_calls: false },
      responses: { tools: [responsesTool], parallel_tool_calls: false },
      messages: {
        tools: [messagesTool],
        tool_choice: { type: "auto", disable_parallel_tool_use: true },
      },
    },
  },
  {
    title: "custom tool",
    bodies: {
      chat: { tools: [{ type: "custom", custom: { name: "shell" } }] },
      responses: { tools: [{ type: "custom", name: "shell" }] },
    },
  },
  {
    title: "namespace of tools",
    bodies: {
      responses: {
        tools: [
          {
            type: "namespace",
            name: "home",
            description: "At home.",
            tools: [responsesTool, responsesClockTool],
          },
        ],
      },
    },
  },
  {
    title: "web search",
    bodies: {
      chat: { web_search_options: {} },
      responses: { tools: [{ type: "web_search" }] },
      messages: { tools: [{ type: "web_search_20250305", name: "web_search" }] },
      gemini: { tools: [{ googleSearch: {} }] },
    },
  },
  {
    title: "web search with allowed domains",
    bodies: {
      responses: { tools: [{ type: "web_search", filters: { allowed_domains: ["a.example"] } }] },
      messages: {
        tools: [
          { type: "web_search_20250305", name: "web_search", allowed_domains: ["a.example"] },
        ],
      },
    },
  },
  {
    title: "web search with blocked domains",
    bodies: {
      messages: {
        tools: [
          { type: "web_search_20250305", name: "web_search", blocked_domains: ["a.example"] },
        ],
      },
    },
  },
  {
    title: "web search with a limit of uses",
    bodies: {
      responses: { tools: [{ type: "web_search" }], max_tool_calls: 3 },
      messages: { tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }] },
    },
  },
  {
    title: "web search with the user's location",
    bodies: {
      chat: {
        web_search_options: {
          user_location: { type: "approximate", approximate: { city: "Oslo" } },
        },
      },
      responses: {
        tools: [{ type: "web_search", user_location: { type: "approximate", city: "Oslo" } }],
      },
      messages: {
        tools: [
          {
            type: "web_search_20250305",
            name: "web_search",
            user_location: { type: "approximate", city: "Oslo" },
          },
        ],
      },
    },
  },
  {
    title: "web search with a context size",
    bodies: {
      chat: { web_search_options: { search_context_size: "low" } },
      responses: { tools: [{ type: "web_search", search_context_size: "low" }] },
    },
  },
  {
    title: "code execution",
    bodies: {
      responses: { tools: [{ type: "code_interpreter", container: { type: "auto" } }] },
      messages: { tools: [{ type: "code_execution_20250825", name: "code_execution" }] },
      gemini: { tools: [{ codeExecution: {} }] },
    },
  },
  {
    title: "MCP server",
    bodies: {
      responses: {
        tools: [
          {
            type: "mcp",
            server_label: "docs",
            server_url: "https://mcp.example",
            require_approval: "never",
          },
        ],
      },
      messages: {
        mcp_servers: [{ type: "url", name: "docs", url: "https://mcp.example" }],
        tools: [{ type: "mcp_toolset", mcp_server_name: "docs" }],
      },
      gemini: {
        tools: [
          {
            mcpServers: [{ name: "docs", streamableHttpTransport: { url: "https://mcp.example" } }],
          },
        ],
      },
    },
  },
  {
    title: "fetching of pages",
    bodies: {
      messages: { tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] },
      gemini: { tools: [{ urlContext: {} }] },
    },
  },
  {
    title: "tool that the client runs",
    bodies: {
      responses: { tools: [{ type: "shell", environment: { type: "local" } }] },
      messages: { tools: [{ type: "bash_20250124", name: "bash" }] },
    },
  },
  {
    title: "MCP server whose calls need approval",
    bodies: {
      responses: { tools: [{ type: "mcp", server_label: "a", server_url: "https://a.example" }] },
    },
  },
  {
    title: "advisor",
    bodies: {
      messages: { tools: [{ type: "advisor_20260301", name: "advisor", model: "claude" }] },
    },
  },
  {
    title: "cache breakpoint on a tool",
    bodies: {
      messages: { tools: [{ ...messagesTool, cache_control: { type: "ephemeral" } }] },
    },
  },
  {
    title: "eager input streaming",
    bodies: { messages: { tools: [{ ...messagesTool, eager_input_streaming: true }] } },
  },
  {
    title: "cache breakpoint on a tool call",
    bodies: {
      chat: {
        tools: [chatTool],
        messages: [
          user("weather"),
          {
            role: "assistant",
            tool_calls: [{ ...chatCall(), cache_control: { type: "ephemeral" } }],
          },
          { role: "tool", tool_call_id: "call_1", content: "rain" },
        ],
      },
    },
  },
  {
    title: "text tool result",
    bodies: {
      ...afterToolResult("rain", "rain", { content: "rain" }),
      gemini: afterGoogleResult({ output: "rain" }),
    },
  },
  {
    title: "empty tool result",
    bodies: {
      ...afterToolResult("", "", { content: "" }),
      gemini: afterGoogleResult({ output: "" }),
    },
  },
  {
    title: "image tool result",
    bodies: {
      ...afterToolResult(
        undefined,
        [{ type: "input_image", image_url: `data:image/png;base64,${PNG}` }],
        {
          content: [
            { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          ],
        },
      ),
      gemini: afterGoogleResult({ output: "" }, { parts: [inline("image/png", PNG)] }),
    },
  },
  {
    title: "failed tool result",
    bodies: {
      messages: afterToolResult("", "", { content: "no such city", is_error: true }).messages ?? {},
      gemini: afterGoogleResult({ error: "no such city" }),
    },
  },
];

const OUTPUT: readonly Omit<Feature, "group">[] = [
  {
    title: "JSON schema",
    bodies: {
      chat: {
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema: SCHEMA, strict: true },
        },
      },
      responses: {
        text: { format: { type: "json_schema", name: "answer", schema: SCHEMA, strict: true } },
      },
      messages: { output_config: { format: { type: "json_schema", schema: SCHEMA } } },
      gemini: withConfig({ responseMimeType: "application/json", responseJsonSchema: SCHEMA }),
    },
  },
  {
    title: "JSON object",
    bodies: {
      chat: { response_format: { type: "json_object" } },
      responses: { text: { format: { type: "json_object" } } },
      gemini: withConfig({ responseMimeType: "application/json" }),
    },
  },
  {
    title: "output limit",
    bodies: {
      chat: { max_completion_tokens: 100 },
      responses: { max_output_tokens: 100 },
      messages: { max_tokens: 100 },
      gemini: withConfig({ maxOutputTokens: 100 }),
    },
  },
  {
    title: "stop sequences",
    bodies: {
      chat: { stop: ["END"] },
      messages: { stop_sequences: ["END"] },
      gemini: withConfig({ stopSequences: ["END"] }),
    },
  },
  {
    title: "multiple choices",
    bodies: { chat: { n: 2 }, gemini: withConfig({ candidateCount: 2 }) },
  },
  {
    title: "logprobs",
    bodies: {
      chat: { logprobs: true, top_logprobs: 2 },
      responses: { include: ["message.output_text.logprobs"], top_logprobs: 2 },
      gemini: withConfig({ responseLogprobs: true, logprobs: 2 }),
    },
  },
  {
    title: "verbosity",
    bodies: { chat: { verbosity: "low" }, responses: { text: { verbosity: "low" } } },
  },
  {
    title: "predicted output",
    bodies: { chat: { prediction: { type: "content", content: "hello" } } },
  },
  {
    title: "audio output",
    bodies: {
      chat: { modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } },
      gemini: withConfig({ responseModalities: ["AUDIO"] }),
    },
  },
];

const REASONING: readonly Omit<Feature, "group">[] = [
  {
    title: "effort",
    bodies: {
      chat: { reasoning_effort: "low" },
      responses: { reasoning: { effort: "low" } },
      messages: { output_config: { effort: "low" } },
      gemini: withThinking({ thinkingLevel: "LOW" }),
    },
  },
  {
    title: "effort `minimal`",
    bodies: {
      chat: { reasoning_effort: "minimal" },
      responses: { reasoning: { effort: "minimal" } },
      gemini: withThinking({ thinkingLevel: "MINIMAL" }),
    },
  },
  {
    title: "effort `xhigh`",
    bodies: {
      chat: { reasoning_effort: "xhigh" },
      responses: { reasoning: { effort: "xhigh" } },
      messages: { output_config: { effort: "xhigh" } },
    },
  },
  {
    title: "reasoning off",
    bodies: {
      chat: { reasoning_effort: "none" },
      responses: { reasoning: { effort: "none" } },
      messages: { thinking: { type: "disabled" } },
      gemini: withThinking({ thinkingBudget: 0 }),
    },
  },
  {
    title: "thinking budget",
    bodies: {
      messages: { max_tokens: 4_000, thinking: { type: "enabled", budget_tokens: 2_048 } },
      gemini: withThinking({ thinkingBudget: 2_048 }),
    },
  },
  {
    title: "adaptive thinking",
    bodies: {
      messages: { thinking: { type: "adaptive" } },
      gemini: withThinking({ thinkingBudget: -1 }),
    },
  },
  {
    title: "reasoning summary",
    bodies: {
      responses: { reasoning: { summary: "auto" } },
      gemini: withThinking({ includeThoughts: true }),
    },
  },
];

const SAMPLING: readonly Omit<Feature, "group">[] = [
  {
    title: "temperature",
    bodies: { ...sameForAll({ temperature: 0.5 }), gemini: withConfig({ temperature: 0.5 }) },
  },
  {
    title: "temperature above 1",
    bodies: { ...openaiOnly({ temperature: 1.5 }), gemini: withConfig({ temperature: 1.5 }) },
  },
  { title: "top_p", bodies: { ...sameForAll({ top_p: 0.9 }), gemini: withConfig({ topP: 0.9 }) } },
  { title: "top_k", bodies: { messages: { top_k: 40 }, gemini: withConfig({ topK: 40 }) } },
  { title: "seed", bodies: { chat: { seed: 7 }, gemini: withConfig({ seed: 7 }) } },
  {
    title: "frequency penalty",
    bodies: { chat: { frequency_penalty: 0.5 }, gemini: withConfig({ frequencyPenalty: 0.5 }) },
  },
  {
    title: "presence penalty",
    bodies: { chat: { presence_penalty: 0.5 }, gemini: withConfig({ presencePenalty: 0.5 }) },
  },
  { title: "logit bias", bodies: { chat: { logit_bias: { "1": 5 } } } },
];

const MISCELLANEOUS: readonly Omit<Feature, "group">[] = [
  {
    title: "end-user ID",
    bodies: {
      chat: { user: "u1" },
      responses: { user: "u1" },
      messages: { metadata: { user_id: "u1" } },
    },
  },
  { title: "safety identifier", bodies: openaiOnly({ safety_identifier: "u1" }) },
  { title: "metadata", bodies: openaiOnly({ metadata: { run: "1" } }) },
  { title: "prompt cache key", bodies: openaiOnly({ prompt_cache_key: "k" }) },
  { title: "store", bodies: { chat: { store: true } } },
  { title: "max_tool_calls", bodies: { responses: { max_tool_calls: 3 } } },
  { title: "truncation", bodies: { responses: { truncation: "auto" } } },
  {
    title: "keep earlier thinking",
    bodies: {
      messages: {
        context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
      },
    },
  },
  {
    title: "clear earlier tool calls",
    bodies: { messages: { context_management: { edits: [{ type: "clear_tool_uses_20250919" }] } } },
  },
  { title: "client metadata", bodies: { responses: { client_metadata: { session: "s" } } } },
  { title: "thread", bodies: { messages: { thread: { type: "create" } } } },
  { title: "container", bodies: { messages: { container: "container_1" } } },
  {
    title: "cached content",
    bodies: { gemini: { cachedContent: "cachedContents/1" } },
  },
  {
    title: "safety settings",
    bodies: {
      gemini: {
        safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_ONLY_HIGH" }],
      },
    },
  },
  { title: "inference region", bodies: { messages: { inference_geo: "us" } } },
  {
    title: "unknown field",
    bodies: { ...sameForAll({ unknown_field: true }), gemini: { unknown_field: true } },
  },
];

const grouped = (group: string, list: readonly Omit<Feature, "group">[]): readonly Feature[] =>
  list.map((feature) => ({ ...feature, group }));

export const FEATURES: readonly Feature[] = [
  ...grouped("Instructions and turns", INSTRUCTIONS),
  ...grouped("Content", CONTENT),
  ...grouped("Tools", TOOLS),
  ...grouped("Output", OUTPUT),
  ...grouped("Reasoning", REASONING),
  ...grouped("Sampling", SAMPLING),
  ...grouped("Other fields", MISCELLANEOUS),
];
