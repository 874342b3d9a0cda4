// The tools that providers run themselves, and what they charge for them besides tokens. A tool without a fee costs the
// tokens that it reads and writes. On the gateway's accounts, a tool that is neither here nor priced by the operator is refused.

import type { FeeMeter } from "@postern/wires";
import { type PriceRule, rowsOf, type Sourced } from "../model-facts.ts";
import type { Decimal } from "../price-card.ts";

export interface ServerTool extends Sourced {
  readonly providers: readonly string[];
  /** The tool's name in the request: its `type`, or the field that enables it. */
  readonly name: RegExp;
  readonly title: string;
  readonly fee?: {
    readonly meter: FeeMeter;
    /** The models at this price; all if absent. */
    readonly models?: RegExp;
    readonly usd: Decimal;
    readonly unit: string;
    /** Charged once per call, no matter how many uses the reply counts. */
    readonly oncePerCall?: true;
  };
}

const serverTools = rowsOf<ServerTool>();

const OPENAI = ["openai"];
const OPENAI_PRICING = "https://developers.openai.com/api/docs/pricing";
const WEB_SEARCH = /^(web_search(_\d{4}_\d\d_\d\d)?|web_search_options)$/;
const OPENAI_TOOL_MODELS = /^(gpt-4|gpt-5|gpt-6|o1|o3|o4)/;
const ANTHROPIC = ["anthropic"];
const ANTHROPIC_HOSTS = ["anthropic", "vertex", "bedrock"];
const ANTHROPIC_PRICING = "https://platform.claude.com/docs/en/about-claude/pricing";
const ANTHROPIC_ADVISOR =
  "https://platform.claude.com/docs/en/agents-and-tools/tool-use/advisor-tool";
const GOOGLE_HOSTS = ["google", "vertex"];
const GOOGLE_PRICING = "https://ai.google.dev/gemini-api/docs/pricing";
const XAI = ["xai"];
const XAI_PRICING = "https://docs.x.ai/developers/pricing";
const CHECKED_ON = "2026-11-21";
const TOOLS_CHECKED_ON = "2026-11-23";
const IMAGES_CHECKED_ON = "2026-11-28";

