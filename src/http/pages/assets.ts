// Static assets. The file name holds a hash of the content, so browsers may cache an asset forever.

import { createHash } from "node:crypto";
import confirmation from "./confirmation.css" with { type: "text" };
import forms from "./forms.css" with { type: "text" };
import tables from "./tables.css" with { type: "text" };
import apiReference from "./api-reference.css" with { type: "text" };
import base from "./base.css" with { type: "text" };

export interface Asset {
  readonly path: string;
  readonly body: string;
  readonly contentType: string;
}

export const ASSET_CACHE_CONTROL = "public, max-age=31536000, immutable";

/** One stylesheet, so that a page makes one request. */
const stylesheetText = `${base}\n${forms}\n${tables}\n${confirmation}\n${apiReference}`;

export const STYLESHEET: Asset = {
  path: `/assets/${createHash("sha256").update(stylesheetText).digest("hex").slice(0, 16)}.css`,
  body: stylesheetText,
  contentType: "text/css; charset=utf-8",
};

export const ASSETS: readonly Asset[] = [STYLESHEET];
