// The text of docs/translation.md, laid out from what was seen and from the wires' own tables.

import { type CanonicalReply, FINISH_REASONS } from "../../../src/inference/canonical/reply.ts";
import { providerErrorFault } from "../../../src/inference/upstream/provider-error.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { INBOUND_WIRES, OUTBOUND_WIRES } from "../../../src/inference/wires/wires.ts";
import { errorBody } from "../../../src/http/response.ts";
import { writeContext } from "../../wires/stream-helpers.ts";
import { type Feature, FEATURES } from "./request-features.ts";
import { type Api, APIS, type Json, type Wire, WIRES } from "./harness.ts";

export interface FeatureOutcome {
  readonly api: Api;
  readonly wire: Wire;
  readonly feature: Feature;
  /** `impossible` is refused even where the caller allows that things are dropped. */
  readonly kind: "carried" | "refused" | "impossible";
  /** Where it stands in what the provider got, or the path that was refused. */
  readonly paths: readonly string[];
  readonly dropped: readonly string[];
}

const API_TITLES: Readonly<Record<Api, string>> = {
  chat: "Chat Completions",
  responses: "Responses",
  messages: "Messages",
};
const WIRE_TITLES: Readonly<Record<Wire, string>> = {
  chat: "chat",
  responses: "responses",
  messages: "messages",
  gemini: "gemini",
  converse: "converse",
};

const INTRODUCTION = `# Translation

Every API that comes in (Chat Completions, Responses, Messages) works with every wire that goes out: \`chat\`, \`responses\`,
\`messages\`, \`gemini\` (Google's generateContent) and \`converse\` (Amazon Bedrock). Where a model can be had on the caller's own
API, the request is relayed byte for byte; elsewhere it goes through one canonical form (decision 0020).

The tables below are written by \`test/translation/translation-doc.test.ts\`, which asks every row of every pair, over HTTP, and
fails where this page says otherwise. The models are: on \`chat\` a server of which nothing is known but that it speaks OpenAI's
API (OpenAI's own takes all of its fields), on \`messages\` and \`converse\` Claude Sonnet 4.6, on \`gemini\` Gemini 3.1 Flash. What another model differs in
stands in \`src/inference/translate/abilities.ts\`: the newest Claude models, for one, take no \`temperature\`, and older ones a budget in place of an effort.

- \`a.b\`: carried; this is where it stands in the provider's request.
- says nothing: it needs no words there, or is done by leaving something out.
- **400** \`path\`: refused with a 400 that names the path. With \`"postern": {"lossy": true}\` it is left out, and
  the header \`x-postern-dropped\` lists it. **400!**: refused in any case, since the request would make no sense without it.
- *dropped* \`path\`: left out by rule, because no answer depends on it, and listed in \`x-postern-dropped\`.
- relayed: the caller's own API, passed on as it came.
`;

const RULES = `## Rules

- **Instructions** keep their place. Leading ones go to the one slot that a wire has for them; later ones stay where they are, as
  instructions where the model takes that, else as text of the user.
- **Tool results** stand directly after the turn that called, in one message where the wire wants that, in the order in which they came. Orphan results, doubled or foreign ids
  and calls without a result are a 400 on all three APIs.
- **Call ids** are kept; where a wire cannot carry one it is encoded, reversibly.
- **Tools in a namespace** (Responses) are functions of the name \`namespace__name\` on every other wire; in replies, streams and stored responses they have both names again, and items that are sent
  back may keep them. A joined name of more than 64 characters, or of others than letters, digits, \`_\` and \`-\`, becomes a digest and its own end. Two tools that would then be called the same are a 400.
- **JSON schema** becomes a forced tool where the model has no field for one; the call comes back as text with \`stop\`. Where a call cannot be forced either
  (DeepSeek, Moonshot, Z.ai), JSON output is switched on and the schema stands among the instructions. This holds on the model's own API, too, where the field would be
  refused. What no provider keeps the model to is not promised: \`strict\` is then listed as dropped (decision 0021).
- **JSON of any form** (\`json_object\`) is asked for among the instructions where the provider has JSON by a schema alone (Messages, Converse), or not beside functions (Gemini before 3), and is listed as dropped.
- **Reasoning** that a provider signed or encrypted travels through any API as an opaque string (\`reasoning_details\` on Chat
  Completions, \`encrypted_content\` on Responses, \`signature\` on Messages) and goes back only to the provider and model that
  made it. For any other model it is dropped by rule. So do the signatures of calls, texts and images: beside the call or the image on Chat Completions
  (\`extra_content.google.thought_signature\`), else as reasoning that shows nothing. To go on with an image that Gemini made, send back the message that brought it, as it came.
  Groq, Mistral and Cerebras refuse a request for such members of earlier replies, also where their own API was called: they are left out there, and listed.
- **Effort and budget** are mapped into each other, and clamped to what the model knows: a clamp is listed.
- **Forbidding parallel calls** means little where one tool must be called, and is then dropped by rule where it cannot be said.
- **Streams** obey the grammar of the API that was called. Usage and cost stand where that API has usage; on Messages in
  \`message_delta\`. A failure midway is that API's own error event, and so is a provider's stream that closes before its answer (every choice that began) and its usage are whole, which costs nothing.
- **What a reply holds and the caller's API cannot say** (a server tool's calls and results, code that ran at the provider, search suggestions, images on Messages,
  probabilities on Messages) is left out and told: as \`dropped\` in the usage object, beside \`cost\`, and in \`x-postern-dropped\` where the reply is no stream. Such paths begin
  with \`reply.\` and end with what it was: \`reply.content[1].web_search_call\`. A Chat Completions stream that shows no usage tells it in a comment before \`[DONE]\`.
- **Images that a model made** are \`image_generation_call\` items on Responses, and \`images\` of the message on Chat Completions, as OpenRouter has it.
- **Images and files by address** go to providers that fetch them; the gateway itself fetches nothing.
`;

