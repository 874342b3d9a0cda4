// Static assets. The file name holds a hash of the content, so browsers may cache an asset forever.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
// Not as text: the runtime would take the name of its source map for that of the bundle.
import markdownFile from "markdown-it/browser" with { type: "file" };
import { importedFile } from "../../base/imported-file.ts";
import { APP_SCRIPT_SOURCE } from "./scripts/app-script.ts";
import { PLAYGROUND_SCRIPT_SOURCE } from "./scripts/playground-script.ts";
import design from "./design.css" with { type: "text" };

export interface Asset {
  readonly path: string;
  readonly body: string;
  readonly contentType: string;
}

/** A script with the hash by which the Content-Security-Policy of a page allows it. */
export interface ScriptAsset extends Asset {
  readonly integrity: string;
}

export const ASSET_CACHE_CONTROL = "public, max-age=31536000, immutable";

/** One stylesheet, so that a page makes one request. */
export const STYLESHEET = styleAsset(design);

/** The script of the console and operator pages. */
export const APP_SCRIPT = scriptAsset(APP_SCRIPT_SOURCE);

export const PLAYGROUND_SCRIPT = scriptAsset(PLAYGROUND_SCRIPT_SOURCE);

/** markdown-it as a classic script: the name of its class is `MarkdownIt`. */
export const MARKDOWN_SCRIPT = scriptAsset(
  `(()=>{${readFileSync(importedFile(markdownFile), "utf8").replace(/^export \{ (\S+) as default \};[^]*/m, "globalThis.MarkdownIt=$1;")}})();\n`,
);

export const ASSETS: readonly Asset[] = [
  STYLESHEET,
  APP_SCRIPT,
  MARKDOWN_SCRIPT,
  PLAYGROUND_SCRIPT,
];

function asset(body: string, extension: string, contentType: string): Asset {
  const name = createHash("sha256").update(body).digest("hex").slice(0, 16);
  return { path: `/assets/${name}.${extension}`, body, contentType };
}

export function styleAsset(css: string): Asset {
  return asset(css, "css", "text/css; charset=utf-8");
}

export function scriptAsset(source: string): ScriptAsset {
  const integrity = `sha256-${createHash("sha256").update(source).digest("base64")}`;
  return { ...asset(source, "js", "text/javascript; charset=utf-8"), integrity };
}
