// Where a request of each API can name something that is stored in a provider account, and the names for it.

import type { Api, Json } from "../../translation/support/harness.ts";

/** Part of every name, so that a test finds it in a body in any spelling. */
export const SECRET = "operator-private-4711";

const STORAGE_URLS: readonly string[] = [
  `gs://${SECRET}/a.pdf`,
  `GS://${SECRET}/a.png`,
  `s3://${SECRET}/a.png`,
  `\u0001gs://${SECRET}/a.png`,
  ` \t gs://${SECRET}/a.png`,
  `g\ts://${SECRET}/a.png`,
  `files/${SECRET}`,
  `cachedContents/${SECRET}`,
  `projects/p/locations/l/ragCorpora/${SECRET}`,
  `file:///${SECRET}`,
  `abfss://c@${SECRET}.dfs.core.windows.net/x`,
  `arn:aws:s3:::${SECRET}/x`,
  `https://generativelanguage.googleapis.com/v1beta/files/${SECRET}`,
  `https://x@generativelanguage.googleapis.com/v1beta/files/${SECRET}`,
  `https://x:y@example.com/${SECRET}`,
  `https://generativelanguage.googleapis.com./v1beta/files/${SECRET}`,
  `https:\\\\generativelanguage.googleapis.com/v1beta/files/${SECRET}`,
  `https://GENERATIVELANGUAGE.googleapis.com:443/v1beta/files/${SECRET}`,
  `https://\uFF47enerativelanguage.googleapis.com/v1beta/files/${SECRET}`,
  `https://us-central1-aiplatform.googleapis.com/v1/${SECRET}`,
  `https://storage.cloud.google.com/${SECRET}/a.png`,
  `https://api.openai.com/v1/files/${SECRET}/content`,
  `https://api.anthropic.com/v1/files/${SECRET}/content`,
  `\u0001https://example.com/${SECRET}`,
];

const STORED_IDS: readonly string[] = [`file-${SECRET}`, SECRET, `cachedContents/${SECRET}`];

interface Position {
  readonly api: Api;
  readonly values: readonly string[];
  readonly fields: (value: string) => Json;
}

const TEXT = { type: "text", text: "hi" };

function turn(role: string, message: Json): Json {
  return {
    messages: [
      { role: "user", content: "hi" },
      { role, ...message },
      { role: "user", content: "go on" },
    ],
  };
}
const chatPart = (part: Json): Json => ({ messages: [{ role: "user", content: [TEXT, part] }] });
const messagesPart = (part: Json): Json => ({
  messages: [{ role: "user", content: [TEXT, part] }],
});
const responsesPart = (part: Json): Json => ({
  input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "hi" }, part] }],
});
const toolTurns = (content: unknown): Json => ({
  messages: [
    { role: "user", content: "hi" },
    {
      role: "assistant",
      tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c1", content },
  ],
  tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
});

const CHAT_URL: readonly ((url: string) => Json)[] = [
  (url) => chatPart({ type: "image_url", image_url: { url } }),
  (url) => chatPart({ type: "image_url", image_url: url }),
  (url) =>
    chatPart({ type: "image_url", image_url: { url: "https://example.com/x.png", uri: url } }),
  (url) => chatPart({ type: "video_url", video_url: { url } }),
  (url) => chatPart({ type: "audio_url", audio_url: { url } }),
  (url) => chatPart({ type: "document_url", document_url: url }),
  (url) => chatPart({ type: "file", file: { file_data: url } }),
  (url) => chatPart({ type: "file", file: { url: "x", file_data: url } }),
  (url) => chatPart({ type: "file", file: { url: "https://example.com/x.pdf", file_data: url } }),
  (url) =>
    chatPart({
      type: "file",
      file: { file_data: "data:application/pdf;base64,JVBERi0=", file_url: url },
    }),
  (url) => chatPart({ type: "image", source: { type: "url", url } }),
  (url) => chatPart({ type: "input_image", image_url: url }),
  (url) => chatPart({ type: "input_audio", input_audio: { format: "mp3", data: url } }),
  (url) => chatPart({ type: "unknown", deep: [{ fileData: { fileUri: url } }] }),
  (url) => turn("assistant", { content: "x", images: [{ type: "image_url", image_url: { url } }] }),
  (url) => turn("assistant", { content: [{ type: "image_url", image_url: { url } }] }),
  (url) => toolTurns([{ type: "image_url", image_url: { url } }]),
  (url) => toolTurns([{ type: "file", file: { url: "x", file_data: url } }]),
  (url) => ({ extra_body: { google: { file_uri: url } } }),
  (url) => ({ unknown: { image_url: url } }),
];
const RESPONSES_URL: readonly ((url: string) => Json)[] = [
  (url) => responsesPart({ type: "input_image", image_url: url }),
  (url) => responsesPart({ type: "input_image", image_url: { url } }),
  (url) => responsesPart({ type: "input_file", file_url: url }),
  (url) => responsesPart({ type: "input_file", file_data: url, filename: "x.pdf" }),
  (url) =>
    responsesPart({ type: "input_file", file_url: "https://example.com/x.pdf", file_data: url }),
  (url) => responsesPart({ type: "input_video", video_url: url }),
  (url) => responsesPart({ type: "unknown", source: { url } }),
  (url) => ({
    input: [
      { role: "user", content: "hi" },
      { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
      {
        type: "function_call_output",
        call_id: "c1",
        output: [{ type: "input_image", image_url: url }],
      },
    ],
    tools: [{ type: "function", name: "f", parameters: { type: "object" } }],
  }),
  (url) => ({ tools: [{ type: "image_generation", input_image_mask: { image_url: url } }] }),
];
const MESSAGES_URL: readonly ((url: string) => Json)[] = [
  (url) => messagesPart({ type: "image", source: { type: "url", url } }),
  (url) => messagesPart({ type: "document", source: { type: "url", url } }),
  (url) =>
    messagesPart({
      type: "document",
      source: { type: "content", content: [{ type: "image", source: { type: "url", url } }] },
    }),
  (url) => ({
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "f", input: {} }] },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "t1",
            content: [{ type: "image", source: { type: "url", url } }],
          },
        ],
      },
    ],
    tools: [{ name: "f", input_schema: { type: "object" } }],
  }),
];

