// Speech: OpenAI's API. Older models are priced by character, which the request tells; newer ones by token, which only the
// events of a stream report. So events are requested from them also for a caller who wants the audio alone.

import { invalid } from "../invalid-request.ts";
import { isSet, type JsonObject, lookUp, stringIn } from "../json-fields.ts";
import {
  buildUsage,
  ownMember,
  readCount,
  type ReadNotes,
  readStatedCost,
} from "../usage/read-numbers.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { INPUT_ONLY, type RelayedContext, type RelayedEndpoint } from "./relayed-endpoint.ts";

/** OpenAI takes 4,096, others more. */
const CHARACTERS_MAX = 20_000;
const SPEED_MIN = 0.25;
const SPEED_MAX = 4;
/** Speech has about one for each character: a digit or an abbreviation is read as a word. */
const TOKENS_PER_CHARACTER = 8;
const TOKENS_MIN = 250;
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  mp3: "audio/mpeg",
  opus: "audio/ogg",
  aac: "audio/aac",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm",
};

export const SPEECH_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "speech",
  check: checkSpeech,
  textFields: ["input", "instructions"],
  knownFields:
    "instructions language response_encoding response_format sample_rate speed stream_format voice",
  outputTokensMax,
  unitsMax: (json) => ({ character: charactersOf(json) }),
  readUsage: (reply, context) => usageOfSpeech(reply, context),
  writeRequest: (json, context) =>
    reportsTokens(context) && json["stream_format"] !== "sse" ? { stream_format: "sse" } : {},
  stream: {
    isStream: () => true,
    formOf: (json, context) => ({
      sent: reportsTokens(context) || json["stream_format"] === "sse" ? "events" : "bytes",
      returned: json["stream_format"] === "sse" ? "events" : "bytes",
      contentType: reportsTokens(context)
        ? lookUp(CONTENT_TYPES, stringIn(json["response_format"]) ?? "mp3")
        : undefined,
    }),
    usageInEvent: usageOfSpeech,
    usageOfBytes: ({ request, isPriced }) =>
      isPriced("character") ? charactersUsage(request) : undefined,
    isLast: ({ type }) => type === "speech.audio.done",
    contentOf: ({ type, audio }) =>
      type === "speech.audio.delta" && typeof audio === "string" ? audio : undefined,
  },
};

function checkSpeech({ input, voice, speed, response_format, stream_format }: JsonObject): void {
  if (typeof input !== "string" || input === "")
    throw invalid("input", "`input` is required: the text to speak.");
  if (charactersOf({ input }) > CHARACTERS_MAX)
    throw invalid("input", `\`input\` must have at most ${CHARACTERS_MAX} characters.`);
  if (!isSet(voice)) throw invalid("voice", '`voice` is required, such as "alloy".');
  if (isSet(speed) && !(typeof speed === "number" && speed >= SPEED_MIN && speed <= SPEED_MAX))
    throw invalid("speed", `\`speed\` must be a number from ${SPEED_MIN} to ${SPEED_MAX}.`);
  if (isSet(response_format) && typeof response_format !== "string")
    throw invalid("response_format", '`response_format` must be a string, such as "mp3".');
  if (isSet(stream_format) && stream_format !== "sse" && stream_format !== "audio")
    throw invalid("stream_format", '`stream_format` must be "audio" or "sse".');
}

/** Unicode code points, not UTF-16 units. */
function charactersOf({ input }: JsonObject): number {
  let characters = 0;
  for (const _character of stringIn(input) ?? "") characters++;
  return characters;
}

function outputTokensMax(json: JsonObject): number {
  const { speed } = json;
  const slowness = typeof speed === "number" ? Math.max(1, 1 / speed) : 1;
  return Math.ceil((TOKENS_MIN + charactersOf(json) * TOKENS_PER_CHARACTER) * slowness);
}

function reportsTokens({ isPriced }: RelayedContext): boolean {
  return !isPriced("character");
}

function charactersUsage(request: JsonObject): Usage {
  return buildUsage({ tokens: {}, fees: { character: charactersOf(request) } }, { clamped: false });
}

function usageOfSpeech(
  event: JsonObject,
  { request, isPriced }: RelayedContext,
): Usage | undefined {
  const usage = ownMember(event, "usage");
  if (isPriced("character")) return charactersUsage(request);
  const input = ownMember(usage, "input_tokens");
  const output = ownMember(usage, "output_tokens");
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  const notes: ReadNotes = { clamped: false };
  const tokens = { input: readCount(notes, input), output_audio: readCount(notes, output) };
  return buildUsage({ tokens, statedCostUsd: readStatedCost(usage) }, notes);
}
