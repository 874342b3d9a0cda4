// Renders docs/site/translation.md from observed outcomes and from the wires' own tables.

import {
  HINT_FIELDS,
  type HintGroup,
  NATIVE_HINTS,
  type CanonicalReply,
  FINISH_REASONS,
  INBOUND_WIRES,
  OUTBOUND_WIRES,
} from "@postern/wires";
import { writeContext } from "../../../packages/wires/test/stream-helpers.ts";
import { errorBody, publicError } from "../../../src/base/error-body.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { providerErrorFault } from "../../../src/inference/upstream/provider-error.ts";
import { CALLER_APIS, type CallerApi, type Json, type Wire, WIRES } from "./harness.ts";
import { type Feature, FEATURES } from "./request-features.ts";

export interface FeatureOutcome {
  readonly api: CallerApi;
  readonly wire: Wire;
  readonly feature: Feature;
  /** `fatal` is rejected even with `postern.lossy`. */
  readonly kind: "supported" | "rejected" | "fatal";
  /** The fields of the provider's request, or the path in the 400. */
  readonly paths: readonly string[];
  readonly dropped: readonly string[];
}

const API_TITLES: Readonly<Record<CallerApi, string>> = {
  chat: "Chat Completions",
  responses: "Responses",
  messages: "Messages",
  gemini: "generateContent",
};

const INTRODUCTION = `# Translation

Call any model over the API of your choice: Chat Completions, Responses, Messages or [Google's generateContent](guides/google-genai.md). If the model's provider offers that API,
Postern passes the request through. Otherwise Postern translates the request to the provider's wire format, and the reply back.

You can change only \`model\` and get a reply. Fields that only tune the reply or label the call are **hints**: if a model does not
take one, Postern adapts or drops it, and lists it in the response header \`x-postern-dropped\` and in
\`dropped\` of the usage object. Fields that change what you ask for, such as tools, schemas, images or \`n\`, are never dropped
without asking: you get a 400 that names the field.

\`\`\`sh
curl -i http://127.0.0.1:8787/v1/chat/completions -H "authorization: Bearer $POSTERN_API_KEY" -H "content-type: application/json" -d '{
  "model": "anthropic/claude-sonnet-4-6",
  "messages": [{ "role": "user", "content": "Hello" }],
  "seed": 7
}'
# x-postern-dropped: seed
\`\`\`

| To | Send |
| --- | --- |
| get a 400 for every field that would be dropped | the header \`x-postern-strict: true\`, or \`"provider": {"require_parameters": true}\` in the body |
| drop also what changes the reply | \`"postern": {"lossy": true}\` in the body |

The tables show how each feature is translated to each wire format: \`chat\` (Chat Completions), \`responses\` (Responses),
\`messages\` (Messages), \`gemini\` (Google's generateContent) and \`converse\` (Amazon Bedrock).

| Cell | Meaning |
| --- | --- |
| \`a.b\` | Supported. Postern sends the feature in this field of the provider's request. |
| no field needed | Supported without a field of its own. |
| passthrough | Your request is in the provider's own API and is passed through. |
| **400** \`path\` | Not supported. You get a 400 that names this path; \`postern.lossy\` drops it. |
| **400!** \`path\` | Not supported, even with \`postern.lossy\`. |
| *dropped* \`path\` | Adapted or dropped, because it is a hint, and listed in \`x-postern-dropped\`. With \`x-postern-strict\` you get a 400. |

Each wire is shown with one model: Claude Sonnet 4.6 on \`messages\` and \`converse\`, Gemini 3.1 Flash on \`gemini\`, and on \`chat\` an
OpenAI-compatible server with only the common fields (OpenAI itself supports all of them). Other models can differ: the newest
Claude models reject \`temperature\`, for example, and older ones take a thinking budget instead of an effort. [What
models support](abilities.md) lists the differences. \`test/translation/translation-doc.test.ts\` generates this page from actual requests.
`;

