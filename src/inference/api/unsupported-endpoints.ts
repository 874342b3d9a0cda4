// Endpoints of the providers' APIs that clients know and this gateway does not have: what is not there is said, and what to
// use instead. Without it, the SDK's call of `responses.compact` is told that a stored response takes no POST.

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
  why: "List the models, with what each takes and puts out.",
};
const RESPONSES_STEP: NextStep = {
  method: "POST",
  url: "/v1/responses",
  why: "Ask a model, going on from an earlier answer by its id.",
};
const CHAT_STEP: NextStep = { method: "POST", url: "/v1/chat/completions", why: "Ask a model." };
const MESSAGES_STEP: NextStep = { method: "POST", url: "/v1/messages", why: "Ask a model." };

const UNSUPPORTED_ENDPOINTS: readonly UnsupportedEndpoint[] = [
  {
    pattern: pathPattern("responses/compact"),
    reason: "conversations are not compacted",
    alternative: "Ask a model for a summary of the earlier turns, and send that in their place.",
    next: RESPONSES_STEP,
  },
  {
    pattern: pathPattern("responses/input_tokens"),
    reason: "the input of a Responses call is not counted beforehand",
    alternative:
      "POST /v1/messages/count_tokens counts for any model; its body is that of POST /v1/messages.",
    next: {
      method: "POST",
      url: "/v1/messages/count_tokens",
      body: { model: "<model id>", messages: [{ role: "user", content: "<text>" }] },
      why: "Count a prompt's tokens; it costs nothing.",
    },
  },
  {
    pattern: pathPattern("messages/batches"),
    reason: "there are no batches",
    alternative: "Send each request by itself to POST /v1/messages.",
    next: MESSAGES_STEP,
  },
  {
    pattern: pathPattern("batches"),
    reason: "there are no batches",
    alternative: "Send each request by itself.",
    next: CHAT_STEP,
  },
  {
    pattern: pathPattern("files|uploads|vector_stores|containers|skills"),
    reason: "nothing is kept for later calls",
    alternative: "Send a file's content in the request that needs it.",
    next: RESPONSES_STEP,
  },
  {
    pattern: pathPattern("conversations|threads|assistants"),
    reason: "there are no conversations by an id of their own",
    alternative: "Create responses with store: true, and go on from one by previous_response_id.",
    next: RESPONSES_STEP,
  },
  {
    pattern: pathPattern("images|videos"),
    reason: "there is no endpoint for images and videos",
    alternative:
      "Where a model has image among its output_modalities, it answers with images at POST /v1/chat/completions.",
    next: MODELS_STEP,
  },
  {
    pattern: pathPattern("audio|realtime"),
    reason: "there is no endpoint for speech",
    alternative:
      "Where a model has audio among its input_modalities, send the sound in a message to POST /v1/chat/completions.",
    next: MODELS_STEP,
  },
  {
    pattern: pathPattern("completions"),
    reason: "there are no completions of bare text",
    alternative: "Send the prompt as a message to POST /v1/chat/completions.",
    next: CHAT_STEP,
  },
  {
    pattern: pathPattern("complete"),
    reason: "there are no completions of bare text",
    alternative: "Send the prompt as a message to POST /v1/messages.",
    next: MESSAGES_STEP,
  },
  {
    pattern: pathPattern("moderations|fine_tuning|evals"),
    reason: "that part of the provider's API is not passed on",
    alternative: "It needs a key of the provider's, used at the provider.",
  },
];

function pathPattern(paths: string): RegExp {
  return new RegExp(`^/v1/(?:${paths})(?:/|$)`);
}

/** What to answer where no route takes a request; undefined for an address that is nobody's. */
export function unsupportedEndpointFault(path: string): Fault | undefined {
  const found = UNSUPPORTED_ENDPOINTS.find(({ pattern }) => pattern.test(path));
  return (
    found &&
    new Fault("not_found", "an endpoint that is not offered", {
      message: `This gateway does not offer ${path.slice(0, 80)}: ${found.reason}. ${found.alternative}`,
      ...(found.next === undefined ? {} : { next: [found.next] }),
    })
  );
}
