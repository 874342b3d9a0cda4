// Simulates speech and transcription. Speech is bytes that depend on the text alone; a transcript says how long the file is.

import {
  type JsonObject,
  lookUp,
  numberIn,
  objectOrEmpty,
  stringOrEmpty,
} from "../json-readers.ts";
import { invalidRequest, type InvalidRequest } from "../reply/normalized-request.ts";
import { countTokens } from "../reply/tokens.ts";
import { checkName, checkRange, missingParameter } from "./openai-common.ts";
import type { SimpleReply } from "./simple-reply.ts";
import type { Frame } from "./simulated-wire.ts";

const SPEECH_CHUNKS = 4;
const BYTES_PER_CHARACTER = 64;
const TOKENS_PER_CHARACTER = 2;
/** The simulated recordings have 16,000 samples of 16 bits a second. */
const BYTES_PER_SECOND = 32_000;
const TOKENS_PER_SECOND = 10;
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  mp3: "audio/mpeg",
  opus: "audio/ogg",
  aac: "audio/aac",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm",
};

/** POST /v1/audio/speech. Models whose name contains `tokens` are priced by token and send events. */
export function speak(body: JsonObject): SimpleReply | InvalidRequest {
  const input = stringOrEmpty(body["input"]);
  if (input === "") return missingParameter("input");
  if (body["voice"] === undefined) return missingParameter("voice");
  const formats = Object.keys(CONTENT_TYPES);
  const error =
    checkName(body["response_format"], "response_format", formats) ??
    checkName(body["stream_format"], "stream_format", ["sse", "audio"]) ??
    checkRange(body, "speed", { min: 0.25, max: 4, kind: "decimal" });
  if (error !== undefined) return error;
  const hasEvents = stringOrEmpty(body["model"]).includes("tokens");
  if (body["stream_format"] === "sse" && !hasEvents)
    return invalidRequest(400, "stream_format 'sse' is not supported for this model.");
  const tokens = countTokens(input);
  const characters = [...input].length;
  const outputTokens = characters * TOKENS_PER_CHARACTER;
  const format = stringOrEmpty(body["response_format"]) || "mp3";
  const chunks = Array.from({ length: SPEECH_CHUNKS }, (_, index) =>
    new Uint8Array(Math.ceil((characters * BYTES_PER_CHARACTER) / SPEECH_CHUNKS)).fill(index + 1),
  );
  const usage = {
    input_tokens: tokens,
    output_tokens: outputTokens,
    total_tokens: tokens + outputTokens,
  };
  const isSse = body["stream_format"] === "sse";
  const frames: readonly Frame[] = isSse
    ? [
        ...chunks.map((bytes) =>
          deltaFrame({ type: "speech.audio.delta", audio: Buffer.from(bytes).toString("base64") }),
        ),
        lastFrame({ type: "speech.audio.done", usage }),
      ]
    : chunks.map((data) => ({ data, isDelta: true }));
  const contentType = isSse ? "text/event-stream" : (lookUp(CONTENT_TYPES, format) ?? "audio/mpeg");
  return { body: {}, tokens, outputTokens, text: input, stream: { frames, contentType } };
}

/**
 * POST /v1/audio/transcriptions and /v1/audio/translations. The `prompt` has directives. Models whose name contains `tokens` are
 * priced by token; others report seconds.
 */
export function transcribe(body: JsonObject): SimpleReply | InvalidRequest {
  const bytes = numberIn(objectOrEmpty(body["file"])["size"]);
  if (bytes === undefined) return missingParameter("file");
  const format = stringOrEmpty(body["response_format"]) || "json";
  const hasTokens = stringOrEmpty(body["model"]).includes("tokens");
  const formats = hasTokens
    ? ["json", "text", "diarized_json"]
    : ["json", "text", "srt", "verbose_json", "vtt"];
  const error = checkName(format, "response_format", formats);
  if (error !== undefined) return error;
  const seconds = Math.ceil(bytes / BYTES_PER_SECOND);
  const text = `A recording of ${seconds} seconds.`;
  const audioTokens = seconds * TOKENS_PER_SECOND;
  const promptTokens = countTokens(stringOrEmpty(body["prompt"]));
  const outputTokens = countTokens(text);
  const usage = hasTokens
    ? {
        type: "tokens",
        input_tokens: audioTokens + promptTokens,
        output_tokens: outputTokens,
        total_tokens: audioTokens + promptTokens + outputTokens,
        input_token_details: { audio_tokens: audioTokens, text_tokens: promptTokens },
      }
    : { type: "duration", seconds };
  const segment = { id: 0, start: 0, end: seconds, text: ` ${text}` };
  const counts = { tokens: audioTokens + promptTokens, outputTokens };
  const prompt = stringOrEmpty(body["prompt"]);
  if (body["stream"] === "true" && hasTokens)
    return {
      body: {},
      ...counts,
      text: prompt,
      stream: { frames: transcriptFrames(text, usage), contentType: "text/event-stream" },
    };
  const reply =
    format === "verbose_json" || format === "diarized_json"
      ? { task: "transcribe", language: "english", duration: seconds, text, segments: [segment] }
      : { text };
  return { body: { ...reply, usage }, ...counts, text: prompt };
}

function transcriptFrames(text: string, usage: JsonObject): readonly Frame[] {
  const words = text.split(/(?<= )/);
  return [
    ...words.map((delta) => deltaFrame({ type: "transcript.text.delta", delta })),
    lastFrame({ type: "transcript.text.done", text, usage }),
  ];
}

export function deltaFrame(data: JsonObject): Frame {
  return { data: `data: ${JSON.stringify(data)}\n\n`, isDelta: true };
}

export function lastFrame(data: JsonObject): Frame {
  return { data: `data: ${JSON.stringify(data)}\n\n`, isTerminal: true };
}

/** A form as JSON: files by their size, repeated fields as lists. */
export async function jsonOfForm(
  bytes: Uint8Array<ArrayBuffer>,
  contentType: string,
): Promise<JsonObject | undefined> {
  let form: FormData;
  try {
    form = await new Response(bytes, { headers: { "content-type": contentType } }).formData();
  } catch {
    return undefined;
  }
  const json = new Map<string, unknown>();
  for (const [sentName, value] of form) {
    const name = sentName.replace(/\[\]$/, "");
    const member = typeof value === "string" ? value : { name: value.name, size: value.size };
    const earlier = json.get(name);
    if (Array.isArray(earlier)) earlier.push(member);
    else json.set(name, sentName === name ? member : [member]);
  }
  return Object.fromEntries(json);
}
