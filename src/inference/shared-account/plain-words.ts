// What an unknown field may contain on the gateway's accounts: numbers, booleans, and plain words such as `high` or
// `next_user_message`. Providers add settings every week, and settings are words; ids, names and URLs are not.

import { isObject } from "../../base/json.ts";
import { snakeCase } from "./reference-table.ts";
import { RESOURCE_NAME } from "./source-url.ts";

const WORD = /^[a-z][a-z0-9_-]{0,39}$/;
/** Field names may also be in camel case. */
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;
const DIGIT_RUN = /\d{6}/;
/** A number of three and more digits counts objects, unless it is a year. */
const SERIAL = /^(?!(?:19|20)\d\d$)\d{3,}$/;
/** Words contain short versions and sizes (`sha256`, `h264`); a longer mixture of letters and digits is an id. */
const MIXED_SEGMENT_MAX = 7;
const IDENTIFYING_NAME =
  /(?:^|_)(?:ids?|names?|urls?|uris?|refs?|references?|handles?)$|(?:token|key|credential)s?$/;
/** What accounts have under names that their owners choose, and models, which have prices of their own. */
const STORED_OR_PRICED =
  /(?:^|_)(?:models?|files?|assistants?|agents?|adapters?|loras?|corpus|corpora|datasets?|knowledge(?:_bases?)?|collections?|librar(?:y|ies)|stores?|workflows?|projects?|organizations?|workspaces?|templates?|profiles?)$/;

/** Whether an unknown field could name something stored: by its text, by the names in it, or by its own name. */
export function couldIdentify(key: string, value: unknown): boolean {
  if (typeof value === "string")
    return value !== "" && (!isPlainWord(value) || isIdentifyingName(snakeCase(key)));
  if (Array.isArray(value)) return value.some((item) => couldIdentify(key, item));
  return (
    isObject(value) &&
    Object.entries(value).some(
      ([name, member]) => !isPlainName(name) || couldIdentify(name, member),
    )
  );
}

function isIdentifyingName(name: string): boolean {
  return IDENTIFYING_NAME.test(name) || STORED_OR_PRICED.test(name);
}

function isPlainWord(text: string): boolean {
  return WORD.test(text) && !looksRandom(text) && !RESOURCE_NAME.test(text);
}

function isPlainName(name: string): boolean {
  return NAME.test(name) && !looksRandom(name) && !RESOURCE_NAME.test(name);
}

function looksRandom(text: string): boolean {
  return (
    DIGIT_RUN.test(text) ||
    text
      .split(/[_-]/)
      .some(
        (segment) =>
          SERIAL.test(segment) ||
          (segment.length > MIXED_SEGMENT_MAX && /\d/.test(segment) && /[A-Za-z]/.test(segment)),
      )
  );
}
