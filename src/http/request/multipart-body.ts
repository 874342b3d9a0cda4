// Decodes a multipart form: texts, and files with their bytes.

import { Fault, invalid } from "../../base/fault.ts";
import { decodeUtf8 } from "./body.ts";

/** A file of a form. */
export interface FormFile {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

export type FormEntry = readonly [name: string, value: string | FormFile];

const PARTS_MAX = 128;
const NAME_MAX_LENGTH = 256;
const HEADERS_MAX_BYTES = 8_192;
const CRLF = "\r\n";

export function isMultipart(headers: Headers): boolean {
  return /^\s*multipart\/form-data\s*(;|$)/i.test(headers.get("content-type") ?? "");
}

/**
 * The bytes of a file are a view of the body and no copy. Strict, because the provider gets what was read here and not the
 * caller's bytes: a part that two parsers could read differently is refused.
 */
export function parseMultipart(body: Uint8Array, contentType: string): readonly FormEntry[] {
  const delimiter = `--${boundaryOf(contentType)}`;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length);
  const entries: FormEntry[] = [];
  let at = bytes.indexOf(delimiter, 0, "latin1");
  if (at === -1) throw malformed("it has no boundary");
  for (;;) {
    at += delimiter.length;
    if (bytes.toString("latin1", at, at + 2) === "--") return entries;
    if (entries.length === PARTS_MAX)
      throw invalid(undefined, `The form must have at most ${PARTS_MAX} fields.`);
    const start = bytes.indexOf(CRLF, at, "latin1") + CRLF.length;
    const headersEnd = bytes.indexOf(CRLF + CRLF, start - CRLF.length, "latin1");
    const end = bytes.indexOf(CRLF + delimiter, headersEnd + CRLF.length, "latin1");
    if (start < at + CRLF.length || headersEnd === -1 || end === -1)
      throw malformed("its last part is not complete");
    if (headersEnd - start > HEADERS_MAX_BYTES) throw malformed("a part has too long headers");
    const content = bytes.subarray(Math.min(headersEnd + 2 * CRLF.length, end), end);
    entries.push(entryOf(decodeUtf8(bytes.subarray(start, Math.max(start, headersEnd))), content));
    at = end + CRLF.length;
  }
}

function boundaryOf(contentType: string): string {
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? plain ?? "";
  if (boundary === "" || boundary.length > 200) throw malformed("its content type has no boundary");
  return boundary;
}

function entryOf(headers: string, content: Buffer): FormEntry {
  const lines = headers.split(CRLF);
  const disposition = headerOf(lines, "content-disposition") ?? "";
  const name = parameterOf(disposition, "name");
  if (!/^form-data\s*;/i.test(disposition) || name === undefined || name === "")
    throw malformed("a part has no name");
  if (name.length > NAME_MAX_LENGTH) throw malformed("the name of a part is too long");
  const encoding = headerOf(lines, "content-transfer-encoding") ?? "binary";
  if (!/^(binary|7bit|8bit)$/i.test(encoding)) throw malformed(`the part ${name} is encoded`);
  const filename = parameterOf(disposition, "filename");
  if (filename === undefined) return [name, decodeUtf8(content)];
  const contentType = headerOf(lines, "content-type") ?? "application/octet-stream";
  return [name, { filename, contentType: safeType(contentType), bytes: content }];
}

function headerOf(lines: readonly string[], name: string): string | undefined {
  const found = lines.filter((line) => line.slice(0, name.length + 1).toLowerCase() === `${name}:`);
  if (found.length > 1) throw malformed(`a part repeats ${name}`);
  return found[0]?.slice(name.length + 1).trim();
}

/** Browsers and SDKs escape quotes and line ends as percent codes, older clients with a backslash. */
function parameterOf(header: string, name: string): string | undefined {
  const value = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]+))`, "i").exec(
    header,
  );
  const text = value?.[1]?.replaceAll(/\\(["\\])/g, "$1") ?? value?.[2];
  return text?.replaceAll(/\p{Cc}/gu, "");
}

function safeType(contentType: string): string {
  return /^[\w.+-]+\/[\w.+-]+$/.test(contentType.split(";")[0]?.trim() ?? "")
    ? (contentType.split(";")[0]?.trim() ?? "")
    : "application/octet-stream";
}

function malformed(reason: string): Fault {
  return new Fault("invalid_request", `malformed form: ${reason}`, {
    message: `The form is malformed: ${reason}. Send the body as \`multipart/form-data\`, as an HTTP client encodes it.`,
  });
}

/** The text of a new form. `boundary` must not occur in the values. */
export function encodeMultipart(
  entries: readonly FormEntry[],
  boundary: string,
): Uint8Array<ArrayBuffer> {
  const parts = entries.flatMap(([name, value]) => {
    const start = `--${boundary}${CRLF}content-disposition: form-data; name="${escaped(name)}"`;
    return typeof value === "string"
      ? [Buffer.from(`${start}${CRLF}${CRLF}${value}${CRLF}`)]
      : [
          Buffer.from(
            `${start}; filename="${escaped(value.filename)}"${CRLF}content-type: ${value.contentType}${CRLF}${CRLF}`,
          ),
          value.bytes,
          Buffer.from(CRLF),
        ];
  });
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--${CRLF}`)]);
}

/** As the HTML standard says. */
function escaped(text: string): string {
  return text.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");
}
