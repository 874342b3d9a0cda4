// References in the text of one field: a type, an id, a URL, or the name of stored content.

import type { JsonObject } from "../../base/json.ts";
import { SEND_SOURCE } from "./faults.ts";
import type { Members } from "./known-members.ts";
import { isAllowedType } from "./known-types.ts";
import { fieldRule, ID_HOLDERS, REFERENCE_TYPES } from "./reference-table.ts";
import { type Destination, isAllowedSource, isStorageValue } from "./source-url.ts";

export interface FoundReference {
  readonly path: string;
  /** Undefined for a field or a `type` that the gateway does not know. */
  readonly alternative: string | undefined;
}

export interface Position {
  /** The field that contains the object, also through an array. */
  readonly parent: string;
  readonly depth: number;
  /** URLs in tools belong to the caller's own servers. */
  readonly isTool: boolean;
  /** The fields that are known here; undefined if unknown ones may be sent. */
  readonly members: Members | undefined;
  readonly destination: Destination;
}

export function inText(
  key: string,
  value: string,
  holder: JsonObject,
  { parent, isTool, members, destination }: Position,
): FoundReference | undefined {
  if (key === "type") {
    const alternative = REFERENCE_TYPES.get(value);
    const isAllowed =
      !REFERENCE_TYPES.has(value) && (members === undefined || isAllowedType(value, parent));
    return isAllowed ? undefined : { path: key, alternative };
  }
  if (key === "id") {
    const alternative = ID_HOLDERS.get(parent);
    return alternative === undefined ? undefined : { path: key, alternative };
  }
  if (key === "container")
    return { path: key, alternative: "Let the provider create a new container" };
  const kind = fieldRule(key)?.kind;
  if (kind === "text") return undefined;
  const isMedia = kind === "media" || (kind === "url" && isMediaHolder(parent, holder));
  const isAllowed =
    isMedia || (kind === "url" && !isTool)
      ? isAllowedSource(value, isMedia, destination)
      : !isStorageValue(value);
  return isAllowed ? undefined : { path: key, alternative: SEND_SOURCE };
}

const MEDIA_TYPE = /^(?:input_)?(?:image|video|audio|document|file)(?:_url)?$|^url$/;

function isMediaHolder(parent: string, { type }: JsonObject): boolean {
  return (
    fieldRule(parent)?.kind === "media" ||
    fieldRule(parent)?.kind === "url" ||
    (typeof type === "string" && MEDIA_TYPE.test(type))
  );
}
