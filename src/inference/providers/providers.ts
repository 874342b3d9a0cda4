// The table of providers: base URL, wires, and how each differs from the others. Apart from prices and usage rules, no
// other module depends on a provider's name.

import type { RelayedApi, RelayedForm } from "@postern/wires";
import { serviceAccountError } from "./authorize-google.ts";
import type { ProviderTimeouts } from "./provider-setting.ts";

export type RelayedWire =
  | "chat"
  | "responses"
  | "messages"
  | "gemini"
  | "count_tokens"
  | RelayedApi;

export type BatchApi = "openai" | "anthropic" | "gemini" | "mistral" | "together";

/** Every wire that the gateway can call a provider on. */
export type UpstreamWire = RelayedWire | "converse";

export interface Provider {
  readonly id: string;
  readonly name: string;
  /** `<PREFIX>_API_KEY` enables the provider, `<PREFIX>_BASE_URL` overrides its base URL. */
  readonly envPrefix: string;
  readonly baseUrl: string;
  /** The path of each wire. On gemini and converse the rest depends on the request: model and operation. */
  readonly paths: Readonly<Partial<Record<UpstreamWire, string>>>;
  /** If it names the fields of an endpoint otherwise. */
  readonly relayedForm?: RelayedForm;
  /** Shorter audio is billed as if it had this length. */
  readonly audioSecondsMin?: number;
  readonly auth: "bearer" | "x-api-key" | "api-key";
  /** How the gateway's own account signs requests, if an API key is not enough. */
  readonly cloudAuth?: "aws" | "google";
  /** Further settings of that account, each `<PREFIX>_<NAME>`. `{REGION}` in `baseUrl` is replaced by the setting REGION. */
  readonly settings?: readonly AccountSetting[];
  /** False if callers cannot add a key of their own, because an account there is more than a key. */
  readonly allowsCallerKeys?: false;
  /** The `anthropic_version` in bodies of the messages wire, at a provider whose path names the model. */
  readonly messagesVersion?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** True if closing the connection stops the generation and its billing. */
  readonly stopsBillingOnAbort: boolean;
  /** True if that also holds for a reply that is not streamed: an operator's own server. */
  readonly stopsWholeReplies?: boolean;
  /** True if a chat stream reports usage only when asked; others always do, and some reject the option. */
  readonly needsUsageOption: boolean;
  /** The field for an end user identifier. */
  readonly endUserField: "safety_identifier" | "user" | "metadata.user_id" | null;
  /** The output limit field on the chat wire. */
  readonly outputLimitField: "max_tokens" | "max_completion_tokens";
  /** False if `max_completion_tokens` would be ignored silently, so the limit must be sent as `max_tokens`. */
  readonly acceptsMaxCompletionTokens: boolean;
  /** True if it accepts `store`, which is always sent as false on the gateway's own account. */
  readonly supportsStore: boolean;
  /** True if it compacts conversations itself, at the path of the responses wire and `/compact`. */
  readonly compactsResponses?: true;
  /** True if it counts the input of a request without a charge, at a path beside that of the call. */
  readonly countsInput?: true;
  /** Fields of earlier assistant messages for which it rejects a request on the chat wire. */
  readonly rejectedHistoryFields?: readonly string[];
  /** True if streams end by closing the connection, without a terminal event. */
  readonly endsStreamByClosing: boolean;
  /** True if the caller's output limit also bounds reasoning. */
  readonly outputLimitCoversReasoning: boolean;
  /** True if models that reason may exceed the caller's output limit, as the provider behind it decides. */
  readonly mayExceedOutputLimit?: true;
  /** A reply need not name its service tier: a call is billed at the requested one. */
  readonly servesRequestedTier?: true;
  /** The operator's own server: needs no key, and is free unless the operator sets prices. */
  readonly isLocal: boolean;
  /** The most input tokens of one image. */
  readonly imageTokensMax: number;
  /** Set if it runs batches at a lower price: the form of its API, and the wires of their requests. */
  readonly batches?: {
    readonly api: BatchApi;
    readonly wires: readonly UpstreamWire[];
  };
  /** As the operator set them. */
  readonly timeouts?: ProviderTimeouts;
}

interface AccountSetting {
  readonly name: string;
  readonly defaultValue: string;
  readonly description: string;
  /** `file`: the content itself, or the path of a file with it. */
  readonly kind: "plain" | "secret" | "file";
  /** Another setting that must be set as well. */
  readonly requires?: string;
  /** Returns what is wrong with a value, as the end of a sentence that starts with the variable's name. */
  readonly validate?: (value: string) => string | undefined;
}

