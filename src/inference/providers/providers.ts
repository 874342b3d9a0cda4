// The providers, as data. A row says where a provider is, which wires it answers on, and in what it differs from the
// others; nothing else in the house knows a provider's name, but for its prices and the meter's rules.

import { serviceAccountError } from "./authorize-google.ts";

export type RelayedWire = "chat" | "responses" | "messages" | "embeddings" | "count_tokens";

/** Every wire that a provider may be called on. */
export type UpstreamWire = RelayedWire | "gemini" | "converse";

export interface Provider {
  readonly id: string;
  readonly name: string;
  /** `<STEM>_API_KEY` switches it on, `<STEM>_BASE_URL` moves it. */
  readonly envPrefix: string;
  readonly baseUrl: string;
  /** Where each wire is. On gemini and converse the request itself says the rest: the model and the operation. */
  readonly paths: Readonly<Partial<Record<UpstreamWire, string>>>;
  readonly auth: "bearer" | "x-api-key" | "api-key";
  /** How the gateway's own account signs in, where a key alone is not how it is done. */
  readonly cloudAuth?: "aws" | "google";
  /** Further settings of that account, each `<STEM>_<NAME>`. `{REGION}` in the address stands for the one of that name. */
  readonly settings?: readonly AccountSetting[];
  /** False where a caller cannot bring a key: the account is more than that. */
  readonly allowsCallerKeys?: false;
  /** What bodies of the messages wire say as `anthropic_version`, where the path names the model and they do not. */
  readonly messagesVersion?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether closing the connection ends the generation, and with it the bill. */
  readonly stopsBillingOnAbort: boolean;
  /** Whether a chat stream must be asked for its usage; others send it by themselves, and some refuse the field. */
  readonly needsUsageOption: boolean;
  /** The field for a pseudonym of the end user. */
  readonly endUserField: "safety_identifier" | "user" | "metadata.user_id" | null;
  /** What the chat wire calls the limit on output. */
  readonly outputLimitField: "max_tokens" | "max_completion_tokens";
  /** False where a chat is told its limit as `max_tokens` alone: the newer name would be passed over without a word. */
  readonly acceptsMaxCompletionTokens: boolean;
  /** Whether it knows `store`, which is false on the gateway's own account. */
  readonly supportsStore: boolean;
  /** Members of earlier replies, as others write them, for which it refuses a whole request of the chat wire. */
  readonly rejectedHistoryFields?: readonly string[];
  /** Whether a stream's end is its closing, without a last event. */
  readonly endsStreamByClosing: boolean;
  /** Whether the caller's output limit bounds reasoning as well. */
  readonly outputLimitCoversReasoning: boolean;
  /** Runs beside the gateway, needs no key, and costs nothing unless the operator sets prices. */
  readonly isLocal: boolean;
  /** The most tokens that one image can count for. */
  readonly imageTokensMax: number;
}

export interface AccountSetting {
  readonly name: string;
  readonly defaultValue: string;
  readonly description: string;
  /** `file`: its text, or the path of a file with it. */
  readonly kind: "plain" | "secret" | "file";
  /** Another setting without which it makes no sense. */
  readonly requires?: string;
  /** What is wrong with a value, if anything. */
  readonly validate?: (value: string) => string | undefined;
}

const CHAT_PATHS = { chat: "/chat/completions" } as const;
const OPENAI_PATHS = { ...CHAT_PATHS, embeddings: "/embeddings", responses: "/responses" } as const;
const MESSAGES_PATHS = {
  messages: "/v1/messages",
  count_tokens: "/v1/messages/count_tokens",
} as const;
/** What the open models that cut an image into the most pieces make of one. */
const IMAGE_TOKENS_MAX = 16_384;
const OPENAI_IMAGE_TOKENS_MAX = 50_000;
const ANTHROPIC_IMAGE_TOKENS_MAX = 6_000;

type ProviderOverrides = Pick<Provider, "id" | "name" | "envPrefix" | "baseUrl"> &
  Partial<Provider>;

