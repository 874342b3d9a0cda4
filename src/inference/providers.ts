// The providers, as data. A row says where a provider is, which wires it answers on, and in what it differs from the
// others; nothing else in the house knows a provider's name, but for its prices and the meter's rules.

import { mistakeInServiceAccount } from "./authorize-google.ts";

export type RelayedWire = "chat" | "responses" | "messages" | "embeddings" | "count_tokens";

/** Every wire that a provider may be called on. */
export type UpstreamWire = RelayedWire | "gemini" | "converse";

export interface Provider {
  readonly id: string;
  readonly name: string;
  /** `<STEM>_API_KEY` switches it on, `<STEM>_BASE_URL` moves it. */
  readonly stem: string;
  readonly baseUrl: string;
  /** Where each wire is. On gemini and converse the request itself says the rest: the model and the operation. */
  readonly paths: Readonly<Partial<Record<UpstreamWire, string>>>;
  readonly auth: "bearer" | "x-api-key" | "api-key";
  /** How the gateway's own account signs in, where a key alone is not how it is done. */
  readonly signsWith?: "aws" | "google";
  /** Further settings of that account, each `<STEM>_<NAME>`. `{REGION}` in the address stands for the one of that name. */
  readonly settings?: readonly AccountSetting[];
  /** False where a caller cannot bring a key: the account is more than that. */
  readonly ownKeys?: false;
  /** What bodies of the messages wire say as `anthropic_version`, where the path names the model and they do not. */
  readonly messagesVersion?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether closing the connection ends the generation, and with it the bill. */
  readonly stopsBillingOnAbort: boolean;
  /** Whether a chat stream must be asked for its usage; others send it by themselves, and some refuse the field. */
  readonly asksForUsage: boolean;
  /** The field for a pseudonym of the end user. */
  readonly endUserField: "safety_identifier" | "user" | "metadata.user_id" | null;
  /** What the chat wire calls the limit on output. */
  readonly outputLimitField: "max_tokens" | "max_completion_tokens";
  /** False where a chat is told its limit as `max_tokens` alone: the newer name would be passed over without a word. */
  readonly knowsCompletionLimit: boolean;
  /** Whether it knows `store`, which is false on the gateway's own account. */
  readonly storesReplies: boolean;
  /** Members of earlier replies, as others write them, for which it refuses a whole request of the chat wire. */
  readonly refusesBack?: readonly string[];
  /** Whether a stream's end is its closing, without a last event. */
  readonly endsByClosing: boolean;
  /** Whether the caller's output limit bounds reasoning as well. */
  readonly limitsReasoning: boolean;
  /** Runs beside the gateway, needs no key, and costs nothing unless the operator sets prices. */
  readonly local: boolean;
  /** The most tokens that one image can count for. */
  readonly imageTokensMax: number;
}

export interface AccountSetting {
  readonly name: string;
  readonly fallback: string;
  readonly means: string;
  /** `file`: its text, or the path of a file with it. */
  readonly kind: "plain" | "secret" | "file";
  /** Another setting without which it makes no sense. */
  readonly needs?: string;
  /** What is wrong with a value, if anything. */
  readonly mistakeIn?: (value: string) => string | undefined;
}

const CHAT = { chat: "/chat/completions" } as const;
const OPENAI_PATHS = { ...CHAT, embeddings: "/embeddings", responses: "/responses" } as const;
const MESSAGES_PATHS = {
  messages: "/v1/messages",
  count_tokens: "/v1/messages/count_tokens",
} as const;
/** What the open models that cut an image into the most pieces make of one. */
const IMAGE_TOKENS_MAX = 16_384;
const OPENAI_IMAGE_TOKENS_MAX = 50_000;
const ANTHROPIC_IMAGE_TOKENS_MAX = 6_000;

type Differences = Pick<Provider, "id" | "name" | "stem" | "baseUrl"> & Partial<Provider>;

