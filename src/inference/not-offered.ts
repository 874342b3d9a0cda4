// Endpoints of the providers' APIs that clients know and this gateway does not have: what is not there is said, and what to
// use instead. Without it, the SDK's call of `responses.compact` is told that a stored response takes no POST.

import { Fault, type NextStep } from "../base/fault.ts";

interface NotOffered {
  readonly at: RegExp;
  readonly what: string;
  readonly instead: string;
  readonly next?: NextStep;
}

const MODELS: NextStep = {
  method: "GET",
  url: "/v1/models",
  why: "List the models, with what each takes and puts out.",
};
const RESPONSES: NextStep = {
  method: "POST",
  url: "/v1/responses",
  why: "Ask a model, going on from an earlier answer by its id.",
};
const CHAT: NextStep = { method: "POST", url: "/v1/chat/completions", why: "Ask a model." };
const MESSAGES: NextStep = { method: "POST", url: "/v1/messages", why: "Ask a model." };

const NOT_OFFERED: readonly NotOffered[] = [
  {
    at: under("responses/compact"),
    what: "conversations are not compacted",
    instead: "Ask a model for a summary of the earlier turns, and send that in their place.",
    next: RESPONSES,
  },
  {
    at: under("responses/input_tokens"),
    what: "the input of a Responses call is not counted beforehand",
    instead:
      "POST /v1/messages/count_tokens counts for any model; its body is that of POST /v1/messages.",
    next: {
      method: "POST",
      url: "/v1/messages/count_tokens",
      body: { model: "<model id>", messages: [{ role: "user", content: "<text>" }] },
      why: "Count a prompt's tokens; it costs nothing.",
    },
  },
  {
    at: under("messages/batches"),
    what: "there are no batches",
    instead: "Send each request by itself to POST /v1/messages.",
    next: MESSAGES,
  },
  {
    at: under("batches"),
    what: "there are no batches",
    instead: "Send each request by itself.",
    next: CHAT,
  },
  {
    at: under("files|uploads|vector_stores|containers|skills"),
    what: "nothing is kept for later calls",
    instead: "Send a file's content in the request that needs it.",
    next: RESPONSES,
  },
  {
    at: under("conversations|threads|assistants"),
    what: "there are no conversations by an id of their own",
    instead: "Create responses with store: true, and go on from one by previous_response_id.",
    next: RESPONSES,
  },
  {
    at: under("images|videos"),
    what: "there is no endpoint for images and videos",
    instead:
      "Where a model has image among its output_modalities, it answers with images at POST /v1/chat/completions.",
    next: MODELS,
  },
  {
    at: under("audio|realtime"),
    what: "there is no endpoint for speech",
    instead:
      "Where a model has audio among its input_modalities, send the sound in a message to POST /v1/chat/completions.",
    next: MODELS,
  },
  {
    at: under("completions"),
    what: "there are no completions of bare text",
    instead: "Send the prompt as a message to POST /v1/chat/completions.",
    next: CHAT,
  },
  {
    at: under("complete"),
    what: "there are no completions of bare text",
    instead: "Send the prompt as a message to POST /v1/messages.",
    next: MESSAGES,
  },
  {
    at: under("moderations|fine_tuning|evals"),
    what: "that part of the provider's API is not passed on",
    instead: "It needs a key of the provider's, used at the provider.",
  },
];

function under(paths: string): RegExp {
  return new RegExp(`^/v1/(?:${paths})(?:/|$)`);
}

/** What to answer where no route takes a request; undefined for an address that is nobody's. */
export function notOffered(path: string): Fault | undefined {
  const found = NOT_OFFERED.find(({ at }) => at.test(path));
  return (
    found &&
    new Fault("not_found", "an endpoint that is not offered", {
      message: `This gateway does not offer ${path.slice(0, 80)}: ${found.what}. ${found.instead}`,
      ...(found.next === undefined ? {} : { next: [found.next] }),
    })
  );
}
