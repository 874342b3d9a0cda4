// What pages load, all of it from here. The name of an asset holds its content's hash, so it can be kept for ever.

import { createHash } from "node:crypto";
import ceremony from "./confirmation.css" with { type: "text" };
import controls from "./forms.css" with { type: "text" };
import ledgers from "./tables.css" with { type: "text" };
import reference from "./api-reference.css" with { type: "text" };
import style from "./base.css" with { type: "text" };

export interface Asset {
  readonly path: string;
  readonly body: string;
  readonly contentType: string;
}

export const ASSET_CACHE_CONTROL = "public, max-age=31536000, immutable";

/** One sheet, so that a page asks once. */
const stylesheetText = `${style}\n${controls}\n${ledgers}\n${ceremony}\n${reference}`;

export const STYLESHEET: Asset = {
  path: `/assets/${createHash("sha256").update(stylesheetText).digest("hex").slice(0, 16)}.css`,
  body: stylesheetText,
  contentType: "text/css; charset=utf-8",
};

export const ASSETS: readonly Asset[] = [STYLESHEET];
