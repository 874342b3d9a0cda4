// Reads a form with one file as it arrives, so that an upload takes no more memory than a part of it.

import { invalid } from "../../base/fault.ts";

const FIELDS_MAX = 8;
const FIELD_MAX_BYTES = 1_024;
const HEADERS_MAX_BYTES = 4_096;
const EPILOGUE_MAX_BYTES = 65_536;
const LINE_END = "\r\n";
const HEADERS_END = "\r\n\r\n";

export interface UploadForm {
  readonly fields: ReadonlyMap<string, string>;
  readonly filename: string;
}

/** Calls `onContent` with the content of the field `file`, and waits for it. */
export async function readUpload(
  body: AsyncIterable<Uint8Array>,
  contentType: string,
  onContent: (bytes: Uint8Array) => Promise<void>,
): Promise<UploadForm> {
  const delimiter = `${LINE_END}--${boundaryOf(contentType)}`;
  const input = createInput(body);
  // The first delimiter is at the beginning of the body.
  input.prepend(LINE_END);
  await input.readUntil(delimiter, HEADERS_MAX_BYTES);
  const fields = new Map<string, string>();
  let filename: string | undefined;
  for (;;) {
    const end = await input.readUntil(LINE_END, HEADERS_MAX_BYTES);
    if (end.toString("latin1").startsWith("--")) break;
    input.prepend(LINE_END);
    const headers = (await input.readUntil(HEADERS_END, HEADERS_MAX_BYTES)).toString("utf8");
    const name = parameterOf(headers, "name");
    if (name === undefined) throw malformed("a field has no name");
    if (name === "file") {
      if (filename !== undefined) throw malformed("it has more than one file");
      filename = parameterOf(headers, "filename") ?? "upload.jsonl";
      await input.streamUntil(delimiter, onContent);
    } else {
      if (fields.size >= FIELDS_MAX) throw malformed(`it has more than ${FIELDS_MAX} fields`);
      if (fields.has(name)) throw invalid(name, `The field \`${name}\` is repeated. Send it once.`);
      fields.set(name, (await input.readUntil(delimiter, FIELD_MAX_BYTES)).toString("utf8"));
    }
  }
  // What follows the form is part of a signed body.
  await input.drain(EPILOGUE_MAX_BYTES);
  if (filename === undefined) throw invalid("file", "`file` is required: the content of the file.");
  return { fields, filename };
}

function boundaryOf(contentType: string): string {
  const [, quoted, plain] =
    /^\s*multipart\/form-data\s*;.*?boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(
      contentType,
    ) ?? [];
  const boundary = quoted ?? plain;
  if (boundary !== undefined) return boundary;
  throw invalid(
    "content-type",
    "Send the file as `multipart/form-data` with the fields `file` and `purpose`.",
  );
}

function parameterOf(headers: string, name: string): string | undefined {
  const disposition = /^content-disposition:[^\r]*$/im.exec(headers)?.[0] ?? "";
  return new RegExp(`;\\s*${name}="([^"]*)"`, "i").exec(disposition)?.[1];
}

function malformed(reason: string) {
  return invalid(undefined, `The multipart form cannot be read: ${reason}.`);
}

interface Input {
  readonly prepend: (text: string) => void;
  /** The bytes before the next `mark`, which is skipped. */
  readonly readUntil: (mark: string, maxBytes: number) => Promise<Buffer>;
  readonly streamUntil: (
    mark: string,
    onContent: (bytes: Uint8Array) => Promise<void>,
  ) => Promise<void>;
  /** Reads to the end of the body. */
  readonly drain: (maxBytes: number) => Promise<void>;
}

function createInput(body: AsyncIterable<Uint8Array>): Input {
  const chunks = body[Symbol.asyncIterator]();
  let buffered: Buffer = Buffer.alloc(0);
  const readMore = async (): Promise<void> => {
    const next = await chunks.next();
    if (next.done === true) throw malformed("it ended early");
    buffered =
      buffered.length === 0 ? Buffer.from(next.value) : Buffer.concat([buffered, next.value]);
  };
  return {
    drain: async (maxBytes) => {
      let bytes = buffered.length;
      for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
        bytes += next.value.length;
        if (bytes > maxBytes) throw malformed(`more than ${maxBytes} bytes follow it`);
      }
    },
    prepend: (text) => {
      buffered = Buffer.concat([Buffer.from(text, "latin1"), buffered]);
    },
    readUntil: async (mark, maxBytes) => {
      for (;;) {
        const at = buffered.indexOf(mark, 0, "latin1");
        if (at > maxBytes || (at === -1 && buffered.length > maxBytes + mark.length))
          throw malformed(`a field or its headers have more than ${maxBytes} bytes`);
        if (at !== -1) {
          const read = buffered.subarray(0, at);
          buffered = buffered.subarray(at + mark.length);
          return read;
        }
        await readMore();
      }
    },
    streamUntil: async (mark, onContent) => {
      for (;;) {
        const at = buffered.indexOf(mark, 0, "latin1");
        // The mark may have begun at the end of what has arrived.
        const length = at === -1 ? Math.max(0, buffered.length - mark.length + 1) : at;
        if (length > 0) await onContent(buffered.subarray(0, length));
        buffered = buffered.subarray(at === -1 ? length : at + mark.length);
        if (at !== -1) return;
        await readMore();
      }
    },
  };
}
