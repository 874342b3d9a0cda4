// Recorded traffic of real providers, which lies beside the project and is never part of it. Tests that use it skip with a
// notice where it is absent.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import {
  createEventFrameParser,
  encodeEventFrame,
} from "../../../src/base/streams/aws-event-stream.ts";
import { createSseParser, readSse } from "../../../src/base/streams/sse.ts";
import { formatSse } from "../format-sse.ts";
import { skipUnless } from "../skip.ts";

export type RecordedWire = "chat" | "responses" | "messages" | "gemini" | "converse";

/** How the body of a reply is kept, and so how its stream is to be read. */
export type BodyFormat = "json" | "sse" | "frames" | "payload-lines" | "event-array" | "other";

export interface Recording {
  readonly file: string;
  readonly interaction: number;
  readonly provider: string;
  readonly endpoint: string;
  /** The wire that the reply is written in, or `undefined` where it is none that is metered. */
  readonly wire: RecordedWire | undefined;
  readonly model: string;
  /** Whether the reply is a stream, as its bytes show. */
  readonly stream: boolean;
  readonly status: number;
  readonly url: string;
  readonly requestBody: string | undefined;
  readonly responseBody: Uint8Array;
  readonly responseHeaders: Readonly<Record<string, string>>;
  /** "raw" where these are the provider's own bytes; the folder's README says what else there is. */
  readonly bodyForm: string;
  readonly bodyFormat: BodyFormat;
  readonly summary: {
    readonly features: readonly string[];
    readonly stopReasons: readonly string[];
    /** The usage objects of the reply, merged, the last value of a key winning. */
    readonly usage: Readonly<Record<string, unknown>>;
  };
}

export interface RecordedEvent {
  readonly name: string;
  readonly data: string;
}

interface ManifestRow {
  file: string;
  interaction: number;
  provider: string;
  endpoint: string;
  model: string | null;
  stream: boolean;
  status: number | null;
  features?: string[];
  stop_reasons?: string[];
  usage?: Record<string, unknown> | null;
  response_body_form?: string;
}

interface CassetteBody {
  body?: string | null;
  body_encoding?: string;
  body_form?: string;
  headers?: Record<string, string>;
}

