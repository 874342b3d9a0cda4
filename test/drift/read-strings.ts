// The strings of requests in the programs of coding agents, which have no types: betas, types of tools,
// headers and models.

import { createReadStream, existsSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import type { RequestString } from "./ask-gateway.ts";

export const PROGRAMS = [
  "@anthropic-ai/claude-code",
  "opencode-ai",
  "@openai/codex",
  "@google/gemini-cli",
] as const;
/** Their request bodies are written by code; its strings are all there is to compare. */
export const BUNDLES = ["@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google"] as const;

const PATTERNS: readonly (readonly [RequestString["kind"], RegExp])[] = [
  ["beta", /\b[a-z][a-z0-9]*(?:-[a-z0-9]+)+-20\d{2}-\d{2}-\d{2}\b/g],
  [
    "type",
    /\b(?:web_search|web_fetch|code_execution|advisor|computer|computer_toolset|browser_toolset|memory|bash|text_editor|clear_tool_uses|clear_thinking|compact|tool_search_tool_(?:bm25|regex))_20\d{6}\b/g,
  ],
  // Codex contains a list of OpenAI's models.
  ["model", /"slug":\s*"(gpt-[a-z0-9.-]+)"/g],
  ["header", /\bx-(?:claude-code|opencode|gemini)-[a-z][a-z-]*[a-z]\b/g],
];
const OVERLAP = 256;
const PROGRAM_BYTES_MIN = 1_048_576;

/** `folder` contains the package, and that of its platform. */
export async function readStrings(
  packageName: string,
  folder: string,
): Promise<readonly RequestString[]> {
  const found = new Map<string, RequestString>();
  for (const file of programsOf(packageName, folder)) {
    let rest = "";
    for await (const chunk of createReadStream(file, {
      encoding: "latin1",
      highWaterMark: 1 << 24,
    })) {
      // The stream has an encoding, so its chunks are texts.
      const text = rest + (chunk as string);
      for (const [kind, pattern] of PATTERNS)
        for (const [match, part = match] of text.matchAll(pattern))
          found.set(part, { kind, text: part });
      rest = text.slice(-OVERLAP);
    }
  }
  return [...found.values()].toSorted((left, right) => (left.text < right.text ? -1 : 1));
}

/** The large files of the package and of those for this platform, or the bundle of a library. */
function programsOf(packageName: string, folder: string): readonly string[] {
  const [scope = "", name = scope] = packageName.split("/");
  const parent = packageName.includes("/") ? path.join(folder, scope) : folder;
  if (!existsSync(parent)) return [];
  const base = name.replace(/-ai$/, "");
  return readdirSync(parent)
    .filter((one) => one === name || (one.startsWith(`${base}-`) && one.includes(process.platform)))
    .flatMap((one) => {
      const root = path.join(parent, one);
      return readdirSync(root, { recursive: true, encoding: "utf8" })
        .filter((file) => !file.includes("node_modules"))
        .map((file) => path.join(root, file))
        .filter((file) => isProgram(file));
    });
}

function isProgram(file: string): boolean {
  const stats = statSync(file);
  return (
    stats.isFile() &&
    (stats.size >= PROGRAM_BYTES_MIN || file.endsWith(path.join("dist", "index.js")))
  );
}
