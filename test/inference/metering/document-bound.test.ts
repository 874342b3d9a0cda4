// The most tokens of inline documents: never fewer than a provider can count, whatever a PDF hides.

import { describe, expect, test } from "bun:test";
import { deflateSync } from "node:zlib";
import embeddedFont from "dejavu-fonts-ttf/ttf/DejaVuSans.ttf" with { type: "file" };
import { array, assert, integer, property, string } from "fast-check";
import { importedFile } from "../../../src/base/imported-file.ts";
import { documentSize } from "../../../src/inference/metering/document-bound.ts";
import { inputBound } from "../../../src/inference/metering/input-bound.ts";
import { expectLinearCpuTime } from "../../support/cpu-time.ts";
import { runs } from "../../support/full.ts";
import { TEST_SEED } from "../../support/random.ts";

interface Stream {
  readonly dictionary?: string;
  readonly data: string;
  readonly isPlain?: boolean;
}

interface Pdf {
  readonly kids?: string;
  readonly page?: string;
  readonly content?: string;
  readonly contentDictionary?: string;
  /** Further objects, after those of one page. */
  readonly objects?: readonly (string | Stream)[];
}

/** One page: the catalog, the tree, the page, its content and a font. */
function pdfOf({
  kids = "[3 0 R] /Count 1",
  page = "/Contents 4 0 R",
  content = "BT /F1 12 Tf (Hello) Tj ET",
  contentDictionary = "",
  objects = [],
}: Pdf = {}): Buffer {
  const all: readonly (string | Stream)[] = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids ${kids} >>`,
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] ${page} >>`,
    { dictionary: contentDictionary, data: content },
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ...objects,
  ];
  const bodies = all.map((object, index) => `${index + 1} 0 obj\n${bodyOf(object)}\nendobj\n`);
  return Buffer.from(
    `%PDF-1.7\n%\xb5\xb5\n${bodies.join("")}trailer << /Root 1 0 R /ID [<00> <00>] >>\nstartxref\n0\n%%EOF\n`,
    "latin1",
  );
}

function bodyOf(object: string | Stream): string {
  if (typeof object === "string") return object;
  const { dictionary = "", data, isPlain = false } = object;
  const bytes = isPlain ? data : deflateSync(Buffer.from(data, "latin1")).toString("latin1");
  const filter = isPlain ? "" : "/Filter /FlateDecode";
  return `<< /Length ${bytes.length} ${filter} ${dictionary} >>\nstream\n${bytes}\nendstream`;
}

const sizeOf = (pdf: Pdf) => documentSize(pdfOf(pdf));
/** So many as a context has: a bound above it is no lie. */
const MUCH = 200_000;
const LONG = `BT (${"word ".repeat(MUCH)}) Tj ET`;

async function printed(pages: readonly string[], font: string): Promise<Buffer> {
  const { default: PDFDocument } = await import("pdfkit");
  const document = new PDFDocument({ autoFirstPage: false });
  const chunks: Buffer[] = [];
  document.on("data", (chunk: Buffer) => chunks.push(chunk));
  const ended = new Promise((resolve) => document.on("end", resolve));
  for (const page of pages) document.addPage().font(font).text(page);
  document.end();
  await ended;
  return Buffer.concat(chunks);
}

