// Writes a PDF of one page (ISO 32000-1) with text and lines, in the fonts that every reader has. Enough for an invoice; the
// libraries for it weigh 10 MB and more, and their fonts are files that the executable cannot contain.

const WIDTH = 595;
const HEIGHT = 842;

export interface PdfText {
  readonly text: string;
  /** Points from the left; with `isRight`, the right end of the text. */
  readonly x: number;
  /** Points from the top. */
  readonly y: number;
  readonly size?: number;
  readonly isBold?: boolean;
  readonly isRight?: boolean;
}

export interface PdfLine {
  readonly x1: number;
  readonly x2: number;
  readonly y: number;
}

export interface PdfPage {
  readonly title: string;
  readonly texts: readonly PdfText[];
  readonly lines: readonly PdfLine[];
}

export function writePdf({ title, texts, lines }: PdfPage): Uint8Array<ArrayBuffer> {
  const content = [
    ...texts.map(textOperator),
    "0.8 G 0.7 w",
    ...lines.map(({ x1, x2, y }) => `${x1} ${HEIGHT - y} m ${x2} ${HEIGHT - y} l S`),
  ].join("\n");
  const font = (name: string): string =>
    `<< /Type /Font /Subtype /Type1 /BaseFont /${name} /Encoding /WinAnsiEncoding >>`;
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R /Lang (en) >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${WIDTH} ${HEIGHT}] /Contents 6 0 R /Resources << /Font << /F1 4 0 R /F2 5 0 R >> >> >>`,
    font("Helvetica"),
    font("Helvetica-Bold"),
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    `<< /Title (${escaped(title)}) /Producer (Postern) >>`,
  ];
  let file = "%PDF-1.4\n";
  const offsets = objects.map((object, index) => {
    const offset = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const start = file.length;
  const entries = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`);
  file += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${entries.join("")}`;
  file += `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R /Info 7 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  // Each character of the file is one byte.
  return Uint8Array.from(file, (character) => character.charCodeAt(0));
}

function textOperator({ text, x, y, size = 10, isBold = false, isRight = false }: PdfText): string {
  const left = isRight ? x - widthOf(text, size) : x;
  return `BT /${isBold ? "F2" : "F1"} ${size} Tf ${left.toFixed(2)} ${HEIGHT - y} Td (${escaped(text)}) Tj ET`;
}

const NARROW = new Set([",", ".", " ", ":", ";", "/"]);

/** Of amounts: digits and a dollar sign are as wide as each other in Helvetica. */
function widthOf(text: string, size: number): number {
  const units = [...text].reduce(
    (sum, character) => sum + (NARROW.has(character) ? 278 : character === "-" ? 333 : 556),
    0,
  );
  return (units * size) / 1_000;
}

/** Characters of WinAnsiEncoding that are not those of Latin-1. */
const WIN_ANSI: Readonly<Record<string, string>> = {
  "€": "\u0080",
  "…": "\u0085",
  "‘": "\u0091",
  "’": "\u0092",
  "“": "\u0093",
  "”": "\u0094",
  "–": "\u0096",
  "—": "\u0097",
  "−": "-",
};

function escaped(text: string): string {
  return [...text.normalize("NFC")]
    .map((character) => {
      if (character < " ") return " ";
      return WIN_ANSI[character] ?? (character > "\u00ff" ? "?" : character);
    })
    .join("")
    .replaceAll(/[\\()]/g, "\\$&");
}