const COMPLETIONS_PATHS = { completions: "/completions" } as const;
const CHAT_PATHS = { chat: "/chat/completions" } as const;
const IMAGE_PATHS = { images: "/images/generations" } as const;
const AUDIO_PATHS = {
  speech: "/audio/speech",
  transcriptions: "/audio/transcriptions",
  translations: "/audio/translations",
} as const;
const OPENAI_PATHS = {
  ...CHAT_PATHS,
  ...IMAGE_PATHS,
  ...AUDIO_PATHS,
  image_edits: "/images/edits",
  embeddings: "/embeddings",
  responses: "/responses",
} as const;
const MESSAGES_PATHS = {
  messages: "/v1/messages",
  count_tokens: "/v1/messages/count_tokens",
} as const;
/** The most tokens that any open-weight model makes of one image. */
const IMAGE_TOKENS_MAX = 16_384;
const OPENAI_IMAGE_TOKENS_MAX = 50_000;
const ANTHROPIC_IMAGE_TOKENS_MAX = 6_000;

type ProviderOverrides = Pick<Provider, "id" | "name" | "envPrefix" | "baseUrl"> &
  Partial<Provider>;

/** A provider of the chat wire only, with the settings that most providers have. */
export function defineProvider(overrides: ProviderOverrides): Provider {
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
    paths: { ...OPENAI_PATHS, moderations: "/moderations", decisions: "/decisions" },
    stopsBillingOnAbort: true,
    endUserField: "safety_identifier",
    outputLimitField: "max_completion_tokens",
    supportsStore: true,
    compactsResponses: true,
    countsInput: true,
    imageTokensMax: OPENAI_IMAGE_TOKENS_MAX,
    batches: { api: "openai", wires: ["chat", "responses", "embeddings"] },
  }),
  defineProvider({
    id: "anthropic",
    name: "Anthropic",
    envPrefix: "ANTHROPIC",
    baseUrl: "https://api.anthropic.com",
    paths: MESSAGES_PATHS,
    countsInput: true,
    auth: "x-api-key",
    stopsBillingOnAbort: true,
    endUserField: "metadata.user_id",
    imageTokensMax: ANTHROPIC_IMAGE_TOKENS_MAX,
    batches: { api: "anthropic", wires: ["messages"] },
  }),
  defineProvider({
    id: "mistral",
    name: "Mistral AI",
    envPrefix: "MISTRAL",
    baseUrl: "https://api.mistral.ai/v1",
    paths: {
      ...CHAT_PATHS,
      embeddings: "/embeddings",
      transcriptions: AUDIO_PATHS.transcriptions,
    },
    relayedForm: "mistral",
    needsUsageOption: false,
    rejectedHistoryFields: ["reasoning_content", "reasoning_details", "reasoning"],
    batches: { api: "mistral", wires: ["chat", "embeddings"] },
  }),
  defineProvider({
    id: "groq",
    name: "Groq",
    envPrefix: "GROQ",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.groq.com/openai/v1",
    paths: { ...CHAT_PATHS, ...AUDIO_PATHS, responses: "/responses" },
    relayedForm: "timed",
    audioSecondsMin: 10,
    endUserField: "user",
    rejectedHistoryFields: ["reasoning_content", "reasoning_details"],
    batches: { api: "openai", wires: ["chat"] },
  }),
  defineProvider({
    id: "xai",
    name: "xAI",
    envPrefix: "XAI",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.x.ai/v1",
    paths: {
      ...CHAT_PATHS,
      ...IMAGE_PATHS,
      image_edits: "/images/edits",
      responses: "/responses",
    },
    relayedForm: "xai",
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
    name: "Together AI",
    envPrefix: "TOGETHER",
    baseUrl: "https://api.together.xyz/v1",
    paths: {
      ...CHAT_PATHS,
      ...COMPLETIONS_PATHS,
      ...IMAGE_PATHS,
      ...AUDIO_PATHS,
      embeddings: "/embeddings",
      rerank: "/rerank",
    },
    relayedForm: "together",
    stopsBillingOnAbort: true,
    batches: { api: "together", wires: ["chat"] },
  }),
  defineProvider({
    id: "fireworks",
    name: "Fireworks AI",
    envPrefix: "FIREWORKS",
    acceptsMaxCompletionTokens: true,
    baseUrl: "https://api.fireworks.ai/inference/v1",
    paths: {
      ...CHAT_PATHS,
      ...COMPLETIONS_PATHS,
      embeddings: "/embeddings",
      images: "/workflows/accounts/fireworks/models",
      rerank: "/rerank",
    },
    relayedForm: "fireworks",
    // Without it, an image is returned as bytes.
    headers: { accept: "application/json" },
    stopsBillingOnAbort: true,
    servesRequestedTier: true,
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
    mayExceedOutputLimit: true,
    // OpenRouter also sells OpenAI's models.
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
    name: "Moonshot AI",
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
      images: "",
      image_edits: "",
    },
    relayedForm: "gemini",
    countsInput: true,
    endsStreamByClosing: true,
    batches: { api: "gemini", wires: ["gemini"] },
  }),
  defineProvider({
    id: "vertex",
    name: "Google Vertex AI",
    envPrefix: "VERTEX",
    baseUrl: "https://{HOST}/v1/projects/{PROJECT}/locations/{LOCATION}",
    paths: {
      gemini: "/publishers/google",
      images: "",
      image_edits: "",
      messages: "/publishers/anthropic/models",
      count_tokens: "/publishers/anthropic/models/count-tokens:rawPredict",
    },
    relayedForm: "gemini",
    countsInput: true,
    cloudAuth: "google",
    settings: [
      {
        name: "CREDENTIALS",
        defaultValue: "",
        description: "Enables Vertex AI: the service account key as JSON, or the path of its file.",
        kind: "file",
        validate: serviceAccountError,
      },
      {
        name: "PROJECT",
        defaultValue: "the service account's project",
        description: "The Google Cloud project to bill.",
        kind: "plain",
      },
      {
        name: "LOCATION",
        defaultValue: "global",
        description: "The Google Cloud location to call, such as `us-east5`.",
        kind: "plain",
      },
      {
        name: "TOKEN_URL",
        defaultValue: "the service account's `token_uri`",
        description: "The OAuth token endpoint.",
        kind: "plain",
      },
    ],
    allowsCallerKeys: false,
    messagesVersion: "vertex-2023-10-16",
  }),
  defineProvider({
    id: "bedrock",
    name: "Amazon Bedrock",
    envPrefix: "BEDROCK",
    baseUrl: "https://bedrock-runtime.{REGION}.amazonaws.com",
    paths: { converse: "", rerank: "", images: "" },
    relayedForm: "bedrock",
    countsInput: true,
    cloudAuth: "aws",
    settings: [
      {
        name: "REGION",
        defaultValue: "us-east-1",
        description: "The AWS region to call.",
        kind: "plain",
      },
      {
        name: "ACCESS_KEY_ID",
        defaultValue: "",
        description: "The AWS access key ID, used if no Bedrock API key is set.",
        kind: "plain",
        requires: "SECRET_ACCESS_KEY",
      },
      {
        name: "SECRET_ACCESS_KEY",
        defaultValue: "",
        description: "The AWS secret access key.",
        kind: "secret",
        requires: "ACCESS_KEY_ID",
      },
      {
        name: "SESSION_TOKEN",
        defaultValue: "",
        description: "The AWS session token. Only for temporary credentials.",
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
    // Each Azure resource has its own URL: AZURE_OPENAI_BASE_URL must be set.
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
    id: "cohere",
    name: "Cohere",
    envPrefix: "COHERE",
    baseUrl: "https://api.cohere.com",
    paths: { rerank: "/v2/rerank" },
  }),
  defineProvider({
    id: "jina",
    name: "Jina AI",
    envPrefix: "JINA",
    baseUrl: "https://api.jina.ai/v1",
    paths: { rerank: "/rerank" },
  }),
  defineProvider({
    id: "voyage",
    name: "Voyage AI",
    envPrefix: "VOYAGE",
    baseUrl: "https://api.voyageai.com/v1",
    paths: { rerank: "/rerank" },
    relayedForm: "voyage",
  }),
  defineProvider({
    id: "ollama",
    name: "Ollama",
    envPrefix: "OLLAMA",
    baseUrl: "",
    paths: { ...CHAT_PATHS, ...COMPLETIONS_PATHS, embeddings: "/embeddings" },
    isLocal: true,
  }),
  defineProvider({
    id: "vllm",
    name: "vLLM",
    envPrefix: "VLLM",
    acceptsMaxCompletionTokens: true,
    baseUrl: "",
    paths: { ...CHAT_PATHS, ...COMPLETIONS_PATHS, embeddings: "/embeddings", rerank: "/rerank" },
    isLocal: true,
  }),
  defineProvider({
    id: "llamacpp",
    name: "llama.cpp",
    envPrefix: "LLAMACPP",
    baseUrl: "",
    paths: { ...CHAT_PATHS, ...COMPLETIONS_PATHS, embeddings: "/embeddings" },
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
      images: "/v1/images/generations",
      image_edits: "/v1/images/edits",
      speech: "/v1/audio/speech",
      transcriptions: "/v1/audio/transcriptions",
      translations: "/v1/audio/translations",
      rerank: "/v2/rerank",
      moderations: "/v1/moderations",
      decisions: "/v1/decisions",
      completions: "/v1/completions",
      gemini: "/v1beta",
      converse: "",
      ...MESSAGES_PATHS,
    },
    countsInput: true,
    stopsBillingOnAbort: true,
    supportsStore: true,
    endUserField: "user",
  }),
];
