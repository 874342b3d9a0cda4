// How providers write the name of a model that others have, too. The rules are laid over the name one after another; the
// names that come out alike are the same model. What a rule cannot know is declared by its id.

/** A provider's way of writing names, and what is left of a name when it is taken away. */
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
  // Its own revision. A zero is the maker's: `mistral-7b-instruct-v0:2` is 0.2.
  {
    providers: ["bedrock"],
    pattern: /-v?[1-9]\d*:\d+$|(?<!-v0):\d+$|-v[1-9]\d*$/,
    replacement: "",
  },
  // Makers as folders: `meta-llama/llama-4-scout`. Variants such as `:free` stay models of their own.
  { providers: ["openrouter", "groq", "together"], pattern: /^[^/]+\//, replacement: "" },
  { providers: ["openrouter"], pattern: /-v1$/, replacement: "" },
  { providers: ["fireworks"], pattern: /^accounts\/[^/]+\/[^/]+\//, replacement: "" },
  { providers: ["fireworks"], pattern: /(?<=\d)p(?=\d)/, replacement: "." },
  { providers: ["fireworks"], pattern: /^llama-v/, replacement: "llama-" },
  { providers: ["vertex"], pattern: /@.*$|-maas$/, replacement: "" },
  { providers: ALL_PROVIDERS, pattern: /^llama(?=\d)/, replacement: "llama-" },
  // A snapshot's day: Bedrock names it where the maker's own id does not.
  { providers: ALL_PROVIDERS, pattern: /(?<=^claude-.*)-20\d{6}$/, replacement: "" },
  // 4.5 and 4-5 are two spellings of one number.
  { providers: ALL_PROVIDERS, pattern: /(?<=\d)\.(?=\d)/g, replacement: "-" },
];

/** Hosts of open weights have names of their own for them. Quantized variants (`-Turbo`, `-FP8`) are left apart. */
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

/** Names that move: what they stand for differs between the providers, so they are nobody's twin. */
export const FLOATING_NAMES = /-latest$|^deepseek-(chat|reasoner)$|^openrouter$|^auto$/;

/** Who makes what: asked for without a provider, a model is looked for at its maker's first. */
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
