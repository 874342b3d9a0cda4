// Normalizes the names of models that several providers have. The rules apply to a name in order; models with equal results
// are the same model. Exceptions are listed by id.

/** Replaces what a provider adds to model names. An empty list of providers means all. */
export interface NameRule {
  readonly providers: readonly string[];
  readonly pattern: RegExp;
  readonly replacement: string;
}

const ALL_PROVIDERS: readonly string[] = [];

export const NAME_RULES: readonly NameRule[] = [
  // Inference profiles and makers: `us.anthropic.claude-…`.
  {
    providers: ["bedrock"],
    pattern: /^(?:(?:us|us-gov|eu|apac|jp|au|ca|global)\.)?(?:[a-z]+\.)/,
    replacement: "",
  },
  // Bedrock's own revision. A zero belongs to the maker's version: `mistral-7b-instruct-v0:2` is 0.2.
  {
    providers: ["bedrock"],
    pattern: /-v?[1-9]\d*:\d+$|(?<!-v0):\d+$|-v[1-9]\d*$/,
    replacement: "",
  },
  // Makers as prefixes: `meta-llama/llama-4-scout`. Variants such as `:free` stay separate models.
  { providers: ["openrouter", "groq", "together"], pattern: /^[^/]+\//, replacement: "" },
  { providers: ["openrouter"], pattern: /-v1$/, replacement: "" },
  { providers: ["fireworks"], pattern: /^accounts\/[^/]+\/[^/]+\//, replacement: "" },
  { providers: ["fireworks"], pattern: /(?<=\d)p(?=\d)/, replacement: "." },
  { providers: ["fireworks"], pattern: /^llama-v/, replacement: "llama-" },
  { providers: ["vertex"], pattern: /@.*$|-maas$/, replacement: "" },
  { providers: ALL_PROVIDERS, pattern: /^llama(?=\d)/, replacement: "llama-" },
  // Snapshot dates, which Bedrock includes and the maker's id does not.
  { providers: ALL_PROVIDERS, pattern: /(?<=^claude-.*)-20\d{6}$/, replacement: "" },
  // 4.5 and 4-5 are spellings of the same version.
  { providers: ALL_PROVIDERS, pattern: /(?<=\d)\.(?=\d)/g, replacement: "-" },
];

/** Names that no rule can derive. Quantized variants (`-Turbo`, `-FP8`) are separate models. */
export const FAMILY_BY_ID: Readonly<Record<string, string>> = {
  "groq/llama-3.3-70b-versatile": "llama-3-3-70b-instruct",
  "groq/llama-3.1-8b-instant": "llama-3-1-8b-instruct",
  "groq/meta-llama/llama-4-maverick-17b-128e-instruct": "llama-4-maverick",
  "groq/meta-llama/llama-4-scout-17b-16e-instruct": "llama-4-scout",
  "together/meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
  "bedrock/meta.llama4-maverick-17b-instruct-v1:0": "llama-4-maverick",
  "bedrock/meta.llama4-scout-17b-instruct-v1:0": "llama-4-scout",
  "bedrock/deepseek.r1-v1:0": "deepseek-r1",
  "cerebras/llama-3.3-70b": "llama-3-3-70b-instruct",
  "cerebras/llama3.1-8b": "llama-3-1-8b-instruct",
  "cerebras/zai-glm-4.7": "glm-4-7",
};

/** Names whose model changes over time and differs between providers: never the same model. */
export const FLOATING_NAMES = /-latest$|^deepseek-(chat|reasoner)$|^openrouter$|^auto$/;

/** Providers that make their own models. A name without a provider goes to the maker first. */
export const MAKERS = [
  "openai",
  "anthropic",
  "google",
  "xai",
  "deepseek",
  "mistral",
  "moonshot",
  "zai",
  "perplexity",
] as const;
