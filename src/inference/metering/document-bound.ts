// The most tokens that an inline document can have for a model: of a text its bytes, and of a PDF its pages, as images, and the
// text on them. A PDF can hide pages and text in many ways, so one with anything that is not understood here has no bound, and
// is held as the whole context. Each check names what would hide something.

import { isUtf8 } from "node:buffer";
import { inflateSync } from "node:zlib";

export interface DocumentSize {
  readonly pages: number;
  readonly textTokens: number;
}

/** What a provider adds to a document, such as a summary of a table. */
const OVERHEAD_TOKENS = 2_000;
/** Larger ones are seldom smaller than the context. */
const BYTES_MAX = 8_388_608;
/** The most bytes that the streams of a PDF are inflated to: a PDF can be a thousandth of its content. */
const INFLATED_MAX = 1_048_576;
const STREAMS_MAX = 5_000;

/** Undefined if the size cannot be told: the document may fill the context. */
export function documentSize(data: Buffer): DocumentSize | undefined {
  if (data.length > BYTES_MAX) return undefined;
  const isPdf = data.subarray(0, 5).toString("latin1") === "%PDF-";
  if (isPdf) return pdfSize(data.toString("latin1"));
  // Other formats, such as those of Office, are compressed. Programs find a PDF also behind other bytes.
  if (!isUtf8(data) || data.includes(0) || data.includes("%PDF-")) return undefined;
  return { pages: 0, textTokens: data.length + OVERHEAD_TOKENS };
}

