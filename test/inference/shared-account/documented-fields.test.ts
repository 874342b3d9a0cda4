// Requests with the fields that the providers' API references document pass the check of unknown fields.

import { describe, expect, test } from "bun:test";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { rejectStoredReferences } from "../../../src/inference/shared-account/reject-references.ts";
import type { Json } from "../support/harness.ts";

const user = (...content: Json[]): Json => ({ messages: [{ role: "user", content }] });
const URL = "https://example.com/a";
const TEXT = { type: "text", text: "hi" };
const SCHEMA = { type: "object", properties: { file_id: { type: "string" } } };

/** By provider; the wire is chat unless the name says otherwise. */
const REQUESTS: readonly (readonly [provider: string, request: Json])[] = [
  ["openai", { audio: { voice: "alloy", format: "wav" }, modalities: ["text", "audio"] }],
  ["openai", { prediction: { type: "content", content: [TEXT] } }],
  [
    "openai",
    {
      web_search_options: {
        search_context_size: "low",
        user_location: { type: "approximate", approximate: { city: "Basel", country: "CH" } },
      },
    },
  ],
  [
    "openai",
    {
      tool_choice: {
        type: "allowed_tools",
        allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "f" } }] },
      },
    },
  ],
  [
    "openai",
    {
      tools: [
        {
          type: "mcp",
          server_label: "x",
          server_url: URL,
          headers: { "x-any": "y" },
          authorization: "token",
          require_approval: { never: { tool_names: ["f"] } },
          allowed_tools: { tool_names: ["f"] },
        },
        { type: "custom", name: "c", format: { type: "grammar", syntax: "lark", definition: "x" } },
        { type: "web_search", filters: { allowed_domains: ["example.com"] } },
        {
          type: "code_interpreter",
          container: {
            type: "auto",
            memory_limit: "1g",
            network_policy: { type: "allowlist", allowed_domains: ["example.com"] },
          },
        },
      ],
    },
  ],
  [
    "openai",
    {
      input: [
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "x" }] },
        {
          type: "tool_search_call",
          arguments: { queries: ["x"] },
          call_id: "c",
          execution: "client",
        },
        {
          type: "shell_call_output",
          call_id: "c",
          output: [{ stdout: "x", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
        },
        {
          type: "computer_call_output",
          call_id: "c",
          output: { type: "computer_screenshot", image_url: "data:image/png;base64,AA==" },
        },
        {
          type: "apply_patch_call",
          call_id: "c",
          operation: { type: "update_file", path: "a", diff: "x" },
        },
      ],
    },
  ],
  [
    "anthropic",
    {
      system: [{ ...TEXT, cache_control: { type: "ephemeral", ttl: "1h" } }],
      thinking: { type: "adaptive", display: "summarized" },
      output_config: { effort: "low", format: { type: "json_schema", schema: SCHEMA } },
      context_management: {
        edits: [
          {
            type: "clear_tool_uses_20250919",
            trigger: { type: "input_tokens", value: 1 },
            exclude_tools: ["f"],
          },
        ],
      },
      mcp_servers: [
        {
          type: "url",
          url: URL,
          name: "x",
          authorization_token: "t",
          tool_configuration: { allowed_tools: ["f"] },
        },
      ],
      tools: [{ type: "mcp_toolset", mcp_server_name: "x", configs: { f: { enabled: true } } }],
      ...user(
        {
          type: "document",
          source: { type: "text", media_type: "text/plain", data: "x" },
          title: "t",
          context: "c",
          citations: { enabled: true },
        },
        { type: "search_result", source: URL, title: "t", content: [TEXT] },
        {
          type: "web_search_tool_result",
          tool_use_id: "t",
          content: [
            {
              type: "web_search_result",
              url: URL,
              title: "t",
              encrypted_content: "x",
              page_age: "1 day",
            },
          ],
          caller: { type: "direct" },
        },
      ),
    },
  ],
  [
    "mistral",
    {
      ...user({ type: "document_url", document_url: URL }),
      guardrails: [
        { moderation_llm_v1: { action: "block", custom_category_thresholds: { pii: 0.1 } } },
      ],
    },
  ],
  [
    "mistral",
    user({ type: "thinking", thinking: [TEXT] }, { type: "reference", reference_ids: [1] }),
  ],
  [
    "groq",
    {
      documents: [{ id: "1", source: { type: "text", text: "x" } }],
      citation_options: "enabled",
      search_settings: { country: "ch", include_domains: ["example.com"] },
      compound_custom: {
        models: { answering_model: "a", reasoning_model: "b" },
        tools: { enabled_tools: ["web_search"], wolfram_settings: { authorization: "x" } },
      },
    },
  ],
  [
    "xai",
    {
      search_parameters: {
        mode: "on",
        from_date: "2026-01-01",
        sources: [
          { type: "web", country: "CH", excluded_websites: ["example.com"] },
          { type: "x", included_x_handles: ["a"], post_favorite_count: 3 },
          { type: "rss", links: [URL] },
        ],
      },
      tools: [{ type: "x_search", allowed_x_handles: ["a"], from_date: "2026-01-01" }],
    },
  ],
  [
    "anthropic",
    {
      tools: [
        {
          type: "web_fetch_20260318",
          url_sources: {
            user_input: { type: "all" },
            client_tool_results: {
              type: "only",
              tools: [{ type: "tool_reference", name: "Find page" }],
            },
          },
        },
      ],
    },
  ],
  [
    "openai",
    {
      input: [
        {
          type: "image_generation_call",
          id: "ig_1",
          result: "AA==",
          svg_usage: { model: "gpt-image-2.5", input_tokens: 1 },
        },
      ],
    },
  ],
  ["deepseek", { thinking: { type: "enabled" }, stop: ["x"] }],
  [
    "together",
    {
      response_format: { type: "regex", pattern: "a+" },
      chat_template_kwargs: { thinking: true, mode: "deep" },
      ...user({ type: "video_url", video_url: { url: URL } }),
    },
  ],
  ["fireworks", { response_format: { type: "grammar", grammar: "root ::= x" }, prediction: "x" }],
  [
    "openrouter",
    {
      reasoning: { effort: "high", max_tokens: 5, exclude: true },
      provider: { order: ["a"], sort: "price", max_price: { prompt: 1 } },
      usage: { include: true },
      trace: { trace_name: "x", any: "y" },
      image_config: { aspect_ratio: "1:1" },
      messages: [
        {
          role: "assistant",
          content: "x",
          reasoning_details: [
            { type: "reasoning.text", text: "x", format: "f", id: "1", index: 0 },
          ],
          images: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }],
        },
      ],
    },
  ],
  [
    "perplexity",
    {
      web_search_options: { search_type: "pro", user_location: { country: "CH", latitude: 47 } },
      media_response: { overrides: { return_videos: true } },
      response_format: { type: "regex", regex: { regex: "a+" } },
      ...user({ type: "file_url", file_url: { url: URL }, file_name: "a.pdf" }),
    },
  ],
  ["zai", { tools: [{ type: "web_search", web_search: { enable: true, search_engine: "x" } }] }],
  [
    "google",
    {
      messages: [
        {
          role: "assistant",
          tool_calls: [
            {
              id: "c",
              type: "function",
              function: { name: "f", arguments: "{}" },
              extra_content: { google: { thought_signature: "x" } },
            },
          ],
        },
      ],
    },
  ],
  ["azure", { user_security_context: { application_name: "a", source_ip: "192.0.2.1" } }],
  [
    "vllm",
    {
      structured_outputs: { json: SCHEMA, regex: "a+" },
      stop_token_ids: [1, 2],
      bad_words: ["x"],
      chat_template_kwargs: { enable_thinking: false },
    },
  ],
];

describe("documented fields", () => {
  test.each(REQUESTS.map(([provider, request]) => ({ provider, request })))(
    "of $provider pass: $request",
    ({ provider: id, request }) => {
      const provider = PROVIDERS.find((one) => one.id === id);
      if (provider === undefined) throw new Error(`no provider ${id}`);
      const destination = {
        provider,
        baseUrl: provider.baseUrl,
        wire: "chat" as const,
        allowsUnknown: false,
      };
      expect(() => rejectStoredReferences(request, destination, "request")).not.toThrow();
    },
  );
});