describe("a PDF", () => {
  test("has its pages and a little more than its text", () => {
    const size = sizeOf({});
    expect(size?.pages).toBe(1);
    expect(size?.textTokens).toBeGreaterThan("Hello".length);
    expect(size?.textTokens).toBeLessThan(3_000);
  });

  test.each(["Helvetica", importedFile(embeddedFont)])(
    "of a printing library has a bound by pages (%s)",
    async (font) => {
      const pages = ["one ".repeat(300), "two ".repeat(300), "three"];
      const size = documentSize(await printed(pages, font));
      expect(size?.pages).toBe(3);
      expect(size?.textTokens).toBeGreaterThan(2_400);
      expect(size?.textTokens).toBeLessThan(30_000);
    },
  );

  test("never has fewer pages or less text than it shows", () => {
    assert(
      property(
        array(string({ unit: "grapheme-ascii", maxLength: 400 }), { minLength: 1, maxLength: 12 }),
        integer({ min: 1, max: 4 }),
        (texts, perPage) => {
          const streams = texts.map((text) => ({
            data: `BT (${text.replaceAll(/[\\()]/g, String.raw`\$&`)}) Tj ET`,
          }));
          const first = 6;
          const contents = texts.map((_, index) => `${first + index} 0 R`);
          const pages = Array.from({ length: Math.ceil(texts.length / perPage) }, (_, index) => {
            const own = contents.slice(index * perPage, (index + 1) * perPage);
            return `<< /Type /Page /Contents [${own.join(" ")}] >>`;
          });
          const kids = pages.map((_, index) => `${first + texts.length + index} 0 R`);
          const size = sizeOf({
            kids: `[${kids.join(" ")}]`,
            page: "",
            objects: [...streams, ...pages],
          });
          const shown = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
          expect(size?.pages ?? Infinity).toBeGreaterThanOrEqual(pages.length);
          expect(size?.textTokens ?? Infinity).toBeGreaterThanOrEqual(shown);
        },
      ),
      { seed: TEST_SEED, numRuns: runs(100) },
    );
  });

  const thousand = Array.from({ length: 1_000 }, (_, index) => `${index + 10} 0 R`).join(" ");
  const pageObjects = Array.from({ length: 1_000 }, (_, index) =>
    `<< /Type /Page /Parent 2 0 R % ${index}\n >>`.replace(/%.*\n/, ""),
  );
  const packed = `10 0 ${pageObjects.join(" ")}`;
  test.each<[what: string, pdf: Pdf]>([
    ["states one page and has a thousand", { kids: `[${thousand}] /Count 1` }],
    ["states a thousand", { kids: "[3 0 R] /Count 1000" }],
    [
      "has a thousand in an object stream",
      { objects: [{ dictionary: "/Type /ObjStm /N 1000 /First 4", data: packed }] },
    ],
  ])("that %s has at least a thousand pages", (_what, pdf) => {
    expect(sizeOf(pdf)?.pages ?? Infinity).toBeGreaterThanOrEqual(1_000);
  });

  const hiding: readonly (readonly [what: string, pdf: Pdf])[] = [
    ["text that is compressed to little", { content: LONG }],
    ["text in hexadecimal digits", { content: `BT <${"41".repeat(MUCH)}> Tj ET` }],
    ["text behind an image", { content: `BI /W 1 ID %% EI ${LONG.replaceAll("\n", " ")}` }],
    ["one page a thousand times", { kids: `[${"3 0 R ".repeat(1_000)}]` }],
    ["a branch twice", { kids: "[6 0 R 6 0 R]", objects: ["<< /Kids [3 0 R] >>"] }],
    ["a tree in another object", { kids: "6 0 R", objects: [`[${thousand}]`] }],
    ["one content on all pages", { page: `/Contents [${"4 0 R ".repeat(MUCH)}]` }],
    ["an array of contents", { page: "/Contents 6 0 R", objects: [`[${"4 0 R ".repeat(1_000)}]`] }],
    ["no content that is known", { page: "/Contents 99 0 R" }],
    ["a form that is drawn often", { objects: ["<< /Subtype /Form >>"] }],
    ["a pattern", { objects: ["<< /PatternType 1 >>"] }],
    ["glyphs that are drawn", { objects: ["<< /Subtype /Type3 >>"] }],
    ["another text for a mark", { objects: ["<< /ActualText (x) >>"] }],
    ["an escaped name", { objects: ["<< /Subtype /F#6frm >>"] }],
    ["a comment between a reference", { page: "/Contents 4 %\n 0 R" }],
    ["encryption", { objects: ["<< /Encrypt 1 0 R >>"] }],
    ["a form to fill in", { objects: ["<< /AcroForm << >> >>"] }],
    ["files", { objects: ["<< /EmbeddedFiles 1 0 R >>"] }],
    ["another file", { contentDictionary: "/F (other.txt)" }],
    ["two filters", { contentDictionary: "/Filter /FlateDecode" }],
    ["a predictor", { contentDictionary: "/DecodeParms << /Predictor 12 >>" }],
    [
      "a font whose codes stand for long texts",
      {
        content: `BT (${"A".repeat(2_000)}) Tj ET`,
        objects: [
          "<< /ToUnicode 7 0 R >>",
          { data: `begincmap 1 beginbfchar <41> <${"0041".repeat(200)}> endbfchar` },
        ],
      },
    ],
    [
      "a glyph whose name is a long text",
      { objects: [`<< /Differences [65 /uni${"0041".repeat(20)}] >>`] },
    ],
    [
      "an object within an image",
      {
        objects: [
          {
            dictionary: "/Subtype /Image",
            isPlain: true,
            data: `x 9 0 obj << /Kids [${thousand}] >> endobj`,
          },
        ],
      },
    ],
    [
      "a stream without a line feed",
      { objects: [`<< /Filter /FlateDecode >> stream\r${LONG} endstream`] },
    ],
  ];
  for (const [what, pdf] of hiding)
    test(`with ${what} has no bound below the context`, () => {
      const { textTokens = Infinity } = sizeOf(pdf) ?? {};
      expect(textTokens).toBeGreaterThanOrEqual(MUCH);
    });

  test("is read in a time that is linear in its length", () => {
    for (const piece of [
      "1",
      "1 ",
      " ",
      "/Contents[",
      "/Kids[",
      "/F 1",
      "_a",
      "<41",
      "1 0 obj stream\nendstream",
    ])
      expectLinearCpuTime(
        (size) => documentSize(Buffer.from(`%PDF-1.7\n${piece.repeat(size)}`)),
        400_000,
      );
  });

  test("that does not end has no bound", () => {
    const pdf = pdfOf();
    for (let end = 20; end < pdf.length; end += 1) documentSize(pdf.subarray(0, end));
    expect(documentSize(Buffer.from("%PDF-1.7"))).toBeUndefined();
  });
});