/** Encryption, text that is drawn repeatedly or is not on its page, and files within the file or beside it. */
const UNBOUNDED =
  /\/(?:Encrypt|XFA|AcroForm|Form|PatternType|Type3|ActualText|EmbeddedFiles?|Collection)(?![A-Za-z0-9])|\/F[\0\t\n\f\r ]*(?:[(<]|\d+[\0\t\n\f\r ]+\d+[\0\t\n\f\r ]+R)/;
/** `/F#6frm` is another spelling of `/Form`. */
const ESCAPED_NAME = /\/[^\s/<>[\](){}%]*#/;
/** Names of glyphs that stand for many characters. */
const LONG_GLYPH_NAME = /\bu(?:ni)?[0-9A-Fa-f]{9,}|(?:_[A-Za-z0-9.]+){3}/;
const SPACE = "[\\0\\t\\n\\f\\r ]+";
const REFERENCE_TEXT = `(?<!\\d)(\\d{1,10})${SPACE}\\d{1,5}${SPACE}R(?![A-Za-z0-9])`;
const REFERENCE = new RegExp(REFERENCE_TEXT, "g");
/** What a page or an annotation contains: a stream, several, or a text. */
const CONTENTS = new RegExp(
  `/Contents${SPACE.replace("+", "*")}(?:\\[([^\\][/]*)\\]|(${REFERENCE_TEXT})|[(<])`,
  "g",
);
const FONT_DATA = new RegExp(`/(?:ToUnicode|FontFile[23]?)${SPACE}${REFERENCE_TEXT}`, "g");
const OBJECT = /\d[\0\t\n\f\r ]+\d{1,10}[\0\t\n\f\r ]+obj/;
const OBJECT_HEAD = /(?<!\d)(\d{1,10})[\0\t\n\f\r ]+\d{1,5}[\0\t\n\f\r ]+$/;
const OBJECT_HEAD_CHARACTERS = 24;

function pdfSize(pdf: string): DocumentSize | undefined {
  try {
    return readPdf(pdf);
  } catch (error) {
    if (error === NO_BOUND) return undefined;
    throw error;
  }
}

/** Thrown where the size of a PDF cannot be told. */
const NO_BOUND = new Error("the size of the PDF cannot be told");

function readPdf(pdf: string): DocumentSize {
  const { streams, outside } = readStreams(pdf);
  const inflate = createInflate();
  const objects = streams.filter(({ dictionary }) =>
    /\/(?:ObjStm|First)(?![A-Za-z0-9])/.test(dictionary),
  );
  const structure = [outside, ...objects.map(inflate)].join("\n");
  if (UNBOUNDED.test(structure) || ESCAPED_NAME.test(structure) || structure.includes("%"))
    throw NO_BOUND;
  const byId = Map.groupBy(streams, ({ id }) => id);
  // What is no stream may be an array of streams, which many pages can share.
  const dataOf = (id: number): readonly string[] => {
    const found = byId.get(id);
    if (found === undefined) throw NO_BOUND;
    return found.map(inflate);
  };
  let shown = stringBytes(structure);
  for (const [id, count] of contentsOf(structure))
    for (const content of dataOf(id)) shown += shownBytes(content) * count;
  let bytesPerCode = UTF8_BYTES_MAX;
  for (const id of countsOf(structure, FONT_DATA).keys())
    for (const data of dataOf(id)) {
      if (LONG_GLYPH_NAME.test(data)) throw NO_BOUND;
      if (/begin(?:cmap|bf)/.test(data)) bytesPerCode = Math.max(bytesPerCode, longestCode(data));
    }
  if (LONG_GLYPH_NAME.test(structure)) throw NO_BOUND;
  return { pages: countPages(structure), textTokens: shown * bytesPerCode + OVERHEAD_TOKENS };
}

interface PdfStream {
  readonly id: number;
  readonly dictionary: string;
  readonly raw: string;
}

interface PdfParts {
  readonly streams: readonly PdfStream[];
  /** All that is outside of streams, without the comments of every PDF. */
  readonly outside: string;
}

function readStreams(pdf: string): PdfParts {
  const streams: PdfStream[] = [];
  const parts: string[] = [];
  let at = 0;
  for (const { 0: keyword, index } of pdf.matchAll(/stream\r?\n/g)) {
    if (index < at) continue;
    const start = index + keyword.length;
    const end = pdf.indexOf("endstream", start);
    const before = pdf.slice(at, index);
    const raw = pdf.slice(start, end);
    const head = before.lastIndexOf("obj");
    const [, id] =
      OBJECT_HEAD.exec(
        before.slice(Math.max(0, head - OBJECT_HEAD_CHARACTERS), Math.max(0, head)),
      ) ?? [];
    const dictionary = before.slice(head + 3);
    // Offsets of the file could lead to an object that is hidden in a stream.
    if (end < 0 || id === undefined || OBJECT.test(raw) || raw.includes("stream")) throw NO_BOUND;
    if (streams.length === STREAMS_MAX) throw NO_BOUND;
    streams.push({ id: Number(id), dictionary, raw });
    parts.push(before);
    at = end + "endstream".length;
  }
  parts.push(pdf.slice(at));
  const outside = parts
    .join("\n")
    .replace(/^%PDF-[^\r\n]*[\r\n]+(?:%[^\r\n]*)?/, "")
    .replaceAll("%%EOF", "");
  // Some programs also read a stream whose keyword is not followed by a line feed.
  if (outside.includes("stream")) throw NO_BOUND;
  return { streams, outside };
}

const FILTER = /\/Filter[\0\t\n\f\r ]*(?:\[[\0\t\n\f\r ]*\/(\w+)[\0\t\n\f\r ]*\]|\/(\w+))/;

/** The data of a stream, of all streams of a document at most `INFLATED_MAX`. */
function createInflate(): (stream: PdfStream) => string {
  let rest = INFLATED_MAX;
  return ({ dictionary, raw }) => {
    const filters = dictionary.split("/Filter").length - 1;
    const [, inArray, alone = inArray] = FILTER.exec(dictionary) ?? [];
    const isPlain = filters === 0 && !dictionary.includes("/DecodeParms");
    if (isPlain) return raw;
    // A predictor would change the bytes once more.
    if (filters !== 1 || alone !== "FlateDecode" || dictionary.includes("/DecodeParms"))
      throw NO_BOUND;
    try {
      const bytes = inflateSync(Buffer.from(raw, "latin1"), { maxOutputLength: Math.max(1, rest) });
      rest -= bytes.length;
      return bytes.toString("latin1");
    } catch {
      throw NO_BOUND;
    }
  };
}

function countsOf(text: string, pattern: RegExp): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const [, id] of text.matchAll(pattern))
    counts.set(Number(id), (counts.get(Number(id)) ?? 0) + 1);
  return counts;
}