const RULES = `## Rules

### Requests

- **Instructions** keep their position. Leading instructions go to the provider's system field. Later ones stay in place as
  instructions if the model supports that, else as user text.
- **Tool results** follow the turn with their calls, in order. Results without a call, duplicate or unknown call ids, and calls
  without a result get a 400 on every API.
- **Tool call ids** are preserved. If a provider restricts their format, they are encoded reversibly.
- **Numbers of more than 15 digits** are read as doubles, as JavaScript does: \`9223372036854775807\` becomes \`9223372036854776000\` in
  schemas, in arguments and results that an API has as objects, and in stored turns that are sent again. Arguments that both APIs have as text
  (Chat Completions and Responses) keep all digits, as do requests that are passed through. Send long ids as strings.
- **Namespaces of tools** (Responses) become functions named \`namespace__name\` on other wires. Replies have both names again, and
  you can send them back as they are. A joined name that is longer than 64 characters or has characters other than letters,
  digits, \`_\` and \`-\` is shortened to a digest and its last characters. Tools whose names then collide get a 400.
- **Custom tools** take free text. Where a provider has only functions, such a tool becomes a function with one argument, \`input\`,
  and its calls become calls of the custom tool again, also in streams. A grammar moves into the description and is listed as dropped.
- **Tool search** and tools that are loaded later (\`tool_search\`, \`tool_search_tool_…\`, \`additional_tools\`, \`tool_reference\`) save input
  tokens. A provider of another API gets all tools at once, and these parts are listed as dropped. A search that the client runs becomes a function.
- **Programs that call tools** (\`programmatic_tool_calling\`) are left out: the model calls the tools itself, and the program is
  listed as dropped. Calls that a program made stay in the conversation.
- **Web search** runs at the provider of the model: \`web_search\` of OpenAI and xAI, \`web_search_…\` of Anthropic, \`web_search_options\`
  and \`openrouter:web_search\` on Chat Completions, and grounding with Google Search are translated into each other. You pay the price that
  this provider charges for each search. Postern translates allowed and blocked domains, the limit of uses, the user's
  location and the context size where the provider has them. Domains that a provider cannot respect are a 400, and so is
  \`external_web_access: false\`. Gemini does not combine a search with functions here.
- **Searches in replies** have the form of your API: \`web_search_call\` items on Responses, \`server_tool_use\` and
  \`web_search_tool_result\` blocks on Messages, grounding on generateContent, and citations on the other three. A search at Google comes after the text, because
  Google reports it there. Searches and citations of another provider that you send back are dropped; the text stays.
- **Code that the provider runs**: \`code_interpreter\` of OpenAI and xAI, \`code_execution_…\` of Anthropic and Gemini's code execution are
  translated into each other. You pay what the provider charges for it. Files in a container and network access for code are a 400. Runs in replies
  have the form of your API, with code and output: \`code_interpreter_call\` on Responses, \`server_tool_use\` and
  \`code_execution_tool_result\` on Messages. An image that code made is listed as dropped.
- **MCP servers**: tools of type \`mcp\` with a \`server_url\` (OpenAI, xAI) and Anthropic's \`mcp_servers\` with \`mcp_toolset\` are translated into each
  other, with tokens, allowed tools and calls. Anthropic asks for no approval of calls, so it needs \`require_approval: "never"\`; OpenAI has no
  list of disabled tools. Connectors of OpenAI and other headers than a bearer token are a 400.
- **Fetching of pages**: \`web_fetch_…\` of Anthropic becomes Gemini's URL context, unless it is restricted to domains.
- **Calls of such tools that you send back** to another provider are dropped and listed; the text that the model wrote from them stays.
- **Compactions of OpenAI** that only OpenAI can read are dropped if the conversation before them is still in the request.
- **Tools that the client runs** become functions with the published schema: \`bash_…\`, \`text_editor_…\`, \`memory_…\` and \`computer_…\` of
  Anthropic, and \`shell\` in a local environment, \`local_shell\`, \`apply_patch\`, \`computer\`, \`computer_use_preview\` and \`tool_search\` that
  your code executes, of OpenAI. Calls and results have the form of your API, so your code does not change. In a stream, a call of OpenAI's tools is one
  item without deltas. A call whose arguments do not fit the item is a function call. Other models are not trained for these tools.
- **Computers at Claude 5.5**: Anthropic and Google reject \`computer_20251124\` and earlier versions there. The tool becomes a function with
  the same calls, and its \`type\` is listed as dropped. Use \`computer_toolset_20260801\` for the version that these models are trained for.
- **Advisors** (\`advisor_…\` of Anthropic) comment on the model's plan. Other APIs have none: the model answers on its own, and the tool is listed as dropped.
- **Images and files in tool results** follow the results in a user message where tool messages have only text (Chat Completions).
- **JSON schemas** become a required tool call if the model does not support them; the call is returned as text with finish reason
  \`stop\`. If the model does not support required tool calls either (DeepSeek, Moonshot, Z.ai), Postern turns on JSON mode and adds
  the schema to the instructions. Both also apply on the model's own API. In these cases the provider does not enforce the
  schema, so \`strict\` is listed as dropped.
- **Parts of JSON Schema**: Claude and Gemini take fewer keywords. Others, such as \`maxLength\`, move into the description of their
  schema, and objects get \`additionalProperties: false\` for Claude; the schema is then listed as dropped (\`….schema\`). A schema
  that is recursive, or has an object with arbitrary property names, becomes a required tool call for Claude, and an instruction for Claude models
  that cannot be forced to call a tool. On the Messages API it is sent as it is.
- **Strict tools**: Claude's take the same keywords as its schemas, so theirs are changed in the same way. OpenAI's need closed
  objects with only required properties; another tool is sent without \`strict\`, also on OpenAI's own Chat Completions.
- **Large schemas**: the schema of a tool or output has at most 10,000 schemas of properties and items, 64 levels deep.
- **JSON objects** (\`json_object\`) become an instruction if the provider supports JSON only with a schema (Messages, Converse) or
  not together with functions (Gemini before 3). The field is then listed as dropped.
- **Efforts and thinking budgets** are converted into each other and clamped to what the model supports. A clamped value is listed
  as dropped.
- **Two values for sampling**: Claude 4.1 to 4.6 take either \`temperature\` or \`top_p\`, so \`top_p\` is dropped if both are set. A
  temperature above a provider's maximum becomes that maximum. GPT-5.1 and later take both only with the effort \`none\`. These rules
  also apply on the model's own API.
- **Thinking of Claude**: from Opus 4.7 on, a token budget becomes adaptive thinking. Where it cannot be turned off, it gets the lowest
  setting: \`between_tools\` at Sonnet 5.5, the effort \`low\` at Opus 5.5 and Fable 5.1. This also applies on the model's own API.
- **Forced tool calls**: Opus 5.5, Sonnet 5.5 and Fable 5.1 reject a \`tool_choice\` that forces a call. The choice becomes an instruction,
  which the model can ignore, and is listed as dropped, also on the model's own API.
- **Output limits** below a provider's minimum become that minimum.
- **Agents and turns**: a message between agents (\`agent_message\`) becomes a user message that names both, without its encrypted
  content; \`multi_agent_call\` and its output become a function call and its result. The effort of a \`configuration_update\`, or of a
  system message's \`output_config\`, becomes the effort of the reply. A tool that a \`tool_addition\` defines is offered from the start.
- **Empty messages** are left out. A conversation that starts with the assistant gets the user message "Continue." first, where
  the provider requires one; the message is then listed as dropped.
- **Parallel calls** may be in one assistant message or in several before their results. A tool result without an id belongs to the
  earliest call without a result. Arguments of several calls in one text become several calls.
- **Images and files by URL** are fetched by the provider. Bedrock takes no URLs, so Postern fetches up to 20 files of a request: images
  (PNG, JPEG, GIF, WebP) of at most 3.75 MB, PDF and text of at most 4.5 MB, together at most 20 MB, in ten seconds. URLs must begin with
  \`https://\` and lead to public addresses. A file that cannot be fetched is a 400 that names the field. Postern fetches nothing for calls on
  your own provider key: send base64 there.

### Reasoning and signatures

- Signed or encrypted reasoning is returned as an opaque string: in \`reasoning_details\` on Chat Completions, \`encrypted_content\` on
  Responses, \`signature\` on Messages. Send it back unchanged. It is only forwarded to the provider and model that produced it, and
  dropped for any other.
- The same applies to signatures of tool calls, texts and images. Chat Completions has them in
  \`extra_content.google.thought_signature\`, the other APIs in reasoning without text. To edit an image that Gemini generated, send
  back the message that contains it unchanged.
- Groq, Mistral and Cerebras reject requests with reasoning fields of earlier replies, even on their own API. Postern drops and
  lists these fields.

### Replies

- **Streams** follow the event order of the API you call. Usage and cost are where that API has usage, on Messages in
  \`message_delta\`.
- **Interrupted streams** end with the API's error event. This includes provider streams that close before every choice and the
  usage are complete; these cost nothing.
- **Unsupported reply content**, such as server tool calls, executed code, search suggestions, or images and logprobs on
  Messages, is dropped. It is listed in \`dropped\` in the usage object, beside \`cost\`, and in \`x-postern-dropped\` unless the reply is
  streamed. Paths start with \`reply.\` and end with the content's type: \`reply.content[1].web_search_call\`. A Chat Completions
  stream without usage lists them in a comment before \`[DONE]\`.
- **Generated images** are \`image_generation_call\` items on Responses, and \`images\` of the message on Chat Completions, as at
  OpenRouter.
`;

