// The messages of a logged request and reply, as the semantic conventions for generative AI write them: roles with text parts.
// What is not text, such as an image, is left out; a form that is not known here is one text.

import { isObject, type JsonObject, parseObject, valueAt } from "../base/json.ts";

interface Message {
  readonly role: string;
  readonly parts: readonly { readonly type: "text"; readonly content: string }[];
}

export function inputMessages(request: string): string {
  const json = parseObject(request);
  if (json === undefined) return toText([messageOf("user", request)]);
  const { messages, input, contents, system, instructions, prompt } = json;
  const turns = [messages, input, contents, prompt].find((one) => one !== undefined);
  const found = [
    ...[system, instructions].map((text) => messageOf("system", text)),
    ...(Array.isArray(turns) ? turns.map(toMessage) : [messageOf("user", turns)]),
  ].filter(({ parts }) => parts.length > 0);
  return toText(found.length === 0 ? [messageOf("user", request)] : found);
}

export function outputMessages(reply: string): string {
  const json = parseObject(reply);
  const texts = json === undefined ? streamedTexts(reply) : replyTexts(json);
  return toText([messageOf("assistant", texts.length === 0 ? reply : texts.join(""))]);
}

function toText(messages: readonly Message[]): string {
  return JSON.stringify(messages);
}

function toMessage(one: unknown): Message {
  if (!isObject(one)) return messageOf("user", one);
  const { role, content, parts, text } = one;
  const name = typeof role === "string" ? role : "user";
  return messageOf(name === "model" ? "assistant" : name, content ?? parts ?? text);
}

function messageOf(role: string, content: unknown): Message {
  const parts = textsIn(content).map((text) => ({ type: "text", content: text }) as const);
  return { role, parts };
}

/** Of a text, or of a list of parts with texts. */
function textsIn(content: unknown): readonly string[] {
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: unknown) =>
    isObject(part) && typeof part["text"] === "string" ? [part["text"]] : [],
  );
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function replyTexts({ choices, content, output, candidates }: JsonObject): readonly string[] {
  return [
    ...listOf(choices).flatMap((one) => textsIn(valueAt({ one }, ["one", "message", "content"]))),
    ...textsIn(content),
    ...listOf(output).flatMap((one) => textsIn(valueAt({ one }, ["one", "content"]))),
    ...listOf(candidates).flatMap((one) => textsIn(valueAt({ one }, ["one", "content", "parts"]))),
  ];
}

const DATA_LINE = /^data: ?(\{.*)$/gm;

/** The deltas of each API. */
function streamedTexts(stream: string): readonly string[] {
  return [...stream.matchAll(DATA_LINE)].flatMap(([, data = ""]) => {
    const event = parseObject(data) ?? {};
    const { delta, choices, candidates, type } = event;
    if (type === "response.output_text.delta") return textsIn(delta);
    if (type === "content_block_delta") return textsIn([delta]);
    if (candidates !== undefined) return replyTexts({ candidates });
    return listOf(choices).flatMap((one) => textsIn(valueAt({ one }, ["one", "delta", "content"])));
  });
}
