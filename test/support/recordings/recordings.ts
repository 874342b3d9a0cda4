// Reads recorded traffic of real providers, which is not part of this repository. Tests that use it are skipped without it.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { encodeEventFrame } from "@postern/simulator";
import { createEventFrameParser, createSseParser, readSse } from "@postern/wires";
import { formatSse } from "../format-sse.ts";
import { skipUnless } from "../skip.ts";

export type RecordedWire = "chat" | "responses" | "messages" | "gemini" | "converse";

/** How the body of a reply is stored. */
export type BodyFormat = "json" | "sse" | "frames" | "payload-lines" | "event-array" | "other";

export interface Recording {
  readonly file: string;
  readonly interaction: number;
  readonly provider: string;
  readonly endpoint: string;
  /** The wire format of the reply; undefined if it is not one that is metered. */
  readonly wire: RecordedWire | undefined;
  readonly model: string;
  /** Whether the reply is a stream, judged by its bytes. */
  readonly stream: boolean;
  readonly status: number;
  readonly url: string;
  readonly requestBody: string | undefined;
  readonly responseBody: Uint8Array;
  readonly responseHeaders: Readonly<Record<string, string>>;
  /** "raw" for the provider's own bytes; the README of the recordings lists other forms. */
  readonly bodyForm: string;
  readonly bodyFormat: BodyFormat;
  readonly summary: {
    readonly features: readonly string[];
    readonly stopReasons: readonly string[];
    /** The usage objects of the reply, merged; later values win. */
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

/** The folder of the recordings; undefined if there is none. */
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

/** All recorded interactions in the order of the manifest. Each cassette is read once. */
export function* recordings(
  accept: (row: { provider: string; endpoint: string; file: string }) => boolean = () => true,
  folder: string | undefined = recordingsFolder(),
): Generator<Recording> {
  if (folder === undefined) return;
  let current = {
    file: "",
    bytes: new Uint8Array(0) as Uint8Array,
    cassette: undefined as Cassette | undefined,
  };
  for (const row of jsonLines<ManifestRow>(join(folder, "manifest.jsonl"))) {
    if (!accept(row)) continue;
    if (current.file !== row.file) {
      const bytes = new Uint8Array(readFileSync(join(folder, row.file)));
      const cassette = row.file.startsWith("cassettes/")
        ? (JSON.parse(decoder.decode(bytes)) as Cassette)
        : undefined;
      current = { file: row.file, bytes, cassette };
    }
    yield current.cassette === undefined
      ? fromFile(row, folder, current.bytes)
      : fromCassette(row, current.cassette);
  }
}

/** The events of a recorded stream in any format. */
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

/** The bytes that the provider sent, or their reconstruction from the recorded events. */
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
    responseBody: unwrapSingleReply(row, bytes) ?? bytes,
    responseHeaders: {},
    bodyForm: row.response_body_form ?? "",
  });
}

// A non-streamed reply to a streaming request is recorded as a stream with one event.
function unwrapSingleReply(row: ManifestRow, bytes: Uint8Array): Uint8Array | undefined {
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

// One source stored binary streams as base64 text.
function unwrapBody(row: ManifestRow, bytes: Uint8Array): Uint8Array {
  if (!row.endpoint.endsWith("-stream") || bytes[0] !== 65) return bytes;
  return new Uint8Array(Buffer.from(decoder.decode(bytes), "base64"));
}

function bodyFormatOf(file: string, body: Uint8Array): BodyFormat {
  if (file.endsWith(".chunks.txt")) return "payload-lines";
  if (file.startsWith("lingua/") && file.endsWith("response-streaming.json") && body[0] === 91)
    return "event-array";
  // A frame starts with its length in four bytes; the first is 0 below 16 MiB.
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

// Fixtures without a request are labeled by provider; their bodies show the actual wire.
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

// The event name of a frame is a header.
function fromFrame(frame: {
  headers: ReadonlyMap<string, string>;
  payload: Uint8Array;
}): RecordedEvent {
  const name = frame.headers.get(":event-type") ?? frame.headers.get(":exception-type") ?? "";
  return { name, data: decoder.decode(frame.payload) };
}

// The event name of a payload is its `type`, or its only key on Converse.
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