interface Cassette {
  interactions: {
    request: CassetteBody & { url?: string };
    response: CassetteBody & { status: number };
  }[];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const ROOT = resolve(import.meta.dir, "..", "..", "..");

/** The folder, or `undefined` where it is absent. */
export function recordingsFolder(): string | undefined {
  const folder = resolve(
    ROOT,
    process.env["POSTERN_RECORDINGS"] ?? join("..", "shared", "recordings"),
  );
  return existsSync(join(folder, "manifest.jsonl")) ? folder : undefined;
}

/** For `skipIf`: true, with a reason, if there are no recordings. `tests` names what is skipped. */
export function skipWithoutRecordings(tests: string): boolean {
  return skipUnless(
    recordingsFolder() !== undefined,
    `${tests}: no recordings (set POSTERN_RECORDINGS to their folder)`,
  );
}

/** Every recorded interaction, in the order of the manifest. A cassette is read once for all its interactions. */
export function* recordings(
  accept: (row: { provider: string; endpoint: string; file: string }) => boolean = () => true,
): Generator<Recording> {
  const folder = recordingsFolder();
  if (folder === undefined) return;
  let open = {
    file: "",
    bytes: new Uint8Array(0) as Uint8Array,
    cassette: undefined as Cassette | undefined,
  };
  for (const row of jsonLines<ManifestRow>(join(folder, "manifest.jsonl"))) {
    if (!accept(row)) continue;
    if (open.file !== row.file) {
      const bytes = new Uint8Array(readFileSync(join(folder, row.file)));
      const cassette = row.file.startsWith("cassettes/")
        ? (JSON.parse(decoder.decode(bytes)) as Cassette)
        : undefined;
      open = { file: row.file, bytes, cassette };
    }
    yield open.cassette === undefined
      ? fromFile(row, folder, open.bytes)
      : fromCassette(row, open.cassette);
  }
}

/** The events of a recorded stream, whichever form it is kept in. */
export function eventsOf(recording: Recording): RecordedEvent[] {
  const text = (): string => decoder.decode(recording.responseBody);
  switch (recording.bodyFormat) {
    case "sse": {
      const parser = createSseParser();
      return [...parser.push(recording.responseBody), ...parser.end()].flatMap(
        (event) => readSse(event) ?? [],
      );
    }
    case "frames": {
      return createEventFrameParser().push(recording.responseBody).map(fromFrame);
    }
    case "payload-lines":
      return text()
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map(fromPayload);
    case "event-array": {
      const events: unknown[] = JSON.parse(text());
      return events.map((event) => fromPayload(JSON.stringify(event)));
    }
    case "json":
    case "other":
      return [];
  }
}

/** The bytes that a provider would send for this reply: its own where they were kept, else made from its events. */
export function replayBytes(recording: Recording): Uint8Array {
  const { bodyFormat, wire } = recording;
  if (bodyFormat !== "payload-lines" && bodyFormat !== "event-array") return recording.responseBody;
  const events = eventsOf(recording);
  if (wire === "converse") {
    const frames = events.map(({ name, data }) =>
      encodeEventFrame(
        { ":event-type": name, ":content-type": "application/json", ":message-type": "event" },
        encoder.encode(data),
      ),
    );
    return Buffer.concat(frames);
  }
  const named = wire === "messages" || wire === "responses";
  const text = events
    .map(({ name, data }) => formatSse(named ? { event: name, data } : { data }))
    .join("");
  return encoder.encode(wire === "chat" ? `${text}data: [DONE]\n\n` : text);
}

function fromCassette(row: ManifestRow, cassette: Cassette): Recording {
  const interaction = cassette.interactions[row.interaction];
  if (interaction === undefined)
    throw new Error(`${row.file} has no interaction ${row.interaction}`);
  const { request, response } = interaction;
  return toRecording(row, {
    status: response.status,
    url: request.url ?? "",
    requestBody:
      request.body === null || request.body === undefined
        ? undefined
        : decoder.decode(bytesOf(request)),
    responseBody: unwrapBody(row, bytesOf(response)),
    responseHeaders: response.headers ?? {},
    bodyForm: response.body_form ?? "raw",
  });
}

function fromFile(row: ManifestRow, folder: string, bytes: Uint8Array): Recording {
  const request = row.file.startsWith("lingua/")
    ? join(folder, row.file.replace(/response(-streaming)?\.json$/, "request.json"))
    : "";
  return toRecording(row, {
    status: row.status ?? 200,
    url: "",
    requestBody: request !== "" && existsSync(request) ? readFileSync(request, "utf8") : undefined,
    responseBody: wholeReply(row, bytes) ?? bytes,
    responseHeaders: {},
    bodyForm: row.response_body_form ?? "",
  });
}

// Where a stream was asked for and a whole reply came, the source filed it as a stream of one event.
function wholeReply(row: ManifestRow, bytes: Uint8Array): Uint8Array | undefined {
  if (
    !row.file.endsWith("vertex-anthropic/response-streaming.json") &&
    !row.file.endsWith("vertex-anthropic/followup-response-streaming.json")
  )
    return undefined;
  const [reply]: unknown[] = JSON.parse(decoder.decode(bytes));
  return encoder.encode(JSON.stringify(reply));
}

type StoredBody = Pick<
  Recording,
  "status" | "url" | "requestBody" | "responseBody" | "responseHeaders" | "bodyForm"
>;

function toRecording(row: ManifestRow, storedBody: StoredBody): Recording {
  const bodyFormat = bodyFormatOf(row.file, storedBody.responseBody);
  return {
    ...storedBody,
    file: row.file,
    interaction: row.interaction,
    provider: row.provider,
    endpoint: row.endpoint,
    wire: wireOf(row, storedBody.responseBody),
    model: row.model ?? "",
    stream: bodyFormat !== "json" && bodyFormat !== "other",
    bodyFormat,
    summary: {
      features: row.features ?? [],
      stopReasons: row.stop_reasons ?? [],
      usage: row.usage ?? {},
    },
  };
}

function bytesOf({ body, body_encoding: encoding }: CassetteBody): Uint8Array {
  return encoding === "base64"
    ? new Uint8Array(Buffer.from(body ?? "", "base64"))
    : encoder.encode(body ?? "");
}

// One source kept its binary streams as base64 text.
function unwrapBody(row: ManifestRow, bytes: Uint8Array): Uint8Array {
  if (!row.endpoint.endsWith("-stream") || bytes[0] !== 65) return bytes;
  return new Uint8Array(Buffer.from(decoder.decode(bytes), "base64"));
}

function bodyFormatOf(file: string, body: Uint8Array): BodyFormat {
  if (file.endsWith(".chunks.txt")) return "payload-lines";
  if (file.startsWith("lingua/") && file.endsWith("response-streaming.json") && body[0] === 91)
    return "event-array";
  // The first byte of a frame is that of its length, which is far below 16 MiB.
  if (body[0] === 0) return "frames";
  const text = decoder.decode(body);
  if (/^\s*(?:data|event|id|retry)?:/.test(text)) return "sse";
  return isJson(text) ? "json" : "other";
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const WIRES: ReadonlyMap<string, RecordedWire> = new Map([
  ["openai.chat", "chat"],
  ["openai.responses", "responses"],
  ["openai.responses.sub", "responses"],
  ["anthropic.messages", "messages"],
  ["vertex.rawPredict", "messages"],
  ["vertex.streamRawPredict", "messages"],
  ["gemini.generateContent", "gemini"],
  ["gemini.streamGenerateContent", "gemini"],
  ["bedrock.converse", "converse"],
  ["bedrock.converse-stream", "converse"],
]);

// Fixtures that came without a request were filed by the name of their provider; their bodies know better.
function wireOf(row: ManifestRow, body: Uint8Array): RecordedWire | undefined {
  const wire = WIRES.get(row.endpoint);
  if (row.file.startsWith("cassettes/")) return wire;
  if (
    /\/(?:skills|image|embedding|transcription|speech)__/.test(row.file) ||
    row.file.includes("nockFixtures")
  )
    return undefined;
  if (wire !== "responses") return wire;
  return /"object":\s*"(?:chat\.completion|text_completion)/.test(decoder.decode(body))
    ? "chat"
    : wire;
}

// A frame's event is named by a header; Bedrock's raw invocations wrap the model's own event in base64.
function fromFrame(frame: {
  headers: ReadonlyMap<string, string>;
  payload: Uint8Array;
}): RecordedEvent {
  const name = frame.headers.get(":event-type") ?? frame.headers.get(":exception-type") ?? "";
  return { name, data: decoder.decode(frame.payload) };
}

// A bare payload names its event by `type`, or, on Converse, by its only key.
function fromPayload(line: string): RecordedEvent {
  const payload: unknown = isJson(line) ? JSON.parse(line) : undefined;
  if (typeof payload !== "object" || payload === null) return { name: "", data: line };
  const keys = Object.keys(payload);
  const only = keys[0] ?? "";
  if (keys.length === 1 && /^(?:message|contentBlock|metadata|.*Exception$)/.test(only)) {
    return { name: only, data: JSON.stringify(Object.values(payload)[0]) };
  }
  return {
    name: "type" in payload && typeof payload.type === "string" ? payload.type : "",
    data: line,
  };
}

function* jsonLines<Line>(file: string): Generator<Line> {
  for (const line of readFileSync(file, "utf8").split("\n")) {
    if (line !== "") yield JSON.parse(line) as Line;
  }
}