const tool = (fields: Json): Json => ({ tools: [fields] });
const CHAT_ID: readonly ((id: string) => Json)[] = [
  (file_id) => chatPart({ type: "file", file: { file_id } }),
  (file_id) =>
    chatPart({
      type: "file",
      file: { file_data: "data:application/pdf;base64,JVBERi0=", file_id },
    }),
  (file_id) => chatPart({ type: "file", file_id }),
  (fileId) => chatPart({ type: "file", file: { fileId } }),
  (file_id) => chatPart({ type: "unknown", deep: { deeper: [{ file_id }] } }),
  (id) => turn("assistant", { audio: { id } }),
  (file_id) =>
    turn("assistant", { content: "x", images: [{ type: "image_url", image_url: { file_id } }] }),
  (cached_content) => ({ extra_body: { google: { cached_content } } }),
  (cachedContent) => ({ extra_body: { google: { cachedContent } } }),
  (cached_content) => ({ extra_body: { cached_content } }),
  (cachedContent) => ({ cachedContent }),
  (cached_content) => ({ google: { cached_content } }),
  (id) => ({ extra_body: { google: { unknown: { id } } } }),
  (id) => ({ data_sources: [{ type: "azure_search", parameters: { index_name: id } }] }),
  (id) => tool({ type: "document_library", library_ids: [id] }),
  (connector_id) => tool({ type: "connector", connector_id }),
  (id) =>
    tool({
      type: "retrieval",
      retrieval: { vertexRagStore: { ragResources: [{ ragCorpus: id }] } },
    }),
  (previous_interaction_id) => ({ previous_interaction_id }),
  (agent_id) => ({ agent_id }),
  (thread_id) => ({ thread_id }),
  (uri) => ({ s3Location: { uri } }),
  (knowledgeBaseId) => ({ retrievalConfiguration: { knowledgeBaseId } }),
  (id) => ({ audio: { format: "mp3", voice: { id } } }),
];
const RESPONSES_ID: readonly ((id: string) => Json)[] = [
  (previous_response_id) => ({ previous_response_id }),
  (conversation) => ({ conversation }),
  (id) => ({ conversation: { id } }),
  (id) => ({ prompt: { id } }),
  (file_id) => responsesPart({ type: "input_file", file_id }),
  (file_id) => responsesPart({ type: "input_image", file_id }),
  (file_id) =>
    responsesPart({ type: "input_image", file_id, image_url: "https://example.com/x.png" }),
  (id) => ({ input: [{ type: "item_reference", id }] }),
  (id) => tool({ type: "file_search", vector_store_ids: [id] }),
  (id) => tool({ type: "file_search", collection_ids: [id] }),
  (id) => tool({ type: "file_search", vectorStoreIds: [id] }),
  (container) => tool({ type: "code_interpreter", container }),
  (id) => tool({ type: "code_interpreter", container: { type: "auto", file_ids: [id] } }),
  (id) => tool({ type: "code_interpreter", container: { id } }),
  (connector_id) => tool({ type: "mcp", server_label: "x", connector_id }),
  (tunnel_id) => tool({ type: "mcp", server_label: "x", tunnel_id }),
  (skill_id) => tool({ type: "shell", environment: { type: "auto", skills: [{ skill_id }] } }),
];
const MESSAGES_ID: readonly ((id: string) => Json)[] = [
  (container) => ({ container }),
  (id) => ({ container: { id } }),
  (file_id) => messagesPart({ type: "document", source: { type: "file", file_id } }),
  (file_id) => messagesPart({ type: "image", source: { type: "file", file_id } }),
  (file_id) => messagesPart({ type: "container_upload", file_id }),
  (file_id) => messagesPart({ type: "unknown", source: { file_id } }),
  (previous_message_id) => ({ thread: { type: "continue", previous_message_id } }),
  (previous_message_id) => ({ diagnostics: { previous_message_id } }),
  (id) => tool({ type: "code_execution_20250825", name: "code_execution", container: id }),
];

export const POSITIONS: readonly Position[] = [
  ...positions("chat", STORAGE_URLS, CHAT_URL),
  ...positions("responses", STORAGE_URLS, RESPONSES_URL),
  ...positions("messages", STORAGE_URLS, MESSAGES_URL),
  ...positions("chat", STORED_IDS, CHAT_ID),
  ...positions("responses", STORED_IDS, RESPONSES_ID),
  ...positions("messages", STORED_IDS, MESSAGES_ID),
];

function positions(
  api: Api,
  values: readonly string[],
  list: readonly ((value: string) => Json)[],
): readonly Position[] {
  return list.map((fields) => ({ api, values, fields }));
}
