import { describe, expect, test } from "bun:test";
import { codeLines, importsOf, moduleOf, type SourceFile } from "./source-files.ts";

function fileOf(text: string, path = "src/keys/keys.ts"): SourceFile {
  return { path, text, lines: text.split("\n") };
}

describe("importsOf", () => {
  test("finds every form of import and marks type-only ones", () => {
    const file = fileOf(
      [
        'import { readConfig } from "../../src/config/config.ts";',
        'import type { Config } from "../../src/config/config.ts";',
        "import {",
        "  type Db,",
        "  type Tx,",
        '} from "../../src/store/db.ts";',
        'import { type Db, text } from "../../src/store/db.ts";',
        'import "./side-effect.ts";',
        'export { one } from "./other.ts";',
        'import path from "node:path";',
        'import { nextChunk } from "@postern/http-client";',
        'const late = await import("../late.ts");',
      ].join("\n"),
    );
    expect(
      importsOf(file).map(({ target, from, isTypeOnly }) => `${target ?? from} ${isTypeOnly}`),
    ).toEqual([
      "src/config/config.ts false",
      "src/config/config.ts true",
      "src/store/db.ts true",
      "src/store/db.ts false",
      "src/keys/side-effect.ts false",
      "src/keys/other.ts false",
      "node:path false",
      "packages/http-client/http-client.ts false",
      "src/late.ts false",
    ]);
  });
});

describe("codeLines", () => {
  test("blanks comments, strings, templates and regular expressions, line by line", () => {
    const file = fileOf(
      [
        'const a = "Bun." + `Bun.',
        "Bun.`; // Bun.",
        "const b = /Bun.[/]/.test(x) / 2; /* Bun.",
        "Bun. */ Bun.serve();",
      ].join("\n"),
    );
    const code = codeLines(file);
    expect(code.map((line) => line.includes("Bun."))).toEqual([false, false, false, true]);
    expect(code[2]).toContain(".test(x) / 2;");
  });
});

describe("moduleOf", () => {
  test("returns the folder below src", () => {
    expect([
      moduleOf("src/inference/wires/chat/chat.ts"),
      moduleOf("src/server/route-table.ts"),
    ]).toEqual(["inference", "server"]);
  });
});