export function renderTranslationDoc(outcomes: readonly FeatureOutcome[]): string {
  return [
    INTRODUCTION,
    ...APIS.map((api) => renderSection(api, outcomes)),
    RULES,
    finishTable(),
    nativeFinishTable(),
    errorTable(),
  ].join("\n");
}

function renderSection(api: Api, outcomes: readonly FeatureOutcome[]): string {
  const own = outcomes.filter((one) => one.api === api);
  const rows = FEATURES.flatMap((feature) => {
    const cells = WIRES.map((wire) =>
      renderCell(own.find((one) => one.feature === feature && one.wire === wire)),
    );
    return cells[0] === undefined ? [] : [[feature.title, ...cells]];
  });
  return `## From ${API_TITLES[api]}\n\n${table(["", ...WIRES.map((wire) => WIRE_TITLES[wire])], rows)}`;
}

function renderCell(outcome: FeatureOutcome | undefined): string | undefined {
  if (outcome === undefined) return undefined;
  const { api, wire, kind, paths, dropped } = outcome;
  if (kind !== "carried") return `**400${kind === "impossible" ? "!" : ""}** ${codes(paths)}`;
  const left = dropped.length > 0 ? `*dropped* ${codes(dropped)}` : "";
  if (api === wire) return `relayed ${left}`.trim();
  return [codes(paths), left].filter((part) => part !== "").join("; ") || "says nothing";
}

function codes(paths: readonly string[]): string {
  return [...new Set(paths)].map((one) => `\`${one}\``).join(", ");
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
    const said = (api: Api) =>
      INBOUND_WIRES[api].writeReply(reply, writeContext()).body as Json & {
        choices?: { finish_reason: string }[];
        incomplete_details?: { reason: string } | null;
      };
    const responses = said("responses");
    const details = responses.incomplete_details?.reason;
    return [
      `\`${reason}\``,
      `\`${said("chat").choices?.[0]?.finish_reason ?? ""}\``,
      `\`${String(responses["status"])}\`${details === undefined ? "" : ` (\`${details}\`)`}`,
      `\`${String(said("messages")["stop_reason"])}\``,
    ];
  });
  return `## Why a reply ended\n\n${table(["canonical", ...APIS.map((api) => API_TITLES[api])], rows)}
Chat Completions and Responses show the provider's own word beside it, as \`native_finish_reason\`.\n`;
}

const NATIVE: Readonly<Record<Wire, readonly string[]>> = {
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
    NATIVE[wire].map((word) => {
      const reply = OUTBOUND_WIRES[wire].readReply(replyWithFinish(wire, word), {
        origin: { provider: "p", model: "m" },
        readUsage: () => undefined,
      });
      return [WIRE_TITLES[wire], `\`${word}\``, `\`${reply.choices[0]?.finish.reason ?? ""}\``];
    }),
  );
  return `## What the providers' words are read as\n\n${table(["wire", "the provider's word", "canonical"], rows)}
A reply with a whole tool call is \`tool_calls\`, whatever the provider called it; a cut beats the call.\n`;
}

function replyWithFinish(wire: Wire, word: string): Json {
  const [status, reason] = word.split(": ");
  switch (wire) {
    case "chat":
      return { choices: [{ message: { content: "" }, finish_reason: word }] };
    case "responses":
      return { status, output: [], incomplete_details: reason === undefined ? null : { reason } };
    case "messages":
      return { content: [], stop_reason: word };
    case "gemini":
      return { candidates: [{ content: { parts: [] }, finishReason: word }] };
    case "converse":
      return { output: { message: { content: [] } }, stopReason: word };
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
    const typeOn = (dialect: "openai" | "messages") => {
      const context = { dialect, requestId: "", baseUrl: "", isKeySent: true } as const;
      return (errorBody(fault, context) as { error: { type: string } }).error.type;
    };
    return [
      String(status),
      `\`${fault.code}\``,
      String(fault.status),
      `\`${typeOn("openai")}\``,
      `\`${typeOn("messages")}\``,
    ];
  });
  const head = [
    "the provider's status",
    "code",
    "status",
    "type on Chat Completions and Responses",
    "type on Messages",
  ];
  return `## A provider's errors\n\n${table(head, rows)}
The provider's own sentence and code travel along, without keys and names of accounts. What a provider's words say beyond its
status counts too: a refused key that is a 400 at Google, a quota that is used up and a 429 at OpenAI, a prompt that OpenRouter or xAI refuses with a 403 (here a 400). A full context has the
code \`context_length_exceeded\` on every API. A provider that refuses the gateway's own account is never the caller's 401.
What may pass (408, 409, 429, 5xx) is tried again, here or at another provider, before the caller sees it.\n`;
}
