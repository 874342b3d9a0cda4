// Transcription and translation of audio: OpenAI's API. Whisper is priced by the second, newer models by token. A request is
// a form with the recording.

import { invalid } from "../invalid-request.ts";
import { arrayIn, isObject, isSet, type JsonObject, numberIn, stringIn } from "../json-fields.ts";
import {
  buildUsage,
  firstNumber,
  ownMember,
  readCount,
  type ReadNotes,
  readStatedCost,
  valueAt,
} from "../usage/read-numbers.ts";
import { splitInput } from "../usage/token-breakdown.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { audioLength } from "./audio-duration.ts";
import {
  type FileReply,
  INPUT_ONLY,
  type MemberChanges,
  type RelayedContext,
  type RelayedEndpoint,
  type RelayedForm,
} from "./relayed-endpoint.ts";

/** Models that read audio count at most so many tokens for a second of it: OpenAI's 10, Voxtral 12.5. */
const TOKENS_PER_SECOND = 25;
/** No speech has more words in a second than this has tokens. */
const OUTPUT_TOKENS_PER_SECOND = 20;
const OUTPUT_TOKENS_MIN = 100;
/** The longest recording of a known speaker's voice. */
const REFERENCE_SECONDS_MAX = 10;
/** OpenAI's models take 1,400 seconds at once; longer recordings are read in parts, each with a context of its own. */
const PART_SECONDS = 600;
const OUTPUT_TOKENS_PER_PART = 4_096;
const FORMATS = ["json", "text", "srt", "verbose_json", "vtt", "diarized_json"] as const;

function audioEndpoint(hasStreams: boolean): RelayedEndpoint {
  return {
    ...INPUT_ONLY,
    kind: "transcription",
    check: (json) => checkAudio(json, hasStreams),
    textFields: ["file", "prompt"],
    knownFields:
      "chunking_strategy context_bias diarize include keywords known_speaker_names known_speaker_references language languages " +
      "response_format timestamp_granularities",
    countTexts: (json) => partsOf(json),
    repeatedBytes: (json) => Math.ceil(secondsMaxOf(json) * TOKENS_PER_SECOND),
    outputTokensMax: (json) =>
      Math.min(
        partsOf(json) * OUTPUT_TOKENS_PER_PART,
        OUTPUT_TOKENS_MIN + Math.ceil(secondsMaxOf(json) * OUTPUT_TOKENS_PER_SECOND),
      ),
    unitsMax: (json) => ({ audio_second: Math.ceil(secondsMaxOf(json)) }),
    readUsage: usageOfAudio,
    writeRequest: writeAudioRequest,
    writeReply: writeAudioReply,
    writeFile: writeTranscript,
    form: {
      isOptional: false,
      fields: {
        stream: "boolean",
        diarize: "boolean",
        temperature: "number",
        timestamp_granularities: "list",
        include: "list",
        keywords: "list",
        languages: "list",
        known_speaker_names: "list",
        known_speaker_references: "list",
        context_bias: "list",
      },
      describeFile: (bytes) => {
        const { secondsMax, seconds } = audioLength(bytes);
        return { seconds_max: secondsMax, ...(seconds === undefined ? {} : { seconds }) };
      },
    },
    ...(hasStreams
      ? {
          stream: {
            isStream: ({ stream }) => stream === true,
            formOf: () => ({ sent: "events", returned: "events" }),
            usageInEvent: usageOfAudio,
            isLast: ({ type }) => type === "transcript.text.done" || type === "transcription.done",
            contentOf: ({ delta, text }) => stringIn(delta) ?? stringIn(text),
          },
        }
      : {}),
  };
}

export const TRANSCRIPTIONS_ENDPOINT = audioEndpoint(true);
export const TRANSLATIONS_ENDPOINT = audioEndpoint(false);

function checkAudio(json: JsonObject, hasStreams: boolean): void {
  const { file, response_format: format, stream } = json;
  if (!isObject(file) || typeof file["seconds_max"] !== "number")
    throw invalid("file", "`file` is required: the recording, as a file of the form.");
  if (isSet(format) && !FORMATS.some((one) => one === format))
    throw invalid("response_format", `\`response_format\` must be one of ${FORMATS.join(", ")}.`);
  if (!referencesOf(json).every((one) => typeof one === "string" && one.startsWith("data:")))
    throw invalid(
      "known_speaker_references",
      "`known_speaker_references` must be recordings as `data:` URLs.",
    );
  if (!hasStreams && stream === true)
    throw invalid("stream", "Translations are not streamed. Remove `stream`.");
}

function referencesOf({ known_speaker_references: references }: JsonObject): readonly unknown[] {
  return isSet(references) && !Array.isArray(references) ? [references] : arrayIn(references);
}

function secondsMaxOf(json: JsonObject): number {
  const seconds = numberIn(ownMember(json["file"], "seconds_max")) ?? 0;
  return seconds + referencesOf(json).length * REFERENCE_SECONDS_MAX;
}