export const SERVER_TOOLS = serverTools(
  { providers: OPENAI, source: OPENAI_PRICING, checked: TOOLS_CHECKED_ON },
  [
    // 0.01 USD, and 8,000 input tokens for the content of the search, which the usage of these models does not count.
    {
      name: WEB_SEARCH,
      title: "`web_search`, `web_search_options` with GPT-4o mini",
      fee: { meter: "web_search", models: /^gpt-4o-mini/, usd: "0.0112", unit: "search" },
    },
    {
      name: WEB_SEARCH,
      title: "`web_search`, `web_search_options` with GPT-4.1 mini",
      fee: { meter: "web_search", models: /^gpt-4\.1-mini/, usd: "0.0132", unit: "search" },
    },
    {
      name: WEB_SEARCH,
      title: "`web_search`, `web_search_options`",
      fee: { meter: "web_search", models: OPENAI_TOOL_MODELS, usd: "0.01", unit: "search" },
      checked: CHECKED_ON,
    },
    {
      name: /^web_search_preview/,
      title: "`web_search_preview`, models that reason",
      fee: {
        meter: "web_search_preview",
        models: /^(gpt-5|gpt-6|o\d)/,
        usd: "0.01",
        unit: "search",
      },
    },
    {
      name: /^web_search_preview/,
      title:
        "`web_search_preview`, other models; `gpt-4o-search-preview`, `gpt-4o-mini-search-preview`",
      fee: { meter: "web_search_preview", models: /^gpt-4/, usd: "0.025", unit: "search" },
    },
    {
      name: /^file_search$/,
      title: "`file_search`",
      fee: { meter: "file_search", models: OPENAI_TOOL_MODELS, usd: "0.0025", unit: "call" },
      checked: CHECKED_ON,
    },
    // Billed per minute since 2026-06-02; before, 0.03 USD for 20 minutes of 1 GB.
    {
      name: /^(code_interpreter|shell)$/,
      title: "`code_interpreter`, hosted `shell`",
      fee: {
        meter: "container_minute",
        models: OPENAI_TOOL_MODELS,
        usd: "0.0015",
        unit: "minute of a container, per GB of memory, at least 5 minutes; also if no code runs",
      },
      source: "https://developers.openai.com/api/docs/changelog",
    },
    // What GPT Image 1 costs for its largest image in high quality.
    {
      name: /^image_generation$/,
      title: "`image_generation` (at the price of the image model, by token)",
      fee: {
        meter: "image_generation",
        models: OPENAI_TOOL_MODELS,
        usd: "0.25",
        unit: "image, if the reply does not report its tokens",
      },
      checked: IMAGES_CHECKED_ON,
    },
    {
      name: /^(mcp|computer(_use_preview)?|local_shell|shell|apply_patch|tool_search|programmatic_tool_calling)$/,
      title:
        "`mcp`, `computer`, `computer_use_preview`, local `shell`, `apply_patch`, `tool_search`, `programmatic_tool_calling`",
    },
    {
      providers: ANTHROPIC,
      name: /^web_search_\d{8}$/,
      title: "`web_search_…`",
      fee: { meter: "web_search", usd: "0.01", unit: "search" },
      source: ANTHROPIC_PRICING,
      checked: CHECKED_ON,
    },
    {
      providers: ANTHROPIC,
      name: /^web_fetch_\d{8}$/,
      title: "`web_fetch_…`",
      fee: { meter: "web_fetch", usd: "0", unit: "call" },
      source: ANTHROPIC_PRICING,
      checked: CHECKED_ON,
    },
    // 0.05 USD an hour, rounded up. Free hours of each month are not counted.
    {
      providers: ANTHROPIC,
      name: /^code_execution_\d{8}$/,
      title: "`code_execution_…`",
      fee: {
        meter: "container_minute",
        usd: "0.00083334",
        unit: "minute of the call, at least 5, if code runs; free beside `web_search_…` or `web_fetch_…` from 20260209 on",
      },
      source: ANTHROPIC_PRICING,
    },
    {
      providers: ANTHROPIC_HOSTS,
      name: /^(bash|text_editor|(computer|browser)(_toolset)?|memory|tool_search_tool_(regex|bm25))(_\d{8})?$/,
      title:
        "`bash_…`, `text_editor_…`, `computer_…`, `computer_toolset_…`, `browser_toolset_…`, `memory_…`, `tool_search_tool_…`",
      source: ANTHROPIC_PRICING,
    },
    {
      providers: ANTHROPIC,
      name: /^mcp_toolset$/,
      title: "`mcp_toolset`",
      source: ANTHROPIC_PRICING,
    },
    {
      providers: ANTHROPIC,
      name: /^advisor_\d{8}$/,
      title: "`advisor_…` (at the price of the advisor model)",
      source: ANTHROPIC_ADVISOR,
    },
    // Up to Gemini 2.5 a grounded prompt is charged once; from Gemini 3 on, each search query.
    {
      providers: GOOGLE_HOSTS,
      name: /^(google_search|google_maps)$/,
      title: "Grounding with Google Search or Maps, up to Gemini 2.5",
      fee: {
        meter: "grounding",
        models: /^gemini-(1|2)/,
        usd: "0.035",
        unit: "grounded call",
        oncePerCall: true,
      },
      source: GOOGLE_PRICING,
      checked: CHECKED_ON,
    },
    {
      providers: GOOGLE_HOSTS,
      name: /^(google_search|google_maps)$/,
      title: "Grounding with Google Search or Maps, from Gemini 3",
      fee: { meter: "grounding", models: /^gemini-[34]/, usd: "0.014", unit: "search query" },
      source: GOOGLE_PRICING,
    },
    {
      providers: GOOGLE_HOSTS,
      name: /^code_execution$/,
      title: "`codeExecution`",
      fee: { meter: "code_execution", models: /^gemini/, usd: "0", unit: "call" },
      source: GOOGLE_PRICING,
    },
    {
      providers: GOOGLE_HOSTS,
      name: /^url_context$/,
      title: "`urlContext`",
      fee: { meter: "web_fetch", models: /^gemini/, usd: "0", unit: "page" },
      source: GOOGLE_PRICING,
    },
    {
      providers: XAI,
      name: /^web_search$/,
      title: "`web_search`",
      fee: { meter: "web_search", usd: "0.005", unit: "call" },
      source: XAI_PRICING,
    },
    {
      providers: XAI,
      name: /^x_search$/,
      title: "`x_search`",
      fee: { meter: "x_search", usd: "0.005", unit: "call" },
      source: XAI_PRICING,
    },
    {
      providers: XAI,
      name: /^(code_interpreter|code_execution)$/,
      title: "`code_interpreter`, `code_execution`",
      fee: { meter: "code_execution", usd: "0.005", unit: "call" },
      source: XAI_PRICING,
    },
    {
      providers: XAI,
      name: /^(file_search|collections_search)$/,
      title: "`file_search`, `collections_search`",
      fee: { meter: "file_search", usd: "0.0025", unit: "call" },
      source: XAI_PRICING,
    },
    // Tools without a meter of their own are billed like the most expensive of them.
    {
      providers: XAI,
      name: /^attachment_search$/,
      title: "Search in attached files (runs without a tool in the request)",
      fee: { meter: "other_tool", usd: "0.01", unit: "call" },
      source: XAI_PRICING,
    },
    { providers: XAI, name: /^mcp$/, title: "`mcp`", source: XAI_PRICING },
  ],
);

/** The fees of the table, as rules that complete the published prices. */
export const SERVER_TOOL_PRICE_RULES: readonly PriceRule[] = SERVER_TOOLS.flatMap(
  ({ providers, fee, source, checked }): readonly PriceRule[] =>
    fee === undefined
      ? []
      : [
          {
            providers,
            match: fee.models ?? /./,
            fees: { [fee.meter]: fee.usd },
            ...(fee.oncePerCall === undefined ? {} : { oncePerCall: [fee.meter] }),
            source,
            checked,
          },
        ],
);