function defineProvider(overrides: ProviderOverrides): Provider {
  return {
    paths: CHAT_PATHS,
    auth: "bearer",
    headers: {},
    stopsBillingOnAbort: false,
    needsUsageOption: true,
    endUserField: null,
    outputLimitField: "max_tokens",
    acceptsMaxCompletionTokens: false,
    supportsStore: false,
    endsStreamByClosing: false,
    outputLimitCoversReasoning: true,
    isLocal: false,
    imageTokensMax: IMAGE_TOKENS_MAX,
    ...overrides,
  };
}

export const PROVIDERS: readonly Provider[] = [
  defineProvider({
    id: "openai",
    name: "OpenAI",
    envPrefix: "OPENAI",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.openai.com/v1",
    paths: OPENAI_PATHS,
    stopsBillingOnAbort: true,
    endUserField: "safety_identifier",
    outputLimitField: "max_completion_tokens",
    supportsStore: true,
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
  }),
  defineProvider({
    id: "anthropic",
    name: "Anthropic",
    envPrefix: "ANTHROPIC",
    baseUrl: "https://api.anthropic.com",
    paths: MESSAGES_PATHS,
    auth: "x-api-key",
    stopsBillingOnAbort: true,
    endUserField: "metadata.user_id",
    imageTokensMax: ANTHROPIC_IMAGE_TOKENS_MAX,
  }),
  defineProvider({
    id: "mistral",
    name: "Mistral",
    envPrefix: "MISTRAL",
    baseUrl: "https://api.mistral.ai/v1",
    paths: { ...CHAT_PATHS, embeddings: "/embeddings" },
    needsUsageOption: false,
    rejectedHistoryFields: ["reasoning_content", "reasoning_details", "reasoning"],
  }),
  defineProvider({
    id: "groq",
    name: "Groq",
    envPrefix: "GROQ",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.groq.com/openai/v1",
    paths: { ...CHAT_PATHS, responses: "/responses" },
    endUserField: "user",
    rejectedHistoryFields: ["reasoning_content", "reasoning_details"],
  }),
  defineProvider({
    id: "xai",
    name: "xAI",
    envPrefix: "XAI",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.x.ai/v1",
    paths: { ...CHAT_PATHS, responses: "/responses" },
    stopsBillingOnAbort: true,
    endUserField: "user",
    supportsStore: true,
    outputLimitCoversReasoning: false,
  }),
  defineProvider({
    id: "deepseek",
    name: "DeepSeek",
    envPrefix: "DEEPSEEK",
    baseUrl: "https://api.deepseek.com/v1",
    stopsBillingOnAbort: true,
  }),
  defineProvider({
    id: "together",
    name: "Together",
    envPrefix: "TOGETHER",
    baseUrl: "https://api.together.xyz/v1",
    paths: { ...CHAT_PATHS, embeddings: "/embeddings" },
    stopsBillingOnAbort: true,
  }),
  defineProvider({
    id: "fireworks",
    name: "Fireworks",
    envPrefix: "FIREWORKS",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.fireworks.ai/inference/v1",
    paths: { ...CHAT_PATHS, embeddings: "/embeddings" },
    stopsBillingOnAbort: true,
    endUserField: "user",
  }),
  defineProvider({
    id: "cerebras",
    name: "Cerebras",
    envPrefix: "CEREBRAS",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.cerebras.ai/v1",
    endUserField: "user",
    rejectedHistoryFields: ["reasoning_content", "reasoning_details"],
  }),
  defineProvider({
    id: "openrouter",
    name: "OpenRouter",
    envPrefix: "OPENROUTER",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://openrouter.ai/api/v1",
    endUserField: "user",
    // It sells OpenAI's models, too.
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
  }),
  defineProvider({
    id: "perplexity",
    name: "Perplexity",
    envPrefix: "PERPLEXITY",
    baseUrl: "https://api.perplexity.ai",
    needsUsageOption: false,
    endsStreamByClosing: true,
  }),
  defineProvider({
    id: "moonshot",
    name: "Moonshot",
    envPrefix: "MOONSHOT",
    baseUrl: "https://api.moonshot.ai/v1",
  }),
  defineProvider({
    id: "zai",
    name: "Z.ai",
    envPrefix: "ZAI",
    baseUrl: "https://api.z.ai/api/paas/v4",
  }),
  defineProvider({
    id: "google",
    name: "Google",
    envPrefix: "GOOGLE",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://generativelanguage.googleapis.com/v1beta",
    paths: {
      gemini: "",
      chat: "/openai/chat/completions",
      embeddings: "/openai/embeddings",
    },
    endsStreamByClosing: true,
  }),
  defineProvider({
    id: "vertex",
    name: "Google Vertex AI",
    envPrefix: "VERTEX",
    baseUrl: "https://{HOST}/v1/projects/{PROJECT}/locations/{LOCATION}",
    paths: {
      gemini: "/publishers/google",
      messages: "/publishers/anthropic/models",
      count_tokens: "/publishers/anthropic/models/count-tokens:rawPredict",
    },
    cloudAuth: "google",
    settings: [
      {
        name: "CREDENTIALS",
        defaultValue: "",
        description: "A service account's JSON, or the path of its file: switches Vertex AI on.",
        kind: "file",
        validate: serviceAccountError,
      },
      {
        name: "PROJECT",
        defaultValue: "the service account's own",
        description: "The Google Cloud project that is billed.",
        kind: "plain",
      },
      {
        name: "LOCATION",
        defaultValue: "global",
        description: "The region that calls are sent to, such as `us-east5`.",
        kind: "plain",
      },
      {
        name: "TOKEN_URL",
        defaultValue: "the service account's own",
        description: "Where access tokens are fetched.",
        kind: "plain",
      },
    ],
    allowsCallerKeys: false,
    messagesVersion: "vertex-2023-10-16",
  }),
  defineProvider({
    id: "bedrock",
    name: "AWS Bedrock",
    envPrefix: "BEDROCK",
    baseUrl: "https://bedrock-runtime.{REGION}.amazonaws.com",
    paths: { converse: "" },
    cloudAuth: "aws",
    settings: [
      {
        name: "REGION",
        defaultValue: "us-east-1",
        description: "The AWS region that calls are sent to.",
        kind: "plain",
      },
      {
        name: "ACCESS_KEY_ID",
        defaultValue: "",
        description: "With its secret, signs calls where there is no Bedrock API key.",
        kind: "plain",
        requires: "SECRET_ACCESS_KEY",
      },
      {
        name: "SECRET_ACCESS_KEY",
        defaultValue: "",
        description: "The secret of that access key.",
        kind: "secret",
        requires: "ACCESS_KEY_ID",
      },
      {
        name: "SESSION_TOKEN",
        defaultValue: "",
        description: "For temporary credentials only.",
        kind: "secret",
        requires: "ACCESS_KEY_ID",
      },
    ],
  }),
  defineProvider({
    id: "azure",
    name: "Azure OpenAI",
    envPrefix: "AZURE_OPENAI",
    acceptsMaxCompletionTokens: true,
    // Each customer has an address of its own: AZURE_OPENAI_BASE_URL must name it.
    baseUrl: "",
    paths: OPENAI_PATHS,
    auth: "api-key",
    stopsBillingOnAbort: true,
    endUserField: "user",
    outputLimitField: "max_completion_tokens",
    supportsStore: true,
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
  }),
  defineProvider({
    id: "ollama",
    name: "Ollama",
    envPrefix: "OLLAMA",
    baseUrl: "",
    paths: { ...CHAT_PATHS, embeddings: "/embeddings" },
    isLocal: true,
  }),
  defineProvider({
    id: "vllm",
    name: "vLLM",
    envPrefix: "VLLM",
    acceptsMaxCompletionTokens: true,
    baseUrl: "",
    paths: { ...CHAT_PATHS, embeddings: "/embeddings" },
    isLocal: true,
  }),
  defineProvider({
    id: "llamacpp",
    name: "llama.cpp",
    envPrefix: "LLAMACPP",
    baseUrl: "",
    paths: { ...CHAT_PATHS, embeddings: "/embeddings" },
    isLocal: true,
  }),
  defineProvider({
    id: "sim",
    name: "Simulator",
    envPrefix: "SIM",
    acceptsMaxCompletionTokens: true,
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
    supportsStore: true,
    endUserField: "user",
  }),
];