function partsOf(json: JsonObject): number {
  return Math.max(1, Math.ceil(secondsMaxOf(json) / PART_SECONDS));
}

/** In the order in which they are trusted: what is billed, then what was read. */
const SECONDS_PATHS = [
  ["usage", "seconds"],
  ["usage", "prompt_audio_seconds"],
  ["duration"],
] as const;

function usageOfAudio(reply: JsonObject, context: RelayedContext): Usage | undefined {
  const usage = ownMember(reply, "usage");
  const statedCostUsd = readStatedCost(usage);
  if (context.isPriced("audio_second")) {
    const audio_second = secondsOf(reply, context);
    return audio_second === undefined
      ? undefined
      : buildUsage({ tokens: {}, fees: { audio_second }, statedCostUsd }, { clamped: false });
  }
  const input = firstNumber(usage, [["input_tokens"], ["prompt_tokens"]]);
  const output = firstNumber(usage, [["output_tokens"], ["completion_tokens"]]);
  if (input === undefined || output === undefined) return undefined;
  const notes: ReadNotes = { clamped: false };
  const audio = valueAt(usage, ["input_token_details", "audio_tokens"]);
  return buildUsage(
    {
      tokens: {
        ...splitInput(notes, {
          total: readCount(notes, input),
          cached: 0,
          audio: readCount(notes, audio),
        }),
        output: readCount(notes, output),
      },
      statedCostUsd,
    },
    notes,
  );
}

/** What the provider states, else what the samples of the file say: at most what was held. */
function secondsOf(
  reply: JsonObject,
  { request, audioSecondsMin }: RelayedContext,
): number | undefined {
  const stated =
    firstNumber(reply, SECONDS_PATHS) ?? numberIn(ownMember(request["file"], "seconds"));
  if (stated === undefined || !(stated >= 0)) return undefined;
  return Math.max(audioSecondsMin, Math.min(stated, Math.ceil(secondsMaxOf(request))));
}

/**
 * Text and subtitles have no usage, so the gateway writes them from a reply with times. A provider that does not report
 * seconds states the length of the recording in such a reply only.
 */
function writeAudioRequest(json: JsonObject, { form }: RelayedContext): MemberChanges {
  const format = stringIn(json["response_format"]) ?? "json";
  const isPlain = format === "text" || (format === "json" && isTimed(form));
  const hasTimes = format === "srt" || format === "vtt";
  if (json["stream"] === true || (!isPlain && !hasTimes)) return {};
  if (form === "mistral") return { response_format: undefined };
  return { response_format: hasTimes || isTimed(form) ? "verbose_json" : "json" };
}

function isTimed(form: RelayedForm): boolean {
  return form === "timed" || form === "together";
}

/** A caller of `json` gets its members alone. */
function writeAudioReply(reply: JsonObject, json: JsonObject, usage: Usage): JsonObject {
  const format = json["response_format"] ?? "json";
  if (format !== "json" || reply["segments"] === undefined || reply["task"] === undefined)
    return reply;
  const seconds = usage.fees.audio_second;
  return {
    text: reply["text"],
    usage: reply["usage"] ?? (seconds === undefined ? {} : { type: "duration", seconds }),
  };
}

function writeTranscript(reply: JsonObject, json: JsonObject): FileReply | undefined {
  const text = stringIn(reply["text"]) ?? "";
  switch (json["response_format"]) {
    case "text":
      return { text: `${text}\n`, contentType: "text/plain; charset=utf-8" };
    case "srt":
      return {
        text: segmentsOf(reply)
          .map(
            ({ start, end, text: line }, index) => `${index + 1}\n${start} --> ${end}\n${line}\n\n`,
          )
          .join("")
          .replaceAll(/(\d\d:\d\d:\d\d)\.(\d{3})/g, "$1,$2"),
        contentType: "text/plain; charset=utf-8",
      };
    case "vtt":
      return {
        text: `WEBVTT\n\n${segmentsOf(reply)
          .map(({ start, end, text: line }) => `${start} --> ${end}\n${line}\n\n`)
          .join("")}`,
        contentType: "text/vtt; charset=utf-8",
      };
    default:
      return undefined;
  }
}

interface Cue {
  readonly start: string;
  readonly end: string;
  readonly text: string;
}

function segmentsOf(reply: JsonObject): readonly Cue[] {
  return arrayIn(reply["segments"]).flatMap((segment) => {
    if (!isObject(segment)) return [];
    const { start, end, text } = segment;
    // An arrow in the text would start another cue.
    const line = (stringIn(text) ?? "").trim().replaceAll("-->", "->");
    return [{ start: clock(start), end: clock(end), text: line }];
  });
}

function clock(value: unknown): string {
  const ms = Math.max(0, Math.round((numberIn(value) ?? 0) * 1_000));
  const part = (unit: number, of: number, digits: number): string =>
    String(Math.floor(ms / unit) % of).padStart(digits, "0");
  return `${part(3_600_000, 100, 2)}:${part(60_000, 60, 2)}:${part(1_000, 60, 2)}.${part(1, 1_000, 3)}`;
}
