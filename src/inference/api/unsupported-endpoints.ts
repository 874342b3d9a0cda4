// 404s for endpoints of the providers' APIs that the gateway does not have, with what to use instead. Without them, the SDK
// method `responses.inputTokens` would get "method not allowed" from the route of stored responses.

import { Fault, type NextStep } from "../../base/fault.ts";

interface UnsupportedEndpoint {
  readonly pattern: RegExp;
  readonly reason: string;
  readonly alternative: string;
  readonly next?: NextStep;
}

const MODELS_STEP: NextStep = {
  method: "GET",
  url: "/v1/models",
  why: "List the models with their input and output modalities.",
};
const RESPONSES_STEP = readStep(
  "create-response",
  "create a response, optionally from an earlier one by its id",
);
const CHAT_STEP = readStep("create-chat-completion", "create a chat completion");
const MESSAGES_STEP = readStep("create-message", "create a message");
const IMAGES_STEP = readStep("create-images", "create an image");
const RERANK_STEP = readStep("rerank-documents", "sort documents by their relevance");
const GEMINI_STEP = readStep("generate-content", "call a model with Google's API");

const UNSUPPORTED_ENDPOINTS: readonly UnsupportedEndpoint[] = [
  {
    pattern: pathPattern("responses/(?:v1/)?responses"),
    reason: "the client's base URL contains the endpoint",
    alternative: "Use POST /v1/responses.",
    next: RESPONSES_STEP,
  },
  {
    pattern: pathPattern("uploads|vector_stores|containers|skills"),
    reason: "it stores no objects for later calls, except files of batches",
    alternative: "Send the content of a file in the request that needs it.",
    next: RESPONSES_STEP,
  },
  {
    pattern: pathPattern("conversations|threads|assistants"),
    reason: "it has no conversation objects",
    alternative: "Responses are stored: continue one with `previous_response_id`.",
    next: RESPONSES_STEP,
  },
  {
    pattern: pathPattern("images(?!/(?:generations|edits)$)"),
    reason: "it creates and edits images, but makes no variations",
    alternative:
      "Edit an image with POST /v1/images/edits, or create one with POST /v1/images/generations.",
    next: IMAGES_STEP,
  },
  {
    pattern: pathPattern("videos"),
    reason: "it has no endpoint for videos",
    alternative:
      "Models with `image` in `output_modalities` return images from POST /v1/images/generations.",
    next: MODELS_STEP,
  },
  {
    pattern: pathPattern("audio(?!/(?:speech|transcriptions|translations)$)|realtime|live"),
    reason: "it has no endpoint for voices or live audio",
    alternative:
      "Use POST /v1/audio/speech and POST /v1/audio/transcriptions. Models with `audio` in `input_modalities` also accept audio in messages to POST /v1/chat/completions.",
    next: MODELS_STEP,
  },
  {
    pattern: pathPattern("complete"),
    reason: "it has no text completions",
    alternative: "Send the prompt as a message to POST /v1/messages.",
    next: MESSAGES_STEP,
  },
  {
    pattern: pathPattern("ranking"),
    reason: "it ranks documents on another endpoint",
    alternative: "Use POST /v1/rerank.",
    next: RERANK_STEP,
  },
  {
    pattern: pathPattern("credits|key|auth/key|balance|dashboard/billing"),
    reason: "it reports balances on another endpoint",
    alternative: "Use GET /v1/account.",
    next: { method: "GET", url: "/v1/account", why: "Get the account with its balance." },
  },
  {
    pattern: pathPattern("organization/(?:usage|costs)"),
    reason: "it reports usage on another endpoint",
    alternative: "Use GET /v1/usage.",
    next: { method: "GET", url: "/v1/usage", why: "Get the usage of a period." },
  },
  {
    pattern: pathPattern("engines"),
    reason: "it has no engines",
    alternative: "Name the model in the body of POST /v1/chat/completions.",
    next: CHAT_STEP,
  },
  {
    pattern: /^\/v1beta1?\/projects\/|^\/v1\/projects\//,
    reason: "it does not have Vertex AI's paths",
    alternative:
      "Use POST /v1beta/models/<provider>/<name>:generateContent, as with an API key of the Gemini API.",
    next: GEMINI_STEP,
  },
  {
    pattern:
      /^(?=.*:(?!(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$)\w+$)\/v1(?:alpha|beta1?)?\/(?:.*\/)?models\/[^:]/,
    reason: "it has only some of the methods of Google's models",
    alternative:
      "Use generateContent, streamGenerateContent, countTokens, embedContent or batchEmbedContents below /v1beta/models.",
    next: GEMINI_STEP,
  },
  {
    pattern:
      /^\/v1(?:alpha|beta1?)\/(?:interactions|cachedContents|files|batches|tunedModels|operations|fileSearchStores)/,
    reason: "it stores no objects at Google for its callers",
    alternative:
      "Send the whole conversation and its files to POST /v1beta/models/<provider>/<name>:generateContent.",
    next: GEMINI_STEP,
  },
  {
    pattern: /^(?:\/v1)?\/model\/[^/]+\/(?:converse|invoke|count-tokens)/,
    reason: "it does not have Amazon Bedrock's API",
    alternative:
      "Call the model with POST /v1/chat/completions, /v1/responses or /v1/messages, and `bedrock/<name>` in the body.",
    next: CHAT_STEP,
  },
  {
    pattern: /^\/api\/(?:chat|generate|embed|embeddings|tags|show)$/,
    reason: "it does not have Ollama's API",
    alternative: "Set the client to an OpenAI-compatible server with the base URL `<gateway>/v1`.",
    next: CHAT_STEP,
  },
  {
    pattern: pathPattern("fine_tuning|evals"),
    reason: "it does not forward this part of the provider's API",
    alternative: "Call the provider directly, with a key of your own.",
  },
];

/** `page` is the page of an endpoint. */
function readStep(page: string, task: string): NextStep {
  return { method: "GET", url: `/docs/api/${page}.md`, why: `Read how to ${task}.` };
}

function pathPattern(paths: string): RegExp {
  return new RegExp(`^/v1/(?:${paths})(?:/|$)`);
}

/** Undefined for a path that no provider API has. */
export function unsupportedEndpointFault(path: string): Fault | undefined {
  const found = UNSUPPORTED_ENDPOINTS.find(({ pattern }) => pattern.test(path));
  return (
    found &&
    new Fault("not_found", "unsupported endpoint", {
      message: `This gateway does not support ${path.slice(0, 80)}: ${found.reason}. ${found.alternative}`,
      ...(found.next === undefined ? {} : { next: [found.next] }),
    })
  );
}