/** How often each stream is the content of a page. */
function contentsOf(structure: string): ReadonlyMap<number, number> {
  const found = Array.from(structure.matchAll(CONTENTS));
  if (found.length !== structure.split("/Contents").length - 1) throw NO_BOUND;
  return countsOf(found.map(([, list, one]) => list ?? one ?? "").join("\n"), REFERENCE);
}

const KIDS = /\/Kids[\0\t\n\f\r ]*\[([^\][/]*)\]/g;
const PAGE = /\/Type[\0\t\n\f\r ]*\/Page(?![A-Za-z0-9])/g;
const COUNT = /\/Count[\0\t\n\f\r ]+(\d+)/g;

/** A page that is in the tree twice is two pages, and a branch that is there twice has twice its pages. */
function countPages(structure: string): number {
  const arrays = Array.from(structure.matchAll(KIDS), ([, kids = ""]) => kids);
  if (arrays.length === 0 || arrays.length !== structure.split("/Kids").length - 1) throw NO_BOUND;
  const kids = countsOf(arrays.join("\n"), REFERENCE);
  if (kids.values().some((count) => count > 1)) throw NO_BOUND;
  let pages = Math.max(1, kids.size, Array.from(structure.matchAll(PAGE)).length);
  for (const [, count] of structure.matchAll(COUNT)) pages = Math.max(pages, Number(count));
  return pages;
}

/** The most bytes of one character. A code of a font is one character, unless its map says more. */
const UTF8_BYTES_MAX = 3;

/** The most bytes of text for which a code of the font stands: UTF-16 in hexadecimal digits. */
function longestCode(map: string): number {
  let longest = 0;
  for (const [, digits = ""] of map.matchAll(/<([0-9A-Fa-f\s]*)>/g)) {
    const bytes = Buffer.from(digits.replaceAll(/\s/g, ""), "hex");
    const whole = bytes.subarray(0, bytes.length - (bytes.length % 2));
    longest = Math.max(longest, Buffer.byteLength(Buffer.from(whole).swap16().toString("utf16le")));
  }
  return longest;
}

/** The bytes of text of a page: of its strings. Those of an image within it could be taken for the begin of a comment. */
function shownBytes(content: string): number {
  return /\bID\b/.test(content) ? content.length : stringBytes(content);
}

function stringBytes(content: string): number {
  let shown = 0;
  let depth = 0;
  let isHex = false;
  for (let at = 0; at < content.length; at++) {
    const char = content.charCodeAt(at);
    if (depth > 0) {
      shown += 1;
      if (char === BACKSLASH) at += 1;
      else if (char === OPEN) depth += 1;
      else if (char === CLOSE) depth -= 1;
    } else if (isHex) {
      shown += BYTES_PER_DIGIT;
      isHex = char !== GREATER;
    } else if (char === OPEN) depth = 1;
    else if (char === LESS && content.charCodeAt(at + 1) !== LESS) isHex = true;
    else if (char === LESS) at += 1;
    else if (char === PERCENT) at = lineEnd(content, at);
  }
  return Math.ceil(shown);
}

const [BACKSLASH, OPEN, CLOSE, LESS, GREATER, PERCENT] = [92, 40, 41, 60, 62, 37];
/** Two hexadecimal digits of a string are one byte. */
const BYTES_PER_DIGIT = 0.5;

function lineEnd(content: string, from: number): number {
  for (let at = from; at < content.length; at++)
    if (content[at] === "\n" || content[at] === "\r") return at;
  return content.length;
}