describe("another document", () => {
  test("of text has its bytes", () => {
    const size = documentSize(Buffer.from("a line of text\n".repeat(100)));
    expect(size?.pages).toBe(0);
    expect(size?.textTokens).toBeGreaterThanOrEqual(1_500);
    expect(size?.textTokens).toBeLessThan(4_000);
  });

  test.each<[what: string, data: Buffer]>([
    ["of an office", Buffer.from("PK\u0003\u0004\u0000\u0000")],
    ["of bytes that are no text", Buffer.from([0xff, 0xfe, 0x41])],
    ["with a PDF behind other text", Buffer.concat([Buffer.from("x\n"), pdfOf()])],
  ])("%s has no bound", (_what, data) => {
    expect(documentSize(data)).toBeUndefined();
  });
});

describe("the input of a call", () => {
  const limits = { imageTokensMax: 6_000, contextTokens: 1_000_000 };
  const boundOf = (part: Record<string, unknown>): number => {
    const json = { messages: [{ role: "user", content: [part] }] };
    return inputBound(JSON.stringify(json), json, limits);
  };
  const data = pdfOf().toString("base64");
  const url = `data:application/pdf;base64,${data}`;

  const known: readonly Record<string, unknown>[] = [
    { type: "document", source: { type: "base64", media_type: "application/pdf", data } },
    { type: "file", file: { filename: "a.pdf", file_data: url } },
    { type: "input_file", filename: "a.pdf", file_data: url },
    { type: "file", file: { file_data: `data:text/plain;base64,${btoa("a text")}` } },
  ];
  test.each(known.map((part) => [part]))("counts the pages of %j", (part) => {
    expect(boundOf(part)).toBeLessThan(15_000);
  });

  const unbounded: readonly Record<string, unknown>[] = [
    { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
    { type: "file", file: { file_data: url, file_id: "file-1" } },
    { type: "input_file", file_data: url, file_url: "https://example.com/a.pdf" },
    { type: "input_file", file_data: `${url}!` },
    { type: "input_video", file_data: url },
  ];
  test.each(unbounded.map((part) => [part]))("fills the context with %j", (part) => {
    expect(boundOf(part)).toBe(1_000_000);
  });
});