export function renderTranslationDoc(outcomes: readonly FeatureOutcome[]): string {
  return [
    INTRODUCTION,
    hintTable(),
    ...CALLER_APIS.filter((api) => api !== "gemini").map((api) => renderSection(api, outcomes)),
    GEMINI_LINK,
    RULES,
    finishTable(),
    nativeFinishTable(),
    errorTable(),
  ].join("\n");
}

/** The table that would make the page of the others too long. */
export function renderGeminiDoc(outcomes: readonly FeatureOutcome[]): string {
  const section = renderSection("gemini", outcomes).replace(/^## .*\n\n/, "");
  return `${GEMINI_INTRODUCTION}\n${section.replaceAll("### ", "## ")}`;
}

const GEMINI_LINK = `## From Google's API

See [Translation from Google's API](translation-gemini.md).
`;

const GEMINI_INTRODUCTION = `# Translation from Google's API

How each feature of a request over [Google's generateContent](guides/google-genai.md) is translated to each wire format. The cells are those of
[Translation](translation.md), which has the hints, the rules, the finish reasons and what is refused.
`;

const HINT_TITLES: Readonly<Record<HintGroup, string>> = {
  sampling: "Sampling",
  output: "Length and form of the output",
  reasoning: "Reasoning",
  tools: "Tool calling",
  labels: "Labels of the call",
  storage: "Storage at the provider",
  caching: "Caching",
  history: "History",
};

/** The caller's names of the hints, from the table that decides. */
function hintTable(): string {
  // Safe because these are the keys of the tables.
  const groups = Object.keys(HINT_TITLES) as HintGroup[];
  const rows = groups.map((group) => [
    HINT_TITLES[group],
    ...CALLER_APIS.map((api) => [...new Set(hintNames(api, group))].map(code).join(", ") || "–"),
  ]);
  const text =
    "Also hints: the `name` of a message, `strict` of tools, cache breakpoints, any field of another provider whose value is `false` or empty, and what client frameworks leave in messages or add to a request, such as `id`, `createdAt` or `chat_id`.";
  return `## Hints\n\n${table(["Hint", ...CALLER_APIS.map((api) => API_TITLES[api])], rows)}\n${text}\n`;
}

function hintNames(api: CallerApi, group: HintGroup): readonly string[] {
  const { names = {} } = INBOUND_WIRES[api].readRequest(MINIMAL_BODIES[api]);
  const fields = Object.entries(HINT_FIELDS).flatMap(([field, of]) => {
    const name = Object.entries(names).find(([key]) => key === field)?.[1] ?? field;
    return of === group && KNOWN_HINTS[api].has(name) ? [name] : [];
  });
  const native = Object.entries(NATIVE_HINTS[api] ?? {}).flatMap(([name, of]) =>
    of === group ? [name] : [],
  );
  return [...fields, ...native];
}

const MINIMAL_BODIES: Readonly<Record<CallerApi, Json>> = {
  chat: { model: "m", messages: [{ role: "user", content: "a" }], max_completion_tokens: 1 },
  responses: { model: "m", input: "a" },
  messages: { model: "m", messages: [{ role: "user", content: "a" }], max_tokens: 1 },
  gemini: { model: "m", contents: [{ role: "user", parts: [{ text: "a" }] }] },
};

/** The hints of the canonical form that each API has. */
const KNOWN_HINTS: Readonly<Record<CallerApi, ReadonlySet<string>>> = {
  chat: new Set(
    "temperature top_p top_k seed frequency_penalty presence_penalty logit_bias stop max_completion_tokens verbosity reasoning_effort parallel_tool_calls user safety_identifier metadata store prompt_cache_key prompt_cache_retention".split(
      " ",
    ),
  ),
  responses: new Set(
    "temperature top_p max_output_tokens text.verbosity reasoning parallel_tool_calls user safety_identifier metadata store prompt_cache_key prompt_cache_retention".split(
      " ",
    ),
  ),
  messages: new Set(
    "temperature top_p top_k stop_sequences max_tokens output_config.effort tool_choice.disable_parallel_tool_use metadata.user_id cache_control".split(
      " ",
    ),
  ),
  gemini: new Set(
    "temperature topP topK seed frequencyPenalty presencePenalty stopSequences maxOutputTokens thinkingConfig"
      .split(" ")
      .map((name) => `generationConfig.${name}`),
  ),
};

function code(name: string): string {
  return `\`${name}\``;
}

function renderSection(api: CallerApi, outcomes: readonly FeatureOutcome[]): string {
  const apiOutcomes = outcomes.filter((outcome) => outcome.api === api);
  const tables = [...new Set(FEATURES.map(({ group }) => group))].map((group) => {
    const rows = FEATURES.filter((feature) => feature.group === group).flatMap((feature) => {
      const cells = WIRES.map((wire) =>
        renderCell(apiOutcomes.find((one) => one.feature === feature && one.wire === wire)),
      );
      return cells[0] === undefined ? [] : [[feature.title, ...cells]];
    });
    return `### ${group}\n\n${table(["Feature", ...WIRES], rows)}`;
  });
  return `## From ${API_TITLES[api]}\n\n${tables.join("\n")}`;
}

function renderCell(outcome: FeatureOutcome | undefined): string | undefined {
  if (outcome === undefined) return undefined;
  const { api, wire, kind, paths, dropped } = outcome;
  if (kind !== "supported") return `**400${kind === "fatal" ? "!" : ""}** ${codes(paths)}`;
  const losses = dropped.length > 0 ? `*dropped* ${codes(dropped)}` : "";
  const fields = api === wire ? "passthrough" : codes(paths);
  return [fields, losses].filter((part) => part !== "").join("; ") || "no field needed";
}

function codes(paths: readonly string[]): string {
  return [...new Set(paths)].map((path) => `\`${path}\``).join(", ");
}

function table(
  head: readonly string[],
  rows: readonly (readonly (string | undefined)[])[],
): string {
  const lines = [head, head.map(() => "---"), ...rows].map(
    (row) => `| ${row.map((cell) => cell ?? "").join(" | ")} |`,
  );
  return `${lines.join("\n")}\n`;
}

// ---- Finish reasons

function finishTable(): string {
  const rows = FINISH_REASONS.map((reason) => {
    const reply: CanonicalReply = { choices: [{ parts: [], finish: { reason } }] };
    const writtenBy = (api: CallerApi) =>
      INBOUND_WIRES[api].writeReply(reply, writeContext()).body as Json & {
        choices?: { finish_reason: string }[];
        incomplete_details?: { reason: string } | null;
        candidates?: { finishReason: string }[];
      };
    const responses = writtenBy("responses");
    const details = responses.incomplete_details?.reason;
    return [
      `\`${reason}\``,
      `\`${writtenBy("chat").choices?.[0]?.finish_reason ?? ""}\``,
      `\`${String(responses["status"])}\`${details === undefined ? "" : ` (\`${details}\`)`}`,
      `\`${String(writtenBy("messages")["stop_reason"])}\``,
      `\`${writtenBy("gemini").candidates?.[0]?.finishReason ?? ""}\``,
    ];
  });
  return `## Finish reasons in replies

Postern maps every provider's finish reason to one of its own and writes it in the API you call:

${table(["Finish reason", ...CALLER_APIS.map((api) => API_TITLES[api])], rows)}
Chat Completions and Responses also include the provider's own value in \`native_finish_reason\` if it differs.\n`;
}

const NATIVE_FINISH_REASONS: Readonly<Record<Wire, readonly string[]>> = {
  chat: [
    "stop",
    "length",
    "tool_calls",
    "function_call",
    "content_filter",
    "eos",
    "model_length",
    "error",
  ],
  responses: ["completed", "incomplete: max_output_tokens", "incomplete: content_filter", "failed"],
  messages: [
    "end_turn",
    "stop_sequence",
    "tool_use",
    "max_tokens",
    "model_context_window_exceeded",
    "pause_turn",
    "refusal",
  ],
  gemini: [
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "LANGUAGE",
    "IMAGE_SAFETY",
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "OTHER",
  ],
  converse: [
    "end_turn",
    "stop_sequence",
    "tool_use",
    "max_tokens",
    "model_context_window_exceeded",
    "guardrail_intervened",
    "content_filtered",
    "malformed_model_output",
    "malformed_tool_use",
  ],
};

function nativeFinishTable(): string {
  const rows = WIRES.flatMap((wire) =>
    NATIVE_FINISH_REASONS[wire].map((nativeReason) => {
      const reply = OUTBOUND_WIRES[wire].readReply(replyWithFinish(wire, nativeReason), {
        origin: { provider: "p", model: "m" },
        readUsage: () => undefined,
      });
      return [wire, `\`${nativeReason}\``, `\`${reply.choices[0]?.finish.reason ?? ""}\``];
    }),
  );
  return `## Finish reasons of providers

${table(["Wire", "Provider's value", "Finish reason"], rows)}
A reply with a complete tool call always has \`tool_calls\`, unless it was truncated.\n`;
}

function replyWithFinish(wire: Wire, nativeReason: string): Json {
  const [status, reason] = nativeReason.split(": ");
  switch (wire) {
    case "chat":
      return { choices: [{ message: { content: "" }, finish_reason: nativeReason }] };
    case "responses":
      return { status, output: [], incomplete_details: reason === undefined ? null : { reason } };
    case "messages":
      return { content: [], stop_reason: nativeReason };
    case "gemini":
      return { candidates: [{ content: { parts: [] }, finishReason: nativeReason }] };
    case "converse":
      return { output: { message: { content: [] } }, stopReason: nativeReason };
  }
}

// ---- Errors

const STATUSES = [400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529];

function errorTable(): string {
  const [provider] = PROVIDERS;
  if (provider === undefined) throw new Error("there are no providers");
  const credential = { provider, baseUrl: "", apiKey: undefined, label: "", byok: false };
  const rows = STATUSES.map((status) => {
    const fault = providerErrorFault(
      { wire: "chat", isTranslated: true, status, headers: {}, text: '{"error":{"message":"no"}}' },
      credential,
    );
    // The type is the same in the error format of every API.
    const { error } = errorBody("openai", publicError(fault), "") as { error: { type: string } };
    return [String(status), `\`${fault.code}\``, String(fault.status), `\`${error.type}\``];
  });
  const head = ["Provider's status", "Code", "Status", "Type"];
  return `## Provider errors

${table(head, rows)}
- The error includes the provider's own message and code, without keys and account names.
- The provider's message can override its status: Google's 400 for an invalid key, OpenAI's 429 for an exhausted quota, and the
  403 with which OpenRouter and xAI reject a prompt (400 here).
- An exceeded context window has the code \`context_length_exceeded\` on every API.
- If a provider rejects the gateway's own account, you get a 503, never a 401.
- Errors that may be temporary (408, 409, 429, 5xx) are retried at the same provider or, except for a 409, at another one, before you see them.\n`;
}
