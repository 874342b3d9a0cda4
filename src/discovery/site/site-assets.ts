// The stylesheet and the script of the documentation.

import { scriptAsset, styleAsset } from "../../http/pages/assets.ts";
import { DOCS_SCRIPT_SOURCE } from "./docs-script.ts";
import docsCss from "./docs.css" with { type: "text" };

export const DOCS_STYLESHEET = styleAsset(docsCss);
export const DOCS_SCRIPT = scriptAsset(DOCS_SCRIPT_SOURCE);