function row(differences: Differences): Provider {
  return {
    paths: CHAT,
    auth: "bearer",
    headers: {},
    stopsBillingOnAbort: false,
    asksForUsage: true,
    endUserField: null,
    outputLimitField: "max_tokens",
    knowsCompletionLimit: false,
    storesReplies: false,
    endsByClosing: false,
    limitsReasoning: true,
    local: false,
    imageTokensMax: IMAGE_TOKENS_MAX,
    ...differences,
  };
}

export const PROVIDERS: readonly Provider[] = [
  row({
    id: "openai",
    name: "OpenAI",
    stem: "OPENAI",
    knowsCompletionLimit: true,
    baseUrl: "https://api.openai.com/v1",
    paths: OPENAI_PATHS,
    stopsBillingOnAbort: true,
    endUserField: "safety_identifier",
    outputLimitField: "max_completion_tokens",
    storesReplies: true,
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
  }),
  row({
    id: "anthropic",
    name: "Anthropic",
    stem: "ANTHROPIC",
    baseUrl: "https://api.anthropic.com",
    paths: MESSAGES_PATHS,
    auth: "x-api-key",
    stopsBillingOnAbort: true,
    endUserField: "metadata.user_id",
    imageTokensMax: ANTHROPIC_IMAGE_TOKENS_MAX,
  }),
  row({
    id: "mistral",
    name: "Mistral",
    stem: "MISTRAL",
    baseUrl: "https://api.mistral.ai/v1",
    paths: { ...CHAT, embeddings: "/embeddings" },
    asksForUsage: false,
    refusesBack: ["reasoning_content", "reasoning_details", "reasoning"],
  }),
  row({
    id: "groq",
    name: "Groq",
    stem: "GROQ",
    knowsCompletionLimit: true,
    baseUrl: "https://api.groq.com/openai/v1",
    paths: { ...CHAT, responses: "/responses" },
    endUserField: "user",
    refusesBack: ["reasoning_content", "reasoning_details"],
  }),
  row({
    id: "xai",
    name: "xAI",
    stem: "XAI",
    knowsCompletionLimit: true,
    baseUrl: "https://api.x.ai/v1",
    paths: { ...CHAT, responses: "/responses" },
    stopsBillingOnAbort: true,
    endUserField: "user",
    storesReplies: true,
    limitsReasoning: false,
  }),
  row({
    id: "deepseek",
    name: "DeepSeek",
    stem: "DEEPSEEK",
    baseUrl: "https://api.deepseek.com/v1",
    stopsBillingOnAbort: true,
  }),
  row({
    id: "together",
    name: "Together",
    stem: "TOGETHER",
    baseUrl: "https://api.together.xyz/v1",
    paths: { ...CHAT, embeddings: "/embeddings" },
    stopsBillingOnAbort: true,
  }),
  row({
    id: "fireworks",
    name: "Fireworks",
    stem: "FIREWORKS",
    knowsCompletionLimit: true,
    baseUrl: "https://api.fireworks.ai/inference/v1",
    paths: { ...CHAT, embeddings: "/embeddings" },
    stopsBillingOnAbort: true,
    endUserField: "user",
  }),
  row({
    id: "cerebras",
    name: "Cerebras",
    stem: "CEREBRAS",
    knowsCompletionLimit: true,
    baseUrl: "https://api.cerebras.ai/v1",
    endUserField: "user",
    refusesBack: ["reasoning_content", "reasoning_details"],
  }),
  row({
    id: "openrouter",
    name: "OpenRouter",
    stem: "OPENROUTER",
    knowsCompletionLimit: true,
    baseUrl: "https://openrouter.ai/api/v1",
    endUserField: "user",
    // It sells OpenAI's models, too.
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
  }),
  row({
    id: "perplexity",
    name: "Perplexity",
    stem: "PERPLEXITY",
    baseUrl: "https://api.perplexity.ai",
    asksForUsage: false,
    endsByClosing: true,
  }),
  row({
    id: "moonshot",
    name: "Moonshot",
    stem: "MOONSHOT",
    baseUrl: "https://api.moonshot.ai/v1",
  }),
  row({ id: "zai", name: "Z.ai", stem: "ZAI", baseUrl: "https://api.z.ai/api/paas/v4" }),
  row({
    id: "google",
    name: "Google",
    stem: "GOOGLE",
    knowsCompletionLimit: true,
    baseUrl: "https://generativelanguage.googleapis.com/v1beta",
    paths: {
      gemini: "",
      chat: "/openai/chat/completions",
      embeddings: "/openai/embeddings",
    },
    endsByClosing: true,
  }),
  row({
    id: "vertex",
    name: "Google Vertex AI",
    stem: "VERTEX",
    baseUrl: "https://{HOST}/v1/projects/{PROJECT}/locations/{LOCATION}",
    paths: {
      gemini: "/publishers/google",
      messages: "/publishers/anthropic/models",
      count_tokens: "/publishers/anthropic/models/count-tokens:rawPredict",
    },
    signsWith: "google",
    settings: [
      {
        name: "CREDENTIALS",
        fallback: "",
        means: "A service account's JSON, or the path of its file: switches Vertex AI on.",
        kind: "file",
        mistakeIn: mistakeInServiceAccount,
      },
      {
        name: "PROJECT",
        fallback: "the service account's own",
        means: "The Google Cloud project that is billed.",
        kind: "plain",
      },
      {
        name: "LOCATION",
        fallback: "global",
        means: "The region that calls are sent to, such as `us-east5`.",
        kind: "plain",
      },
      {
        name: "TOKEN_URL",
        fallback: "the service account's own",
        means: "Where access tokens are fetched.",
        kind: "plain",
      },
    ],
    ownKeys: false,
    messagesVersion: "vertex-2023-10-16",
  }),
  row({
    id: "bedrock",
    name: "AWS Bedrock",
    stem: "BEDROCK",
    baseUrl: "https://bedrock-runtime.{REGION}.amazonaws.com",
    paths: { converse: "" },
    signsWith: "aws",
    settings: [
      {
        name: "REGION",
        fallback: "us-east-1",
        means: "The AWS region that calls are sent to.",
        kind: "plain",
      },
      {
        name: "ACCESS_KEY_ID",
        fallback: "",
        means: "With its secret, signs calls where there is no Bedrock API key.",
        kind: "plain",
        needs: "SECRET_ACCESS_KEY",
      },
      {
        name: "SECRET_ACCESS_KEY",
        fallback: "",
        means: "The secret of that access key.",
        kind: "secret",
        needs: "ACCESS_KEY_ID",
      },
      {
        name: "SESSION_TOKEN",
        fallback: "",
        means: "For temporary credentials only.",
        kind: "secret",
        needs: "ACCESS_KEY_ID",
      },
    ],
  }),
  row({
    id: "azure",
    name: "Azure OpenAI",
    stem: "AZURE_OPENAI",
    knowsCompletionLimit: true,
    // Each customer has an address of its own: AZURE_OPENAI_BASE_URL must name it.
    baseUrl: "",
    paths: OPENAI_PATHS,
    auth: "api-key",
    stopsBillingOnAbort: true,
    endUserField: "user",
    outputLimitField: "max_completion_tokens",
    storesReplies: true,
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
  }),
  row({
    id: "ollama",
    name: "Ollama",
    stem: "OLLAMA",
    baseUrl: "",
    paths: { ...CHAT, embeddings: "/embeddings" },
    local: true,
  }),
  row({
    id: "vllm",
    name: "vLLM",
    stem: "VLLM",
    knowsCompletionLimit: true,
    baseUrl: "",
    paths: { ...CHAT, embeddings: "/embeddings" },
    local: true,
  }),
  row({
    id: "llamacpp",
    name: "llama.cpp",
    stem: "LLAMACPP",
    baseUrl: "",
    paths: { ...CHAT, embeddings: "/embeddings" },
    local: true,
  }),
  row({
    id: "sim",
    name: "Simulator",
    stem: "SIM",
    knowsCompletionLimit: true,
    baseUrl: "",
    paths: {
      chat: "/v1/chat/completions",
      responses: "/v1/responses",
      embeddings: "/v1/embeddings",
      gemini: "/v1beta",
      converse: "",
      ...MESSAGES_PATHS,
    },
    stopsBillingOnAbort: true,
    storesReplies: true,
    endUserField: "user",
  }),
];
