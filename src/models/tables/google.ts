import type { Ability, Fact, Modality, PriceRule } from "../facts.ts";

const PRICING = "https://ai.google.dev/gemini-api/docs/pricing";
const MODELS = "https://ai.google.dev/gemini-api/docs/models";
const CHECKED = "2026-11-21";
const BOTH = ["google", "vertex"];

const SENSES: readonly Modality[] = ["text", "image", "audio", "video", "file"];
const PLAIN: readonly Ability[] = ["tools", "parallel_tools", "structured_output"];
const REASONS: readonly Ability[] = [...PLAIN, "reasoning", "prompt_caching", "web_search"];

export const GOOGLE_FACTS: readonly Fact[] = [
  {
    providers: ["google"],
    match: /./,
    wires: ["gemini", "chat"],
    source: MODELS,
    checked: CHECKED,
  },
  {
    providers: ["vertex"],
    match: /gemini|gemma/,
    wires: ["gemini"],
    source: MODELS,
    checked: CHECKED,
  },
  {
    providers: BOTH,
    match: /embedding/,
    context: 2048,
    wires: ["embeddings"],
    source: MODELS,
    checked: null,
  },
  {
    providers: BOTH,
    match: /^gemini-2\.0-flash/,
    context: 1_048_576,
    maxOutput: 8192,
    input: SENSES,
    supported: PLAIN,
    source: MODELS,
    checked: null,
  },
  {
    providers: BOTH,
    match: /^gemini-(2\.5|3)(?!.*image)/,
    context: 1_048_576,
    maxOutput: 65_536,
    input: SENSES,
    supported: REASONS,
    source: MODELS,
    checked: CHECKED,
  },
  {
    providers: BOTH,
    match: /^gemini-(2\.5-flash|3.*)-image/,
    input: ["text", "image"],
    output: ["text", "image"],
    supported: [],
    // Google's imitation of Chat Completions does not say which tokens were pictures.
    wires: ["gemini"],
    source: MODELS,
    checked: null,
  },
];

export const GOOGLE_PRICE_RULES: readonly PriceRule[] = [
  {
    providers: BOTH,
    match: /^gemini/,
    serviceTiers: { batch: "0.5", flex: "0.5" },
    fees: { code_execution: "0", web_fetch: "0" },
    source: PRICING,
    checked: null,
  },
  {
    providers: BOTH,
    match: /^gemini-3\.[78]/,
    serviceTiers: { priority: "1.8" },
    source: PRICING,
    checked: CHECKED,
  },
  // Up to 2.5 a grounded prompt is charged once; from 3 on each search query is.
  {
    providers: BOTH,
    match: /^gemini-(1|2)/,
    fees: { grounding: "0.035", web_search: "0.035" },
    oncePerCall: ["grounding", "web_search"],
    source: PRICING,
    checked: CHECKED,
  },
  {
    providers: BOTH,
    match: /^gemini-3/,
    fees: { grounding: "0.014", web_search: "0.014" },
    source: PRICING,
    checked: CHECKED,
  },
];
