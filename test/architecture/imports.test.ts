// Which folder may import which.

import { describe, expect, test } from "bun:test";
import { IMPORT_LAW, INFERENCE_LAW } from "../support/source/import-law.ts";
import { compareText, foldersOf, importCycles, violations } from "../support/source/rules.ts";
import {
  codeLines,
  importsOf,
  moduleOf,
  sourceFiles,
  testFiles,
} from "../support/source/source-files.ts";

const source = sourceFiles();

/** Files that describe HTTP: routes, API records and pages. */
const HTTP_FILE = /(routes?|record|schemas)\.ts$|\/routes-[a-z-]+\.ts$|\.tsx$/;
const WIRE = /^packages\/wires\/src\/(chat|responses|messages|gemini|converse)\//;
/** The files that use the Bun runtime itself; everything else runs on standard APIs. */
const RUNTIME_FILES = new Set([
  "src/discovery/markdown.ts",
  "src/discovery/openapi/openapi.ts",
  "src/http/listen.ts",
  "src/http/response-stream.ts",
  "packages/http-client/src/socket.ts",
  "packages/simulator/src/serve-simulator.ts",
  "src/server/connections/tcp-sockets.ts",
  "src/sinks/presign-put.ts",
  "src/store/postgres-pool.ts",
  "src/store/postgres.ts",
  "src/store/sqlite.ts",
]);
const ENVIRONMENT_FILES = new Set(["src/main.ts", "src/config/config.ts"]);

describe("imports", () => {
  for (const [folder, allowed] of Object.entries(IMPORT_LAW))
    test(`${folder} imports ${allowed.length === 0 ? "no other folder" : `only ${allowed.join(", ")}`}`, () => {
      expect(
        violations(source, (file, target) => {
          const other = moduleOf(target);
          const isAllowed = other === folder || allowed.includes(other);
          return moduleOf(file) === folder && !isAllowed;
        }),
      ).toEqual([]);
    });

  for (const [folder, allowed] of Object.entries(INFERENCE_LAW))
    test(`inference/${folder} imports ${allowed.length === 0 ? "no other folder of inference" : `only ${allowed.join(", ")} of inference`}`, () => {
      expect(
        violations(source, (file, target) => {
          const other = inferenceFolderOf(target);
          const isAllowed = other === undefined || other === folder || allowed.includes(other);
          return inferenceFolderOf(file) === folder && !isAllowed;
        }),
      ).toEqual([]);
    });

  test("every package and every folder of src and of src/inference has a row in the import law", () => {
    expect(Object.keys(IMPORT_LAW).sort(compareText)).toEqual(
      [...foldersOf("src"), ...foldersOf("packages")].sort(compareText),
    );
    expect(Object.keys(INFERENCE_LAW).sort(compareText)).toEqual([...foldersOf("src/inference")]);
  });

  test("the import law has no cycle: a row names only earlier rows", () => {
    for (const law of [IMPORT_LAW, INFERENCE_LAW]) {
      const order = Object.keys(law);
      const upward = Object.entries(law).flatMap(([folder, allowed]) =>
        allowed
          .filter((other) => order.indexOf(other) >= order.indexOf(folder))
          .map((other) => `${folder} → ${other}`),
      );
      expect(upward).toEqual([]);
    }
  });

  test("of a package, other code imports only the entry file, by the package's name", () => {
    const others = [...source, ...testFiles()].flatMap((file) =>
      importsOf(file).flatMap(({ from, target = "" }) => {
        const [owner, other] = [packageOf(file.path), packageOf(target)];
        // Tests may share what other tests read and check with.
        const isTestSupport = /\/test\//.test(target) && /(^|\/)test\//.test(file.path);
        const isInside = other === undefined || other === owner;
        return isInside || isTestSupport || from === `@postern/${other}`
          ? []
          : [`${file.path} → ${target}`];
      }),
    );
    expect(others).toEqual([]);
  });

  test("a package imports only its own files and the standard library", () => {
    expect(
      source.flatMap((file) =>
        packageOf(file.path) === undefined
          ? []
          : importsOf(file)
              .filter(({ from, target = "", isTypeOnly }) =>
                // Tables are checked against the types of the providers' SDKs.
                target === ""
                  ? !from.startsWith("node:") && !isTypeOnly
                  : packageOf(target) !== packageOf(file.path),
              )
              .map(({ from }) => `${file.path} → ${from}`),
      ),
    ).toEqual([]);
  });

  test("no files import each other in a cycle, types included", () => {
    expect(importCycles(source)).toEqual([]);
  });

  test("a wire imports nothing of another wire", () => {
    expect(
      violations(source, (file, target) => {
        const [wire, other] = [WIRE.exec(file)?.[1], WIRE.exec(target)?.[1]];
        return wire !== undefined && other !== undefined && other !== wire;
      }),
    ).toEqual([]);
  });

  test("only server/route-table.ts imports the routes of other folders", () => {
    expect(
      violations(
        source,
        (file, target, isTypeOnly) =>
          /\/routes\.tsx?$/.test(target) &&
          file !== "src/server/route-table.ts" &&
          !isTypeOnly &&
          moduleOf(file) !== moduleOf(target),
      ),
    ).toEqual([]);
  });

  test("only main.ts imports config.ts as a value", () => {
    expect(
      violations(
        source,
        (file, target, isTypeOnly) =>
          target === "src/config/config.ts" && file !== "src/main.ts" && !isTypeOnly,
      ),
    ).toEqual([]);
  });

  test("only http, routes, API records and pages import the HTTP framework", () => {
    const others = source.filter(
      ({ path: file }) => moduleOf(file) !== "http" && !HTTP_FILE.test(file),
    );
    expect(
      others
        .filter((file) => importsOf(file).some(({ from }) => from.split("/")[0] === "hono"))
        .map(({ path: file }) => file),
    ).toEqual([]);
  });

  test("only the files that drive the runtime name Bun", () => {
    expect(
      source
        .filter(({ path: file }) => !RUNTIME_FILES.has(file))
        .filter(
          (file) =>
            importsOf(file).some(({ from }) => from === "bun" || from.startsWith("bun:")) ||
            codeLines(file).some((line) => /\bBun\./.test(line)),
        )
        .map(({ path: file }) => file),
    ).toEqual([]);
  });

  test("only main.ts and config.ts read the environment", () => {
    const readsEnvironment =
      /\bprocess\.env\b|import .*\benv\b.* from "node:process"|\bimport\.meta\.env\b/;
    expect(
      source
        .filter(({ path: file }) => !ENVIRONMENT_FILES.has(file))
        .filter(({ text }) => readsEnvironment.test(text))
        .map(({ path: file }) => file),
    ).toEqual([]);
  });
});

function packageOf(file: string): string | undefined {
  return /^packages\/([^/]+)\//.exec(file)?.[1];
}

function inferenceFolderOf(file: string): string | undefined {
  return /^src\/inference\/([^/]+)\//.exec(file)?.[1];
}
